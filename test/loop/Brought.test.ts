/**
 * The fault: what an agent brings along with `Agent.provide` cannot be built or closed, and whoever runs the agent waits for
 * it for ever: a run past its time and its Stop, the run above it, a place of a host, and a host that is closed.
 */
import { describe, expect } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { Agent, type Limits, RunHost, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import {
  call,
  check,
  expectTag,
  finish,
  guarded,
  journal,
  model,
  of,
  once,
  reader,
  resultOf,
  settle,
  withTime
} from "./support.ts"

class Thing extends Context.Service<Thing, string>()("test/Thing") {}

const closing = (finalizer: Effect.Effect<void>) =>
  Layer.effect(
    Thing,
    Effect.as(
      Effect.addFinalizer(() => finalizer),
      "thing"
    )
  )

/** How long what these bring takes to build after it is told to stop, and to close; in seconds, of which 5 are waited for. */
const faults = {
  "that never ends its building": { layer: Layer.effect(Thing, Effect.never), built: false, waits: 0 },
  "that never ends its building and cannot be interrupted": {
    layer: Layer.effect(Thing, Effect.uninterruptible(Effect.never)),
    built: false,
    waits: 5
  },
  "that takes long to end its building when it is interrupted": {
    layer: Layer.effect(
      Thing,
      Effect.onInterrupt(Effect.never, () => Effect.sleep("2 seconds"))
    ),
    built: false,
    waits: 2
  },
  "that never ends its closing": { layer: closing(Effect.never), built: true, waits: 5 },
  "that takes long to close": { layer: closing(Effect.sleep("2 seconds")), built: true, waits: 2 }
} as const
type Fault = (typeof faults)[keyof typeof faults]

const each = (body: (name: string, fault: Fault) => void): void => {
  for (const [name, fault] of Object.entries(faults)) body(name, fault)
}

const limits: Limits.LimitsInput = { time: "10 seconds" }

const answering = (name: string) =>
  Agent.make(name, { limits }).pipe(Agent.provide(model([Scripted.text("ok")]).layer))

/** The time in seconds that something takes, what the log warns of meanwhile, and how it ends. */
const timed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const warnings: Array<string> = []
    const logger = Logger.make(({ message }) => void warnings.push(String(message)))
    const since = yield* Clock.currentTimeMillis
    const exit = yield* Effect.exit(withTime(effect)).pipe(Effect.provide(Logger.layer([logger])))
    const seconds = Math.round(((yield* Clock.currentTimeMillis) - since) / 1_000)
    const letGo = warnings.filter((text) => text.includes("may still be running"))
    return { exit, seconds, warned: warnings, letGo }
  })

const yields = <A, E>(exit: Exit.Exit<A, E>): A => {
  if (Exit.isFailure(exit)) throw Cause.squash(exit.cause)
  return exit.value
}

const status = (runId: string) =>
  Effect.flatMap(RunStore.RunStore, (store) => Effect.map(store.summary(runId), ({ reason }) => reason))

/** Above an agent, so many levels of agents that ask the one below. */
const above = (agent: Agent.Agent<string>, levels: number): Agent.Agent<string, never, RunStore.RunStore> => {
  if (levels === 0) return agent
  const ask = Agent.asTool(above(agent, levels - 1), { name: "ask", description: "asks" })
  return Agent.make(`lead ${levels}`, { toolkit: Toolkit.make(ask.tool), limits: { time: "1 hour" } }).pipe(
    Agent.provide(ask.layer),
    Agent.provide(model([Scripted.call("ask", { task: "t" }, { id: "c" }), Scripted.text("done")]).layer)
  )
}

