/** Journals: what is appended is kept as it was, in order, and by one writer of each event. */
import * as Arbitrary from "effect/Arbitrary"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as RunEvent from "../../run/RunEvent.ts"
import { type RunStore, RunStoreError, type RunSummary } from "../../store/RunStore.ts"
import { atMost, inWorldTime } from "../../store/TimeLimit.ts"
import { type Case, define, tagOf } from "./Case.ts"
import { forAll, same, sameJson, shown } from "./Expect.ts"
import { append, cancel, event, eventsFrom, second, summary, textOf } from "./Samples.ts"

const contents = (events: ReadonlyArray<RunEvent.RunEvent>) =>
  events.map((event) => (event.type === "tool_result" ? event.content : event.type))

const batches = Arbitrary.array(
  Arbitrary.array(Arbitrary.schema(RunEvent.RunEvent), { minLength: 1, maxLength: 5 }),
  { minLength: 1, maxLength: 6 }
)

const start = { startedAt: second(0) }

/** How long a refusal may take, for a stream that never ends. */
const patience = "5 seconds"

/** A value that is to be refused, as text in a sentence. */
const shortOf = (bad: string): string =>
  bad.length <= 20
    ? JSON.stringify(bad)
    : `${JSON.stringify(bad.slice(0, 8))}… of ${Buffer.byteLength(bad)} bytes`

const comeOf = (exit: Exit.Exit<unknown, unknown>): string => {
  if (Exit.isSuccess(exit)) return `success with ${shown(exit.value)}`
  const error = Cause.squash(exit.cause)
  return error instanceof RunStoreError ? `RunStoreError of the kind ${error.kind}` : shown(error)
}

/** Fails unless this is refused, and says which method was asked and with what. */
const refused = Effect.fnUntraced(function* <A>(
  method: string,
  bad: string,
  effect: Effect.Effect<A, unknown, Scope.Scope>
) {
  const asked = `${method} with ${shortOf(bad)}`
  const late = () => Effect.die(new Error(`nothing within ${patience}`))
  const exit = yield* Effect.exit(inWorldTime(atMost(patience, late)(effect)))
  same(`${asked}: ${comeOf(exit)}`, `${asked}: RunStoreError of the kind invalid`)
})

/** Whatever names a run is refused for its id. */
const refusesId = Effect.fnUntraced(function* (store: RunStore["Service"], bad: string) {
  yield* refused("append", bad, store.append(append(bad, 0)))
  yield* refused("read", bad, store.read(bad))
  yield* refused("summary", bad, store.summary(bad))
  yield* refused("delete", bad, store.delete(bad))
  yield* refused("watch", bad, Stream.runHead(store.watch(bad)))
  yield* refused("send", bad, store.send(bad, cancel("enough")))
  yield* refused("inbox", bad, store.inbox(bad, 0))
  yield* refused("watchInbox", bad, Stream.runHead(store.watchInbox(bad, 0)))
  yield* refused("lease", bad, store.lease(bad))
  yield* refused("isDriven", bad, store.isDriven(bad))
})

/** Whatever a run is called by beside its id is refused. */
const refusesName = Effect.fnUntraced(function* (store: RunStore["Service"], bad: string) {
  const starting = (rest: Partial<RunSummary>) => store.append(append("b", 0, 1, rest))
  yield* refused("append of an agent", bad, starting({ agent: bad }))
  yield* refused("append of a tag", bad, starting({ tags: ["t", bad] }))
  yield* refused("list({ agent })", bad, store.list({ agent: bad }))
  yield* refused("list({ tag })", bad, store.list({ tag: bad }))
})

/** The events of a run as pages have them, none of them with more than `limit`. */
const inPages = Effect.fnUntraced(function* (store: RunStore["Service"], runId: string, limit: number) {
  const events: Array<RunEvent.RunEvent> = []
  while (true) {
    const page = yield* store.read(runId, events.length, limit)
    same(page.length <= limit, true)
    const [first] = page
    if (first === undefined) return events
    same(first.seq, events.length)
    events.push(...page)
  }
})

