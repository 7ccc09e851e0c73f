import { assert, describe, it } from "@effect/vitest"
import type * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Toolkit from "effect/ai/Toolkit"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { Agent, type Limits } from "../../src/index.ts"
import {
  call,
  checkEnding,
  fail,
  forked,
  last,
  of,
  outcomeDuring,
  Tools,
  text,
  turn,
  types,
  until,
  type World,
  world
} from "./modelSupport.ts"

const agent = Agent.make("analyst", { toolkit: Tools })
const contract = Agent.make("contract", {
  toolkit: Tools,
  output: Schema.Struct({ n: Schema.Int })
})
const run = (limits: Limits.LimitsInput) => Agent.run(agent, "go", { runId: "r", limits })
const minutes = 60_000
const lists = (n: number) => Array.from({ length: n }, () => call("list_files"))
const roles = (w: World, request: number) => (w.requests[request]?.messages ?? []).map(({ role }) => role)
const wire = (w: World, request: number) => JSON.stringify(w.requests[request]?.messages ?? [])

describe("turns", () => {
  it.effect("20 unless said otherwise", () =>
    Effect.gen(function* () {
      const w = yield* world(lists(30))
      const off = Agent.make("analyst", {
        toolkit: Tools,
        policy: { repetition: "off" }
      })
      const exit = yield* outcomeDuring(minutes, w.in(Agent.run(off, "go", { runId: "r" })))
      assert(exit._tag === "MaxTurnsExceeded")
      assert.strictEqual(exit.run.turns, 20)
      assert.strictEqual(w.work.started.length, 19)
      checkEnding(exit, yield* w.journal(), "max_turns_exceeded", "max_turns")
    })
  )

  it.effect("an answer in the last turn is an answer", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("done")])
      const done = yield* outcomeDuring(minutes, w.in(run({ turns: 2 })))
      assert.strictEqual(done._tag, "Completed")
    })
  )

  it.effect("none at all: nothing is asked", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done")])
      const exit = yield* outcomeDuring(minutes, w.in(run({ turns: 0 })))
      assert.strictEqual(exit._tag, "MaxTurnsExceeded")
      assert.strictEqual(w.requests.length, 0)
      const done = yield* w.in(Agent.resume(agent, "r", { limits: { turns: 1 } }))
      assert.strictEqual(done.output, "done")
      yield* w.journal()
    })
  )

  it.effect("Infinity lifts the limit", () =>
    Effect.gen(function* () {
      const off = Agent.make("analyst", {
        toolkit: Tools,
        policy: { repetition: "off" }
      })
      const w = yield* world([...lists(25), text("done")])
      const done = yield* w.in(
        Agent.run(off, "go", {
          runId: "r",
          limits: { turns: Number.POSITIVE_INFINITY }
        })
      )
      assert.strictEqual(done.run.turns, 26)
      yield* w.journal()
    })
  )
})

