/**
 * What is said to a run while its driver is on the way out of it: the store has accepted it, so it is not lost, whenever
 * it comes. A Stop counts before anything else that the run does.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { Agent, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as Audit from "../../src/testing/Audit.ts"
import { describeStores } from "../store/stores.ts"
import { call, guarded, model, reader, writer } from "./support.ts"

type Store = RunStore.RunStore["Service"]
type Runnable = Agent.Agent<unknown, never, RunStore.RunStore>

/** A run that stops short, and what a person may say to it then. */
interface Kind {
  /** Why it stops. */
  readonly reason: string
  readonly agent: () => { readonly agent: Runnable; readonly ran: ReadonlyArray<string> }
  /** Says what it waits for, where it waits for somebody. */
  readonly say?: Effect.Effect<void, unknown, RunStore.RunStore>
}

const submit = Scripted.call("submit_result", { result: "done" }, { id: "s" })
const ask = Scripted.call("request_input", { question: "Which one?" }, { id: "q" })
const Tools = Toolkit.make(guarded("sign"), writer("write"), reader("look"))
const asked = { runId: "r", callId: "c" }

/** An agent whose calls are kept, of which the first `write` is cut off by its time limit. */
const worker = (
  lines: Parameters<typeof model>[0],
  options: Omit<Agent.Options<typeof Tools.tools, never, never, typeof Schema.String>, "toolkit"> = {}
) => {
  const ran: Array<string> = []
  const late = Effect.andThen(Effect.forkDetach(TestClock.adjust("2 seconds")), Effect.never)
  const handlers = Tools.toLayer({
    look: () => Effect.succeed("nothing"),
    sign: () => Effect.sync(() => `${ran.push("sign")}`),
    write: () => Effect.suspend(() => (ran.push("write") === 1 ? late : Effect.succeed("written")))
  })
  const agent = Agent.make("worker", {
    ...options,
    toolkit: Tools,
    policy: { toolTimeout: "1 second", modelRetries: 0 }
  }).pipe(Agent.provide(handlers), Agent.provide(model(lines).layer))
  return { agent, ran }
}

/** One that asks the worker, whose run is `r/k`. */
const above = (below: Runnable) => {
  const asks = Agent.asTool(below, { name: "ask", description: "Asks.", success: Schema.Unknown })
  const lines = [Scripted.call("ask", { task: "go" }, { id: "k" }), Scripted.text("done")]
  return Agent.make("top", { toolkit: Toolkit.make(asks.tool) }).pipe(
    Agent.provide(asks.layer),
    Agent.provide(model(lines).layer)
  )
}

const kinds: ReadonlyArray<Kind> = [
  {
    reason: "approval",
    agent: () => worker([call("sign", "c"), Scripted.text("done")]),
    say: Agent.decide(asked, Agent.approve())
  },
  {
    reason: "input",
    agent: () => worker([ask, submit], { output: Schema.String }),
    say: Agent.answer("r", "the blue one")
  },
  {
    reason: "unknown_outcome",
    agent: () => worker([call("write", "c"), Scripted.text("done")]),
    say: Agent.resolve(asked, Agent.happened("it did"))
  },
  {
    reason: "stop_condition",
    agent: () => {
      let stops = 0
      const stopWhen = ({ turns }: { readonly turns: number }) =>
        turns > 0 && stops++ === 0 ? "enough" : undefined
      return worker([call("look", "c"), Scripted.text("done")], { stopWhen })
    }
  },
  {
    reason: "provider",
    agent: () => {
      let requests = 0
      return worker([() => (requests++ === 0 ? Scripted.fail(503) : Scripted.text("done"))])
    }
  }
]

/** When something is said to a run that stops. `held` stands between the driver and its store, until the gate opens. */
interface Window {
  readonly name: string
  readonly held: (store: Store, hold: Effect.Effect<void>) => Store
  /** Whether what it waits for is known by then, so that somebody can answer. */
  readonly isKnown: boolean
  /** Whether the driver itself hears of it. */
  readonly isHeard: boolean
}

const stops = ({ events }: RunStore.Append) => events.at(-1)?.type === "run_stopped"

