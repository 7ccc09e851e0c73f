/**
 * Every boundary of time, one millisecond before, at and after it: in tools, in model calls, in waits, and across a
 * resume. What ignores its interruption is waited for until a bound, and no longer.
 */
import { assert, describe, it } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { Agent, CurrentCall, type Limits, ToolFailure, ToolPolicy } from "../../src/index.ts"
import {
  awaited,
  call,
  checkEnding,
  during,
  fail,
  forked,
  idle,
  last,
  of,
  outcomeDuring,
  text,
  turn,
  until,
  world
} from "./modelSupport.ts"

// --- tools that take as long as they are told -----------------------------------------------------------------------

const parameters = Schema.Struct({ ms: Schema.Int })
const takes = { parameters, success: Schema.String }
const Reading = Tool.make("reading", takes).annotate(Tool.Readonly, true)
const Putting = Tool.make("putting", takes).annotate(Tool.Idempotent, true)
const Writing = Tool.make("writing", takes)
const Saving = Tool.make("saving", takes)
  .annotate(Tool.Readonly, true)
  .annotate(ToolPolicy.Purpose, "handoff")

const kinds = ["reading", "putting", "writing"] as const
const minutes = 60_000

type Handler = (params: { readonly ms: number }) => Effect.Effect<string>
const sleeps: Handler = ({ ms }) => Effect.as(Effect.sleep(ms), "done")

interface Options {
  readonly limits?: Limits.LimitsInput
  readonly policy?: Agent.PolicyInput
  readonly timeout?: Duration.Input
  readonly handler?: Handler
}

/** An agent whose tools take as long as they are told, or do what the handler does. */
const worker = ({ handler = sleeps, limits, policy, timeout }: Options = {}) => {
  const toolkit = Toolkit.make(
    Reading.annotate(ToolPolicy.Timeout, timeout),
    Putting.annotate(ToolPolicy.Timeout, timeout),
    Writing.annotate(ToolPolicy.Timeout, timeout),
    Saving
  )
  const handlers = toolkit.toLayer({ reading: handler, putting: handler, writing: handler, saving: sleeps })
  return Agent.make("worker", { toolkit, policy, limits: { usd: 100, ...limits } }).pipe(
    Agent.provide(handlers)
  )
}
type Worker = ReturnType<typeof worker>

const run = (agent: Worker) => Agent.run(agent, "go", { runId: "r" })

const resultOf = (events: Parameters<typeof of>[0], callId: string) => {
  const result = of(events, "tool_result").find((event) => event.callId === callId)
  assert.isDefined(result, `no result of ${callId}`)
  return result
}

// --- what cooperates ------------------------------------------------------------------------------------------------

const limitsOfTenSeconds: Record<string, Options> = {
  "the run's time": { limits: { time: "10 seconds" } },
  "the tool's own timeout": { timeout: "10 seconds" },
  "the policy's timeout": { policy: { toolTimeout: "10 seconds" } }
}

for (const [name, options] of Object.entries(limitsOfTenSeconds)) {
  describe(`a tool within ${name}`, () => {
    for (const kind of kinds) {
      for (const ms of [9_999, 10_000]) {
        it.effect(`${kind} for ${ms} ms comes to its end`, () =>
          Effect.gen(function* () {
            const w = yield* world([call(kind, { ms }, { id: "c" }), text("done")])
            const exit = yield* outcomeDuring(minutes, w.in(run(worker(options))))
            const events = yield* w.journal()
            const result = resultOf(events, "c")
            assert.deepInclude(result, { content: "done", ok: true, disposition: "executed", ms })
            assert.strictEqual(last(events, "run_stopped").elapsedMs, ms)
            // At the run's limit there is no time for an answer.
            const late = options.limits !== undefined && ms === 10_000
            assert.strictEqual(exit._tag, late ? "BudgetExceeded" : "Completed")
          })
        )
      }

      it.effect(`${kind} for 10001 ms is cut off at 10000 ms, with a result that says so`, () =>
        Effect.gen(function* () {
          const w = yield* world([call(kind, { ms: 10_001 }, { id: "c" }), text("done")])
          const exit = yield* outcomeDuring(minutes, w.in(run(worker(options))))
          const events = yield* w.journal()
          const result = resultOf(events, "c")
          assert.deepInclude(result, { ok: false, ms: 10_000, detail: "interrupted after 10000 ms" })
          assert.strictEqual(last(events, "run_stopped").elapsedMs, 10_000)
          if (kind === "writing") {
            assert.strictEqual(result.disposition, "unknown")
            assert.strictEqual(
              result.content,
              "writing was cut off. Nobody can tell yet whether it took effect."
            )
            assert.strictEqual(exit._tag, "OutcomeUnknown")
          } else {
            assert.strictEqual(result.disposition, "executed")
            assert.strictEqual(
              result.content,
              `Error: ${kind} reached its time limit of 10000 ms. It was stopped.`
            )
            assert.strictEqual(exit._tag, options.limits === undefined ? "Completed" : "BudgetExceeded")
          }
        })
      )
    }
  })
}

