/**
 * What every `RunStore` must do. Each case is an effect that fails where a store does not keep the contract; a case
 * needs an empty store of its own, no clock, and no test runner.
 */
import { deepStrictEqual, fail, ok, strictEqual } from "node:assert"
import { isDeepStrictEqual } from "node:util"
import * as Arbitrary from "effect/Arbitrary"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { Command } from "../../src/run/Command.ts"
import * as RunEvent from "../../src/run/RunEvent.ts"
import { type ListOptions, RunStore, type RunSummary } from "../../src/store/RunStore.ts"
import { append, event, eventsFrom, second, summary } from "./samples.ts"

/** One thing that a store must do. */
export interface Case {
  readonly name: string
  readonly check: Effect.Effect<void, unknown, RunStore | Scope.Scope>
}

const define = (
  name: string,
  check: (store: RunStore["Service"]) => Effect.Effect<void, unknown, Scope.Scope>
): Case => ({ name, check: Effect.flatMap(RunStore, check) })

const tagOf = <A, E extends { readonly _tag: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.match(effect, { onFailure: (error) => error._tag, onSuccess: () => "success" })

const contents = (events: ReadonlyArray<RunEvent.RunEvent>) =>
  events.map((event) => (event.type === "tool_result" ? event.content : event.type))

const journal = [
  define("the first append creates a run", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 2))
      deepStrictEqual(yield* store.read("a"), eventsFrom("a", 0, 2))
      deepStrictEqual(yield* store.summary("a"), summary("a", 2))
    })
  ),
  define("appends follow one another, and each brings its summary", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* store.append(append("a", 1, 3, {}, "power"))
      yield* store.append(append("a", 4, 1, { status: "interrupted", reason: "approval" }, "power"))
      yield* store.append(append("a", 5, 1, { status: "running" }))
      const done = { status: "completed", reason: "answered", detail: "done", costUsd: 1.25 } as const
      yield* store.append(append("a", 6, 1, done))
      deepStrictEqual(yield* store.read("a"), eventsFrom("a", 0, 7))
      deepStrictEqual(yield* store.summary("a"), summary("a", 7, done))
    })
  ),
  define("a journal is read from any number on", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 5))
      deepStrictEqual(yield* store.read("a", 3), eventsFrom("a", 3, 2))
      deepStrictEqual(yield* store.read("a", 5), [])
      deepStrictEqual(yield* store.read("a", 9), [])
    })
  ),
  define("what was read stays as it was", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 2))
      const before = yield* store.read("a")
      yield* store.append(append("a", 2))
      strictEqual(before.length, 2)
    })
  ),
  define("a run that is not there", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("b", 0))
      strictEqual(yield* tagOf(store.read("a")), "RunNotFound")
      strictEqual(yield* tagOf(store.summary("a")), "RunNotFound")
      strictEqual(yield* tagOf(store.send("a", { type: "cancel", reason: "" })), "RunNotFound")
      strictEqual(yield* tagOf(Stream.runDrain(store.watch("a"))), "RunNotFound")
      deepStrictEqual(yield* store.inbox("a", 0), [])
    })
  ),
  define("a stale writer writes nothing", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 2))
      for (const expected of [0, 1, 3, 7]) {
        for (const durability of ["process", "power"] as const) {
          const late = append("a", expected, 2, { status: "failed", detail: "late" }, durability)
          strictEqual(yield* tagOf(store.append(late)), "StaleWriter")
        }
      }
      strictEqual(yield* tagOf(store.append(append("new", 3))), "StaleWriter")
      deepStrictEqual(yield* store.read("a"), eventsFrom("a", 0, 2))
      deepStrictEqual(yield* store.summary("a"), summary("a", 2))
      strictEqual(yield* tagOf(store.summary("new")), "RunNotFound")
      deepStrictEqual(yield* store.list({ status: "failed" }), [])
    })
  ),
  define("of 64 writers of the same event one wins, and what it wrote is there", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      const exits = yield* Effect.forEach(
        Array.from({ length: 64 }, (_, i) => i),
        (i) =>
          Effect.exit(
            store.append({
              ...append("a", 1, 1, { detail: `writer ${i}` }),
              events: [event("a", 1, `writer ${i}`), event("a", 2, `writer ${i}`)]
            })
          ),
        { concurrency: "unbounded" }
      )
      const winners = exits.flatMap((exit, i) => (Exit.isSuccess(exit) ? [`writer ${i}`] : []))
      strictEqual(winners.length, 1)
      deepStrictEqual(contents(yield* store.read("a", 1)), [winners[0], winners[0]])
      strictEqual((yield* store.summary("a")).detail, winners[0])
    })
  ),
  define("of 64 writers that try again none loses its event", (store) =>
    Effect.gen(function* () {
      const write = (i: number) => {
        const attempt: Effect.Effect<void, unknown> = Effect.suspend(() => {
          const expected = seen
          return store.append({ ...append("a", expected), events: [event("a", expected, `writer ${i}`)] })
        }).pipe(
          Effect.tap(() => Effect.sync(() => (seen += 1))),
          Effect.catchTag("StaleWriter", () => Effect.andThen(Effect.yieldNow, attempt))
        )
        return attempt
      }
      let seen = 0
      const all = Array.from({ length: 64 }, (_, i) => i)
      yield* Effect.forEach(all, write, { concurrency: "unbounded" })
      const written = contents(yield* store.read("a"))
      deepStrictEqual(new Set(written), new Set(all.map((i) => `writer ${i}`)))
      strictEqual(written.length, 64)
    })
  ),
  define("runs do not disturb one another", (store) =>
    Effect.gen(function* () {
      const ids = ["a", "a/c1", "a/c1/c2", "A", "ä", "run '; DROP TABLE runs; --", "%", "_", " "]
      yield* Effect.forEach(ids, (id) => store.append(append(id, 0, 2)), { concurrency: "unbounded" })
      yield* Effect.forEach(ids, (id) => store.append(append(id, 2)), { concurrency: "unbounded" })
      for (const id of ids) deepStrictEqual(yield* store.read(id), eventsFrom(id, 0, 3))
      strictEqual((yield* store.list()).length, ids.length)
    })
  ),
  define("an append of many events", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 357))
      deepStrictEqual(yield* store.read("a"), eventsFrom("a", 0, 357))
    })
  ),
  define("large events, and every kind of text", (store) =>
    Effect.gen(function* () {
      const texts = ["x".repeat(3_000_000), "日本語 🐴‍❄️ é", "\u0000\u0001\u2028\ud800 lone", `"'\\\n\r\t`, ""]
      const events = texts.map((text, i) => event("a", i, text))
      yield* store.append({ ...append("a", 0, 5, { detail: texts[1] ?? "" }), events })
      deepStrictEqual(yield* store.read("a"), events)
      strictEqual((yield* store.summary("a")).detail, texts[1])
    })
  ),
  define("a summary keeps all that it has", (store) =>
    Effect.gen(function* () {
      const call = {
        runId: "a/c1",
        callId: "c2",
        tool: "delete_file",
        args: { path: "x", deep: [1, null] },
        argsDigest: "d"
      }
      const full: Partial<RunSummary> = {
        parent: { runId: "p", callId: "c9" },
        status: "interrupted",
        reason: "approval",
        detail: "waits for a decision",
        approvals: [call],
        unknown: [call],
        question: { runId: "a", callId: "c3", text: "which one?" }
      }
      yield* store.append(append("a", 0, 1, full))
      deepStrictEqual(yield* store.summary("a"), summary("a", 1, full))
      deepStrictEqual(yield* store.list(), [summary("a", 1, full)])
    })
  )
]