describe("money and tokens", () => {
  it.effect("money: over by less than a turn, and nothing is asked after", () =>
    Effect.gen(function* () {
      const w = yield* world(lists(9))
      const exit = yield* outcomeDuring(minutes, w.in(run({ usd: 0.35 })))
      assert(exit._tag === "BudgetExceeded")
      assert.strictEqual(exit.resource, "usd")
      assert.strictEqual(exit.run.costUsd, 0.4)
      assert.isBelow(exit.run.costUsd - 0.35, 0.1)
      assert.strictEqual(w.requests.length, 4)
      checkEnding(exit, yield* w.journal(), "budget_exceeded", "max_budget")
    })
  )

  it.effect("money: exactly used up leaves no room", () =>
    Effect.gen(function* () {
      const w = yield* world(lists(9))
      const exit = yield* outcomeDuring(minutes, w.in(run({ usd: 0.3 })))
      assert.strictEqual(exit._tag, "BudgetExceeded")
      assert.strictEqual(w.requests.length, 3)
      yield* w.journal()
    })
  )

  it.effect("money: an answer in the turn that passes the limit is an answer", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done")])
      const done = yield* outcomeDuring(minutes, w.in(run({ usd: 0.01 })))
      assert.strictEqual(done._tag, "Completed")
      assert.strictEqual(done.run.costUsd, 0.1)
    })
  )

  it.effect(
    "money: a reply under another name than the price's, such as a dated one, is not free (case 6)",
    () =>
      Effect.gen(function* () {
        const dated = Layer.effect(
          LanguageModel.LanguageModel,
          LanguageModel.make({
            generateText: () =>
              Effect.sync(
                () =>
                  [
                    {
                      type: "response-metadata",
                      id: "x",
                      modelId: "m-2025-08-07"
                    },
                    {
                      type: "tool-call",
                      id: "",
                      name: "list_files",
                      params: {}
                    },
                    {
                      type: "finish",
                      reason: "tool-calls",
                      usage: {
                        inputTokens: { total: 100 },
                        outputTokens: { total: 10 }
                      }
                    }
                  ] as unknown as Array<Response.PartEncoded>
              ),
            streamText: (): Stream.Stream<Response.StreamPartEncoded, AiError.AiError> => Stream.empty
          })
        )
        const w = yield* world([])
        const exit = yield* w.in(Agent.outcome(Effect.provide(run({ usd: 0.15 }), dated)))
        assert(exit._tag === "BudgetExceeded", exit._tag)
        assert.strictEqual(exit.run.costUsd, 0.2)
        yield* w.journal()
      })
  )

  it.effect("tokens, prompt and completion together", () =>
    Effect.gen(function* () {
      const w = yield* world(lists(9))
      const exit = yield* outcomeDuring(minutes, w.in(run({ tokens: 300 })))
      assert(exit._tag === "BudgetExceeded")
      assert.strictEqual(exit.resource, "tokens")
      assert.strictEqual(exit.used, 330)
      assert.strictEqual(exit.limit, 300)
      assert.strictEqual(w.requests.length, 3)
      checkEnding(exit, yield* w.journal(), "budget_exceeded", "max_budget")
    })
  )

  it.effect("the first in the order turns, usd, tokens is named", () =>
    Effect.gen(function* () {
      const w = yield* world(lists(9))
      const exit = yield* outcomeDuring(minutes, w.in(run({ turns: 2, usd: 0.2, tokens: 220 })))
      assert.strictEqual(exit._tag, "MaxTurnsExceeded")
      const again = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r", { limits: { turns: 9 } })))
      assert(again._tag === "BudgetExceeded")
      assert.strictEqual(again.resource, "usd")
      yield* w.journal()
    })
  )
})

describe("tool calls", () => {
  it.effect("what has no call left is refused in words, and the model may still answer", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("read_file", { path: "a" }),
        call("read_file", { path: "b" }),
        text("done")
      ])
      const done = yield* outcomeDuring(minutes, w.in(run({ toolCalls: 1 })))
      assert(done._tag === "Completed", done._tag)
      assert.deepStrictEqual(w.work.started, ["read_file a"])
      assert.strictEqual(done.run.toolCalls, 1)
      const results = of(yield* w.journal(), "tool_result")
      assert.deepStrictEqual(
        results.map(({ disposition, ok }) => [disposition, ok]),
        [
          ["executed", true],
          ["refused", false]
        ]
      )
      assert.isNotEmpty(results[1]?.content ?? "")
      assert.strictEqual(of(yield* w.journal(), "tool_start").length, 1)
    })
  )

  it.effect("who asks again after that is stopped: BudgetExceeded(tool_calls)", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("read_file", { path: "a" }),
        call("read_file", { path: "b" }),
        call("read_file", { path: "c" }),
        text("never")
      ])
      const exit = yield* outcomeDuring(minutes, w.in(run({ toolCalls: 1 })))
      assert(exit._tag === "BudgetExceeded", exit._tag)
      assert.strictEqual(exit.resource, "tool_calls")
      assert.strictEqual(exit.limit, 1)
      assert.strictEqual(w.requests.length, 3)
      assert.deepStrictEqual(w.work.started, ["read_file a"])
      checkEnding(exit, yield* w.journal(), "budget_exceeded", "max_budget")
      const more = yield* world([text("done")])
      const events = yield* w.journal()
      const summary = yield* w.store.summary("r")
      yield* more.store.append({
        runId: "r",
        expected: 0,
        events,
        summary,
        durability: "process"
      })
      const done = yield* more.in(Agent.resume(agent, "r", { limits: { toolCalls: 2 } }))
      assert.strictEqual(done.output, "done")
      assert.deepStrictEqual(more.work.started, ["read_file c"])
      yield* more.journal()
    })
  )

  it.effect("several at once: as many run as are left, the others are refused, and no sibling is lost", () =>
    Effect.gen(function* () {
      const w = yield* world([
        turn(...["a", "b", "c", "d"].map((path) => call("read_file", { path }, { id: path }))),
        text("done")
      ])
      const done = yield* outcomeDuring(minutes, w.in(run({ toolCalls: 2 })))
      assert.strictEqual(done._tag, "Completed")
      assert.deepStrictEqual(w.work.started, ["read_file a", "read_file b"])
      assert.deepStrictEqual(roles(w, 1), ["user", "assistant", "tool", "tool", "tool", "tool"])
      yield* w.journal()
    })
  )

  it.effect("none at all", () =>
    Effect.gen(function* () {
      const w = yield* world([call("write_file", { path: "a" }), text("done")])
      const done = yield* outcomeDuring(minutes, w.in(run({ toolCalls: 0 })))
      assert.strictEqual(done._tag, "Completed")
      assert.deepStrictEqual(w.work.started, [])
      yield* w.journal()
    })
  )

  it.effect("a submission needs no tool call", () =>
    Effect.gen(function* () {
      const w = yield* world([call("submit_result", { n: 1 })])
      const done = yield* w.in(Agent.run(contract, "go", { runId: "r", limits: { toolCalls: 0 } }))
      assert.deepStrictEqual(done.output, { n: 1 })
      yield* w.journal()
    })
  )
})