describe("tools that run at the same time", () => {
  it.effect("each keep to the deadline by themselves", () =>
    Effect.gen(function* () {
      const w = yield* world([
        turn(
          call("reading", { ms: 10_001 }, { id: "late" }),
          call("reading", { ms: 10_000 }, { id: "at" }),
          call("reading", { ms: 9_999 }, { id: "before" }),
          call("writing", { ms: 1 }, { id: "next" })
        )
      ])
      const agent = worker({ limits: { time: "10 seconds" } })
      const exit = yield* outcomeDuring(minutes, w.in(run(agent)))
      const events = yield* w.journal()
      assert.deepStrictEqual(
        ["before", "at", "late"].map((id) => [resultOf(events, id).ok, resultOf(events, id).ms]),
        [
          [true, 9_999],
          [true, 10_000],
          [false, 10_000]
        ]
      )
      // What would have come after them is not begun.
      assert.strictEqual(of(events, "tool_start").length, 3)
      assert.strictEqual(exit._tag, "BudgetExceeded")
      assert.strictEqual(last(events, "run_stopped").elapsedMs, 10_000)
    })
  )
})

describe("a reserve of time", () => {
  const agent = worker({ limits: { time: "60 seconds", reserve: { time: "10 seconds" } } })
  const script = (investigateMs: number, saveMs: number) => [
    call("reading", { ms: investigateMs }, { id: "read" }),
    call("saving", { ms: saveMs }, { id: "save" }),
    text("handed over")
  ]
  for (const [ms, ok] of [
    [49_999, true],
    [50_000, true],
    [50_001, false]
  ] as const) {
    it.effect(`investigation for ${ms} ms ${ok ? "ends by itself" : "is cut off at 50000 ms"}`, () =>
      Effect.gen(function* () {
        const w = yield* world(script(ms, 0))
        const exit = yield* outcomeDuring(2 * minutes, w.in(run(agent)))
        const events = yield* w.journal()
        const read = resultOf(events, "read")
        assert.deepInclude(read, { ok, ms: Math.min(ms, 50_000) })
        assert.isTrue(resultOf(events, "save").ok)
        const handedOver = of(events, "handoff").length
        assert.strictEqual(handedOver, ms < 50_000 ? 0 : 1)
        assert.strictEqual(exit._tag, ms < 50_000 ? "Completed" : "BudgetExceeded")
        if (exit._tag === "BudgetExceeded") assert.strictEqual(exit.run.summary, "handed over")
      })
    )
  }

  for (const [ms, ok] of [
    [9_999, true],
    [10_000, true],
    [10_001, false]
  ] as const) {
    it.effect(`a handoff tool for ${ms} ms ${ok ? "may use all of it" : "is cut off at the limit"}`, () =>
      Effect.gen(function* () {
        const w = yield* world(script(50_001, ms))
        const exit = yield* outcomeDuring(2 * minutes, w.in(run(agent)))
        const events = yield* w.journal()
        assert.deepInclude(resultOf(events, "save"), { ok, ms: Math.min(ms, 10_000) })
        assert.strictEqual(exit._tag, "BudgetExceeded")
        assert.strictEqual(exit.run.summary, ms < 10_000 ? "handed over" : undefined)
        assert.strictEqual(last(events, "run_stopped").elapsedMs, Math.min(50_000 + ms, 60_000))
      })
    )
  }
})