/** What a journal has to keep. */
export const cases: ReadonlyArray<Case> = [
  define("the first append creates a run", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 2))
      same(yield* store.read("a"), eventsFrom("a", 0, 2))
      same(yield* store.summary("a"), summary("a", 2))
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
      same(yield* store.read("a"), eventsFrom("a", 0, 7))
      same(yield* store.summary("a"), summary("a", 7, done))
    })
  ),
  define("a journal is read from any number on", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 5))
      same(yield* store.read("a", 3), eventsFrom("a", 3, 2))
      same(yield* store.read("a", 5), [])
      same(yield* store.read("a", 9), [])
      for (const before of [-1, -0.5, Number.NEGATIVE_INFINITY, Number.NaN])
        same(yield* store.read("a", before), eventsFrom("a", 0, 5))
      same(yield* store.read("a", 2.5), eventsFrom("a", 3, 2))
      same(yield* store.read("a", Number.POSITIVE_INFINITY), [])
    })
  ),
  define("a journal is read in pages, each at most as long as is asked for", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 5))
      const page = yield* store.read("a", 1, 2)
      same(page, eventsFrom("a", 1, page.length))
      same(page.length === 1 || page.length === 2, true)
      same(yield* store.read("a", 4, 100), eventsFrom("a", 4, 1))
      same(yield* store.read("a", 5, 2), [])
      for (const limit of [0, -3, 0.5, Number.NaN]) same(yield* store.read("a", 0, limit), [])
      same(yield* inPages(store, "a", Number.POSITIVE_INFINITY), eventsFrom("a", 0, 5))
      same(yield* inPages(store, "a", 2.5), eventsFrom("a", 0, 5))
      same(yield* tagOf(store.read("b", 0, 2)), "RunNotFound")
      const long = (n: number) => event("long", n, "long ".repeat(20_000 * (n % 4)))
      const events = Array.from({ length: 30 }, (_, n) => long(n))
      yield* store.append({ ...append("long", 0), events, summary: summary("long", 30) })
      sameJson(yield* inPages(store, "long", 20), events)
    })
  ),
  define("what was read stays as it was", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 2))
      const before = yield* store.read("a")
      yield* store.append(append("a", 2))
      same(before.length, 2)
    })
  ),
  define("a run that is not there", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("b", 0))
      same(yield* tagOf(store.read("a")), "RunNotFound")
      same(yield* tagOf(store.summary("a")), "RunNotFound")
      same(yield* tagOf(store.send("a", { type: "cancel", reason: "" })), "RunNotFound")
      same(yield* tagOf(Stream.runDrain(store.watch("a"))), "RunNotFound")
      same(yield* store.inbox("a", 0), [])
    })
  ),
  define("a stale writer writes nothing", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 2))
      for (const expected of [0, 1, 3, 7]) {
        for (const durability of ["process", "power"] as const) {
          const late = append("a", expected, 2, { status: "failed", detail: "late" }, durability)
          same(yield* tagOf(store.append(late)), "StaleWriter")
        }
      }
      same(yield* tagOf(store.append(append("new", 3))), "StaleWriter")
      same(yield* store.read("a"), eventsFrom("a", 0, 2))
      same(yield* store.summary("a"), summary("a", 2))
      same(yield* tagOf(store.summary("new")), "RunNotFound")
      same(yield* store.list({ status: "failed" }), [])
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
      same(winners.length, 1)
      same(contents(yield* store.read("a", 1)), [winners[0], winners[0]])
      same((yield* store.summary("a")).detail, winners[0])
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
      same(new Set(written), new Set(all.map((i) => `writer ${i}`)))
      same(written.length, 64)
    })
  ),
  define("runs do not disturb one another", (store) =>
    Effect.gen(function* () {
      const ids = ["a", "a/c1", "a/c1/c2", "A", "ä", "run '; DROP TABLE runs; --", "%", "_", " "]
      yield* Effect.forEach(ids, (id) => store.append(append(id, 0, 2)), { concurrency: "unbounded" })
      yield* Effect.forEach(ids, (id) => store.append(append(id, 2)), { concurrency: "unbounded" })
      for (const id of ids) same(yield* store.read(id), eventsFrom(id, 0, 3))
      same((yield* store.list()).length, ids.length)
    })
  ),
  define("ids, agents and tags that not every database can keep are refused", (store) =>
    Effect.gen(function* () {
      const other = "a\ufffd"
      yield* store.append(append(other, 0, 1, { agent: other, tags: [other] }))
      for (const bad of ["a\u0000", "a\ud800", "\udc00a", "\ude00\ud800", textOf(2_001), "日".repeat(667)]) {
        yield* refusesId(store, bad)
        yield* refusesName(store, bad)
        yield* refused(
          "append of a parent",
          bad,
          store.append(append("b", 0, 1, { parent: { runId: bad, callId: "c" } }))
        )
        yield* refused("list({ before: { runId } })", bad, store.list({ before: { ...start, runId: bad } }))
      }
      yield* refusesId(store, "")
      yield* refusesName(store, textOf(257))
      same(
        (yield* store.list()).map(({ runId }) => runId),
        [other]
      )
      yield* store.append(append("\ud83d\udc34", 0, 1, { agent: "é", tags: ["日本"] }))
      same((yield* store.list({ tag: "日本" })).length, 1)
    })
  ),
  define("ids, agents and tags are kept that are as long as may be", (store) =>
    Effect.gen(function* () {
      const [runId, name] = [textOf(2_000), textOf(256)]
      const rest = { agent: name, tags: [name] }
      yield* store.append(append("a", 0))
      yield* store.append(append(runId, 0, 1, { ...rest, parent: { runId, callId: "c" } }))
      yield* store.append(append(runId, 1, 1, { ...rest, status: "max_turns_exceeded" }))
      yield* store.lease(runId)
      same(yield* store.isDriven(runId), true)
      yield* store.append(append(runId, 2, 1, rest))
      same(yield* store.read(runId), eventsFrom(runId, 0, 3))
      same(yield* store.send(runId, cancel("enough")), 1)
      same((yield* store.list({ tag: name, agent: name, status: "running" })).length, 1)
    })
  ),
  define("an append of many events", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 357))
      same(yield* store.read("a"), eventsFrom("a", 0, 357))
    })
  ),
  define("large events, and every kind of text", (store) =>
    Effect.gen(function* () {
      const texts = ["x".repeat(3_000_000), "日本語 🐴‍❄️ é", "\u0000\u0001\u2028\ud800 lone", `"'\\\n\r\t`, ""]
      const events = texts.map((text, i) => event("a", i, text))
      yield* store.append({ ...append("a", 0, 5, { detail: texts[1] ?? "" }), events })
      same(yield* store.read("a"), events)
      same((yield* store.summary("a")).detail, texts[1])
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
      // What a summary has of long arguments, and what one had of them that an earlier version has written.
      const { args: _, ...rest } = call
      const long = {
        ...rest,
        argsCut: '{"text":"日本語 🐴… (1000000 characters)',
        problem: "it was too late"
      }
      const whole = { ...call, args: { text: "long".repeat(250_000) } }
      const full: Partial<RunSummary> = {
        parent: { runId: "p", callId: "c9" },
        status: "interrupted",
        reason: "approval",
        detail: "waits for a decision",
        unpriced: true,
        approvals: [call, long],
        unknown: [call, long],
        more: { approvals: 2_900, unknown: 0 },
        question: { runId: "a", callId: "c3", text: "which one?" }
      }
      yield* store.append(append("a", 0, 1, full))
      same(yield* store.summary("a"), summary("a", 1, full))
      same(yield* store.list(), [summary("a", 1, full)])
      yield* store.append(append("b", 0, 1, { approvals: [whole] }))
      same((yield* store.summary("b")).approvals, [whole])
    })
  ),

  define("any appends are read back as they were written", (store) =>
    Effect.gen(function* () {
      let runs = 0
      yield* forAll(batches, (batches) =>
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
          same(seq, written.length)
          sameJson(whole, written)
          sameJson(rest, written.slice(from))
          sameJson(yield* inPages(store, runId, from + 1), written)
        })
      )
    })
  )
]
