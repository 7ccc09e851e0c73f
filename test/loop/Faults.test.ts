/**
 * Faults that were found by trying to break the loop, each as a test of its kind.
 */
import { describe, expect, it } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scheduler from "effect/Scheduler"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import {
  Agent,
  EventCodec,
  MemoryRunStore,
  PriceBook,
  type RunEvent,
  RunStore,
  RunTrace,
  ToolFailure
} from "../../src/index.ts"
import { Scripted } from "../../src/provider/index.ts"

const usage = { promptTokens: 100, completionTokens: 10 }
const prices = PriceBook.layer({ m: { input: 2, output: 12 } })
const model = (...lines: ReadonlyArray<Scripted.Line>) =>
  Scripted.layer(Scripted.make("script", lines), { model: "m", usage })
const limits = { usd: 1 }

const Work = Tool.make("work", {
  parameters: Schema.Struct({ at: Schema.optionalKey(Schema.Int) }),
  success: Schema.String,
  failure: ToolFailure.ToolFailure
})
const Look = Tool.make("look", {
  parameters: Schema.Struct({ at: Schema.optionalKey(Schema.Int) }),
  success: Schema.String,
  failure: ToolFailure.ToolFailure
}).annotate(Tool.Readonly, true)
const tools = Toolkit.make(Work, Look)
const worker = Agent.make("worker", { toolkit: tools, limits })

type Handler = () => Effect.Effect<string, ToolFailure.ToolFailure>
const handlers = (work: Handler, look: Handler = work) => tools.toLayer({ work, look })
const journal = (runId: string) => Effect.flatMap(RunStore.RunStore, (store) => store.read(runId))
const endings = (events: ReadonlyArray<RunEvent.RunEvent>) =>
  events.flatMap((event) => (event.type === "run_stopped" ? [`${event.status}: ${event.reason}`] : []))
const store = MemoryRunStore.layer

/** A store whose append of the events for which `when` holds waits until the gate opens, and then is done. */
const slowStore = (
  when: (append: RunStore.Append) => boolean,
  reached: Deferred.Deferred<void>,
  gate: Deferred.Deferred<void>
) =>
  Layer.effect(
    RunStore.RunStore,
    Effect.map(RunStore.RunStore, (inner) => ({
      ...inner,
      append: (append) =>
        when(append)
          ? Deferred.succeed(reached, undefined).pipe(
              Effect.andThen(Deferred.await(gate)),
              Effect.andThen(inner.append(append))
            )
          : inner.append(append)
    }))
  ).pipe(Layer.provideMerge(MemoryRunStore.layer))