const batches = Arbitrary.array(
  Arbitrary.array(Arbitrary.schema(RunEvent.RunEvent), { minLength: 1, maxLength: 5 }),
  { minLength: 1, maxLength: 6 }
)

/** Whether two values are the same JSON, in whatever order their fields are. */
const sameJson = (a: unknown, b: unknown): boolean =>
  isDeepStrictEqual(JSON.parse(JSON.stringify(a)), JSON.parse(JSON.stringify(b)))

const properties = [
  define("any appends are read back as they were written", (store) =>
    Effect.gen(function* () {
      let runs = 0
      const result = yield* Arbitrary.checkEffect(batches, (batches) =>
        Effect.gen(function* () {
          const runId = `run ${runs++}`
          const written: Array<RunEvent.RunEvent> = []
          for (const batch of batches) {
            const expected = written.length
            const events = batch.map((event, i) => ({
              ...event,
              v: RunEvent.version,
              runId,
              seq: expected + i
            }))
            written.push(...events)
            yield* store.append({
              ...append(runId, expected),
              events,
              summary: summary(runId, written.length)
            })
          }
          const from = written.length >> 1
          const whole = yield* store.read(runId)
          const rest = yield* store.read(runId, from)
          const { seq } = yield* store.summary(runId)
          return seq === written.length && sameJson(whole, written) && sameJson(rest, written.slice(from))
        })
      )
      const failure = Arbitrary.formatCheckFailure(result)
      if (failure !== undefined) fail(failure)
    })
  )
]

