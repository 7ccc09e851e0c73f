/**
 * A deadline while something runs: the calendar is set, or goes on while the machine sleeps, and the monotonic clock knows
 * nothing of it.
 */
import { assert, describe, it } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { Agent, CurrentCall, type Limits, ToolFailure, ToolPolicy } from "../../src/index.ts"
import * as Audit from "../../src/testing/Audit.ts"
import { awaited, call, checkEnding, fail, forked, idle, last, of, text, world } from "./modelSupport.ts"

const minutes = 60_000
const hour = 60 * minutes

/** How much later than it comes a jump of the calendar may be noticed. */
const noticedMs = 30_000

const endsMs = 10 * minutes
const limits = { deadline: new Date(endsMs) } as const
const kept = { ...limits, reserve: { time: "5 minutes" } } as const

/** A calendar that can be set, beside a monotonic clock that cannot. */
const settable = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  let offMs = 0
  const now = () => clock.currentTimeMillisUnsafe() + offMs
  const calendar: Clock.Clock = Object.assign(Object.create(clock), {
    currentTimeMillisUnsafe: now,
    currentTimeMillis: Effect.sync(now)
  })
  return {
    calendar,
    jump: (ms: number) =>
      Effect.sync(() => {
        offMs += ms
      })
  }
})

const takes = { parameters: Schema.Struct({ ms: Schema.Int }), success: Schema.String }
const Reading = Tool.make("reading", takes).annotate(Tool.Readonly, true)
const Writing = Tool.make("writing", takes)
const Brief = Tool.make("brief", takes)
  .annotate(Tool.Readonly, true)
  .annotate(ToolPolicy.Timeout, "12 minutes")
const Saving = Tool.make("saving", takes)
  .annotate(Tool.Readonly, true)
  .annotate(ToolPolicy.Purpose, "handoff")

/** Tools that take as long as they are told, and what each of their calls is told of its time when it is asked. */
const tools = () => {
  const asked: Array<Effect.Effect<Option.Option<Duration.Duration>>> = []
  const takes = ({ ms }: { readonly ms: number }) =>
    Effect.gen(function* () {
      asked.push((yield* CurrentCall.CurrentCall).timeLeft)
      yield* Effect.sleep(ms)
      return "done"
    })
  const toolkit = Toolkit.make(Reading, Writing, Brief, Saving)
  const handlers = toolkit.toLayer({ reading: takes, writing: takes, brief: takes, saving: takes })
  const leftMs = Effect.suspend(() => {
    const of = asked.at(-1) ?? Effect.succeedNone
    return Effect.map(of, (left) => Duration.toMillis(Option.getOrThrow(left)))
  })
  return { toolkit, handlers, leftMs }
}

/** Starts a run, and after 100 seconds sets the calendar; then waits for its end. */
const jumping = Effect.fnUntraced(function* <A, E>(
  run: Effect.Effect<A, E>,
  byMs: number,
  {
    after = Effect.void,
    before = Effect.void
  }: { readonly [When in "before" | "after"]?: Effect.Effect<void> } = {}
) {
  const { calendar, jump } = yield* settable
  const fiber = yield* forked(Effect.provideService(run, Clock.Clock, calendar))
  yield* TestClock.adjust(100_000)
  yield* idle
  yield* before
  yield* jump(byMs)
  yield* after
  return yield* Effect.flatten(awaited(fiber, 3 * hour))
})

const isNoticed = (ms: number): void => {
  assert.isAtLeast(ms, 100_000)
  assert.isAtMost(ms, 100_000 + noticedMs)
}

const resultOf = (events: Parameters<typeof of>[0], callId: string) => {
  const result = of(events, "tool_result").findLast((event) => event.callId === callId)
  assert.isDefined(result, `no result of ${callId}`)
  return result
}