describe("a model call", () => {
  const agent = worker({ limits: { time: "10 seconds" } })
  for (const ms of [9_999, 10_000]) {
    it.effect(`that takes ${ms} ms of 10000 is answered`, () =>
      Effect.gen(function* () {
        const w = yield* world([text("done", { latency: ms })])
        const exit = yield* outcomeDuring(minutes, w.in(run(agent)))
        checkEnding(exit, yield* w.journal(), "completed", "answered")
        assert.strictEqual(exit.run.elapsedMs, ms)
      })
    )
  }

  it.effect("that takes 10001 ms of 10000 is cut off at the deadline, and counts", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done", { latency: 10_001 })])
      const exit = yield* outcomeDuring(minutes, w.in(run(agent)))
      checkEnding(exit, yield* w.journal(), "budget_exceeded", "max_budget")
      assert.strictEqual(exit.run.elapsedMs, 10_000)
      assert.strictEqual(last(yield* w.journal(), "run_stopped").turns, 1)
    })
  )

  it.effect(
    "of investigation is cut off where the reserve begins, and one for the handoff at the limit",
    () =>
      Effect.gen(function* () {
        const w = yield* world([text("late", { latency: 8_001 }), text("handed over", { latency: 2_000 })])
        const kept = worker({ limits: { time: "10 seconds", reserve: { time: "2 seconds" } } })
        const exit = yield* outcomeDuring(minutes, w.in(run(kept)))
        const [handoff] = of(yield* w.journal(), "handoff")
        assert.strictEqual(handoff?.elapsedMs, 8_000)
        assert.strictEqual(exit._tag, "BudgetExceeded")
        assert.strictEqual(exit.run.summary, "handed over")
        assert.strictEqual(exit.run.elapsedMs, 10_000)
      })
  )
})

describe("a deadline", () => {
  it.effect("passes while the machine sleeps in a tool, though the run was not driven meanwhile", () =>
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      let sleptMs = 0
      // A calendar that goes on and a monotonic clock that does not.
      const calendar: Clock.Clock = Object.assign(Object.create(clock), {
        currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + sleptMs,
        currentTimeMillis: Effect.sync(() => clock.currentTimeMillisUnsafe() + sleptMs)
      })
      const handler = () =>
        Effect.sync(() => {
          sleptMs = 3_600_000
          return "done"
        })
      const agent = worker({ handler, limits: { deadline: new Date(600_000) } })
      const w = yield* world([call("reading", { ms: 0 }, { id: "c" }), text("too late")])
      const exit = yield* outcomeDuring(
        minutes,
        w.in(Effect.provideService(run(agent), Clock.Clock, calendar))
      )
      const events = yield* w.journal()
      assert.deepInclude(resultOf(events, "c"), { content: "done", ok: true })
      checkEnding(exit, events, "budget_exceeded", "max_budget")
      assert.isBelow(exit.run.elapsedMs, 600_000)
    })
  )

  for (const [name, slept, kept] of [
    ["passes", 3_600_000, false],
    ["comes nearer", 450_000, true],
    ["goes away", 0, true]
  ] as const) {
    it.effect(`that ${name} while a handoff is written is told as it is by then`, () =>
      Effect.gen(function* () {
        const clock = yield* Clock.Clock
        let sleptMs = 0
        const calendar: Clock.Clock = Object.assign(Object.create(clock), {
          currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + sleptMs,
          currentTimeMillis: Effect.sync(() => clock.currentTimeMillisUnsafe() + sleptMs)
        })
        const is = (ms: number) =>
          Effect.sync(() => {
            sleptMs = ms
          })
        const handler = () =>
          Effect.as(
            Effect.andThen(is(400_000), Effect.forkDetach(Effect.delay(is(slept), "5 seconds"))),
            "done"
          )
        const limits = { deadline: new Date(600_000), reserve: { time: "5 minutes" } } as const
        const w = yield* world([
          call("reading", { ms: 0 }, { id: "c" }),
          call("saving", { ms: 10_000 }, { id: "d" }),
          text("as far as I came")
        ])
        const exit = yield* outcomeDuring(
          minutes,
          w.in(Effect.provideService(run(worker({ handler, limits })), Clock.Clock, calendar))
        )
        const events = yield* w.journal()
        checkEnding(exit, events, "budget_exceeded", "max_budget")
        const { detail, exhausted } = last(events, "run_stopped")
        assert.deepEqual(exhausted, {
          resource: "time",
          used: 10_000,
          limit: Math.max(10_000, 600_000 - slept)
        })
        assert.strictEqual(detail.includes("kept for its handoff"), kept)
      })
    )
  }
})

