import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scheduler from "effect/Scheduler"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { Agent, CurrentCall, type RunEvent } from "../../src/index.ts"
import {
  awaited,
  call,
  during,
  fail,
  forked,
  idle,
  last,
  Tools,
  text,
  turn,
  types,
  until,
  world
} from "./modelSupport.ts"

const agent = Agent.make("analyst", {
  instructions: "Answer.",
  toolkit: Tools
})
const streamed = Stream.runCollect(Agent.stream(agent, "go", { runId: "r" }))

const stored = (events: Iterable<RunEvent.LiveEvent>): ReadonlyArray<RunEvent.RunEvent> =>
  [...events].filter(
    (event): event is RunEvent.RunEvent => event.type !== "text_delta" && event.type !== "tool_progress"
  )
const deltas = (events: Iterable<RunEvent.LiveEvent>) =>
  [...events].filter((event) => event.type === "text_delta")

describe("Agent.stream", () => {
  it.effect("shows the journal, in order, and ends after run_stopped", () =>
    Effect.gen(function* () {
      const w = yield* world([
        turn(call("read_file", { path: "a" }, { id: "a" }), call("write_file", { path: "b" }, { id: "b" })),
        text("one two three")
      ])
      const seen = yield* w.in(streamed)
      const journal = yield* w.journal()
      assert.deepStrictEqual(stored(seen), journal)
      assert.strictEqual(seen.at(-1)?.type, "run_stopped")
    })
  )

  it.effect(
    "text deltas come with turn and attempt, between the turn's start and its end, and make up its text",
    () =>
      Effect.gen(function* () {
        const w = yield* world([turn(text("Let me look. "), call("list_files")), text("one two three")])
        const seen = yield* w.in(streamed)
        assert.deepStrictEqual(
          deltas(seen).map(
            (event) => event.type === "text_delta" && [event.turn, event.attempt, event.delta]
          ),
          [
            [1, 1, "Let "],
            [1, 1, "me "],
            [1, 1, "look. "],
            [2, 1, "one "],
            [2, 1, "two "],
            [2, 1, "three"]
          ]
        )
        const order = seen.map(({ type }) => type)
        const first = order.indexOf("text_delta")
        assert.strictEqual(order[first - 1], "turn_started")
        assert.isAbove(order.indexOf("turn"), order.indexOf("text_delta"))
        assert.isBelow(order.lastIndexOf("text_delta"), order.lastIndexOf("turn"))
        assert.notInclude(types(yield* w.journal()), "text_delta")
      })
  )

  it.effect("deltas of an attempt that failed are told apart by their attempt", () =>
    Effect.gen(function* () {
      const w = yield* world([fail(500), text("one two")])
      const exit = yield* during(60_000, w.in(streamed))
      assert(Exit.isSuccess(exit))
      assert.deepStrictEqual(
        deltas(exit.value).map((event) => event.type === "text_delta" && [event.turn, event.attempt]),
        [
          [1, 2],
          [1, 2]
        ]
      )
      assert.deepStrictEqual(stored(exit.value), yield* w.journal())
    })
  )

  it.effect("a delta is seen when it is written, not when the turn is over", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("late", { latency: "5 seconds" })])
      const seen: Array<string> = []
      const fiber = yield* forked(
        w.in(
          Stream.runForEach(Agent.stream(agent, "go", { runId: "r" }), ({ type }) =>
            Effect.sync(() => seen.push(type))
          )
        )
      )
      yield* until(() => w.requests.length === 2)
      yield* idle
      assert.deepStrictEqual(seen, [
        "run_started",
        "turn_started",
        "turn",
        "tool_start",
        "tool_result",
        "turn_started"
      ])
      yield* TestClock.adjust("5 seconds")
      yield* Fiber.join(fiber)
      yield* w.journal()
    })
  )

  it.effect("tool progress comes between start and result, and is not stored", () =>
    Effect.gen(function* () {
      const Scan = Tool.make("scan", {
        parameters: Schema.Struct({ n: Schema.Int }),
        success: Schema.String
      })
      const toolkit = Toolkit.make(Scan)
      const scanning = Agent.make("scanner", { toolkit })
      const w = yield* world([call("scan", { n: 2 }, { id: "s" }), text("done")])
      const seen = yield* w.in(
        Stream.runCollect(Agent.stream(scanning, "go", { runId: "r" })).pipe(
          Effect.provide(
            toolkit.toLayer({
              scan: ({ n }, context) =>
                Effect.gen(function* () {
                  const current = yield* CurrentCall.CurrentCall
                  for (let i = 1; i <= n; i++)
                    yield* current.progress(`file ${i}`, {
                      done: i,
                      total: n
                    })
                  yield* context.preliminary("almost")
                  return "scanned"
                })
            })
          )
        )
      )
      const progress = seen.filter((event) => event.type === "tool_progress")
      assert.deepStrictEqual(progress.slice(0, 2), [
        {
          type: "tool_progress",
          runId: "r",
          callId: "s",
          tool: "scan",
          label: "file 1",
          done: 1,
          total: 2
        },
        {
          type: "tool_progress",
          runId: "r",
          callId: "s",
          tool: "scan",
          label: "file 2",
          done: 2,
          total: 2
        }
      ])
      assert.strictEqual(progress.length, 3, "a preliminary result counts as progress")
      const order = seen.map(({ type }) => type)
      assert.deepStrictEqual(order.slice(order.indexOf("tool_start"), order.indexOf("tool_result") + 1), [
        "tool_start",
        "tool_progress",
        "tool_progress",
        "tool_progress",
        "tool_result"
      ])
      assert.deepStrictEqual(stored(seen), yield* w.journal())
    })
  )

  for (const [tag, replies] of [
    ["MaxTurnsExceeded", [call("list_files"), call("list_files")]],
    ["ApprovalRequired", [call("delete_file", { path: "a" })]],
    ["RunFailed", [fail(400)]],
    ["ProviderUnavailable", [call("list_files"), fail(401)]]
  ] as const) {
    it.effect(`fails as run does, after run_stopped was seen: ${tag}`, () =>
      Effect.gen(function* () {
        const w = yield* world(replies)
        const seen: Array<RunEvent.LiveEvent> = []
        const failure = yield* w.in(
          Agent.stream(agent, "go", { runId: "r", limits: { turns: 2 } }).pipe(
            Stream.runForEach((event) => Effect.sync(() => seen.push(event))),
            Effect.flip
          )
        )
        assert.strictEqual(failure._tag, tag)
        assert.deepStrictEqual(stored(seen), yield* w.journal())
      })
    )
  }

  it.effect("refuses what run refuses", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done")], { model: "mystery" })
      const stream = Agent.stream(agent, "go", {
        runId: "r",
        limits: { usd: 1 }
      })
      const failure = yield* w.in(Effect.flip(Stream.runDrain(stream)))
      assert.strictEqual(failure._tag, "UnpricedModel")
    })
  )

  it.effect("does not wait for a slow consumer, and loses nothing", () =>
    Effect.gen(function* () {
      const w = yield* world([
        ...Array.from({ length: 10 }, (_, i) => call("write_file", { path: `${i}` })),
        text(Array.from({ length: 200 }, (_, i) => `word${i}`).join(" "))
      ])
      const seen: Array<RunEvent.LiveEvent> = []
      const fiber = yield* forked(
        w.in(
          Agent.stream(agent, "go", { runId: "r" }).pipe(
            Stream.runForEach((event) =>
              Effect.andThen(
                Effect.sleep("1 second"),
                Effect.sync(() => seen.push(event))
              )
            )
          )
        )
      )
      yield* until(() => w.trace.events.at(-1)?.type === "run_stopped")
      assert.strictEqual(seen.length, 0, "the run is over before the first event was dealt with")
      yield* Effect.flatten(awaited(fiber))
      const journal = yield* w.journal()
      assert.deepStrictEqual(stored(seen), journal)
      assert.strictEqual(deltas(seen).length, 200)
      assert.strictEqual(last(journal, "run_stopped").elapsedMs, 0)
    })
  )

  it.effect("comes to the same transcript, cost and events as run", () =>
    Effect.gen(function* () {
      const replies = [
        turn(
          text("Looking. ", { reasoning: "Hm." }),
          call("read_file", { path: "a" }, { id: "a" }),
          call("read_file", "{broken", { id: "" }),
          call("nope", { x: 1 }, { id: "a" })
        ),
        text("Half of", { finish: "length" }),
        text(""),
        text("The answer.", { reasoning: "So." })
      ]
      for (const usage of ["counted", "omitted"] as const) {
        const one = yield* world(replies, { usage })
        const two = yield* world(replies, { usage })
        yield* one.in(Agent.run(agent, "go", { runId: "r" }))
        yield* two.in(streamed)
        const plain = yield* one.journal()
        assert.deepStrictEqual(yield* two.journal(), plain)
        assert.strictEqual(last(plain, "run_stopped").status, "completed")
        assert.deepStrictEqual(
          two.requests.map(({ messages }) => messages),
          one.requests.map(({ messages }) => messages)
        )
      }
    })
  )

  it.effect("of a run that is complete already ends at once, without a model call", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done"), text("never")])
      yield* w.in(Agent.run(agent, "go", { runId: "r" }))
      const exit = yield* during(60_000, w.in(streamed))
      assert.isTrue(Exit.isSuccess(exit))
      assert.strictEqual(w.requests.length, 1)
    })
  )

  it.effect("each time that it is run it is a run of its own", () =>
    Effect.gen(function* () {
      const w = yield* world([text("one"), text("two")])
      const stream = Agent.stream(agent, "go")
      const one = yield* w.in(Stream.runCollect(stream))
      const two = yield* w.in(Stream.runCollect(stream))
      assert.notStrictEqual(one.at(-1)?.runId, two.at(-1)?.runId)
    })
  )

  it.effect("leaves no run behind, whenever its reader is interrupted", () =>
    Effect.gen(function* () {
      const w = yield* world(Array.from({ length: 60 }, () => text("late", { latency: "1 hour" })))
      for (let steps = 0; steps < 60; steps++) {
        const runId = `after ${steps} steps`
        const reading = Effect.forkChild(w.in(Stream.runDrain(Agent.stream(agent, "go", { runId }))))
        // Whatever it does, it may be interrupted after it.
        const fiber = yield* Effect.provideService(reading, Scheduler.MaxOpsBeforeYield, 5)
        for (let step = 0; step < steps; step++) yield* Effect.yieldNow
        yield* Fiber.interrupt(fiber)
        yield* idle
        assert.isFalse(yield* w.store.isDriven(runId), runId)
      }
    })
  )
})