describe("a tool that runs while the calendar", () => {
  const calling = (given: Limits.LimitsInput, name: string, ms: number) =>
    Effect.gen(function* () {
      const { handlers, leftMs, toolkit } = tools()
      const agent = Agent.make("a", { toolkit, limits: given }).pipe(Agent.provide(handlers))
      const w = yield* world([
        call(name, { ms }, { id: "c" }),
        call("saving", { ms: 1_000 }, { id: "s" }),
        text("as far as I came")
      ])
      return { w, leftMs, run: w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r" }))) }
    })

  for (const name of ["reading", "writing"]) {
    it.effect(`goes past the deadline is cut off when that is noticed (${name})`, () =>
      Effect.gen(function* () {
        const { leftMs, run, w } = yield* calling(limits, name, hour)
        const left: Array<number> = []
        const ask = Effect.map(leftMs, (ms) => left.push(ms))
        const exit = yield* jumping(run, hour, { before: ask, after: ask })
        assert.deepStrictEqual(left, [endsMs - 100_000, 0])
        const events = yield* w.journal()
        const { detail, elapsedMs, ms } = resultOf(events, "c")
        isNoticed(elapsedMs)
        assert.strictEqual(detail, `interrupted after ${ms} ms`)
        if (name === "writing") checkEnding(exit, events, "interrupted", "unknown_outcome")
        else checkEnding(exit, events, "budget_exceeded", "max_budget")
        assert.strictEqual(last(events, "run_stopped").elapsedMs, elapsedMs)
      })
    )
  }

  it.effect("comes nearer to the deadline is cut off there", () =>
    Effect.gen(function* () {
      const { run, w } = yield* calling(limits, "reading", hour)
      const exit = yield* jumping(run, 5 * minutes)
      checkEnding(exit, yield* w.journal(), "budget_exceeded", "max_budget")
      assert.strictEqual(exit.run.elapsedMs, endsMs - 5 * minutes)
    })
  )

  for (const [ms, ok] of [
    [endsMs + hour - 1, true],
    [endsMs + hour + 1, false]
  ] as const) {
    it.effect(`is set back goes on for as long as there is by now (${ms} ms)`, () =>
      Effect.gen(function* () {
        const { leftMs, run, w } = yield* calling(limits, "reading", ms)
        const after = Effect.map(leftMs, (left) => assert.strictEqual(left, endsMs + hour - 100_000))
        yield* jumping(run, -hour, { after })
        const result = resultOf(yield* w.journal(), "c")
        assert.deepInclude(result, { ok, elapsedMs: Math.min(ms, endsMs + hour) })
      })
    )
  }

  for (const [byMs, summary] of [
    [5 * minutes, "as far as I came"],
    [hour, undefined]
  ] as const) {
    it.effect(`goes into what is kept of the time is cut off, and the run hands over (${byMs} ms)`, () =>
      Effect.gen(function* () {
        const { leftMs, run, w } = yield* calling(kept, "reading", hour)
        const after = Effect.map(leftMs, (left) => assert.strictEqual(left, 0))
        const exit = yield* jumping(run, byMs, { after })
        const events = yield* w.journal()
        isNoticed(resultOf(events, "c").elapsedMs)
        checkEnding(exit, events, "budget_exceeded", "max_budget")
        assert.strictEqual(exit.run.summary, summary)
      })
    )
  }

  it.effect("moves has its own time limit all the same", () =>
    Effect.gen(function* () {
      const { leftMs, run, w } = yield* calling(limits, "brief", hour)
      const after = Effect.map(leftMs, (left) => assert.strictEqual(left, 12 * minutes - 100_000))
      yield* jumping(run, -hour, { after })
      assert.deepInclude(resultOf(yield* w.journal(), "c"), {
        ms: 12 * minutes,
        content: "Error: brief reached its time limit of 720000 ms. It was stopped."
      })
    })
  )

  for (const byMs of [hour, -hour]) {
    it.effect(`moves does not change how long a run may be driven (${byMs} ms)`, () =>
      Effect.gen(function* () {
        const { leftMs, run, w } = yield* calling({ time: endsMs }, "reading", hour)
        const after = Effect.map(leftMs, (left) => assert.strictEqual(left, endsMs - 100_000))
        const exit = yield* jumping(run, byMs, { after })
        checkEnding(exit, yield* w.journal(), "budget_exceeded", "max_budget")
        assert.strictEqual(exit.run.elapsedMs, endsMs)
      })
    )
  }
})

describe("the audit", () => {
  it.effect("does not take a limit of time that was never there for that of a deadline", () =>
    Effect.gen(function* () {
      const { handlers, toolkit } = tools()
      const agent = Agent.make("a", { toolkit, limits }).pipe(Agent.provide(handlers))
      const w = yield* world([call("reading", { ms: hour }, { id: "c" })])
      yield* jumping(w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r" }))), hour)
      const events = yield* w.journal()
      const told = (limit: number) =>
        Audit.audit(
          events.map((event) =>
            event.type === "run_stopped" && event.exhausted !== undefined
              ? { ...event, exhausted: { ...event.exhausted, limit } }
              : event
          )
        ).length
      const { limit = 0 } = last(events, "run_stopped").exhausted ?? {}
      assert.deepStrictEqual([limit, limit - 1_000, limit + 1_000].map(told), [0, 1, 1])
    })
  )
})

describe("a model call that is on its way while the calendar", () => {
  const asking = (given: Limits.LimitsInput, latency: number) =>
    Effect.gen(function* () {
      const w = yield* world([text("done", { latency }), text("as far as I came")])
      const agent = Agent.make("a", { limits: given })
      return { w, run: w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r" }))) }
    })

  it.effect("goes past the deadline is cut off when that is noticed, and counts", () =>
    Effect.gen(function* () {
      const { run, w } = yield* asking(limits, hour)
      const exit = yield* jumping(run, hour)
      checkEnding(exit, yield* w.journal(), "budget_exceeded", "max_budget")
      isNoticed(exit.run.elapsedMs)
      assert.strictEqual(exit.run.turns, 1)
      assert.strictEqual(w.requests.length, 1)
    })
  )

  for (const [latency, status] of [
    [endsMs + hour - 1, "completed"],
    [endsMs + hour + 1, "budget_exceeded"]
  ] as const) {
    it.effect(`is set back is waited for, as long as there is by now (${latency} ms)`, () =>
      Effect.gen(function* () {
        const { run, w } = yield* asking(limits, latency)
        const exit = yield* jumping(run, -hour)
        assert.strictEqual(exit.run.status, status)
        assert.strictEqual(
          last(yield* w.journal(), "run_stopped").elapsedMs,
          Math.min(latency, endsMs + hour)
        )
      })
    )
  }

  it.effect("goes into what is kept of the time is cut off, and the run hands over", () =>
    Effect.gen(function* () {
      const { run, w } = yield* asking(kept, hour)
      const exit = yield* jumping(run, 6 * minutes)
      const events = yield* w.journal()
      checkEnding(exit, events, "budget_exceeded", "max_budget")
      const [handoff] = of(events, "handoff")
      assert.deepInclude(handoff?.exhausted, { resource: "time", limit: endsMs - 6 * minutes })
      isNoticed(handoff?.elapsedMs ?? 0)
      assert.strictEqual(exit.run.summary, "as far as I came")
      assert.strictEqual(exit.run.turns, 2)
    })
  )

  it.effect(
    "is set back just after the call was cut off is not made again, for it is counted by its end",
    () =>
      Effect.gen(function* () {
        const { calendar, jump } = yield* settable
        const stubborn = Layer.effect(
          LanguageModel.LanguageModel,
          LanguageModel.make({
            generateText: () => Effect.uninterruptible(Effect.never),
            streamText: () => Stream.never
          })
        )
        const agent = Agent.make("a", { limits }).pipe(
          Agent.provide(Layer.merge(stubborn, Layer.succeed(Model.ModelName, "m")))
        )
        const w = yield* world([])
        const run = Agent.outcome(Agent.run(agent, "go", { runId: "r" }))
        const fiber = yield* forked(w.in(Effect.provideService(run, Clock.Clock, calendar)))
        yield* jump(hour)
        yield* TestClock.adjust(noticedMs)
        yield* jump(-hour)
        const exit = yield* Effect.flatten(awaited(fiber, hour))
        const events = yield* w.journal()
        checkEnding(exit, events, "budget_exceeded", "max_budget")
        assert.strictEqual(of(events, "turn_started").length, 1)
        assert.strictEqual(exit.run.elapsedMs, endsMs)
      })
  )
})

describe("a sub-agent that runs while the calendar", () => {
  const asking = (own: Limits.LimitsInput, given: Limits.LimitsInput, timeout?: Duration.Input) =>
    Effect.gen(function* () {
      const { handlers, leftMs, toolkit } = tools()
      const child = Agent.make("child", { toolkit, limits: own }).pipe(Agent.provide(handlers))
      const ask = Agent.asTool(child, { name: "ask", description: "Asks." })
      const asks = Toolkit.make(ask.tool.annotate(ToolPolicy.Timeout, timeout))
      const lead = Agent.make("lead", { toolkit: asks, limits: given }).pipe(Agent.provide(ask.layer))
      const w = yield* world([
        call("ask", { task: "look" }, { id: "c" }),
        call("reading", { ms: 30 * minutes }, { id: "d" }),
        text("found"),
        text("done")
      ])
      return { w, leftMs, run: w.in(Agent.outcome(Agent.run(lead, "go", { runId: "r" }))) }
    })

  it.effect("goes past its parent's deadline is cut off when that is noticed", () =>
    Effect.gen(function* () {
      const { leftMs, run, w } = yield* asking({}, limits)
      const after = Effect.map(leftMs, (left) => assert.strictEqual(left, 0))
      const exit = yield* jumping(run, hour, { after })
      checkEnding(exit, yield* w.journal(), "budget_exceeded", "max_budget")
      isNoticed(exit.run.elapsedMs)
      isNoticed(last(yield* w.journal("r/c"), "run_stopped").elapsedMs)
    })
  )

  it.effect("comes nearer to its parent's deadline ends in time to tell what it has", () =>
    Effect.gen(function* () {
      const { run, w } = yield* asking({}, limits)
      yield* jumping(run, 5 * minutes)
      const stopped = last(yield* w.journal("r/c"), "run_stopped")
      assert.strictEqual(stopped.reason, "max_budget")
      assert.strictEqual(stopped.elapsedMs, endsMs - 5 * minutes - 1_000)
      assert.include(resultOf(yield* w.journal(), "c").content, "of a limit of")
    })
  )

  it.effect("is set back goes on", () =>
    Effect.gen(function* () {
      const { leftMs, run, w } = yield* asking({}, limits)
      const after = Effect.map(leftMs, (left) => assert.strictEqual(left, endsMs + hour - 101_000))
      const exit = yield* jumping(run, -hour, { after })
      checkEnding(exit, yield* w.journal(), "completed", "answered")
      assert.strictEqual(resultOf(yield* w.journal(), "c").content, "found")
    })
  )

  it.effect("goes into the time that its parent keeps is cut off, and the parent hands over", () =>
    Effect.gen(function* () {
      const { run, w } = yield* asking({}, kept)
      const exit = yield* jumping(run, 6 * minutes)
      checkEnding(exit, yield* w.journal(), "budget_exceeded", "max_budget")
      isNoticed(resultOf(yield* w.journal(), "c").elapsedMs)
      assert.strictEqual(exit.run.summary, "found")
    })
  )

  for (const [own, timeout] of [
    [{ time: 119_000 }, undefined],
    [{}, 2 * minutes]
  ] as const) {
    it.effect(
      `moves keeps to a time of its own, or of its call, that ends before (${timeout ?? own.time} ms)`,
      () =>
        Effect.gen(function* () {
          const { run, w } = yield* asking(own, limits, timeout)
          yield* jumping(run, -hour)
          const stopped = last(yield* w.journal("r/c"), "run_stopped")
          assert.deepInclude(stopped, { reason: "max_budget", elapsedMs: 119_000 })
        })
    )
  }
})

describe("a wait before another attempt while the calendar", () => {
  const away = [fail(429, { retryAfter: 110 }), text("done")]
  const waiting = Effect.gen(function* () {
    const w = yield* world(away)
    const run = Agent.outcome(Agent.run(Agent.make("a", { limits }), "go", { runId: "r" }))
    return { w, run: w.in(run) }
  })

  it.effect("goes past the deadline ends when that is noticed, and nothing is begun", () =>
    Effect.gen(function* () {
      const { run, w } = yield* waiting
      const exit = yield* jumping(run, hour)
      checkEnding(exit, yield* w.journal(), "budget_exceeded", "max_budget")
      isNoticed(exit.run.elapsedMs)
      assert.strictEqual(of(yield* w.journal(), "turn_started").length, 1)
    })
  )

  it.effect("is set back is as long as it was", () =>
    Effect.gen(function* () {
      const { run, w } = yield* waiting
      const exit = yield* jumping(run, -hour)
      checkEnding(exit, yield* w.journal(), "completed", "answered")
      assert.strictEqual(exit.run.elapsedMs, 110_000)
    })
  )

  it.effect("goes past the deadline ends a tool's attempts", () =>
    Effect.gen(function* () {
      const { calendar, jump } = yield* settable
      let attempts = 0
      const Flaky = Tool.make("flaky", { success: Schema.String, failure: ToolFailure.ToolFailure }).annotate(
        Tool.Readonly,
        true
      )
      const toolkit = Toolkit.make(Flaky)
      const agent = Agent.make("a", { toolkit, limits }).pipe(
        Agent.provide(
          toolkit.toLayer({
            flaky: () =>
              Effect.suspend(() => {
                attempts++
                return Effect.andThen(
                  Effect.forkDetach(Effect.delay(jump(hour), 10)),
                  Effect.fail(ToolFailure.transient("busy"))
                )
              })
          })
        )
      )
      const w = yield* world([call("flaky", {}, { id: "c" }), text("never asked for")])
      const run = Agent.outcome(Agent.run(agent, "go", { runId: "r" }))
      const fiber = yield* forked(w.in(Effect.provideService(run, Clock.Clock, calendar)))
      const exit = yield* Effect.flatten(awaited(fiber, minutes))
      checkEnding(exit, yield* w.journal(), "budget_exceeded", "max_budget")
      assert.strictEqual(attempts, 1)
      assert.strictEqual(w.requests.length, 1)
    })
  )
})

describe("a question whether a person is needed", () => {
  for (const [byMs, askedMs] of [
    [hour, undefined],
    [-hour, endsMs + hour]
  ] as const) {
    it.effect(`is not waited for past the deadline, wherever the calendar goes meanwhile (${byMs} ms)`, () =>
      Effect.gen(function* () {
        const Asking = Tool.make("asking", { success: Schema.String, needsApproval: () => Effect.never })
        const toolkit = Toolkit.make(Asking)
        const agent = Agent.make("a", { toolkit, limits }).pipe(
          Agent.provide(toolkit.toLayer({ asking: () => Effect.succeed("ran") }))
        )
        const w = yield* world([call("asking", {}, { id: "c" })])
        yield* jumping(w.in(Agent.outcome(Agent.run(agent, "go", { runId: "r" }))), byMs)
        const [required] = of(yield* w.journal(), "approval_required")
        if (askedMs === undefined) isNoticed(required?.elapsedMs ?? 0)
        else assert.strictEqual(required?.elapsedMs, askedMs)
      })
    )
  }
})
