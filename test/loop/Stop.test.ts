import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { Agent, type Limits } from "../../src/index.ts"
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
  type Scripted,
  Tools,
  text,
  turn,
  types,
  until,
  type World,
  world
} from "./modelSupport.ts"

const agent = Agent.make("analyst", { toolkit: Tools })
const run = Agent.run(agent, "go", { runId: "r" })
const minutes = 60_000

const interruptBecause = (fiber: Fiber.Fiber<unknown, unknown>, reason: string) =>
  Fiber.interruptAs(fiber, undefined, Context.make(Agent.CancelReason, reason))

const checkInterrupted = <A, E>(exit: Exit.Exit<A, E>): void => {
  assert(Exit.isFailure(exit))
  assert.isTrue(Cause.hasInterruptsOnly(exit.cause), "the fiber ends interrupted, and nothing else")
}

/** Where a Stop may find a run, and what a resume has to do then. */
interface Phase {
  readonly name: string
  readonly replies: ReadonlyArray<Scripted.Line>
  readonly reached: (w: World) => boolean
  readonly after: {
    readonly started: ReadonlyArray<string>
    readonly requests: number
    readonly turns: number
  }
}

const late = { latency: "5 seconds" } as const
const phases: ReadonlyArray<Phase> = [
  {
    name: "in the first model call",
    replies: [text("late", late), text("done")],
    reached: (w) => w.requests.length === 1,
    after: { started: [], requests: 2, turns: 2 }
  },
  {
    name: "in a later model call",
    replies: [call("write_file", { path: "a" }), text("late", late), text("done")],
    reached: (w) => w.requests.length === 2,
    after: { started: ["write_file a"], requests: 3, turns: 3 }
  },
  {
    name: "while waiting for a retry",
    replies: [call("write_file", { path: "a" }), fail(500), text("done")],
    reached: (w) => w.trace.events.some(({ type }) => type === "turn_failed"),
    after: { started: ["write_file a"], requests: 3, turns: 2 }
  },
  {
    name: "in a reading tool, which then runs again",
    replies: [call("slow_read", { path: "a" }), text("done")],
    reached: (w) => w.work.started.length === 1,
    after: { started: ["slow_read a", "slow_read a"], requests: 2, turns: 2 }
  },
  {
    name: "in an idempotent tool, which then runs again",
    replies: [call("slow_put", { path: "a" }), text("done")],
    reached: (w) => w.work.started.length === 1,
    after: { started: ["slow_put a", "slow_put a"], requests: 2, turns: 2 }
  },
  {
    name: "in one of several reading tools: what is done stays done",
    replies: [
      turn(call("read_file", { path: "b" }, { id: "b" }), call("slow_read", { path: "a" }, { id: "a" })),
      text("done")
    ],
    reached: (w) => w.work.finished.length === 1 && w.work.started.length === 2,
    after: {
      started: ["read_file b", "slow_read a", "slow_read a"],
      requests: 2,
      turns: 2
    }
  },
  {
    name: "while a tool is asked whether it needs approval",
    replies: [call("slow_ask", { path: "a" }), text("done")],
    reached: (w) => w.trace.events.some(({ type }) => type === "turn") || w.requests.length === 1,
    after: { started: ["slow_ask a"], requests: 2, turns: 2 }
  }
]

const ways = {
  "Fiber.interrupt": (_: World, fiber: Fiber.Fiber<unknown, unknown>) => Fiber.interrupt(fiber),
  "Fiber.interruptAs with a reason": (_: World, fiber: Fiber.Fiber<unknown, unknown>) =>
    interruptBecause(fiber, "user pressed Stop"),
  "a cancel command": (w: World, fiber: Fiber.Fiber<unknown, unknown>) =>
    w.store
      .send("r", { type: "cancel", reason: "user pressed Stop" })
      .pipe(Effect.orDie, Effect.andThen(Fiber.await(fiber)), Effect.asVoid)
}