describe("time", () => {
  it.effect("the deadline ends a model call, which counts as lost", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("late", { latency: "1 hour" })])
      const exit = yield* outcomeDuring(minutes, w.in(run({ time: "10 seconds" })))
      assert(exit._tag === "BudgetExceeded", exit._tag)
      assert.strictEqual(exit.resource, "time")
      assert.strictEqual(exit.limit, 10_000)
      const journal = yield* w.journal()
      const state = checkEnding(exit, journal, "budget_exceeded", "max_budget")
      assert.strictEqual(state.elapsedMs, 10_000)
      assert.strictEqual(state.turns, 2)
      assert.isAbove(state.costUsd, 0.1)
    })
  )

  it.effect("the deadline ends a streamed model call too", () =>
    Effect.gen(function* () {
      const w = yield* world([text("late", { latency: "1 hour" })])
      const stream = Stream.runDrain(
        Agent.stream(agent, "go", {
          runId: "r",
          limits: { time: "10 seconds" }
        })
      )
      const fiber = yield* forked(w.in(Effect.flip(stream)))
      yield* until(() => w.requests.length === 1)
      yield* TestClock.adjust("10 seconds")
      const exit = yield* Fiber.join(fiber)
      assert.strictEqual(exit._tag, "BudgetExceeded")
      yield* w.journal()
    })
  )

  for (const tool of ["slow_read", "slow_put"]) {
    it.effect(`the deadline ends ${tool}: a result in words, then the budget is told`, () =>
      Effect.gen(function* () {
        const w = yield* world([call(tool, { path: "a" }), text("done")])
        const exit = yield* outcomeDuring(minutes, w.in(run({ time: "4 seconds" })))
        assert(exit._tag === "BudgetExceeded", exit._tag)
        assert.strictEqual(exit.resource, "time")
        const journal = yield* w.journal()
        const state = checkEnding(exit, journal, "budget_exceeded", "max_budget")
        assert.strictEqual(state.elapsedMs, 4000)
        assert.deepStrictEqual(w.work.interrupted, [`${tool} a`])
        const [result] = of(journal, "tool_result")
        assert.isFalse(result?.ok)
        assert.deepStrictEqual(state.pending, [])
        const done = yield* w.in(Agent.resume(agent, "r", { limits: { time: "1 minute" } }))
        assert.strictEqual(done.output, "done")
        assert.strictEqual(w.work.started.length, 1)
        yield* w.journal()
      })
    )
  }

  it.effect("the deadline ends a writer: nobody knows whether it happened, and it is not run again", () =>
    Effect.gen(function* () {
      const w = yield* world([call("slow_write", { path: "a" }, { id: "c" }), text("done")])
      const exit = yield* outcomeDuring(minutes, w.in(run({ time: "4 seconds" })))
      assert(exit._tag === "OutcomeUnknown", exit._tag)
      assert.deepStrictEqual(
        exit.calls.map(({ callId, runId, tool }) => [runId, callId, tool]),
        [["r", "c", "slow_write"]]
      )
      assert.strictEqual(exit.run.elapsedMs, 4000)
      checkEnding(exit, yield* w.journal(), "interrupted", "unknown_outcome")
      const again = yield* outcomeDuring(
        minutes,
        w.in(Agent.resume(agent, "r", { limits: { time: "1 minute" } }))
      )
      assert.strictEqual(again._tag, "OutcomeUnknown")
      yield* w.in(Agent.resolve(exit.calls[0], Agent.happened("it was written")))
      const done = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
      assert.strictEqual(done._tag, "Completed")
      assert.deepStrictEqual(w.work.started, ["slow_write a"])
      assert.include(wire(w, 1), "it was written")
      yield* w.journal()
    })
  )

  it.effect("retry waits count as time", () =>
    Effect.gen(function* () {
      const w = yield* world([fail(429, { retryAfter: 6 }), text("late", { latency: "5 seconds" })])
      const exit = yield* outcomeDuring(minutes, w.in(run({ time: "10 seconds" })))
      assert(exit._tag === "BudgetExceeded", exit._tag)
      assert.strictEqual(exit.run.elapsedMs, 10_000)
      yield* w.journal()
    })
  )

  it.effect("time used is stored; a resume has what is left, and the time in between does not count", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("list_files", {}, { latency: "4 seconds" }),
        text("late", { latency: "1 hour" }),
        text("late", { latency: "1 hour" }),
        text("done", { latency: "4 seconds" })
      ])
      const fiber = yield* forked(w.in(run({ time: "10 seconds" })))
      yield* until(() => w.requests.length === 1)
      yield* TestClock.adjust("4 seconds")
      yield* until(() => w.requests.length === 2)
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(last(yield* w.journal(), "run_stopped").elapsedMs, 6000)
      yield* TestClock.adjust("1 day")
      const before = yield* Clock.currentTimeMillis
      const exit = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
      assert(exit._tag === "BudgetExceeded", exit._tag)
      const stopped = last(yield* w.journal(), "run_stopped")
      assert.strictEqual(Date.parse(stopped.at) - before, 4000)
      assert.strictEqual(stopped.elapsedMs, 10_000)
      yield* TestClock.adjust("1 day")
      const done = yield* outcomeDuring(
        minutes,
        w.in(Agent.resume(agent, "r", { limits: { time: "15 seconds" } }))
      )
      assert(done._tag === "Completed", done._tag)
      assert.strictEqual(done.run.elapsedMs, 14_000)
      yield* w.journal()
    })
  )

  it.effect("no time at all: nothing is asked", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done")])
      const exit = yield* outcomeDuring(minutes, w.in(run({ time: 0 })))
      assert.strictEqual(exit._tag, "BudgetExceeded")
      assert.strictEqual(w.requests.length, 0)
      yield* w.journal()
    })
  )

  it.effect("a timer that is early by a fraction, as real ones are: one lost call is one lost call", () =>
    Effect.gen(function* () {
      const w = yield* world(Array.from({ length: 5 }, () => text("late", { latency: "1 hour" })))
      const clock = yield* Clock.Clock
      // Node's timers know whole milliseconds only.
      const early: Clock.Clock = Object.assign(Object.create(clock), {
        sleep: (duration: Duration.Duration) =>
          clock.sleep(Duration.millis(Math.max(1, Math.floor(Duration.toMillis(duration)))))
      })
      const exit = yield* outcomeDuring(
        minutes,
        w.in(run({ time: 10.5 })).pipe(Effect.provideService(Clock.Clock, early))
      )
      assert(exit._tag === "BudgetExceeded", exit._tag)
      assert.strictEqual(w.requests.length, exit.run.turns)
      yield* w.journal()
    })
  )
})