describe("a limit of time that was passed", () => {
  for (const [name, limits] of Object.entries({
    time: { time: "10 seconds" },
    deadline: { deadline: new Date(10_000) }
  } as const)) {
    it.effect(`stays the limit that the ending names (${name})`, () =>
      Effect.gen(function* () {
        const agent = worker({ limits, handler: () => Effect.uninterruptible(Effect.never) })
        const w = yield* world([call("reading", { ms: 0 }, { id: "c" })])
        const exit = yield* outcomeDuring(minutes, w.in(run(agent)))
        assert.strictEqual(exit._tag, "BudgetExceeded")
        assert.match(exit.run.detail ?? "", /^used 15000 ms of a limit of 10000 ms/)
      })
    )
  }
})

describe("a wait before another attempt", () => {
  const asks = [fail(429, { retryAfter: 5 }), text("done")]

  it.effect("of a model call is not begun if it would last until the deadline", () =>
    Effect.gen(function* () {
      const w = yield* world(asks)
      const exit = yield* outcomeDuring(minutes, w.in(run(worker({ limits: { time: 5_000 } }))))
      assert.strictEqual(exit._tag, "ProviderUnavailable")
      assert.strictEqual(exit.run.elapsedMs, 0)
      assert.strictEqual(w.requests.length, 1)
    })
  )

  it.effect("of a model call is waited out if a millisecond is left after it", () =>
    Effect.gen(function* () {
      const w = yield* world(asks)
      const exit = yield* outcomeDuring(minutes, w.in(run(worker({ limits: { time: 5_001 } }))))
      assert.strictEqual(exit._tag, "Completed")
      assert.strictEqual(exit.run.elapsedMs, 5_000)
    })
  )

  const Flaky = Tool.make("flaky", { success: Schema.String, failure: ToolFailure.ToolFailure }).annotate(
    Tool.Readonly,
    true
  )
  const flaky = (time: Duration.Input) => {
    const toolkit = Toolkit.make(Flaky)
    const handlers = toolkit.toLayer({ flaky: () => Effect.fail(ToolFailure.transient("busy")) })
    return Agent.make("flaky", { toolkit, limits: { time } }).pipe(Agent.provide(handlers))
  }
  const attempts = (time: Duration.Input) =>
    Effect.gen(function* () {
      const w = yield* world([call("flaky", {}, { id: "c" }), text("done")])
      const program = w.in(Agent.run(flaky(time), "go", { runId: "r" }))
      const exit = yield* outcomeDuring(minutes, Random.withSeed(program, "waits"))
      const events = yield* w.journal()
      return { exit, events, startedMs: of(events, "tool_start").map(({ elapsedMs }) => elapsedMs) }
    })

  it.effect("of a tool is not begun if it would last until the deadline", () =>
    Effect.gen(function* () {
      const { startedMs } = yield* attempts("1 minute")
      const [, second = 0, third = 0] = startedMs
      assert.isAbove(third, second)
      for (const [after, count] of [
        [second, 1],
        [third, 2]
      ] as const) {
        const at = yield* attempts(after)
        assert.strictEqual(at.startedMs.length, count, "a wait until the deadline")
        // The time that the wait would have taken is left to the model.
        assert.strictEqual(at.exit._tag, "Completed")
        const before = yield* attempts(after + 1)
        assert.strictEqual(before.startedMs.length, count + 1, "a wait until a millisecond before it")
        assert.strictEqual(before.startedMs.at(-1), after)
      }
    })
  )
})