for (const [way, stop] of Object.entries(ways)) {
  describe(`Stop by ${way}`, () => {
    for (const { after, name, reached, replies } of phases) {
      it.effect(name, () =>
        Effect.gen(function* () {
          const w = yield* world(replies)
          const fiber = yield* forked(w.in(run))
          yield* until(() => reached(w))
          yield* idle
          yield* stop(w, fiber)
          checkInterrupted(yield* Fiber.await(fiber))
          const journal = yield* w.journal()
          const stopped = last(journal, "run_stopped")
          assert.strictEqual(stopped.status, "interrupted")
          assert.strictEqual(stopped.reason, "cancelled")
          if (way === "Fiber.interrupt") assert.isNotEmpty(stopped.detail)
          else assert.strictEqual(stopped.detail, "user pressed Stop")
          assert.strictEqual(stopped.elapsedMs, 0, "a Stop takes no time")
          const summary = yield* w.store.summary("r")
          assert.strictEqual(summary.status, "interrupted")
          assert.strictEqual(summary.detail, stopped.detail)
          assert.strictEqual(w.work.interrupted.length, w.work.started.length - w.work.finished.length)

          // An old Stop does not stop the run that is taken up again.
          const done = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
          assert(done._tag === "Completed", done._tag)
          assert.strictEqual(done.output, "done")
          assert.deepStrictEqual(w.work.started, after.started)
          assert.strictEqual(w.requests.length, after.requests)
          assert.strictEqual(done.run.turns, after.turns)
          checkEnding(done, yield* w.journal(), "completed", "answered")
        })
      )
    }

    it.effect("in a writer: what became of it is unknown, and it is not run again", () =>
      Effect.gen(function* () {
        const w = yield* world([call("slow_write", { path: "a" }, { id: "c" }), text("done")])
        const fiber = yield* forked(w.in(run))
        yield* until(() => w.work.started.length === 1)
        yield* stop(w, fiber)
        checkInterrupted(yield* Fiber.await(fiber))
        const stopped = last(yield* w.journal(), "run_stopped")
        assert.strictEqual(stopped.reason, "cancelled")
        assert.deepStrictEqual(w.work.interrupted, ["slow_write a"])
        const exit = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
        assert(exit._tag === "OutcomeUnknown", exit._tag)
        yield* w.in(Agent.resolve(exit.calls[0], Agent.didNotHappen))
        const done = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
        assert.strictEqual(done._tag, "Completed")
        assert.deepStrictEqual(w.work.started, ["slow_write a"])
        assert.strictEqual(w.requests.length, 2)
        checkEnding(done, yield* w.journal(), "completed", "answered")
      })
    )
  })
}