describe("a reserve", () => {
  it.effect(
    "of turns: what was asked for is refused in words, the model sums up, and the exit stays what it was",
    () =>
      Effect.gen(function* () {
        const w = yield* world([
          call("read_file", { path: "a" }),
          turn(call("read_file", { path: "b" }, { id: "x" }), call("write_file", { path: "c" }, { id: "y" })),
          text("So far I know a.")
        ])
        const exit = yield* outcomeDuring(minutes, w.in(run({ turns: 3, reserve: { turns: 1 } })))
        assert(exit._tag === "MaxTurnsExceeded", exit._tag)
        const journal = yield* w.journal()
        const state = checkEnding(exit, journal, "max_turns_exceeded", "max_turns")
        assert.strictEqual(state.turns, 3)
        assert.strictEqual(state.summary, "So far I know a.")
        assert.deepStrictEqual(w.work.started, ["read_file a"])
        assert.deepStrictEqual(
          of(journal, "tool_result").map(({ disposition }) => disposition),
          ["executed", "refused", "refused"]
        )
        assert.deepStrictEqual(
          of(journal, "handoff").map(({ exhausted }) => exhausted.resource),
          ["turns"]
        )
        assert.strictEqual(of(journal, "turn_started").at(-1)?.purpose, "handoff")
        // The model is told what the last turn is for.
        assert.strictEqual(roles(w, 2).at(-1), "user")
        assert.strictEqual(exit.limit, 3)
      })
  )

  it.effect("an answer before the reserve is touched is an answer", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("done")])
      const done = yield* outcomeDuring(minutes, w.in(run({ turns: 3, reserve: { turns: 1 } })))
      assert.strictEqual(done._tag, "Completed")
      assert.notInclude(types(yield* w.journal()), "handoff")
    })
  )

  it.effect("of money and of tokens", () =>
    Effect.gen(function* () {
      // A turn costs ten cents and uses 110 tokens.
      for (const [limits, resource, looks] of [
        [{ usd: 0.4, reserve: { usd: 0.2 } }, "usd", 2],
        [{ usd: 0.4, reserve: { usd: 0.15 } }, "usd", 2],
        [{ usd: 0.35, reserve: { usd: 0.01 } }, "usd", 3],
        [{ tokens: 440, reserve: { tokens: 220 } }, "tokens", 2],
        [{ tokens: 440, reserve: { tokens: 120 } }, "tokens", 2],
        [{ tokens: 400, reserve: { tokens: 10 } }, "tokens", 3]
      ] as const) {
        const w = yield* world([...lists(looks), text("summary")])
        const exit = yield* outcomeDuring(minutes, w.in(run(limits)))
        assert(exit._tag === "BudgetExceeded", exit._tag)
        assert.strictEqual(exit.resource, resource)
        assert.strictEqual(exit.run.summary, "summary")
        assert.strictEqual(exit.run.turns, looks + 1)
        checkEnding(exit, yield* w.journal(), "budget_exceeded", "max_budget")
      }
    })
  )

  it.effect("of tool calls: the limit is then looked at before the model is asked", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("read_file", { path: "a" }),
        call("read_file", { path: "b" }),
        call("observe"),
        text("summary")
      ])
      const exit = yield* outcomeDuring(minutes, w.in(run({ toolCalls: 3, reserve: { toolCalls: 1 } })))
      assert(exit._tag === "BudgetExceeded", exit._tag)
      assert.strictEqual(exit.resource, "tool_calls")
      assert.deepStrictEqual(w.work.started, ["read_file a", "read_file b", "observe"])
      const journal = yield* w.journal()
      assert.deepStrictEqual(
        of(journal, "tool_start").map(({ purpose }) => purpose),
        ["investigate", "investigate", "handoff"]
      )
    })
  )

  it.effect("of time: from there on only the handoff goes on, until the deadline", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("list_files", {}, { latency: "8 seconds" }),
        text("summary", { latency: "1 second" })
      ])
      const exit = yield* outcomeDuring(
        minutes,
        w.in(run({ time: "10 seconds", reserve: { time: "3 seconds" } }))
      )
      assert(exit._tag === "BudgetExceeded", exit._tag)
      assert.strictEqual(exit.resource, "time")
      assert.strictEqual(exit.run.summary, "summary")
      assert.deepStrictEqual(w.work.started, [])
      // The model call was cut off at 7 s: what investigates may not use the reserve.
      assert.strictEqual(exit.run.elapsedMs, 8000)
      yield* w.journal()
    })
  )

  it.effect("of time: an investigating call that would run into it is cut off in time for the handoff", () =>
    Effect.gen(function* () {
      const w = yield* world([call("slow_read", { path: "a" }), text("summary", { latency: "1 second" })])
      const exit = yield* outcomeDuring(
        minutes,
        w.in(run({ time: "8 seconds", reserve: { time: "3 seconds" } }))
      )
      assert(exit._tag === "BudgetExceeded", exit._tag)
      assert.strictEqual(exit.run.summary, "summary")
      assert.strictEqual(exit.run.elapsedMs, 6000)
      assert.deepStrictEqual(w.work.interrupted, ["slow_read a"])
      yield* w.journal()
    })
  )

  it.effect("of time: an investigating model call that would run into it too", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("list_files"),
        text("late", { latency: "1 hour" }),
        text("summary", { latency: "1 second" })
      ])
      const exit = yield* outcomeDuring(
        minutes,
        w.in(run({ time: "8 seconds", reserve: { time: "3 seconds" } }))
      )
      assert(exit._tag === "BudgetExceeded", exit._tag)
      assert.strictEqual(exit.run.summary, "summary")
      assert.strictEqual(exit.run.elapsedMs, 6000)
      yield* w.journal()
    })
  )

  it.effect("is spent on handoff tools alone, until it is used up", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("read_file", { path: "a" }),
        turn(call("observe", {}, { id: "o" }), call("read_file", { path: "b" }, { id: "x" })),
        call("read_file", { path: "c" }),
        text("never")
      ])
      const exit = yield* outcomeDuring(minutes, w.in(run({ turns: 3, reserve: { turns: 2 } })))
      assert(exit._tag === "MaxTurnsExceeded", exit._tag)
      assert.deepStrictEqual(w.work.started, ["observe"])
      assert.strictEqual(w.requests.length, 3)
      assert.isUndefined(exit.run.summary)
      yield* w.journal()
    })
  )

  it.effect("an answer in the handoff ends it, although there is more reserve", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("summary"), text("never")])
      const exit = yield* outcomeDuring(minutes, w.in(run({ turns: 4, reserve: { turns: 3 } })))
      assert(exit._tag === "MaxTurnsExceeded")
      assert.strictEqual(exit.run.turns, 2)
      assert.strictEqual(exit.run.summary, "summary")
      yield* w.journal()
    })
  )

  it.effect("a valid submission in the handoff completes the run; prose is the summary", () =>
    Effect.gen(function* () {
      const limits = { turns: 3, reserve: { turns: 2 } }
      const w = yield* world([call("list_files"), call("submit_result", { n: 1 })])
      const done = yield* outcomeDuring(minutes, w.in(Agent.run(contract, "go", { runId: "r", limits })))
      assert(done._tag === "Completed", done._tag)
      assert.deepStrictEqual(done.output, { n: 1 })
      checkEnding(done, yield* w.journal(), "completed", "submitted")

      const w2 = yield* world([call("list_files"), text("I have no number.")])
      const exit = yield* outcomeDuring(minutes, w2.in(Agent.run(contract, "go", { runId: "r", limits })))
      assert(exit._tag === "MaxTurnsExceeded", exit._tag)
      assert.strictEqual(exit.run.summary, "I have no number.")
      yield* w2.journal()
    })
  )

  it.effect(
    "a valid submission that comes with the call that exhausts the reserve's limit still completes",
    () =>
      Effect.gen(function* () {
        const w = yield* world([
          call("list_files"),
          turn(call("read_file", { path: "a" }, { id: "x" }), call("submit_result", { n: 1 }, { id: "s" }))
        ])
        const limits = { turns: 2, reserve: { turns: 1 } }
        const done = yield* outcomeDuring(minutes, w.in(Agent.run(contract, "go", { runId: "r", limits })))
        assert(done._tag === "Completed", done._tag)
        yield* w.journal()
      })
  )

  it.effect("resumed with more room, it investigates again", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("list_files"),
        text("summary"),
        call("read_file", { path: "a" }),
        text("done")
      ])
      const exit = yield* outcomeDuring(minutes, w.in(run({ turns: 2, reserve: { turns: 1 } })))
      assert.strictEqual(exit._tag, "MaxTurnsExceeded")
      const done = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r", { limits: { turns: 9 } })))
      assert(done._tag === "Completed", done._tag)
      assert.strictEqual(done.output, "done")
      assert.deepStrictEqual(w.work.started, ["read_file a"])
      assert.strictEqual(roles(w, 2).at(-1), "user", "the model is told that there is room")
      checkEnding(done, yield* w.journal(), "completed", "answered")
    })
  )

  it.effect("the handoff narrows the tools by tool choice", () =>
    Effect.gen(function* () {
      const requests: Array<LanguageModel.ProviderOptions> = []
      const finish = {
        type: "finish",
        reason: "stop",
        usage: { inputTokens: { total: 100 }, outputTokens: { total: 10 } }
      }
      const model = Layer.effect(
        LanguageModel.LanguageModel,
        LanguageModel.make({
          generateText: (request) =>
            Effect.sync(() => {
              const first = requests.push(request) === 1
              return [
                first
                  ? {
                      type: "tool-call",
                      id: "c",
                      name: "list_files",
                      params: {}
                    }
                  : { type: "text", text: "summary" },
                finish
              ] as unknown as Array<Response.PartEncoded>
            }),
          streamText: (): Stream.Stream<Response.StreamPartEncoded, AiError.AiError> => Stream.empty
        })
      )
      const w = yield* world([])
      const limits = { turns: 2, reserve: { turns: 1 } }
      const exit = yield* w.in(Agent.outcome(Effect.provide(run(limits), model)))
      assert.strictEqual(exit._tag, "MaxTurnsExceeded")
      const [one, two] = requests
      const names = (options: LanguageModel.ProviderOptions | undefined) =>
        options?.tools.map(({ name }) => name)
      assert.deepStrictEqual(names(one), Object.keys(Tools.tools))
      assert.strictEqual(one?.toolChoice, "auto")
      // It is effect that keeps the other tools from the provider for such a choice.
      assert.deepStrictEqual(names(two), ["observe"])
      assert.deepStrictEqual(two?.toolChoice, {
        mode: "auto",
        oneOf: ["observe"]
      })
      yield* w.journal()
    })
  )
})