describe("a resumed run", () => {
  const day = 24 * 60 * minutes

  it.effect("goes on with the time that is left, however long it was not driven", () =>
    Effect.gen(function* () {
      const left: Array<number> = []
      const handler: Handler = ({ ms }) =>
        Effect.gen(function* () {
          const time = yield* (yield* CurrentCall.CurrentCall).timeLeft
          if (Option.isSome(time)) left.push(Duration.toMillis(time.value))
          yield* Effect.sleep(ms)
          return "done"
        })
      const agent = worker({ limits: { time: "10 seconds" }, handler })
      const w = yield* world([
        call("reading", { ms: 4_000 }, { id: "a" }),
        call("reading", { ms: 6_001 }, { id: "b" })
      ])
      const fiber = yield* forked(w.in(run(agent)))
      yield* TestClock.adjust(4_000)
      yield* until(() => w.requests.length === 2)
      yield* TestClock.adjust(1_000)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(last(yield* w.journal(), "run_stopped").elapsedMs, 5_000)
      yield* TestClock.adjust(day)

      const exit = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
      assert.strictEqual(exit._tag, "BudgetExceeded")
      const events = yield* w.journal()
      assert.strictEqual(last(events, "run_stopped").elapsedMs, 10_000)
      assert.strictEqual(resultOf(events.slice(-4), "b").ms, 5_000)
      assert.deepStrictEqual(left, [10_000, 6_000, 5_000])
    })
  )

  for (const [ms, ok] of [
    [4_999, true],
    [5_000, true],
    [5_001, false]
  ] as const) {
    it.effect(`with 5000 ms left ${ok ? "lets" : "does not let"} a call take ${ms}`, () =>
      Effect.gen(function* () {
        const agent = worker({ limits: { time: "10 seconds" } })
        const w = yield* world([text("late", { latency: "1 minute" }), call("putting", { ms }, { id: "c" })])
        const fiber = yield* forked(w.in(run(agent)))
        yield* TestClock.adjust(5_000)
        yield* Fiber.interrupt(fiber)
        yield* TestClock.adjust(day)
        yield* during(minutes, w.in(Agent.resume(agent, "r")))
        const events = yield* w.journal()
        assert.strictEqual(resultOf(events, "c").ok, ok)
        assert.strictEqual(last(events, "run_stopped").elapsedMs, Math.min(5_000 + ms, 10_000))
      })
    )
  }
})

// --- what does not cooperate ----------------------------------------------------------------------------------------

const ways: Record<string, Effect.Effect<string>> = {
  "an uninterruptible region": Effect.uninterruptible(Effect.never),
  "a finalizer without an end": Effect.onInterrupt(Effect.never, () => Effect.never),
  "a promise that nobody can abort": Effect.uninterruptible(
    Effect.promise(() => new Promise<string>(() => {}))
  )
}

const mayRun = /may still be running/