describe("Stop", () => {
  it.effect("before anything has happened leaves nothing half done", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done")])
      const fiber = yield* Effect.forkChild(w.in(run))
      yield* Fiber.interrupt(fiber)
      checkInterrupted(yield* Fiber.await(fiber))
      const done = yield* outcomeDuring(minutes, w.in(run))
      assert.strictEqual(done._tag, "Completed")
      yield* w.journal()
    })
  )

  it.effect("after any number of scheduler steps leaves a journal that holds the laws and resumes", () =>
    Effect.gen(function* () {
      const script = [
        turn(
          call("read_file", { path: "a" }, { id: "a" }),
          call("write_file", { path: "w" }, { id: "w" }),
          call("slow_put", { path: "b" }, { id: "b" })
        ),
        call("slow_read", { path: "c" }, { id: "c" }),
        text("done")
      ]
      const reply: Scripted.Line = (transcript) => script[transcript.turn]
      const seen = new Set<string>()
      for (let steps = 0; steps < 60; steps++) {
        const w = yield* world(Array.from({ length: 9 }, () => reply))
        const fiber = yield* Effect.forkChild(w.in(run))
        for (let i = 0; i < steps; i++) {
          yield* Effect.yieldNow
          if (i % 15 === 14) yield* TestClock.adjust("10 seconds")
        }
        yield* Fiber.interrupt(fiber)
        let exit = yield* outcomeDuring(10 * minutes, w.in(run))
        seen.add(exit._tag)
        if (exit._tag === "OutcomeUnknown") {
          yield* w.in(Agent.resolve(exit.calls[0], Agent.happened("it was written")))
          exit = yield* outcomeDuring(10 * minutes, w.in(run))
        }
        assert.strictEqual(exit._tag, "Completed", `after ${steps} steps`)
        assert.strictEqual(of(yield* w.journal(), "run_started").length, 1)
        assert.isAtMost(w.work.started.filter((work) => work === "write_file w").length, 1)
      }
      assert.isTrue(seen.has("Completed"))
    })
  )

  it.effect("at the exact moment at which a tool ends", () =>
    Effect.gen(function* () {
      const w = yield* world([
        call("slow_write", { path: "a" }, { id: "c" }),
        text("late", late),
        text("done")
      ])
      const fiber = yield* forked(w.in(run))
      yield* until(() => w.work.started.length === 1)
      yield* Effect.all([TestClock.adjust("10 seconds"), Fiber.interrupt(fiber)], {
        concurrency: "unbounded"
      })
      checkInterrupted(yield* Fiber.await(fiber))
      yield* w.journal()
      const exit = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
      assert.include(["Completed", "OutcomeUnknown"], exit._tag)
      assert.deepStrictEqual(w.work.started, ["slow_write a"])
      if (exit._tag === "OutcomeUnknown") assert.deepStrictEqual(w.work.finished, [])
      yield* w.journal()
    })
  )

  it.effect("twice is one Stop, the first reason counts", () =>
    Effect.gen(function* () {
      const w = yield* world([text("late", late), text("done")])
      const fiber = yield* forked(w.in(run))
      yield* until(() => w.requests.length === 1)
      yield* w.store.send("r", { type: "cancel", reason: "first" })
      yield* w.store.send("r", { type: "cancel", reason: "second" })
      checkInterrupted(yield* Fiber.await(fiber))
      const journal = yield* w.journal()
      assert.deepStrictEqual(
        of(journal, "run_stopped").map(({ detail }) => detail),
        ["first"]
      )
      // Both are done with.
      const done = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
      assert.strictEqual(done._tag, "Completed")
      yield* w.journal()
    })
  )

  it.effect("of a run that is over changes nothing", () =>
    Effect.gen(function* () {
      const w = yield* world([text("done")])
      yield* w.in(run)
      yield* w.store.send("r", { type: "cancel", reason: "too late" })
      const again = yield* w.in(run)
      assert.strictEqual(again.output, "done")
      assert.strictEqual(last(yield* w.journal(), "run_stopped").reason, "answered")
    })
  )

  it.effect("sent while the run waits for a person is obeyed by the resume, before what was decided", () =>
    Effect.gen(function* () {
      const w = yield* world([call("delete_file", { path: "a" }, { id: "d" }), text("done")])
      const exit = yield* w.in(Agent.outcome(run))
      assert(exit._tag === "ApprovalRequired")
      yield* w.store.send("r", { type: "cancel", reason: "never mind" })
      yield* w.in(Agent.decide(exit.calls[0], Agent.approve()))
      checkInterrupted(yield* during(minutes, w.in(Agent.resume(agent, "r"))))
      assert.strictEqual(last(yield* w.journal(), "run_stopped").detail, "never mind")
      assert.deepStrictEqual(w.work.finished, [])
    })
  )

  it.effect(
    "of the parent stops the child run too; each has its own ending, and a resume continues both",
    () =>
      Effect.gen(function* () {
        const childModel = yield* world([
          call("write_file", { path: "child" }, { id: "w" }),
          text("late", late),
          text("child done")
        ])
        const child = Agent.make("child", { toolkit: Tools }).pipe(Agent.provide(childModel.model))
        const ask = Agent.asTool(child, {
          name: "ask_child",
          description: "Asks."
        })
        const w = yield* world([call("ask_child", { task: "look" }, { id: "k" }), text("done")])
        const parent = Agent.make("parent", {
          toolkit: Toolkit.make(ask.tool)
        }).pipe(Agent.provide(ask.layer))
        const fiber = yield* forked(w.in(Agent.run(parent, "go", { runId: "r" })))
        yield* until(() => childModel.requests.length === 2)
        yield* interruptBecause(fiber, "user pressed Stop")
        checkInterrupted(yield* Fiber.await(fiber))
        const stopped = last(yield* w.journal(), "run_stopped")
        assert.strictEqual(stopped.detail, "user pressed Stop")
        assert.strictEqual(last(yield* w.journal("r/k"), "run_stopped").reason, "cancelled")
        const done = yield* outcomeDuring(minutes, w.in(Agent.resume(parent, "r")))
        assert(done._tag === "Completed", done._tag)
        assert.strictEqual(done.output, "done")
        assert.deepStrictEqual(w.work.started, ["write_file child"])
        const childSummary = yield* w.store.summary("r/k")
        assert.strictEqual(done.run.costUsd, Math.round((0.2 + childSummary.costUsd) * 1e9) / 1e9)
        yield* w.journal()
        yield* w.journal("r/k")
      })
  )
})