describe("limits on resume", () => {
  it.effect("each that is named replaces the one before; the others stay, and it is written down", () =>
    Effect.gen(function* () {
      const w = yield* world(lists(9))
      yield* outcomeDuring(minutes, w.in(run({ turns: 2, usd: 5, time: "1 hour" })))
      const exit = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r", { limits: { turns: 3 } })))
      assert.strictEqual(exit._tag, "MaxTurnsExceeded")
      const journal = yield* w.journal()
      assert.deepStrictEqual(
        of(journal, "limits_changed").map(({ limits }) => limits),
        [{ turns: 3, usd: 5, timeMs: 3_600_000 }]
      )
      const all = types(journal)
      const resumed = all.indexOf("run_resumed")
      assert.deepStrictEqual(all.slice(resumed, resumed + 2), ["run_resumed", "limits_changed"])
    })
  )

  it.effect("without any named, nothing is written about them", () =>
    Effect.gen(function* () {
      const w = yield* world(lists(9))
      yield* outcomeDuring(minutes, w.in(run({ turns: 2 })))
      yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
      assert.notInclude(types(yield* w.journal()), "limits_changed")
    })
  )

  /** What a run has, and the same named once more in other words or another order. */
  const same: ReadonlyArray<readonly [string, Limits.LimitsInput, Limits.LimitsInput]> = [
    ["a number", { turns: 1 }, { turns: 1 }],
    ["none", { turns: 1 }, {}],
    ["a default", { tokens: 15 }, { turns: 20 }],
    ["a limit that was none", { turns: 1 }, { usd: Number.POSITIVE_INFINITY }],
    ["some in another order", { turns: 1, usd: 5, tokens: 900 }, { tokens: 900, usd: 5, turns: 1 }],
    ["a time in other words", { turns: 1, time: "1 minute" }, { time: 60_000 }],
    [
      "a date in other words",
      { turns: 1, deadline: "2030-01-01" },
      { deadline: new Date("2030-01-01T00:00Z") }
    ],
    ["a reserve", { turns: 1, reserve: { turns: 1, usd: 0 } }, { reserve: { usd: 0, turns: 1 } }]
  ]
  for (const [name, had, given] of same) {
    it.effect(`${name}, the same as the run has, is no change, however often it is asked for`, () =>
      Effect.gen(function* () {
        const w = yield* world(lists(9))
        yield* outcomeDuring(minutes, w.in(run(had)))
        yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r", { limits: given })))
        yield* outcomeDuring(minutes, w.in(run(given)))
        const journal = yield* w.journal()
        assert.strictEqual(of(journal, "run_resumed").length, 2)
        assert.notInclude(types(journal), "limits_changed")
      })
    )
  }

  /** What the runs of a sub-agent and of the one above it may use. */
  const families: ReadonlyArray<readonly [string, Limits.LimitsInput, Limits.LimitsInput]> = [
    ["neither", {}, {}],
    ["the one above", {}, { usd: 5 }],
    ["the sub-agent", { usd: 1, time: "1 minute", tokens: 900 }, {}],
    ["both", { usd: 1, time: "1 minute", reserve: { usd: 0.1, turns: 1 } }, { usd: 5, tokens: 9000 }],
    ["a sub-agent by a date", { usd: 1, deadline: "2030-01-01" }, { usd: 5 }]
  ]
  for (const [name, below, above] of families) {
    it.effect(`of a sub-agent that may use as much as before do not change (limited: ${name})`, () =>
      Effect.gen(function* () {
        const asks = Agent.asTool(Agent.make("child", { toolkit: Tools, limits: below }), {
          name: "ask",
          description: "Asks."
        })
        const top = Agent.make("top", { toolkit: Toolkit.make(asks.tool), limits: above }).pipe(
          Agent.provide(asks.layer)
        )
        const guarded = call("delete_file", { path: "a" }, { id: "d" })
        const w = yield* world([
          call("ask", { task: "go" }, { id: "c" }),
          guarded,
          text("found"),
          text("done")
        ])
        yield* outcomeDuring(minutes, w.in(Agent.run(top, "go", { runId: "r" })))
        yield* w.in(Agent.decide({ runId: "r/c", callId: "d" }, Agent.approve()))
        const end = yield* outcomeDuring(minutes, w.in(Agent.resume(top, "r")))
        assert.strictEqual(end._tag, "Completed")
        assert.notInclude(types(yield* w.journal("r/c")), "limits_changed")
      })
    )
  }
})