/** The inbox as the driver reads it after its run has stopped. */
const afterEnd = (store: Store, inbox: Store["inbox"]): Store => {
  let hasStopped = false
  return {
    ...store,
    append: (append) => {
      hasStopped ||= stops(append)
      return store.append(append)
    },
    inbox: (runId, after) => (hasStopped ? inbox(runId, after) : store.inbox(runId, after))
  }
}

const windows: ReadonlyArray<Window> = [
  {
    name: "while the end of the run is being stored",
    held: (store, hold) => ({
      ...store,
      append: (append) => (stops(append) ? Effect.andThen(hold, store.append(append)) : store.append(append))
    }),
    isKnown: false,
    isHeard: true
  },
  {
    name: "before its driver looks whether anything was said",
    held: (store, hold) => afterEnd(store, (runId, after) => Effect.andThen(hold, store.inbox(runId, after))),
    isKnown: true,
    isHeard: true
  },
  {
    name: "after its driver has looked",
    held: (store, hold) => afterEnd(store, (runId, after) => Effect.tap(store.inbox(runId, after), hold)),
    isKnown: true,
    isHeard: false
  }
]

/** Drives a run, and has something said to it in a window of its end. */
const toldIn = Effect.fnUntraced(function* (
  { held }: Window,
  drive: Effect.Effect<unknown, unknown, RunStore.RunStore>,
  say: Effect.Effect<void, unknown, RunStore.RunStore>
) {
  const store = yield* RunStore.RunStore
  const reached = yield* Deferred.make<void>()
  const gate = yield* Deferred.make<void>()
  let isFirst = true
  const hold = Effect.suspend(() => {
    if (!isFirst) return Effect.void
    isFirst = false
    return Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(gate))
  })
  const fiber = yield* Effect.forkChild(
    Effect.exit(Effect.provideService(drive, RunStore.RunStore, held(store, hold))),
    { startImmediately: true }
  )
  yield* Effect.raceFirst(Deferred.await(reached), Fiber.await(fiber))
  yield* Effect.ensuring(say, Deferred.succeed(gate, undefined))
  yield* Fiber.await(fiber)
})

const standing = (runId: string) => RunStore.RunStore.use((store) => store.summary(runId))
const stop = Agent.cancel("r", "no, stop")