describe("Stop of a stream", () => {
  it.effect("a consumer that stops early cancels the run", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), call("slow_read", { path: "a" }), text("done")])
      const seen = yield* forked(
        w.in(
          Agent.stream(agent, "go", { runId: "r" }).pipe(
            Stream.takeUntil((event) => event.type === "tool_start" && event.tool === "slow_read"),
            Stream.runCollect
          )
        )
      )
      const events = yield* Fiber.join(seen)
      assert.strictEqual(events.at(-1)?.type, "tool_start")
      const stopped = last(yield* w.journal(), "run_stopped")
      assert.strictEqual(stopped.reason, "cancelled")
      assert.deepStrictEqual(w.work.finished, ["list_files"])
      const done = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
      assert.strictEqual(done._tag, "Completed")
      yield* w.journal()
    })
  )

  it.effect("interrupting the consumer does too, with the reason that the interruption has", () =>
    Effect.gen(function* () {
      const w = yield* world([text("late", late), text("done")])
      const fiber = yield* forked(w.in(Stream.runDrain(Agent.stream(agent, "go", { runId: "r" }))))
      yield* until(() => w.requests.length === 1)
      yield* interruptBecause(fiber, "user pressed Stop")
      checkInterrupted(yield* Fiber.await(fiber))
      const stopped = last(yield* w.journal(), "run_stopped")
      assert.strictEqual(stopped.reason, "cancelled")
      assert.isNotEmpty(stopped.detail)
    })
  )

  it.effect("a consumer that fails cancels the run", () =>
    Effect.gen(function* () {
      const w = yield* world([call("list_files"), text("late", late)])
      const failing = Agent.stream(agent, "go", { runId: "r" }).pipe(
        Stream.mapEffect((event) =>
          event.type === "tool_result" ? Effect.fail("enough" as const) : Effect.void
        ),
        Stream.runDrain
      )
      assert.strictEqual(yield* w.in(Effect.flip(failing)), "enough")
      assert.strictEqual(last(yield* w.journal(), "run_stopped").reason, "cancelled")
    })
  )

  it.effect("a cancel command ends the stream interrupted, after run_stopped was seen", () =>
    Effect.gen(function* () {
      const w = yield* world([text("late", late)])
      const seen: Array<string> = []
      const fiber = yield* forked(
        w.in(
          Stream.runForEach(Agent.stream(agent, "go", { runId: "r" }), ({ type }) =>
            Effect.sync(() => seen.push(type))
          )
        )
      )
      yield* until(() => w.requests.length === 1)
      yield* w.store.send("r", {
        type: "cancel",
        reason: "user pressed Stop"
      })
      checkInterrupted(yield* Fiber.await(fiber))
      assert.deepStrictEqual(seen, types(yield* w.journal()))
    })
  )
})