describe("a run ends once", () => {
  it.effect("a Stop while the last event is being stored comes too late", () =>
    Effect.gen(function* () {
      const reached = yield* Deferred.make<void>()
      const gate = yield* Deferred.make<void>()
      const slow = slowStore(({ events }) => events.at(-1)?.type === "run_stopped", reached, gate)
      yield* Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(Agent.run(worker, "go", { runId: "r" }))
        yield* Deferred.await(reached)
        const stop = yield* Effect.forkChild(Fiber.interrupt(fiber))
        yield* Effect.yieldNow
        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.join(stop)
        expect(Exit.hasInterrupts(yield* Fiber.await(fiber))).toBe(true)
        expect(endings(yield* journal("r"))).toEqual(["completed: answered"])
        expect((yield* Agent.resume(worker, "r")).output).toBe("done")
      }).pipe(
        Effect.provide(slow),
        Effect.provide([handlers(() => Effect.succeed("")), model(Scripted.text("done")), prices])
      )
    })
  )

  it.effect.each([4, 5, 6, 7, 11])(
    "what is decided is stored, wherever a Stop comes, in a process that gives others their turn every %i steps",
    (steps) =>
      Effect.gen(function* () {
        const seen = new Set<string>()
        for (let yields = 0; ; yields++) {
          const runId = `r${yields}`
          const fiber = yield* Agent.run(worker, "go", { runId }).pipe(
            Effect.provideService(Scheduler.MaxOpsBeforeYield, steps),
            Effect.forkChild
          )
          for (let i = 0; i < yields && fiber.pollUnsafe() === undefined; i++) yield* Effect.yieldNow
          const isOver = fiber.pollUnsafe() !== undefined
          yield* Fiber.interrupt(fiber)
          const stored = yield* Effect.option((yield* RunStore.RunStore).summary(runId))
          seen.add(Option.match(stored, { onNone: () => "not begun", onSome: ({ status }) => status }))
          if (isOver) break
        }
        expect([...seen].sort()).toEqual(["completed", "interrupted", "not begun"])
      }).pipe(
        Effect.provide([store, handlers(() => Effect.succeed("")), model(Scripted.text("done")), prices])
      )
  )

  /** What may reach a driver while it stores the last event of its run: everything but an interruption of its fiber. */
  const late = (news: Deferred.Deferred<void>) => {
    const gone = new RunStore.RunStoreError({ runId: "r", kind: "unavailable", problem: "gone" })
    const arrived = Deferred.await(news)
    const of = (over: (inner: RunStore.RunStore["Service"]) => Partial<RunStore.RunStore["Service"]>) => over
    const inbox = (what: Effect.Effect<never, RunStore.RunStoreError>) =>
      of(() => ({ watchInbox: () => Stream.fromEffect(Effect.andThen(arrived, what)) }))
    const lost = (error: RunStore.RunBusy | RunStore.RunStoreError) =>
      of((inner) => ({
        lease: (runId) =>
          Effect.map(inner.lease(runId), (lease) => ({
            ...lease,
            lost: Effect.andThen(arrived, Effect.fail(error))
          }))
      }))
    return {
      "a Stop from another process": of(() => ({})),
      "an inbox that fails": inbox(Effect.fail(gone)),
      "an inbox that breaks down": inbox(Effect.die(new Error("broken"))),
      "the loss of the right to drive": lost(new RunStore.RunBusy({ runId: "r" })),
      "a right that could not be renewed": lost(gone)
    }
  }
  const lateNews = Object.keys(late(Deferred.makeUnsafe<void>())) as Array<keyof ReturnType<typeof late>>

  /** Runs an agent; `what` arrives while the last event of run `runId` is being stored, and then it is stored, or not. */
  const withNews = Effect.fnUntraced(function* <A, E, R>(
    what: keyof ReturnType<typeof late>,
    runId: string,
    run: Effect.Effect<A, E, R>,
    isStored = true
  ) {
    const reached = yield* Deferred.make<void>()
    const news = yield* Deferred.make<void>()
    const gate = yield* Deferred.make<void>()
    const store = yield* RunStore.RunStore
    const mine: RunStore.RunStore["Service"] = {
      ...store,
      ...late(news)[what](store),
      append: (append) =>
        append.runId === runId && append.events.at(-1)?.type === "run_stopped"
          ? Deferred.succeed(reached, undefined).pipe(
              Effect.andThen(Deferred.await(gate)),
              Effect.andThen(
                isStored
                  ? store.append(append)
                  : new RunStore.RunStoreError({ runId, kind: "full", problem: "no room" })
              )
            )
          : store.append(append)
    }
    const fiber = yield* Effect.forkChild(Effect.provideService(run, RunStore.RunStore, mine))
    yield* Deferred.await(reached)
    if (what === "a Stop from another process") yield* Agent.cancel(runId, "STOP")
    else yield* Deferred.succeed(news, undefined)
    yield* TestClock.adjust("2 seconds")
    yield* Deferred.succeed(gate, undefined)
    return yield* Fiber.await(fiber)
  })

  for (const what of lateNews) {
    it.effect(`${what} comes too late: its caller is told how the run has ended`, () =>
      Effect.gen(function* () {
        const run = Agent.run(worker, "go", { runId: "r" })
        const done = yield* withNews(what, "r", Effect.provide(run, model(Scripted.text("done"))))
        expect(endings(yield* journal("r"))).toEqual(["completed: answered"])
        expect(Exit.isSuccess(done) ? done.value.output : done).toBe("done")
      }).pipe(Effect.provide([handlers(() => Effect.succeed("")), prices, store]))
    )

    it.effect(`${what} comes too late for a run that stops short of an answer, too`, () =>
      Effect.gen(function* () {
        const run = Agent.run(worker, "go", { runId: "r", limits: { turns: 1 } })
        const done = yield* withNews(
          what,
          "r",
          Effect.flip(Effect.provide(run, model(Scripted.call("work"))))
        )
        expect(endings(yield* journal("r"))).toEqual(["max_turns_exceeded: max_turns"])
        expect(Exit.isSuccess(done) ? done.value._tag : done).toBe("MaxTurnsExceeded")
      }).pipe(Effect.provide([handlers(() => Effect.succeed("")), prices, store]))
    )

    it.effect(`${what} does not make an ending of one that could not be stored`, () =>
      Effect.gen(function* () {
        const run = Agent.run(worker, "go", { runId: "r" })
        const failed = yield* withNews(
          what,
          "r",
          Effect.flip(Effect.provide(run, model(Scripted.text("done")))),
          false
        )
        expect(endings(yield* journal("r"))).toEqual([])
        expect(Exit.isSuccess(failed) ? failed.value : failed).toMatchObject({
          _tag: "RunStoreError",
          problem: "no room"
        })
      }).pipe(Effect.provide([handlers(() => Effect.succeed("")), prices, store]))
    )
  }

  it.effect("a Stop of a sub-agent that comes too late does not keep its answer from the run above it", () =>
    Effect.gen(function* () {
      const helper = Agent.make("helper", { limits }).pipe(Agent.provide(model(Scripted.text("found"))))
      const help = Agent.asTool(helper, { name: "help", description: "helps" })
      const top = Agent.make("top", { toolkit: Toolkit.make(help.tool), limits }).pipe(
        Agent.provide(help.layer)
      )
      const script = model(Scripted.call("help", { task: "x" }, { id: "k" }), Scripted.text("done"))
      const run = Effect.provide(Agent.run(top, "go", { runId: "r" }), script)
      const done = yield* withNews("a Stop from another process", "r/k", run)
      expect(Exit.isSuccess(done) ? done.value.output : done).toBe("done")
      const results = (yield* journal("r")).flatMap((event) => (event.type === "tool_result" ? [event] : []))
      expect(results).toMatchObject([{ ok: true, content: "found" }])
    }).pipe(Effect.provide([prices, store]))
  )

  it.effect("a Stop while a resume is being stored leaves the run stopped, with the reason", () =>
    Effect.gen(function* () {
      const reached = yield* Deferred.make<void>()
      const gate = yield* Deferred.make<void>()
      const slow = slowStore(({ events }) => events[0]?.type === "run_resumed", reached, gate)
      yield* Effect.gen(function* () {
        yield* Effect.flip(Agent.run(worker, "go", { runId: "r", limits: { turns: 0 } }))
        const fiber = yield* Effect.forkChild(Agent.resume(worker, "r", { limits: { turns: 5 } }))
        yield* Deferred.await(reached)
        const why = Context.make(Agent.CancelReason, "enough")
        const stop = yield* Effect.forkChild(Fiber.interruptAs(fiber, undefined, why))
        yield* Effect.yieldNow
        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.join(stop)
        const events = yield* journal("r")
        expect(endings(events)).toEqual(["max_turns_exceeded: max_turns", "interrupted: cancelled"])
        expect(events.at(-1)).toMatchObject({ type: "run_stopped", detail: "enough" })
      }).pipe(
        Effect.provide(slow),
        Effect.provide([handlers(() => Effect.succeed("")), model(Scripted.text("done")), prices])
      )
    })
  )
})