describe("a tool that ignores its interruption", () => {
  for (const [way, stubborn] of Object.entries(ways)) {
    for (const kind of kinds) {
      it.effect(`${kind}, in ${way}: the run goes on five seconds after the deadline, and says so`, () =>
        Effect.gen(function* () {
          const agent = worker({ limits: { time: "10 seconds" }, handler: () => stubborn })
          const w = yield* world([call(kind, { ms: 0 }, { id: "c" })])
          const fiber = yield* forked(w.in(Agent.outcome(run(agent))))
          yield* TestClock.adjust(14_999)
          yield* idle
          assert.isUndefined(fiber.pollUnsafe())
          yield* TestClock.adjust(1)
          const exit = yield* Fiber.join(fiber)
          const result = resultOf(yield* w.journal(), "c")
          assert.match(result.content, mayRun)
          assert.match(result.detail ?? "", mayRun)
          assert.notMatch(result.content, /was stopped|cut off/)
          assert.strictEqual(result.ok, false)
          assert.strictEqual(result.disposition, kind === "writing" ? "unknown" : "executed")
          assert.strictEqual(exit._tag, kind === "writing" ? "OutcomeUnknown" : "BudgetExceeded")
        })
      )
    }

    it.effect(`in ${way}: a run with time left goes on with the next turn`, () =>
      Effect.gen(function* () {
        const w = yield* world([call("reading", { ms: 0 }, { id: "c" }), text("done")])
        const agent = worker({ timeout: "10 seconds", handler: () => stubborn })
        const exit = yield* outcomeDuring(minutes, w.in(run(agent)))
        assert.strictEqual(exit._tag, "Completed")
        assert.strictEqual(exit.run.elapsedMs, 15_000)
        const told = w.requests[1]?.messages.at(-1)
        assert.strictEqual(
          told?.content,
          "Error: reading reached its time limit of 10000 ms. It was told to stop, and may still be running."
        )
      })
    )
  }

  it.effect("but ends in time is not said to be running, and is not waited for any longer", () =>
    Effect.gen(function* () {
      const handler: Handler = ({ ms }) => Effect.uninterruptible(sleeps({ ms }))
      const agent = worker({ limits: { time: "10 seconds" }, handler })
      for (const [ms, elapsedMs, running] of [
        [14_999, 14_999, false],
        [15_000, 15_000, false],
        [15_001, 15_000, true]
      ] as const) {
        const w = yield* world([call("writing", { ms }, { id: "c" })])
        const exit = yield* outcomeDuring(minutes, w.in(run(agent)))
        const events = yield* w.journal()
        assert.strictEqual(last(events, "run_stopped").elapsedMs, elapsedMs)
        // The write is done, and what it brought is lost with the interruption: nobody says that it failed.
        assert.strictEqual(exit._tag, "OutcomeUnknown")
        assert.strictEqual(mayRun.test(resultOf(events, "c").content), running, `${ms} ms`)
        assert.strictEqual(mayRun.test(resultOf(events, "c").detail ?? ""), running, `${ms} ms`)
      }
    })
  )

  it.effect("is waited for as long as the policy says", () =>
    Effect.gen(function* () {
      for (const interruptGrace of ["0 seconds", "1 second", "30 seconds"] as const) {
        const w = yield* world([call("reading", { ms: 0 }, { id: "c" })])
        const agent = worker({
          limits: { time: "10 seconds" },
          policy: { interruptGrace },
          handler: () => Effect.uninterruptible(Effect.never)
        })
        yield* during(minutes, w.in(Agent.outcome(run(agent))))
        const waited = last(yield* w.journal(), "run_stopped").elapsedMs - 10_000
        assert.strictEqual(`${waited / 1000} second`, interruptGrace.replace("seconds", "second"))
      }
    })
  )

  it.effect("does not use up more than half of the time that is kept for the handoff", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("reading", { ms: 0 }, { id: "read" }),
        call("saving", { ms: 1_999 }, { id: "save" }),
        text("handed over")
      ])
      const agent = worker({
        limits: { time: "60 seconds", reserve: { time: "4 seconds" } },
        handler: () => Effect.uninterruptible(Effect.never)
      })
      const exit = yield* outcomeDuring(2 * minutes, w.in(run(agent)))
      const events = yield* w.journal()
      assert.strictEqual(resultOf(events, "read").elapsedMs, 58_000)
      assert.isTrue(resultOf(events, "save").ok)
      assert.strictEqual(exit.run.summary, "handed over")
    })
  )

  it.effect("does not hold up those that run beside it, and the bound is one for all", () =>
    Effect.gen(function* () {
      const handler: Handler = ({ ms }) => (ms === 0 ? Effect.uninterruptible(Effect.never) : sleeps({ ms }))
      const agent = worker({ limits: { time: "10 seconds" }, handler })
      const calls = [0, 0, 3_000, 20_000].map((ms, index) => call("reading", { ms }, { id: `c${index}` }))
      const w = yield* world([turn(...calls)])
      yield* during(minutes, w.in(Agent.outcome(run(agent))))
      const events = yield* w.journal()
      const at = (id: string) => resultOf(events, id).elapsedMs
      assert.deepStrictEqual(["c0", "c1", "c2", "c3"].map(at), [15_000, 15_000, 3_000, 10_000])
      assert.strictEqual(last(events, "run_stopped").elapsedMs, 15_000)
    })
  )

  it.effect("is named in the log, and nobody hears of its progress any more", () =>
    Effect.gen(function* () {
      const logged: Array<string> = []
      const logger = Logger.make(({ logLevel, message }) => {
        if (logLevel === "Warn") logged.push(String(message))
      })
      const handler: Handler = () =>
        Effect.gen(function* () {
          const { progress } = yield* CurrentCall.CurrentCall
          yield* Effect.forever(Effect.andThen(Effect.sleep(1_000), progress("still at it")))
          return "never"
        }).pipe(Effect.uninterruptible)
      const agent = worker({ limits: { time: "10 seconds" }, handler })
      const w = yield* world([call("reading", { ms: 0 }, { id: "c" })])
      yield* during(minutes, w.in(Agent.outcome(run(agent)))).pipe(Effect.provide(Logger.layer([logger])))
      assert.deepStrictEqual(logged, [
        "reading (c) of run r does not end when it is interrupted, and may still be running"
      ])
      assert.isAtLeast(w.trace.events.filter(({ type }) => type === "tool_progress").length, 14)
      const heard = w.trace.events.length
      yield* TestClock.adjust(minutes)
      assert.strictEqual(w.trace.events.length, heard)
    })
  )

  it.effect("and was back before has its result, whatever it has left running", () =>
    Effect.gen(function* () {
      const handler: Handler = () =>
        Effect.as(
          Effect.forkChild(Effect.uninterruptible(Effect.never), { startImmediately: true }),
          "written"
        )
      const w = yield* world([call("writing", { ms: 0 }, { id: "c" }), text("done")])
      const exit = yield* outcomeDuring(minutes, w.in(run(worker({ handler }))))
      const result = resultOf(yield* w.journal(), "c")
      assert.deepInclude(result, { content: "written", ok: true, disposition: "executed", ms: 5_000 })
      assert.match(result.detail ?? "", mayRun)
      assert.strictEqual(exit._tag, "Completed")
    })
  )

  it.effect("no read is reused while a writer may still be running", () =>
    Effect.gen(function* () {
      let reads = 0
      const handler: Handler = ({ ms }) =>
        ms === 0 ? Effect.uninterruptible(Effect.never) : Effect.sync(() => `read ${++reads}`)
      const agent = worker({ timeout: "1 second", policy: { dedupe: "read-only" }, handler })
      const w = yield* world([
        call("reading", { ms: 1 }),
        call("reading", { ms: 1 }),
        call("putting", { ms: 0 }),
        call("reading", { ms: 1 }),
        call("reading", { ms: 1 }),
        text("done")
      ])
      yield* during(minutes, w.in(Agent.outcome(run(agent))))
      assert.strictEqual(reads, 3)
    })
  )
})

