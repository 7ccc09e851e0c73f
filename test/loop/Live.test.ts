/**
 * What a reader of a run sees, in whatever order things happen around it: the driver at work, the store, another process
 * that has taken the run over, and the reader itself.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Live from "../../src/loop/Live.ts"
import { empty } from "../../src/run/Draft.ts"
import type { LiveEvent, RunEvent } from "../../src/run/RunEvent.ts"
import * as Wakeups from "../../src/store/Wakeups.ts"
import { settle } from "./support.ts"

const runId = "r"
const state = (seq: number) => ({ ...empty(runId), seq })
const stored = (seq: number): RunEvent => ({
  v: 1,
  runId,
  seq,
  at: "2024-01-01T00:00:00.000Z",
  elapsedMs: 0,
  type: "turn_started",
  turn: 1,
  attempt: 1,
  purpose: "investigate",
  estimate: { usage: { promptTokens: 0, completionTokens: 0 }, costUsd: 0 }
})
const said = (n: number): LiveEvent => ({ type: "text_delta", runId, turn: 1, attempt: 1, delta: String(n) })

const inWords = (event: LiveEvent): string =>
  "seq" in event ? `event ${event.seq}` : event.type === "text_delta" ? `said ${event.delta}` : event.type

/** A journal that is followed as a store's is, and a driver that numbers an event before it is stored. */
const makeRun = () => {
  const live = Live.make()
  const wakeups = Wakeups.make()
  const journal: Array<RunEvent> = []
  let staged: Array<RunEvent> = []
  let ended = false
  let count = 0
  /** Everything that has happened, in the order in which it did. */
  const happened: Array<{ readonly what: string; readonly before: number }> = []
  const next = () => journal.length + staged.length
  const publish = (event: LiveEvent) => live.watcher(event, state(next()))
  const watch = (from: number) =>
    Wakeups.follow(wakeups, {
      topic: `events ${runId}`,
      from,
      read: (position) => Effect.sync(() => journal.slice(position)),
      after: ({ seq }) => seq + 1,
      isLong: true
    }).pipe(Stream.takeUntil(({ seq }) => ended && seq === journal.length - 1))
  const wake = () => wakeups.wake(`events ${runId}`)
  return {
    live,
    happened,
    say: () => {
      happened.push({ what: `said ${count}`, before: next() })
      publish(said(count++))
    },
    stage: () => {
      const event = stored(next())
      happened.push({ what: `event ${event.seq}`, before: event.seq })
      staged.push(event)
    },
    flush: Effect.suspend(() => {
      const events = staged
      staged = []
      journal.push(...events)
      wake()
      // Whoever follows the store may be faster than the driver, which tells of an event when it knows that it is stored.
      return Effect.andThen(
        settle,
        Effect.sync(() => events.forEach(publish))
      )
    }),
    /** Another process has the run now; what this one was about to write is not written, and what it says is too late. */
    elsewhere: () => {
      const before = next()
      staged = []
      journal.push(stored(journal.length))
      wake()
      return before
    },
    end: Effect.sync(() => {
      ended = true
      journal.push(stored(journal.length))
      wake()
    }),
    /** What is said from now on by a driver that has lost the run, and stands at this event. */
    lateAt: (before: number) => {
      happened.push({ what: `said ${count}`, before })
      live.watcher(said(count++), state(before))
    },
    isAttached: () => live.isAttached(runId),
    attach: (from: number) => live.among(watch(from), runId, from),
    length: () => journal.length
  }
}

/** Reads as far as it is let. */
const reading = Effect.fnUntraced(function* (events: Stream.Stream<LiveEvent>) {
  const seen: Array<LiveEvent> = []
  const turns = yield* Queue.unbounded<void>()
  let free = false
  const fiber = yield* Effect.forkScoped(
    Stream.runForEach(events, (event) =>
      Effect.suspend(() => {
        seen.push(event)
        return free ? Effect.void : Queue.take(turns)
      })
    ),
    { startImmediately: true }
  )
  return {
    seen,
    one: Queue.offer(turns, undefined),
    rest: Effect.suspend(() => {
      free = true
      return Effect.andThen(Queue.offer(turns, undefined), Fiber.join(fiber))
    })
  }
})

/** Each event once, one after the other, and each thing said once, right before the event that it was said before. */
const checkOrder = (run: ReturnType<typeof makeRun>, seen: ReadonlyArray<LiveEvent>): void => {
  const words = seen.map(inWords)
  const events = words.filter((word) => word.startsWith("event"))
  assert.deepStrictEqual(
    events,
    Array.from({ length: run.length() }, (_, i) => `event ${i}`)
  )
  assert.strictEqual(new Set(words).size, words.length)
  const places = new Map(run.happened.map(({ before, what }) => [what, before]))
  let passed = 0
  for (const word of words) {
    if (word.startsWith("event")) passed++
    else assert.strictEqual(places.get(word), passed, word)
  }
}

const Step = Schema.Literals(["say", "say", "stage", "flush", "read", "read", "wait"])
const upTo = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))
const Steps = Schema.Array(Step)