describe("spend survives every ending (case 8)", () => {
  const endings: ReadonlyArray<readonly [string, Parameters<typeof world>[0]]> = [
    ["Completed", [call("list_files"), text("done")]],
    ["MaxTurnsExceeded", [call("list_files"), call("list_files")]],
    ["ApprovalRequired", [call("list_files"), call("delete_file", { path: "a" })]],
    ["RunFailed", [call("list_files"), call("list_files"), fail(400)]],
    ["ProviderUnavailable", [call("list_files"), call("list_files"), fail(401)]]
  ]
  for (const [tag, replies] of endings) {
    it.effect(tag, () =>
      Effect.gen(function* () {
        const w = yield* world(replies)
        const turns = tag === "MaxTurnsExceeded" ? 2 : 20
        const exit = yield* outcomeDuring(minutes, w.in(run({ turns })))
        assert.strictEqual(exit._tag, tag)
        assert.strictEqual(exit.run.costUsd, 0.2)
        assert.deepStrictEqual(exit.run.usage, {
          promptTokens: 200,
          completionTokens: 20
        })
        assert.strictEqual((yield* w.store.summary("r")).costUsd, 0.2)
        assert.strictEqual(last(yield* w.journal(), "run_stopped").costUsd, 0.2)
      })
    )
  }

  it.effect("cancelled, in mid-call: what was paid, and the call that was under way", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("late", { latency: "1 hour" })])
      const fiber = yield* forked(w.in(run({})))
      yield* until(() => w.requests.length === 2)
      yield* Fiber.interrupt(fiber)
      const summary = yield* w.store.summary("r")
      assert.strictEqual(summary.turns, 2)
      assert.isAbove(summary.costUsd, 0.1)
      assert.strictEqual(last(yield* w.journal(), "run_stopped").costUsd, summary.costUsd)
    })
  )
})