describe("a defect elsewhere", () => {
  it.effect(
    "does not wait for a tool that ignores its interruption, and says that it may still be running",
    () =>
      Effect.gen(function* () {
        const Broken = Tool.make("broken", {
          success: Schema.String,
          failure: Schema.String.check(
            Schema.makeFilter(() => {
              throw new Error("a schema that breaks")
            })
          )
        }).annotate(Tool.Readonly, true)
        const toolkit = Toolkit.make(Broken, Reading)
        const handlers = toolkit.toLayer({
          broken: () => Effect.andThen(Effect.sleep("1 second"), Effect.fail("oh")),
          reading: () => Effect.uninterruptible(Effect.never)
        })
        const agent = Agent.make("a", { toolkit, limits: { usd: 1 } }).pipe(Agent.provide(handlers))
        const w = yield* world([
          turn(call("broken", {}, { id: "b" }), call("reading", { ms: 0 }, { id: "c" }))
        ])
        const exit = yield* outcomeDuring(minutes, w.in(Agent.run(agent, "go", { runId: "r" })))
        const events = yield* w.journal()
        checkEnding(exit, events, "failed", "defect")
        assert.strictEqual(exit.run.elapsedMs, 6_000)
        assert.match(resultOf(events, "c").content, mayRun)
        assert.match(resultOf(events, "c").detail ?? "", mayRun)
      })
  )
})