describe("a reader of a run that is driven here", () => {
  it.effect.prop(
    "sees every event once, and between them all that is said after it came or was expected, each in its place",
    { before: Steps, after: Steps, from: upTo(6), isExpected: Schema.Boolean },
    ({ after, before, from, isExpected }) =>
      Effect.gen(function* () {
        const run = makeRun()
        if (isExpected) run.live.expect(runId)
        let reader: Effect.Success<ReturnType<typeof reading>> | undefined
        const take = Effect.fnUntraced(function* (steps: typeof Steps.Type) {
          for (const step of steps) {
            if (step === "say") run.say()
            if (step === "stage") run.stage()
            if (step === "flush") yield* run.flush
            if (step === "read" && reader !== undefined) yield* reader.one
            if (step === "wait") yield* settle
          }
        })
        yield* take(before)
        const came = isExpected ? 0 : run.happened.length
        reader = yield* reading(run.attach(from))
        yield* take(after)
        yield* run.flush
        const expected = run.happened
          .filter(({ before, what }, i) => before >= from && (what.startsWith("event") || i >= came))
          .map(({ what }) => what)
        yield* run.end
        yield* Effect.when(
          reader.rest,
          Effect.sync(() => run.length() > from)
        )
        const last = run.length() - 1
        if (last >= from) assert.deepStrictEqual(reader.seen.map(inWords), [...expected, `event ${last}`])
      }).pipe(Effect.scoped)
  )

  it.effect.prop(
    "sees every event once also when another process takes the run over, and nothing too late",
    { steps: Schema.Array(Schema.Literals([...Step.literals, "elsewhere", "late"])) },
    ({ steps }) =>
      Effect.gen(function* () {
        const run = makeRun()
        const reader = yield* reading(run.attach(0))
        let lost: number | undefined
        for (const step of steps) {
          if (step === "say" && lost === undefined) run.say()
          if (step === "stage" && lost === undefined) run.stage()
          if (step === "flush" && lost === undefined) yield* run.flush
          if (step === "elsewhere") {
            const stood = run.elsewhere()
            lost ??= stood
          }
          if (step === "late" && lost !== undefined) run.lateAt(lost)
          if (step === "read") yield* reader.one
          if (step === "wait") yield* settle
        }
        yield* run.end
        yield* reader.rest
        checkOrder(run, reader.seen)
      }).pipe(Effect.scoped)
  )

  it.effect("holds nobody up by not reading: it gets every event, and the last of what was said", () =>
    Effect.gen(function* () {
      const run = makeRun()
      run.stage()
      const reader = yield* reading(run.attach(0))
      yield* run.flush
      for (let i = 0; i < 5_000; i++) run.say()
      run.stage()
      yield* run.flush
      yield* run.end
      yield* reader.rest
      const words = reader.seen.map(inWords)
      assert.deepStrictEqual(words.slice(0, 2), ["event 0", "said 4000"])
      assert.deepStrictEqual(words.slice(-3), ["said 4999", "event 1", "event 2"])
      assert.strictEqual(words.length, 1_003)
    }).pipe(Effect.scoped)
  )

  it.effect("sees what was said before an event even if it can read that first", () =>
    Effect.gen(function* () {
      const run = makeRun()
      run.live.expect(runId)
      run.stage()
      yield* run.flush
      run.say()
      const seen = yield* Stream.runCollect(run.live.among(Stream.make(stored(1), stored(2)), runId, 1))
      assert.deepStrictEqual(seen.map(inWords), ["said 0", "event 1", "event 2"])
    })
  )

  it.effect("hears at once what it had to wait for an event with, and not only with the next one", () =>
    Effect.gen(function* () {
      const run = makeRun()
      run.live.expect(runId)
      run.stage()
      yield* run.flush
      run.say()
      const slowly = Stream.concat(Stream.fromEffect(Effect.as(settle, stored(0))), Stream.never)
      const seen = yield* Stream.runCollect(Stream.take(run.live.among(slowly, runId, 0), 2))
      assert.deepStrictEqual(seen.map(inWords), ["event 0", "said 0"])
    })
  )

  it.effect("is forgotten when it leaves, and so is one that was expected and has not come", () =>
    Effect.gen(function* () {
      const run = makeRun()
      assert.isFalse(run.isAttached())
      const scope = yield* Scope.make()
      yield* Scope.provide(reading(run.attach(0)), scope)
      yield* settle
      assert.isTrue(run.isAttached())
      yield* Scope.close(scope, Exit.void)
      assert.isFalse(run.isAttached())
      run.live.expect(runId)
      assert.isTrue(run.isAttached())
      run.live.forget(runId)
      assert.isFalse(run.isAttached())
    })
  )

  it.effect("who was expected has missed nothing, and of two who come only the first was", () =>
    Effect.gen(function* () {
      const run = makeRun()
      run.live.expect(runId)
      run.stage()
      yield* run.flush
      run.say()
      const first = yield* reading(run.attach(0))
      yield* first.one
      yield* settle
      assert.deepStrictEqual(first.seen.map(inWords), ["event 0", "said 0"])
      const second = yield* reading(run.attach(0))
      yield* settle
      run.say()
      yield* run.end
      yield* first.rest
      yield* second.rest
      assert.deepStrictEqual(first.seen.map(inWords), ["event 0", "said 0", "said 1", "event 1"])
      assert.deepStrictEqual(second.seen.map(inWords), ["event 0", "said 1", "event 1"])
    }).pipe(Effect.scoped)
  )
})