const listing = [
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
        ok(runs.length <= 4)
        seen.push(...runs.map((run) => run.runId))
        last = runs.at(-1)
      } while (last !== undefined)
      deepStrictEqual(seen, ids.toReversed())
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
      deepStrictEqual(yield* ids({ status: "completed" }), ["run 10", "run 7", "run 4", "run 1"])
      deepStrictEqual(yield* ids({ agent: "odd", limit: 2 }), ["run 11", "run 9"])
      deepStrictEqual(yield* ids({ agent: "odd", status: "completed" }), ["run 7", "run 1"])
      const before = { startedAt: second(7), runId: "run 7" }
      deepStrictEqual(yield* ids({ agent: "odd", status: "completed", before }), ["run 1"])
      deepStrictEqual(yield* ids({ agent: "nobody" }), [])
    })
  ),
  define("fifty runs are listed unless another number is asked for", (store) =>
    Effect.gen(function* () {
      for (let i = 0; i < 60; i++) yield* store.append(append(`run ${i}`, 0))
      strictEqual((yield* store.list()).length, 50)
      strictEqual((yield* store.list({ limit: 100 })).length, 60)
      strictEqual((yield* store.list({ limit: 0 })).length, 0)
    })
  )
]

const cancel = (reason: string): Command => ({ type: "cancel", reason })

const inbox = [
  define("an inbox numbers its commands from 1 on and keeps their order", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* store.append(append("b", 0))
      strictEqual(yield* store.send("a", cancel("first")), 1)
      strictEqual(yield* store.send("b", cancel("elsewhere")), 1)
      strictEqual(yield* store.send("a", cancel("second")), 2)
      deepStrictEqual(yield* store.inbox("a", 0), [
        { id: 1, command: cancel("first") },
        { id: 2, command: cancel("second") }
      ])
      deepStrictEqual(yield* store.inbox("a", 1), [{ id: 2, command: cancel("second") }])
      deepStrictEqual(yield* store.inbox("a", 2), [])
    })
  ),
  define("of commands sent at once each has its own number", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      const all = Array.from({ length: 32 }, (_, i) => i)
      const ids = yield* Effect.forEach(all, (i) => store.send("a", cancel(`${i}`)), {
        concurrency: "unbounded"
      })
      const received = yield* store.inbox("a", 0)
      deepStrictEqual(
        received.map(({ id }) => id),
        all.map((i) => i + 1)
      )
      for (const { command, id } of received) deepStrictEqual(command, cancel(`${ids.indexOf(id)}`))
    })
  ),
  define("every command comes back as it was sent", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      const result = yield* Arbitrary.checkEffect(Arbitrary.schema(Command), (command) =>
        Effect.gen(function* () {
          const id = yield* store.send("a", command)
          const [received] = yield* store.inbox("a", id - 1)
          return sameJson(received, { id, command })
        })
      )
      const failure = Arbitrary.formatCheckFailure(result)
      if (failure !== undefined) fail(failure)
    })
  ),
  define("an inbox does not touch the journal", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* store.send("a", cancel("stop"))
      yield* store.append(append("a", 1))
      deepStrictEqual(yield* store.read("a"), eventsFrom("a", 0, 2))
    })
  )
]

/** Starts a watcher; says when it has seen its first item. */
const start = <A, E>(stream: Stream.Stream<A, E>, count: number) =>
  Effect.gen(function* () {
    const first = yield* Deferred.make<void>()
    const watching = stream.pipe(
      Stream.tap(() => Deferred.succeed(first, undefined)),
      Stream.take(count),
      Stream.runCollect
    )
    return { first: Deferred.await(first), fiber: yield* Effect.forkChild(watching) }
  })