it.effect("a run without money or time limit is warned about, one with either is not", () =>
  Effect.gen(function* () {
    const warnings = (limits: Limits.LimitsInput) =>
      Effect.gen(function* () {
        const messages: Array<string> = []
        const logger = Logger.make(({ logLevel, message }) => {
          if (logLevel === "Warn") messages.push(String(message))
        })
        const w = yield* world([text("done")])
        yield* w.in(run(limits)).pipe(Effect.provide(Logger.layer([logger])))
        return messages
      })
    assert.strictEqual((yield* warnings({ turns: 3 })).length, 1)
    assert.deepStrictEqual(yield* warnings({ usd: 1 }), [])
    assert.deepStrictEqual(yield* warnings({ time: "1 minute" }), [])
  })
)

describe("a deadline by the calendar", () => {
  it.effect("counts while nobody drives the run", () =>
    Effect.gen(function* () {
      const w = yield* world(
        [call("list_files"), text("never read", { latency: "1 hour" }), text("late", { latency: "1 hour" })],
        {
          latency: "1 minute"
        }
      )
      const ends = new Date((yield* Clock.currentTimeMillis) + 10 * minutes)
      const fiber = yield* forked(w.in(run({ deadline: ends })))
      yield* TestClock.adjust("2 minutes")
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("6 minutes")
      const exit = yield* outcomeDuring(20 * minutes, w.in(Agent.resume(agent, "r")))
      assert(exit._tag === "BudgetExceeded")
      assert.strictEqual(exit.resource, "time")
      const stopped = of(yield* w.journal(), "run_stopped").at(-1)
      assert.strictEqual(stopped?.at, ends.toISOString())
      assert.strictEqual(stopped?.elapsedMs, 4 * minutes)
    })
  )

  it.effect("that has passed when the run is resumed leaves no time at all", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("done")], { latency: "1 minute" })
      const ends = new Date((yield* Clock.currentTimeMillis) + 5 * minutes)
      const fiber = yield* forked(w.in(run({ deadline: ends })))
      yield* TestClock.adjust("30 seconds")
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("1 hour")
      const exit = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
      assert(exit._tag === "BudgetExceeded")
      assert.strictEqual(w.requests.length, 1)
      const more = new Date((yield* Clock.currentTimeMillis) + 5 * minutes)
      const done = yield* outcomeDuring(
        9 * minutes,
        w.in(Agent.resume(agent, "r", { limits: { deadline: more } }))
      )
      assert.strictEqual(done._tag, "Completed")
      yield* w.journal()
    })
  )
})