describe("a layer", () => {
  each((name, { built, layer, waits }) => {
    check(`${name} has its run's time, and the grace`, function* () {
      const agent = answering("bot").pipe(Agent.provide(layer))
      const { exit, letGo, seconds } = yield* timed(finish(Agent.run(agent, "go", { runId: "r" })))
      const ended = yields(exit).exit
      expect(seconds).toBe((built ? 0 : 10) + waits)
      expect(letGo.length).toBe(waits === 5 ? 1 : 0)
      for (const text of letGo) expect(text).toMatch(/bot, .* run r /)
      if (built) return expectTag(ended, "Completed")
      const { message, resource, resumable, run } = expectTag(ended, "BudgetExceeded")
      expect({ resource, resumable }).toEqual({ resource: "time", resumable: true })
      expect(message).toContain("bot brings along")
      expect(run.elapsedMs).toBeGreaterThanOrEqual(10_000)
      const again = answering("bot").pipe(Agent.provide(Layer.succeed(Thing, "thing")))
      const more = yield* Agent.resume(again, "r", { limits: { time: "1 minute" } })
      expect(more.output).toBe("ok")
    })

    check(`${name} has no more than the grace when its run is stopped`, function* () {
      const agent = answering("bot").pipe(Agent.provide(layer))
      for (const stop of ["interrupt", "cancel"]) {
        yield* Agent.create(answering("bot"), "go", { runId: stop })
        const running = yield* Effect.forkChild(Agent.resume(agent, stop), { startImmediately: true })
        yield* settle
        const { seconds } = yield* timed(
          Effect.andThen(
            stop === "interrupt" ? Fiber.interrupt(running) : Agent.cancel(stop, "enough"),
            Fiber.await(running)
          )
        )
        expect(seconds).toBe(waits)
        const exit = yield* Fiber.await(running)
        if (built) continue
        expect(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)).toBe(true)
        expect(yield* status(stop)).toBe("cancelled")
      }
    })

    for (const levels of [1, 2]) {
      const id = ["r", ...Array.from({ length: levels }, () => "c")].join("/")

      check(`${name} of a sub-agent at level ${levels} ends that, and the runs above go on`, function* () {
        const agent = above(answering("bot").pipe(Agent.provide(layer)), levels)
        const { exit, letGo, seconds } = yield* timed(finish(Agent.run(agent, "go", { runId: "r" })))
        const ended = expectTag(yields(exit).exit, "Completed")
        expect(seconds).toBe((built ? 0 : 10) + waits)
        expect(letGo.length).toBe(waits === 5 ? 1 : 0)
        expect(yield* status(id)).toBe(built ? "answered" : "max_budget")
        if (levels === 1) expect(resultOf(ended, "c").content).toContain(built ? "ok" : "bot brings along")
      })

      check(
        `${name} of a sub-agent at level ${levels} has no more than the grace when all are stopped`,
        function* () {
          const agent = above(answering("bot").pipe(Agent.provide(layer)), levels)
          const running = yield* Effect.forkChild(Agent.run(agent, "go", { runId: "r" }), {
            startImmediately: true
          })
          yield* settle
          const { seconds } = yield* timed(Effect.andThen(Agent.cancel("r", "enough"), Fiber.await(running)))
          expect(seconds).toBe(waits)
          expect(yield* status("r")).toBe("cancelled")
        }
      )
    }

    check(`${name} gives the place of its run in a host back`, function* () {
      const bad = answering("bad").pipe(Agent.provide(layer))
      const good = answering("good")
      yield* Effect.gen(function* () {
        const host = yield* RunHost.RunHost
        yield* Agent.create(answering("bad"), "go", { runId: "r" })
        yield* host.recover
        yield* settle
        yield* host.start("good", "go", { runId: "s" })
        const { exit, seconds } = yield* timed(Effect.zip(host.ended("r"), host.ended("s")))
        expect(seconds).toBeLessThanOrEqual((built ? 0 : 10) + waits + 1)
        const [r, s] = yields(exit)
        expect([r.reason, s.reason]).toEqual([built ? "answered" : "max_budget", "answered"])
      }).pipe(Effect.provide(RunHost.layer([bad, good], { concurrency: 1 })))
    })

    check(`${name} does not keep a host from closing`, function* () {
      const bad = answering("bad").pipe(Agent.provide(layer))
      const scope = yield* Scope.make()
      const built_ = Layer.buildWithScope(RunHost.layer([bad], { shutdown: { grace: "1 second" } }), scope)
      const host = Context.get(yield* built_, RunHost.RunHost)
      yield* Agent.create(answering("bad"), "go", { runId: "r" })
      yield* host.recover
      yield* settle
      const { exit, seconds } = yield* timed(Scope.close(scope, Exit.void))
      expect(Exit.isSuccess(exit)).toBe(true)
      expect(seconds).toBeLessThanOrEqual(waits)
      expect(yield* status("r")).toBe(built ? "answered" : undefined)
      yield* Agent.resume(answering("bad"), "r")
    })
  })

  check("that takes a while to build takes it from its run's time", function* () {
    const slow = (seconds: number) => Layer.effect(Thing, Effect.as(Effect.sleep(seconds * 1_000), "thing"))
    const agent = (seconds: number) => answering("bot").pipe(Agent.provide(slow(seconds)))
    const first = yield* withTime(
      Agent.run(agent(4), "go", { runId: "r", limits: { turns: 0 } }).pipe(Effect.flip)
    )
    expect(first).toMatchObject({ _tag: "MaxTurnsExceeded", run: { elapsedMs: 4_000 } })
    const second = yield* withTime(Effect.flip(Agent.resume(agent(7), "r", { limits: { turns: 5 } })))
    expect(second).toMatchObject({ _tag: "BudgetExceeded", resource: "time", used: 10_000, limit: 10_000 })
    const third = yield* withTime(Agent.resume(agent(7), "r", { limits: { time: "20 seconds" } }))
    expect(third.run.elapsedMs).toBe(17_000)
    // It has nothing left, and what is there within the grace is still waited for.
    yield* withTime(Effect.flip(Agent.run(agent(0), "go", { runId: "s", limits: { turns: 0 } })))
    const none = yield* withTime(Effect.flip(Agent.resume(agent(4), "s", { limits: { time: 0, turns: 5 } })))
    expect(none).toMatchObject({ _tag: "BudgetExceeded", resource: "time" })
    expect(of(yield* journal("s"), "run_resumed").length).toBe(1)
  })

  check("whose run ends while it is built has whoever watches see that", function* () {
    const agent = answering("bot").pipe(Agent.provide(Layer.effect(Thing, Effect.never)))
    yield* Agent.create(answering("bot"), "go", { runId: "stored" })
    for (const runId of ["new", "stored"]) {
      const seen: Array<string> = []
      const watching = Stream.runForEach(Agent.stream(agent, "go", { runId }), ({ type }) =>
        Effect.sync(() => void seen.push(type))
      )
      expect(yield* withTime(Effect.flip(watching))).toMatchObject({ _tag: "BudgetExceeded" })
      expect(seen.at(-1)).toBe("run_stopped")
    }
  })

  for (const [how, ending] of [
    ["time", "max_budget"],
    ["cancel", "cancelled"],
    ["interrupt", "cancelled"]
  ] as const) {
    const hangs = Agent.provide(Layer.effect(Thing, Effect.never))
    const layers = (lines: ReadonlyArray<Scripted.Line>) => Agent.provide(model(lines).layer)
    /** Resumes an agent whose layer is never there, until its time is up or it is stopped. */
    const resumed = <A, R>(agent: Agent.Agent<A, never, R>, options: Agent.ResumeOptions = {}) =>
      Effect.gen(function* () {
        const running = yield* Effect.forkChild(Agent.resume(agent.pipe(hangs), "r", options), {
          startImmediately: true
        })
        yield* settle
        if (how === "cancel") yield* Agent.cancel("r", "enough")
        if (how === "interrupt")
          yield* Fiber.interruptAs(running, undefined, Context.make(Agent.CancelReason, "enough"))
        yield* withTime(Fiber.await(running))
        expect(yield* status("r")).toBe(ending)
      })
    const more = { limits: { time: "1 minute" } } as const

    check(`whose run ends while it is built keeps what the run is told (${how})`, function* () {
      const agent = answering("bot").pipe(layers([Scripted.text("ok"), Scripted.text("more")]))
      yield* Agent.create(agent, "go", { runId: "r" })
      yield* resumed(agent, { message: "be quick" })
      const { run } = yield* Agent.resume(agent, "r", more)
      expect(run.messages.filter(({ role }) => role === "user").map(({ content }) => content)).toEqual([
        "go",
        "be quick"
      ])
    })

    check(`whose run ends while it is built keeps the answer that the run is given (${how})`, function* () {
      const ask = Scripted.call("request_input", { question: "Which one?" }, { id: "q" })
      const submit = Scripted.call("submit_result", { host: "web-3" }, { id: "s" })
      const agent = Agent.make("bot", { output: Schema.Struct({ host: Schema.String }), limits }).pipe(
        layers([ask, submit])
      )
      yield* Effect.flip(Agent.run(agent, "go", { runId: "r" }))
      yield* resumed(agent, { message: "web-3" })
      const { run } = yield* Agent.resume(agent, "r", more)
      expect(run.messages.find(({ role }) => role === "tool")?.content).toContain("web-3")
    })

    check(
      `whose run ends while it is built leaves the run below as any such end does (${how})`,
      function* () {
        const tools = Toolkit.make(guarded("delete"))
        const cleaner = Agent.make("cleaner", { toolkit: tools, limits }).pipe(
          Agent.provide(tools.toLayer({ delete: () => Effect.succeed("gone") })),
          layers([call("delete", "d"), Scripted.text("deleted")])
        )
        const lead = above(cleaner, 1)
        yield* Effect.flip(Agent.run(lead, "go", { runId: "r" }))
        yield* resumed(lead, { limits: { time: "10 seconds" } })
        expect(yield* status("r/c")).toBe(ending === "cancelled" ? "cancelled" : "approval")
        if (ending === "cancelled") return
        yield* Agent.decide({ runId: "r/c", callId: "d" }, Agent.approve())
        const { output, run } = yield* Agent.resume(lead, "r", more)
        expect(output).toBe("done")
        expect(run.messages.find(({ role }) => role === "tool")?.content).toContain("deleted")
      }
    )
  }

  for (const reason of ["enough", undefined])
    check(
      `whose stored run is stopped by its fiber while it is built (${reason}) is not built again`,
      function* () {
        const agent = answering("bot").pipe(
          Agent.provide(Layer.effectDiscard(Effect.onInterrupt(Effect.never, () => Effect.sleep("1 second"))))
        )
        yield* Agent.create(answering("bot"), "go", { runId: "r" })
        const running = yield* Effect.forkChild(Agent.resume(agent, "r"), { startImmediately: true })
        yield* settle
        yield* withTime(
          Fiber.interruptAs(
            running,
            undefined,
            reason === undefined ? Context.empty() : Context.make(Agent.CancelReason, reason)
          )
        )
        const store = yield* RunStore.RunStore
        expect(yield* store.summary("r")).toMatchObject({
          status: "interrupted",
          reason: "cancelled",
          detail: reason ?? "the run was interrupted"
        })
        // What it has waited for is closed by then, and that is its time.
        expect((yield* RunStore.load("r")).state.elapsedMs).toBe(1_000)
        yield* Effect.gen(function* () {
          const host = yield* RunHost.RunHost
          expect(yield* host.recover).toEqual([])
        }).pipe(Effect.provide(RunHost.layer([answering("bot")])))
        expect((yield* Agent.resume(answering("bot"), "r")).output).toBe("ok")
      }
    )

  check("that interrupts itself stops no run", function* () {
    for (const runId of ["now", "later"]) {
      const itself = runId === "now" ? Effect.interrupt : Effect.andThen(Effect.yieldNow, Effect.interrupt)
      yield* Agent.create(answering("bot"), "go", { runId })
      const agent = answering("bot").pipe(Agent.provide(Layer.effectDiscard(itself)))
      const exit = yield* Effect.exit(Agent.resume(agent, runId))
      expect(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)).toBe(true)
      expect(yield* status(runId)).toBe(undefined)
    }
  })

  check("that fails does so as its own error, and what was built is closed", function* () {
    const log: Array<string> = []
    const agent = answering("bot").pipe(
      Agent.provide(Layer.effect(Thing, Effect.fail("no thing" as const))),
      Agent.provide(closing(Effect.sync(() => void log.push("closed"))))
    )
    const failure: "no thing" | { readonly _tag: string } = yield* Effect.flip(
      Agent.run(agent, "go", { runId: "r" })
    )
    expect(failure).toBe("no thing")
    expect(log).toEqual(["closed"])
    expect(yield* Effect.flip(journal("r"))).toMatchObject({ _tag: "RunNotFound" })
  })

  check(
    "is closed once, after the run and before the run's effect ends, the inner before the outer",
    function* () {
      const log: Array<string> = []
      const logs = (text: string) => Effect.sync(() => void log.push(text))
      const layer = (name: string) =>
        Layer.effectDiscard(
          Effect.andThen(
            logs(`${name} built`),
            Effect.addFinalizer((exit) =>
              Effect.andThen(Effect.sleep("1 second"), logs(`${name} closed, ${exit._tag}`))
            )
          )
        )
      const tools = Toolkit.make(reader("look"))
      const handlers = tools.toLayer({ look: () => Effect.as(logs("looked"), "seen") })
      const agent = Agent.make("bot", { toolkit: tools }).pipe(
        Agent.provide(layer("inner")),
        Agent.provide(Layer.merge(handlers, once(call("look", "c")).layer)),
        Agent.provide(layer("outer"))
      )
      yield* withTime(Effect.ensuring(Agent.run(agent, "go"), logs("ended")))
      const around = ["outer built", "inner built", "looked"]
      expect(log).toEqual([...around, "inner closed, Success", "outer closed, Success", "ended"])
      log.length = 0
      yield* withTime(
        Effect.ensuring(Effect.exit(Agent.run(agent, "go", { limits: { turns: 1 } })), logs("ended"))
      )
      expect(log).toEqual([...around.slice(0, 2), "inner closed, Failure", "outer closed, Failure", "ended"])
    }
  )

  for (const stage of ["built", "being built"])
    for (const [end, reason] of [
      ["interrupt", "enough"],
      ["cancel", "enough"],
      ["lease lost", undefined],
      ["time", undefined]
    ] as const) {
      check(
        `that is ${stage} is closed once when its run ends (${end}), which keeps its reason`,
        function* () {
          const log: Array<string> = []
          const logged = Layer.effectDiscard(
            Effect.acquireRelease(
              Effect.sync(() => log.push("built")),
              () => Effect.sync(() => log.push("closed"))
            )
          )
          const tools = Toolkit.make(reader("wait"))
          const later = stage === "built" ? Layer.empty : Layer.effectDiscard(Effect.never)
          const agent = Agent.make("bot", { toolkit: tools, limits }).pipe(
            Agent.provide(
              Layer.merge(tools.toLayer({ wait: () => Effect.never }), once(call("wait", "c")).layer)
            ),
            Agent.provide(later),
            Agent.provide(logged)
          )
          const loss = yield* Deferred.make<never, RunStore.RunBusy>()
          const store = yield* RunStore.RunStore
          const losing = {
            ...store,
            lease: (runId: string) =>
              Effect.map(store.lease(runId), (lease) => ({ ...lease, lost: Deferred.await(loss) }))
          }
          yield* Agent.create(answering("bot"), "go", { runId: "r" })
          const running = yield* Effect.forkChild(
            Agent.resume(agent, "r").pipe(Effect.provideService(RunStore.RunStore, losing)),
            { startImmediately: true }
          )
          yield* settle
          expect(log).toEqual(["built"])
          if (end === "interrupt")
            yield* Fiber.interruptAs(running, undefined, Context.make(Agent.CancelReason, "enough"))
          if (end === "cancel") yield* Agent.cancel("r", "enough")
          if (end === "lease lost") yield* Deferred.fail(loss, new RunStore.RunBusy({ runId: "r" }))
          const exit = yield* withTime(Fiber.await(running))
          expect(log).toEqual(["built", "closed"])
          if (Exit.isSuccess(exit)) throw new Error("it has come to no end of its own")
          expect(Context.get(Cause.annotations(exit.cause), Agent.CancelReason)).toBe(reason)
          if (reason !== undefined) expect(Cause.hasInterruptsOnly(exit.cause)).toBe(true)
        }
      )
    }

  check("whose closing dies is told of", function* () {
    const agent = answering("bot").pipe(Agent.provide(closing(Effect.die("it is stuck"))))
    const exit = yield* Effect.exit(Agent.run(agent, "go", { runId: "r" }))
    expect(Exit.isFailure(exit) && Cause.squash(exit.cause)).toBe("it is stuck")
    expect(yield* status("r")).toBe("answered")
  })

  check("whose closing dies when its run ends while it is built is told of in the log", function* () {
    const agent = answering("bot").pipe(
      Agent.provide(Layer.effect(Thing, Effect.never)),
      Agent.provide(closing(Effect.die("it is stuck")))
    )
    const { exit, warned } = yield* timed(finish(Agent.run(agent, "go", { runId: "r" })))
    expectTag(yields(exit).exit, "BudgetExceeded")
    expect(warned).toContain("a layer of bot has died while it was closed")
  })

  check("keeps what it has left running until its run is over", function* () {
    let beats = 0
    const beating = Effect.forever(
      Effect.delay(
        Effect.sync(() => beats++),
        "1 second"
      )
    )
    const layer = Layer.effectDiscard(Effect.forkChild(beating, { startImmediately: true }))
    const tools = Toolkit.make(reader("wait"))
    const handlers = tools.toLayer({ wait: () => Effect.as(Effect.sleep("5 seconds"), "waited") })
    const agent = Agent.make("bot", { toolkit: tools }).pipe(
      Agent.provide(Layer.merge(handlers, once(call("wait", "c")).layer)),
      Agent.provide(layer)
    )
    yield* withTime(Agent.run(agent, "go"))
    const during = beats
    expect(during).toBeGreaterThanOrEqual(4)
    yield* withTime(Effect.sleep("5 seconds"))
    expect(beats).toBe(during)
  })
})