const watching = [
  define("a watcher sees what is stored, then what comes", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 2))
      const watcher = yield* start(store.watch("a"), 5)
      yield* watcher.first
      yield* store.append(append("b", 0))
      yield* store.append(append("a", 2))
      yield* store.append(append("a", 3, 2))
      deepStrictEqual(yield* Fiber.join(watcher.fiber), eventsFrom("a", 0, 5))
    })
  ),
  define("a watcher may start anywhere, past the end too", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 2))
      const middle = yield* start(store.watch("a", 1), 3)
      const ahead = yield* start(store.watch("a", 3), 1)
      yield* middle.first
      yield* store.append(append("a", 2, 2))
      deepStrictEqual(yield* Fiber.join(middle.fiber), eventsFrom("a", 1, 3))
      deepStrictEqual(yield* Fiber.join(ahead.fiber), eventsFrom("a", 3, 1))
    })
  ),
  define("many watchers see all of many appends, in order", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      const watchers = yield* Effect.forEach([1, 2, 3, 4, 5, 6, 7, 8], () => start(store.watch("a"), 200))
      for (let i = 1; i < 200; i++) {
        yield* store.append(append("a", i))
        if (i % 3 === 0) yield* Effect.yieldNow
      }
      for (const { fiber } of watchers) deepStrictEqual(yield* Fiber.join(fiber), eventsFrom("a", 0, 200))
    })
  ),
  define("a watcher that stops disturbs nobody", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      const stays = yield* start(store.watch("a"), 3)
      for (let i = 0; i < 20; i++) {
        const goes = yield* start(store.watch("a"), 100)
        yield* goes.first
        yield* Fiber.interrupt(goes.fiber)
      }
      yield* store.append(append("a", 1, 2))
      deepStrictEqual(yield* Fiber.join(stays.fiber), eventsFrom("a", 0, 3))
    })
  ),
  define("an inbox is watched likewise, before its run is there too", (store) =>
    Effect.gen(function* () {
      const early = yield* start(store.watchInbox("a", 0), 3)
      yield* Effect.yieldNow
      yield* store.append(append("a", 0))
      yield* store.send("a", cancel("1"))
      yield* early.first
      const late = yield* start(store.watchInbox("a", 1), 2)
      yield* store.send("a", cancel("2"))
      yield* store.send("a", cancel("3"))
      const all = [1, 2, 3].map((id) => ({ id, command: cancel(`${id}`) }))
      deepStrictEqual(yield* Fiber.join(early.fiber), all)
      deepStrictEqual(yield* Fiber.join(late.fiber), all.slice(1))
    })
  )
]

const leases = [
  define("one drives a run at a time", (store) =>
    Effect.gen(function* () {
      const first = yield* Scope.make()
      yield* Scope.provide(store.lease("a"), first)
      strictEqual(yield* tagOf(Effect.scoped(store.lease("a"))), "RunBusy")
      // The refused attempt must not have taken the lease with it when its own scope closed.
      strictEqual(yield* tagOf(Effect.scoped(store.lease("a"))), "RunBusy")
      strictEqual(yield* tagOf(Effect.scoped(store.lease("b"))), "success")
      yield* Scope.close(first, Exit.void)
      strictEqual(yield* tagOf(Effect.scoped(store.lease("a"))), "success")
    })
  ),
  define("of 64 drivers at once one gets the run", (store) =>
    Effect.gen(function* () {
      const all = Array.from({ length: 64 }, (_, i) => i)
      const tags = yield* Effect.forEach(all, () => tagOf(store.lease("a")), { concurrency: "unbounded" })
      strictEqual(tags.filter((tag) => tag === "success").length, 1)
      strictEqual(tags.filter((tag) => tag === "RunBusy").length, 63)
    })
  ),
  define("a driver that fails or is interrupted lets go of its run", (store) =>
    Effect.gen(function* () {
      yield* Effect.exit(Effect.scoped(Effect.andThen(store.lease("a"), Effect.die("broken"))))
      const leased = yield* Deferred.make<void>()
      const driver = yield* Effect.forkChild(
        store
          .lease("a")
          .pipe(
            Effect.andThen(Deferred.succeed(leased, undefined)),
            Effect.andThen(Effect.never),
            Effect.scoped
          )
      )
      yield* Deferred.await(leased)
      yield* Fiber.interrupt(driver)
      strictEqual(yield* tagOf(store.lease("a")), "success")
    })
  )
]

/** All that a store must do. */
export const cases: ReadonlyArray<Case> = [
  ...journal,
  ...properties,
  ...listing,
  ...inbox,
  ...watching,
  ...leases
]