describe("a model that does not hand over", () => {
  const reserve = { toolCalls: 3, turns: 40, reserve: { toolCalls: 2 } }

  it.effect("is refused once and stopped the next time, with its turns unspent and its call pending", () =>
    Effect.gen(function* () {
      const w = yield* world(lists(30))
      const exit = yield* outcomeDuring(minutes, w.in(run(reserve)))
      assert(exit._tag === "BudgetExceeded")
      assert.strictEqual(exit.resource, "tool_calls")
      assert.strictEqual(exit.run.turns, 3)
      assert.strictEqual(w.work.started.length, 1)
      assert.strictEqual(exit.run.pending.length, 1)
      yield* w.journal()
      const more = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r", { limits: { toolCalls: 9 } })))
      assert.isAbove(more.run.turns, 4)
      yield* w.journal()
    })
  )

  it.effect("and says nothing at all is not asked again", () =>
    Effect.gen(function* () {
      const w = yield* world([...lists(1), text(""), text("never asked for")])
      const exit = yield* outcomeDuring(minutes, w.in(run(reserve)))
      assert(exit._tag === "BudgetExceeded")
      assert.strictEqual(exit.run.turns, 2)
      assert.strictEqual(w.requests.length, 2)
      yield* w.journal()
    })
  )
})