describe("an effect that yields the tools", () => {
  const Look = Tool.make("look", { success: Schema.String }).annotate(Tool.Readonly, true)
  const toolkit = Toolkit.make(Look)

  check("has the time of its run, as a layer has", function* () {
    const tools = Effect.uninterruptible(
      Effect.never as Effect.Effect<Toolkit.WithHandler<typeof toolkit.tools>>
    )
    const agent = Agent.make("bot", { toolkit: tools, limits }).pipe(Agent.provide(once().layer))
    const { exit, letGo, seconds } = yield* timed(finish(Agent.run(agent, "go", { runId: "r" })))
    expectTag(yields(exit).exit, "BudgetExceeded")
    expect({ seconds, letGo: letGo.length }).toEqual({ seconds: 15, letGo: 1 })
  })

  check("is run once, and what it acquires is closed after the run", function* () {
    const log: Array<string> = []
    const tools = Effect.gen(function* () {
      log.push("made")
      yield* Effect.addFinalizer(() => Effect.sync(() => void log.push("closed")))
      return yield* toolkit
    }).pipe(
      Effect.provide(
        toolkit.toLayer({
          look: () =>
            Effect.as(
              Effect.sync(() => log.push("looked")),
              "seen"
            )
        })
      )
    )
    const agent = Agent.make("bot", { toolkit: tools, limits }).pipe(
      Agent.provide(model([Scripted.call("look", {}), Scripted.text("ok")]).layer)
    )
    yield* Effect.scoped(Agent.run(agent, "go", { runId: "r" }))
    expect(log).toEqual(["made", "looked", "closed"])
  })
})