describeStores((layer) => {
  for (const { agent: make, reason, say } of kinds) {
    describe(`a run that stops (${reason})`, () => {
      for (const window of windows) {
        const canAnswer = window.isKnown && say !== undefined
        const stops = {
          "a Stop": stop,
          ...(canAnswer && { "an answer and a Stop": Effect.andThen(say, stop) })
        }
        for (const [what, told] of Object.entries(stops)) {
          it.effect(`${what} that comes ${window.name} is obeyed before anything else happens`, () =>
            Effect.gen(function* () {
              const { agent, ran } = make()
              const sayLater = told === stop && say !== undefined ? say : Effect.void
              yield* toldIn(window, Agent.run(agent, "go", { runId: "r" }), told)
              const before = [...ran]
              if (!window.isHeard) {
                expect(yield* standing("r")).toMatchObject({ status: "interrupted", reason })
                yield* sayLater
                const resumed = yield* Effect.exit(Agent.resume(agent, "r"))
                expect(Exit.hasInterrupts(resumed)).toBe(true)
              }
              const detail = "no, stop"
              expect(yield* standing("r")).toMatchObject({
                status: "interrupted",
                reason: "cancelled",
                detail
              })
              expect(ran).toEqual(before)
              // It counts once: whoever resumes the run now has it go on.
              if (window.isHeard) yield* sayLater
              expect(yield* Agent.resume(agent, "r")).toMatchObject({ _tag: "Completed" })
              expect((yield* Audit.run("r")).findings).toEqual([])
            }).pipe(Effect.provide(layer))
          )
        }

        if (!canAnswer) continue
        it.effect(`an answer that comes ${window.name} is not lost`, () =>
          Effect.gen(function* () {
            const { agent } = make()
            yield* toldIn(window, Agent.run(agent, "go", { runId: "r" }), say)
            if (!window.isHeard) yield* Agent.resume(agent, "r")
            expect(yield* standing("r")).toMatchObject({ status: "completed" })
          }).pipe(Effect.provide(layer))
        )
      }
    })
  }

  for (const window of windows) {
    it.effect(`a Stop of a sub-agent alone that comes ${window.name} is obeyed by it alone`, () =>
      Effect.gen(function* () {
        const { agent, ran } = worker([call("sign", "c"), Scripted.text("done")])
        const top = above(agent)
        const below: Window = {
          ...window,
          held: (store, hold) => {
            const own = window.held(store, hold)
            return {
              ...store,
              append: (append) => (append.runId === "r/k" ? own : store).append(append),
              inbox: (runId, after) => (runId === "r/k" ? own : store).inbox(runId, after)
            }
          }
        }
        yield* toldIn(below, Agent.run(top, "go", { runId: "r" }), Agent.cancel("r/k", "not you"))
        expect(yield* standing("r/k")).toMatchObject({ reason: "cancelled", detail: "not you" })
        expect(yield* standing("r")).toMatchObject({ status: "completed" })
        expect(ran).toEqual([])
        expect((yield* Audit.run("r")).findings).toEqual([])
      }).pipe(Effect.provide(layer))
    )
  }

  it.effect(
    "a Stop of a run whose driver has died after it stopped is obeyed by the next who resumes it",
    () =>
      Effect.gen(function* () {
        const { agent, ran } = worker([call("sign", "c"), Scripted.text("done")])
        yield* Effect.exit(Agent.run(agent, "go", { runId: "r" }))
        const store = yield* RunStore.RunStore
        yield* Effect.scoped(Effect.andThen(store.lease("r"), stop))
        yield* Agent.decide(asked, Agent.approve())
        expect(Exit.hasInterrupts(yield* Effect.exit(Agent.resume(agent, "r")))).toBe(true)
        expect(ran).toEqual([])
        expect(yield* standing("r")).toMatchObject({ reason: "cancelled", detail: "no, stop" })
      }).pipe(Effect.provide(layer))
  )

  for (const [how, again] of [
    ["resumed", (agent: Runnable) => Agent.resume(agent, "r", { limits: { turns: 5 } })],
    ["run again", (agent: Runnable) => Agent.run(agent, "go", { runId: "r", limits: { turns: 5 } })]
  ] as const) {
    for (const was of ["stopped at a limit", "cancelled", "not driven yet"] as const) {
      it.effect(`a Stop that comes as soon as a run that was ${was} is taken to be ${how} is obeyed`, () =>
        Effect.gen(function* () {
          const { agent, ran } = worker([call("write", "c"), Scripted.text("done")])
          const store = yield* RunStore.RunStore
          const limits = { turns: 1 }
          if (was === "stopped at a limit") yield* Effect.exit(Agent.run(agent, "go", { runId: "r", limits }))
          else yield* Agent.create(agent, "go", { runId: "r" })
          if (was === "cancelled") yield* Agent.cancel("r", "not yet")
          let isFirst = true
          const lease: Store["lease"] = (runId) =>
            Effect.tap(store.lease(runId), () => {
              if (!isFirst) return Effect.void
              isFirst = false
              return Effect.orDie(Effect.provideService(stop, RunStore.RunStore, store))
            })
          const taken = Effect.provideService(again(agent), RunStore.RunStore, { ...store, lease })
          expect(Exit.hasInterrupts(yield* Effect.exit(taken))).toBe(true)
          expect(ran).toEqual([])
          expect(yield* standing("r")).toMatchObject({ reason: "cancelled", detail: "no, stop" })
        }).pipe(Effect.provide(layer))
      )
    }
  }

  it.effect("a Stop of a sub-agent that nobody has heard outlives one of the run above it", () =>
    Effect.gen(function* () {
      const { agent, ran } = worker([call("sign", "c"), Scripted.text("done")])
      const top = above(agent)
      yield* Effect.exit(Agent.run(top, "go", { runId: "r" }))
      const store = yield* RunStore.RunStore
      yield* Effect.scoped(Effect.andThen(store.lease("r/k"), Agent.cancel("r/k", "not you")))
      yield* Agent.cancel("r", "all of you")
      expect(yield* standing("r/k")).toMatchObject({ reason: "cancelled", detail: "run r was stopped" })
      yield* Agent.resume(top, "r")
      expect(yield* standing("r/k")).toMatchObject({ reason: "cancelled", detail: "not you" })
      expect(ran).toEqual([])
    }).pipe(Effect.provide(layer))
  )
})
