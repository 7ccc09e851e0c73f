import { assert, describe, it } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { Agent } from "../../src/index.ts"
import {
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

  it.effect(
    "sent while the run waits for a person is either obeyed by the resume or over, and never half",
    () =>
      Effect.gen(function* () {
        const w = yield* world([call("delete_file", { path: "a" }, { id: "d" }), text("done")])
        const exit = yield* w.in(Agent.outcome(run))
        assert(exit._tag === "ApprovalRequired")
        yield* w.store.send("r", { type: "cancel", reason: "never mind" })
        yield* w.in(Agent.decide(exit.calls[0], Agent.approve()))
        const ended = yield* during(minutes, w.in(Agent.resume(agent, "r")))
        const stopped = last(yield* w.journal(), "run_stopped")
        if (Exit.isSuccess(ended)) assert.deepStrictEqual(w.work.finished, ["delete_file a"])
        else assert.strictEqual(stopped.detail, "never mind")
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