describe("a provider that ignores its interruption", () => {
  const stubborn = Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({
      generateText: () => Effect.uninterruptible(Effect.never),
      streamText: () =>
        Stream.concat(
          Stream.make({ type: "text-start" as const, id: "t" }),
          Stream.fromEffectRepeat(
            Effect.as(Effect.uninterruptible(Effect.sleep("1 second")), {
              type: "text-delta" as const,
              id: "t",
              delta: "on and on "
            })
          )
        )
    })
  )
  // A money limit needs a price, and the name around it is that of another model.
  const named = Layer.merge(stubborn, Layer.succeed(Model.ModelName, "m"))
  const agent = worker({ limits: { time: "10 seconds" } }).pipe(Agent.provide(named))

  it.effect("does not hold the run up at the deadline", () =>
    Effect.gen(function* () {
      const w = yield* world([])
      const exit = yield* outcomeDuring(minutes, w.in(Agent.run(agent, "go", { runId: "r" })))
      checkEnding(exit, yield* w.journal(), "budget_exceeded", "max_budget")
      assert.strictEqual(exit.run.elapsedMs, 15_000)
      assert.strictEqual(last(yield* w.journal(), "run_stopped").turns, 1)
    })
  )

  it.effect("does not hold a Stop up", () =>
    Effect.gen(function* () {
      const w = yield* world([])
      const fiber = yield* forked(w.in(Agent.run(agent, "go", { runId: "r" })))
      yield* TestClock.adjust("1 second")
      const stopping = yield* forked(Fiber.interrupt(fiber))
      yield* awaited(stopping)
      const stopped = last(yield* w.journal(), "run_stopped")
      assert.strictEqual(stopped.reason, "cancelled")
      assert.strictEqual(stopped.elapsedMs, 6_000)
    })
  )
})

describe("a question to a tool that is never answered", () => {
  it.effect("whether a person is needed: one is asked at the deadline, and not later than the bound", () =>
    Effect.gen(function* () {
      const Asking = Tool.make("asking", {
        success: Schema.String,
        needsApproval: () => Effect.uninterruptible(Effect.never)
      })
      const toolkit = Toolkit.make(Asking)
      const agent = Agent.make("a", { toolkit, limits: { time: "10 seconds" } }).pipe(
        Agent.provide(toolkit.toLayer({ asking: () => Effect.succeed("ran") }))
      )
      const w = yield* world([call("asking", {}, { id: "c" })])
      const exit = yield* outcomeDuring(minutes, w.in(Agent.run(agent, "go", { runId: "r" })))
      assert.strictEqual(exit._tag, "BudgetExceeded")
      const events = yield* w.journal()
      assert.strictEqual(of(events, "approval_required").length, 1)
      assert.strictEqual(of(events, "tool_start").length, 0)
      assert.strictEqual(last(events, "run_stopped").elapsedMs, 15_000)
    })
  )

  it.effect("what became of a lost call: nobody knows after thirty seconds and the bound", () =>
    Effect.gen(function* () {
      const Lost = Tool.make("lost", { success: Schema.String })
        .annotate(ToolPolicy.Timeout, "1 second")
        .annotate(ToolPolicy.Reconcile, () => Effect.uninterruptible(Effect.never))
      const toolkit = Toolkit.make(Lost)
      const agent = Agent.make("a", { toolkit, limits: { usd: 1 } }).pipe(
        Agent.provide(toolkit.toLayer({ lost: () => Effect.never }))
      )
      const w = yield* world([call("lost", {}, { id: "c" })])
      const exit = yield* outcomeDuring(minutes, w.in(Agent.run(agent, "go", { runId: "r" })))
      assert.strictEqual(exit._tag, "OutcomeUnknown")
      assert.strictEqual(exit.run.elapsedMs, 36_000)
    })
  )
})