describe("who only watches", () => {
  it.effect("cannot harm a run by throwing, at any event", () =>
    Effect.gen(function* () {
      const sink: RunTrace.Sink = {
        write: () => {
          throw new Error("a broken sink")
        }
      }
      const { output } = yield* Agent.run(worker, "go", { runId: "r" }).pipe(
        Effect.provideService(RunTrace.RunTrace, sink)
      )
      expect(output).toBe("done")
      expect(endings(yield* journal("r"))).toEqual(["completed: answered"])
    }).pipe(
      Effect.provide([
        handlers(() => Effect.succeed("worked")),
        model(Scripted.call("work"), Scripted.text("done")),
        prices,
        store
      ])
    )
  )
})

describe("a store that breaks down instead of failing", () => {
  for (const written of [false, true]) {
    it.effect(
      `is a store error, ${written ? "after" : "before"} it has written, and the run can be resumed`,
      () =>
        Effect.gen(function* () {
          let left = 3
          const breaking = Layer.effect(
            RunStore.RunStore,
            Effect.map(RunStore.RunStore, (inner) => ({
              ...inner,
              append: (append) => {
                left--
                if (left !== 0) return inner.append(append)
                const broken = Effect.die(new Error("broken"))
                return written ? Effect.andThen(inner.append(append), broken) : broken
              }
            }))
          ).pipe(Layer.provideMerge(MemoryRunStore.layer))
          yield* Effect.gen(function* () {
            const error = yield* Effect.flip(Agent.run(worker, "go", { runId: "r" }))
            expect(error).toMatchObject({ _tag: "RunStoreError", kind: "unavailable" })
            expect(endings(yield* journal("r"))).toEqual([])
            expect((yield* Agent.resume(worker, "r")).output).toBe("done")
          }).pipe(
            Effect.provide(breaking),
            Effect.provide([
              handlers(() => Effect.succeed("looked")),
              model(Scripted.call("look"), Scripted.text("done")),
              prices
            ])
          )
        })
    )
  }
})