describe("Stop of what ignores its interruption", () => {
  const path = { parameters: Schema.Struct({ path: Schema.String }), success: Schema.String }
  const Stubborn = Toolkit.make(
    Tool.make("read", path).annotate(Tool.Readonly, true),
    Tool.make("put", path).annotate(Tool.Idempotent, true),
    Tool.make("write", path)
  )
  const never = Effect.uninterruptible(Effect.never)
  const mayRun = /may still be running/

  /** An agent all of whose tools do the same. */
  const agentOf = (
    handler: (params: { readonly path: string }) => Effect.Effect<string>,
    limits?: Limits.LimitsInput
  ) =>
    Agent.make("stubborn", { toolkit: Stubborn, limits: { usd: 100, ...limits } }).pipe(
      Agent.provide(Stubborn.toLayer({ read: handler, put: handler, write: handler }))
    )

  /** Starts a run, stops it after so long, and lets time go by until it has ended. */
  const stopped = <A, E>(
    w: World,
    program: Effect.Effect<A, E>,
    after: Duration.Input,
    stop: (w: World, fiber: Fiber.Fiber<unknown, unknown>) => Effect.Effect<void>
  ) =>
    Effect.gen(function* () {
      const fiber = yield* forked(program)
      yield* idle
      yield* TestClock.adjust(after)
      yield* awaited(yield* forked(stop(w, fiber)))
      checkInterrupted(yield* Fiber.await(fiber))
      return yield* w.journal()
    })

  const results = (events: Parameters<typeof of>[0]) =>
    of(events, "tool_result").map(({ callId, detail = "", content, disposition, elapsedMs, ok }) => ({
      callId,
      disposition,
      elapsedMs,
      ok,
      told: mayRun.test(content),
      noted: mayRun.test(detail)
    }))

  for (const [way, stop] of Object.entries(ways)) {
    for (const tool of ["read", "put", "write"] as const) {
      it.effect(
        `${tool}, by ${way}: the run ends after five seconds and says what may still be running`,
        () =>
          Effect.gen(function* () {
            let started = 0
            const agent = agentOf(() => (++started === 1 ? never : Effect.succeed("done")))
            const w = yield* world([call(tool, { path: "a" }, { id: "c" }), text("done")])
            const program = w.in(Agent.run(agent, "go", { runId: "r" }))
            const events = yield* stopped(w, program, "1 second", stop)
            const { elapsedMs, reason } = last(events, "run_stopped")
            assert.deepStrictEqual([reason, elapsedMs], ["cancelled", 6_000])
            const disposition = tool === "write" ? "unknown" : "cancelled"
            const told = { callId: "c", disposition, elapsedMs: 6_000, ok: false, told: true, noted: true }
            assert.deepStrictEqual(results(events), [told])

            const exit = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
            assert.strictEqual(exit._tag, tool === "write" ? "OutcomeUnknown" : "Completed")
            assert.strictEqual(started, tool === "write" ? 1 : 2)
          })
      )
    }
  }

  it.effect(
    "several tools are waited for at the same time, and those that end are not said to be running",
    () =>
      Effect.gen(function* () {
        const agent = agentOf(({ path }) =>
          path === "never" ? never : Effect.uninterruptible(Effect.as(Effect.sleep(Number(path)), "done"))
        )
        const paths = ["never", "3000", "never", "10000"]
        const w = yield* world([turn(...paths.map((path, i) => call("read", { path }, { id: `c${i}` })))])
        const program = w.in(Agent.run(agent, "go", { runId: "r" }))
        const events = yield* stopped(w, program, "1 second", ways["Fiber.interrupt"])
        assert.strictEqual(last(events, "run_stopped").elapsedMs, 6_000)
        assert.deepStrictEqual(
          results(events).map(({ told }) => told),
          [true, false, true, true]
        )
      })
  )

  it.effect("a Stop while a late tool is waited for does not begin to wait anew", () =>
    Effect.gen(function* () {
      const agent = agentOf(() => never, { time: "10 seconds" })
      const w = yield* world([call("write", { path: "a" }, { id: "c" })])
      const program = w.in(Agent.run(agent, "go", { runId: "r" }))
      const events = yield* stopped(w, program, "12 seconds", ways["Fiber.interruptAs with a reason"])
      const { detail, elapsedMs } = last(events, "run_stopped")
      assert.deepStrictEqual([detail, elapsedMs], ["user pressed Stop", 15_000])
      assert.deepInclude(results(events)[0], { disposition: "unknown", told: true, noted: true })
    })
  )

  it.effect("a second Stop does not make it longer or shorter", () =>
    Effect.gen(function* () {
      const w = yield* world([call("read", { path: "a" }, { id: "c" })])
      const program = w.in(
        Agent.run(
          agentOf(() => never),
          "go",
          { runId: "r" }
        )
      )
      const twice = (_: World, fiber: Fiber.Fiber<unknown, unknown>) =>
        Effect.gen(function* () {
          yield* forked(interruptBecause(fiber, "first"))
          yield* TestClock.adjust("1 second")
          yield* interruptBecause(fiber, "second")
        })
      const events = yield* stopped(w, program, "1 second", twice)
      assert.strictEqual(last(events, "run_stopped").elapsedMs, 6_000)
    })
  )

  it.effect("a result that was there before the Stop is kept, whatever the tool has left running", () =>
    Effect.gen(function* () {
      const agent = agentOf(() => Effect.as(Effect.forkChild(never, { startImmediately: true }), "written"))
      const w = yield* world([call("write", { path: "a" }, { id: "c" }), text("done")])
      const program = w.in(Agent.run(agent, "go", { runId: "r" }))
      const events = yield* stopped(w, program, "1 second", ways["a cancel command"])
      const [result] = of(events, "tool_result")
      assert.deepInclude(result, { content: "written", ok: true, disposition: "executed" })
      assert.match(result?.detail ?? "", mayRun)
      assert.strictEqual(last(events, "run_stopped").elapsedMs, 5_000)
      const exit = yield* outcomeDuring(minutes, w.in(Agent.resume(agent, "r")))
      assert.strictEqual(exit._tag, "Completed")
    })
  )

  describe("in a child run", () => {
    const family = (
      childModel: World,
      policy: Agent.PolicyInput = {},
      limits: Limits.LimitsInput = { usd: 100 }
    ) => {
      const ask = Agent.asTool(agentOf(() => never).pipe(Agent.provide(childModel.model)), {
        name: "ask_child",
        description: "Asks."
      })
      return Agent.make("parent", { toolkit: Toolkit.make(ask.tool), policy, limits }).pipe(
        Agent.provide(ask.layer)
      )
    }
    const asks = [call("ask_child", { task: "look" }, { id: "k" }), text("done")]
    const writes = [call("write", { path: "a" }, { id: "c" })]

    it.effect("the bound is the child's, and both say how they ended", () =>
      Effect.gen(function* () {
        // What the parent waits for its own tools must not cut the child off while it writes down its ending.
        for (const interruptGrace of ["0 seconds", "5 seconds"] as const) {
          const childModel = yield* world(writes)
          const w = yield* world(asks)
          const program = w.in(Agent.run(family(childModel, { interruptGrace }), "go", { runId: "r" }))
          const events = yield* stopped(w, program, "1 second", ways["Fiber.interrupt"])
          const child = yield* w.journal("r/k")
          assert.deepInclude(results(child)[0], { disposition: "unknown", told: true, noted: true })
          assert.strictEqual(last(child, "run_stopped").reason, "cancelled")
          assert.strictEqual(last(events, "run_stopped").elapsedMs, 6_000)
          assert.isFalse(results(events)[0]?.noted)
        }
      })
    )

    it.effect("a child whose store is slow is waited for, too", () =>
      Effect.gen(function* () {
        const childModel = yield* world(writes)
        const w = yield* world(asks, {
          store: (store) => ({
            ...store,
            append: (append) =>
              append.runId === "r/k" && append.events.some(({ type }) => type === "run_stopped")
                ? Effect.andThen(Effect.sleep("20 seconds"), store.append(append))
                : store.append(append)
          })
        })
        const program = w.in(Agent.run(family(childModel), "go", { runId: "r" }))
        const events = yield* stopped(w, program, "1 second", ways["Fiber.interrupt"])
        assert.strictEqual(last(yield* w.journal("r/k"), "run_stopped").reason, "cancelled")
        assert.strictEqual(last(events, "run_stopped").elapsedMs, 26_000)
      })
    )

    it.effect("at the parent's deadline as well", () =>
      Effect.gen(function* () {
        const childModel = yield* world(writes)
        const w = yield* world(asks)
        const parent = family(childModel, {}, { time: "10 seconds" })
        yield* outcomeDuring(minutes, w.in(Agent.run(parent, "go", { runId: "r" })))
        const child = yield* w.journal("r/k")
        assert.deepInclude(results(child)[0], { disposition: "unknown", told: true, noted: true })
        // A sub-agent has a second less than its parent, to end by itself.
        assert.strictEqual(last(child, "run_stopped").elapsedMs, 14_000)
        assert.strictEqual(last(yield* w.journal(), "run_stopped").elapsedMs, 14_000)
      })
    )
  })
})
