/** Listing: newest first, by what is asked for, page after page. */
import * as Effect from "effect/Effect"
import type { ListOptions, RunSummary } from "../../store/RunStore.ts"
import { type Case, define } from "./Case.ts"
import { same } from "./Expect.ts"
import { append, second } from "./Samples.ts"

/** How runs have to be listed. */
export const cases: ReadonlyArray<Case> = [
  define("runs are listed newest first, in pages that neither repeat nor leave out", (store) =>
    Effect.gen(function* () {
      const ids = Array.from({ length: 25 }, (_, i) => `run ${String(i).padStart(2, "0")}`)
      // Stored in another order than they started in, three of them at the same time each.
      const startedAt = (i: number) => second(Math.floor(i / 3))
      for (const i of ids.keys()) {
        const j = (i * 7) % ids.length
        yield* store.append(append(ids[j] ?? "", 0, 1, { startedAt: startedAt(j) }))
      }
      const page = (before?: ListOptions["before"]) => store.list({ limit: 4, before })
      const seen: Array<string> = []
      let last: RunSummary | undefined
      do {
        const runs: ReadonlyArray<RunSummary> = yield* page(last)
        same(runs.length, Math.min(4, ids.length - seen.length))
        seen.push(...runs.map((run) => run.runId))
        last = runs.at(-1)
      } while (last !== undefined)
      same(seen, ids.toReversed())
    })
  ),
  define("runs are listed by status and by agent", (store) =>
    Effect.gen(function* () {
      const statuses = ["running", "completed", "interrupted"] as const
      for (let i = 0; i < 12; i++) {
        const status = statuses[i % 3] ?? "running"
        const agent = i % 2 === 0 ? "even" : "odd"
        yield* store.append(append(`run ${i}`, 0, 1, { agent, startedAt: second(i) }))
        yield* store.append(append(`run ${i}`, 1, 1, { agent, status, startedAt: second(i) }))
      }
      const ids = (options: ListOptions) =>
        Effect.map(store.list(options), (runs) => runs.map((run) => run.runId))
      same(yield* ids({ status: "completed" }), ["run 10", "run 7", "run 4", "run 1"])
      same(yield* ids({ agent: "odd", limit: 2 }), ["run 11", "run 9"])
      same(yield* ids({ agent: "odd", status: "completed" }), ["run 7", "run 1"])
      const before = { startedAt: second(7), runId: "run 7" }
      same(yield* ids({ agent: "odd", status: "completed", before }), ["run 1"])
      same(yield* ids({ agent: "nobody" }), [])
    })
  ),
  define("runs are listed by tag, also when their status has changed", (store) =>
    Effect.gen(function* () {
      for (let i = 0; i < 12; i++) {
        const agent = i % 2 === 0 ? "even" : "odd"
        const tags = [...(i % 3 === 0 ? ["three"] : []), ...(i % 4 === 0 ? ["four", "four"] : [])]
        const rest = { agent, startedAt: second(i), ...(i === 1 ? undefined : { tags }) }
        yield* store.append(append(`run ${i}`, 0, 1, rest))
        yield* store.append(append(`run ${i}`, 1, 1, rest))
        if (i >= 6) yield* store.append(append(`run ${i}`, 2, 1, { ...rest, status: "completed" }))
      }
      const ids = (options: ListOptions) =>
        Effect.map(store.list(options), (runs) => runs.map((run) => run.runId))
      same(yield* ids({ tag: "three" }), ["run 9", "run 6", "run 3", "run 0"])
      same(yield* ids({ tag: "four" }), ["run 8", "run 4", "run 0"])
      same(yield* ids({ tag: "three", agent: "odd" }), ["run 9", "run 3"])
      same(yield* ids({ tag: "three", status: "completed" }), ["run 9", "run 6"])
      same(yield* ids({ tag: "three", status: "running", agent: "even" }), ["run 0"])
      const before = { startedAt: second(9), runId: "run 9" }
      same(yield* ids({ tag: "three", before, limit: 2 }), ["run 6", "run 3"])
      same(yield* ids({ tag: "nothing" }), [])
      same((yield* store.summary("run 0")).tags, ["three", "four", "four"])
    })
  ),
  define("runs are listed by why they have stopped, for as long as they stand there", (store) =>
    Effect.gen(function* () {
      const reasons = ["approval", "input", "cancelled"] as const
      for (let i = 0; i < 12; i++) {
        const [id, agent] = [`run ${i}`, i % 2 === 0 ? "even" : "odd"]
        const reason = reasons[i % 3] ?? "approval"
        const rest = { agent, startedAt: second(i), ...(i < 6 ? { tags: ["t", "u"] } : {}) }
        yield* store.append(append(id, 0, 1, rest))
        yield* store.append(append(id, 1, 1, { ...rest, status: "interrupted", reason }))
      }
      const begun = { agent: "even", startedAt: second(12), tags: ["t"] }
      yield* store.append(append("run 12", 0, 1, { ...begun, status: "interrupted", reason: "approval" }))
      const ids = (options: ListOptions) =>
        Effect.map(store.list(options), (runs) => runs.map((run) => run.runId))
      same(yield* ids({ reason: "approval" }), ["run 12", "run 9", "run 6", "run 3", "run 0"])
      same(yield* ids({ reason: "approval", status: "interrupted", limit: 2 }), ["run 12", "run 9"])
      same(yield* ids({ reason: "approval", status: "completed" }), [])
      same(yield* ids({ reason: "approval", agent: "odd" }), ["run 9", "run 3"])
      same(yield* ids({ reason: "approval", tag: "t" }), ["run 12", "run 3", "run 0"])
      same(yield* ids({ reason: "input", tag: "u", agent: "even" }), ["run 4"])
      same(yield* ids({ reason: "approval", since: second(3), until: second(9) }), ["run 6", "run 3"])
      same(yield* ids({ reason: "approval", agent: "odd", since: second(0), until: second(9) }), ["run 3"])
      same(yield* ids({ reason: "approval", tag: "t", since: second(1), until: second(9) }), ["run 3"])
      const before = { startedAt: second(9), runId: "run 9" }
      same(yield* ids({ reason: "approval", before, limit: 2 }), ["run 6", "run 3"])
      same(yield* ids({ reason: "defect" }), [])

      // One goes on, one goes on and has its answer, and one that waited is stopped where it stands.
      const even = { agent: "even", startedAt: second(0), tags: ["t", "u"] }
      yield* store.append(append("run 0", 2, 1, even))
      const answered = { status: "completed", reason: "answered" } as const
      const odd = { agent: "odd", startedAt: second(3), tags: ["t", "u"] }
      yield* store.append(append("run 3", 2, 1, odd))
      yield* store.append(append("run 3", 3, 1, { ...odd, ...answered }))
      const cancelled = { status: "interrupted", reason: "cancelled" } as const
      yield* store.append(append("run 12", 1, 1, { ...begun, ...cancelled }))
      same(yield* ids({ reason: "approval" }), ["run 9", "run 6"])
      for (const options of [{ tag: "t" }, { tag: "u" }, { tag: "t", agent: "even" }])
        same(yield* ids({ ...options, reason: "approval" }), [])
      same(yield* ids({ reason: "answered" }), ["run 3"])
      same(yield* ids({ reason: "answered", tag: "u", agent: "odd" }), ["run 3"])
      same(yield* ids({ reason: "cancelled", tag: "t" }), ["run 12", "run 5", "run 2"])
      same(yield* ids({ status: "interrupted", tag: "u" }), ["run 5", "run 4", "run 2", "run 1"])
    })
  ),
  define("runs are listed by whether they were told something that no driver has taken in", (store) =>
    Effect.gen(function* () {
      for (let i = 0; i < 12; i++) {
        const rest = { agent: i % 2 === 0 ? "even" : "odd", startedAt: second(i), tags: ["t"] }
        yield* store.append(append(`run ${i}`, 0, 1, { ...rest, status: "interrupted", reason: "approval" }))
      }
      const told = (options: ListOptions = {}) =>
        Effect.map(store.list({ ...options, told: true }), (runs) => runs.map((run) => run.runId))
      same(yield* told(), [])
      for (const i of [1, 4, 5, 8, 9]) {
        yield* store.send(`run ${i}`, { type: "decide", callId: "c", decision: "approved" })
        yield* store.send(`run ${i}`, { type: "cancel", reason: "enough" })
      }
      same(yield* told(), ["run 9", "run 8", "run 5", "run 4", "run 1"])
      same(yield* told({ tag: "t", agent: "odd", reason: "approval" }), ["run 9", "run 5", "run 1"])
      same(yield* told({ reason: "input" }), [])

      // Of one all is taken in, of one only the first; one is told something again.
      const even = { agent: "even", tags: ["t"], status: "interrupted", reason: "approval" } as const
      yield* store.append(append("run 4", 1, 1, { ...even, startedAt: second(4), inbox: 2 }))
      yield* store.append(append("run 8", 1, 1, { ...even, startedAt: second(8), inbox: 1 }))
      const odd = { ...even, agent: "odd" }
      for (const i of [5, 9]) {
        yield* store.append(append(`run ${i}`, 1, 1, { ...odd, startedAt: second(i), inbox: 2 }))
      }
      yield* store.send("run 5", { type: "answer", callId: "c", answer: "yes" })
      same(yield* told(), ["run 8", "run 5", "run 1"])
      const before = { startedAt: second(8), runId: "run 8" }
      same(yield* told({ limit: 2 }), ["run 8", "run 5"])
      same(yield* told({ before, limit: 1 }), ["run 5"])
      same(yield* told({ tag: "t", before }), ["run 5", "run 1"])
      same(yield* told({ since: second(2), until: second(8) }), ["run 5"])
    })
  ),
  define("runs are listed by when they were started", (store) =>
    Effect.gen(function* () {
      for (let i = 0; i < 10; i++) {
        yield* store.append(append(`run ${i}`, 0, 1, { startedAt: second(i), tags: ["t"] }))
      }
      const ids = (options: ListOptions) =>
        Effect.map(store.list(options), (runs) => runs.map((run) => run.runId))
      for (const rest of [{}, { tag: "t" }, { status: "running", agent: "analyst" }] as const) {
        same(yield* ids({ ...rest, since: second(8) }), ["run 9", "run 8"])
        same(yield* ids({ ...rest, until: second(2) }), ["run 1", "run 0"])
        same(yield* ids({ ...rest, since: second(4), until: second(6) }), ["run 5", "run 4"])
        const before = { startedAt: second(5), runId: "run 5" }
        same(yield* ids({ ...rest, since: second(3), until: second(9), before }), ["run 4", "run 3"])
        same(yield* ids({ ...rest, since: second(6), until: second(4) }), [])
        same(yield* ids({ ...rest, since: second(0).slice(0, 10), limit: 1 }), ["run 9"])
        same(yield* ids({ ...rest, until: second(0).slice(0, 10) }), [])
      }
    })
  ),
  define("fifty runs are listed unless another number is asked for", (store) =>
    Effect.gen(function* () {
      for (let i = 0; i < 60; i++) yield* store.append(append(`run ${i}`, 0))
      same((yield* store.list()).length, 50)
      same((yield* store.list({ limit: 100 })).length, 60)
      for (const none of [0, -1, 0.5, Number.NEGATIVE_INFINITY, Number.NaN])
        same((yield* store.list({ limit: none })).length, 0)
      same((yield* store.list({ limit: 1.5 })).length, 1)
      same((yield* store.list({ limit: Number.POSITIVE_INFINITY })).length, 60)
    })
  )
]