describe("claims", () => {
  it.effect("are never passed by retries that wait at the same time", () =>
    Effect.gen(function* () {
      let ran = 0
      const busy: Handler = () =>
        Effect.suspend(() => {
          ran++
          return Effect.fail(ToolFailure.transient("busy"))
        })
      yield* Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(
          Effect.exit(Agent.run(worker, "go", { limits: { toolCalls: 3 } }))
        )
        yield* TestClock.adjust("1 minute")
        yield* Fiber.join(fiber)
        expect(ran).toBe(3)
      }).pipe(
        Effect.provide([
          handlers(busy),
          model(
            Scripted.turn(Scripted.call("look", { at: 1 }), Scripted.call("look", { at: 2 })),
            Scripted.text("done")
          ),
          prices,
          store
        ])
      )
    })
  )

  it.effect("let an approved child go on although the parent has no tool call left", () =>
    Effect.gen(function* () {
      const deleted: Array<string> = []
      const Delete = Tool.make("delete", { success: Schema.String, needsApproval: true })
      const child = Agent.make("child", { toolkit: Toolkit.make(Delete), limits }).pipe(
        Agent.provide(
          Toolkit.make(Delete).toLayer({
            delete: () =>
              Effect.sync(() => {
                deleted.push("it")
                return "deleted"
              })
          })
        ),
        Agent.provide(model(Scripted.call("delete", {}, { id: "d" }), Scripted.text("deleted it")))
      )
      const ask = Agent.asTool(child, { name: "ask", description: "asks" })
      const parent = Agent.make("parent", {
        toolkit: Toolkit.make(ask.tool),
        limits: { ...limits, toolCalls: 1 }
      }).pipe(Agent.provide(ask.layer))
      yield* Effect.gen(function* () {
        const exit = yield* Effect.flip(Agent.run(parent, "go", { runId: "p" }))
        if (exit._tag !== "ApprovalRequired") return expect(exit._tag).toBe("ApprovalRequired")
        yield* Agent.decide(exit.calls[0], Agent.approve())
        const { output, run } = yield* Agent.resume(parent, "p")
        expect([output, deleted, run.toolCalls]).toEqual(["all done", ["it"], 1])
      }).pipe(
        Effect.provide([
          model(Scripted.call("ask", { task: "delete it" }, { id: "c" }), Scripted.text("all done")),
          prices,
          store
        ])
      )
    })
  )
})

describe("ids that a model has chosen", () => {
  for (const id of ['--args={"path":"b"}', "-x", "a/b", "c\u001b[2J", "x".repeat(200), " "]) {
    it.effect(`are not taken if they could be anything else: ${JSON.stringify(id).slice(0, 24)}`, () =>
      Effect.gen(function* () {
        const { run } = yield* Agent.run(worker, "go")
        expect(run.messages.find(({ role }) => role === "tool")).toMatchObject({ callId: "1.0" })
      }).pipe(
        Effect.provide([
          handlers(() => Effect.succeed("x")),
          model(Scripted.call("look", {}, { id }), Scripted.text("done")),
          prices,
          store
        ])
      )
    )
  }
})

describe("what a provider reports", () => {
  it.effect("is not taken where it cannot be, so that whatever is written can be read again", () =>
    Effect.gen(function* () {
      const odd = Layer.effect(
        LanguageModel.LanguageModel,
        LanguageModel.make({
          generateText: () =>
            Effect.succeed([
              { type: "text", text: "done" },
              {
                type: "finish",
                reason: "stop",
                usage: { inputTokens: { total: -3, cacheRead: -1 }, outputTokens: { total: 5 } }
              }
            ]),
          streamText: () => Stream.empty
        })
      )
      const free = Agent.make("worker", { limits: { time: "1 minute" } })
      yield* Agent.run(free, "go", { runId: "r" }).pipe(Effect.provide(odd))
      const events = yield* journal("r")
      const turn = events.find((event) => event.type === "turn")
      expect(turn).toMatchObject({ counted: true })
      for (const event of events) {
        expect(EventCodec.decode("r", event.seq, EventCodec.encode(event))._tag).toBe("Success")
      }
    }).pipe(Effect.provide([prices, store]))
  )
})

describe("an output in a form that JSON does not have", () => {
  it.effect("is submitted as JSON and comes out as it is", () =>
    Effect.gen(function* () {
      const dated = Agent.make("dated", {
        limits,
        output: Schema.Struct({ when: Schema.Date, how: Schema.Option(Schema.BigInt) })
      })
      const { output } = yield* Agent.run(dated, "when?", { runId: "r" })
      expect(output.when.toISOString()).toBe("2020-01-01T00:00:00.000Z")
      expect(output.how).toMatchObject({ _tag: "Some", value: 7n })
      expect((yield* Agent.resume(dated, "r")).output).toEqual(output)
    }).pipe(
      Effect.provide([
        model(
          Scripted.call("submit_result", {
            when: "2020-01-01T00:00:00.000Z",
            how: { _tag: "Some", value: "7" }
          })
        ),
        prices,
        store
      ])
    )
  )
})
