/**
 * The fault: a plain `Agent.run` in a tool's handler, or in whatever else an author's code is asked for, was taken for a
 * part of the run around it: a host that closes cut it off, and its tool with it, although there was time.
 */
import { describe, expect } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { Agent, CurrentCall, RequestParams, RunHost, RunStore, RunTrace } from "../../src/index.ts"
import { ChildLink } from "../../src/loop/ChildRun.ts"
import { Drain } from "../../src/loop/Drain.ts"
import { Spent } from "../../src/loop/RunEnd.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { BudgetPool, MemoryBudgetPool } from "../../src/store/index.ts"
import { check, journal, model, of, once, resultOf, settle, withTime } from "./support.ts"

const limits = { time: "1 hour" } as const

/** Two turns, and between them a look that takes until the gate opens. */
const inner = Effect.gen(function* () {
  const gate = yield* Deferred.make<void>()
  const looking = yield* Deferred.make<void>()
  const Look = Tool.make("look", { success: Schema.String }).annotate(Tool.Readonly, true)
  const tools = Toolkit.make(Look)
  const look = () =>
    Effect.as(Effect.andThen(Deferred.succeed(looking, undefined), Deferred.await(gate)), "seen")
  const agent = Agent.make("inner", { toolkit: tools, limits }).pipe(
    Agent.provide(tools.toLayer({ look })),
    Agent.provide(model([Scripted.call("look", {}, { id: "l" }), Scripted.text("looked")]).layer)
  )
  return { agent, gate, looking }
})

/** An agent one of whose tools runs the other agent. */
const outerOf = (agent: Agent.Agent<string>, store: RunStore.RunStore["Service"], readonly: boolean) => {
  const Nest = Tool.make("nest", { success: Schema.String }).annotate(Tool.Readonly, readonly)
  const tools = Toolkit.make(Nest)
  const nest = () =>
    Effect.gen(function* () {
      const { runId } = yield* CurrentCall.CurrentCall
      const { output } = yield* Agent.run(agent, "go", { runId: `${runId}-inner` })
      return output
    }).pipe(Effect.provideService(RunStore.RunStore, store), Effect.orDie)
  return Agent.make("outer", { toolkit: tools, limits }).pipe(
    Agent.provide(tools.toLayer({ nest })),
    Agent.provide(model([Scripted.call("nest", {}, { id: "n" }), Scripted.text("done")]).layer)
  )
}

const hostIn = (scope: Scope.Scope, agent: Agent.Agent<string>) =>
  Effect.map(
    Layer.buildWithScope(RunHost.layer([agent], { shutdown: { grace: "10 seconds" } }), scope),
    Context.get(RunHost.RunHost)
  )

/** A host that drives such a run, which has got as far as its tool; it closes with the scope. */
const looked = Effect.fnUntraced(function* (readonly: boolean) {
  const store = yield* RunStore.RunStore
  const { agent, gate, looking } = yield* inner
  const outer = outerOf(agent, store, readonly)
  const scope = yield* Scope.make()
  const host = yield* hostIn(scope, outer)
  yield* host.start("outer", "go", { runId: "r" })
  yield* Deferred.await(looking)
  return { gate, outer, scope, store }
})

describe("a plain run in a tool's handler", () => {
  for (const readonly of [true, false]) {
    const kind = readonly ? "read-only tool" : "tool that writes"

    check(`is finished by a host that closes, and so is its ${kind}`, function* () {
      const { gate, outer, scope, store } = yield* looked(readonly)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* settle
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(closing)
      expect((yield* store.summary("r-inner")).reason).toBe("answered")
      expect((yield* store.summary("r")).status).toBe("running")
      const { run } = yield* Agent.resume(outer, "r")
      expect(resultOf({ run }, "n").content).toBe("looked")
      expect(of(yield* journal("r"), "tool_start").length).toBe(1)
    })

    check(`is stopped by a host whose grace is over, and its ${kind} with it`, function* () {
      const { gate, outer, scope, store } = yield* looked(readonly)
      yield* withTime(Scope.close(scope, Exit.void))
      expect((yield* store.summary("r-inner")).reason).toBe("cancelled")
      const [came] = of(yield* journal("r"), "tool_result")
      expect(came?.disposition).toBe(readonly ? "cancelled" : "unknown")
      yield* Deferred.succeed(gate, undefined)
      if (readonly) expect((yield* Agent.resume(outer, "r")).output).toBe("done")
    })
  }
})

/** What the harness keeps around a run for the runs below it, and what stands around it for everybody. */
const seen = Effect.gen(function* () {
  const { runId } = yield* CurrentCall.CurrentCall
  return {
    call: runId,
    link: (yield* ChildLink) !== undefined,
    drain: (yield* Drain) !== undefined,
    spent: (yield* Spent) !== undefined,
    params: (yield* RequestParams.RequestParams).temperature,
    trace: (yield* RunTrace.RunTrace) !== RunTrace.none,
    pool: (yield* Effect.serviceOption(BudgetPool.BudgetPool))._tag === "Some"
  }
})

describe("what a run sees of the run around it", () => {
  const inside = { call: "r", link: true, drain: true, spent: true }
  const apart = { call: "none", link: false, drain: false, spent: false }

  const asTool = (below: Agent.Agent<string>) => {
    const nest = Agent.asTool(below, { name: "nest", description: "nests" })
    return Agent.make("above", { toolkit: Toolkit.make(nest.tool), limits }).pipe(Agent.provide(nest.layer))
  }

  const inHandler = (below: Agent.Agent<string>) => {
    const parameters = Schema.Struct({ task: Schema.String })
    const tools = Toolkit.make(
      Tool.make("nest", { parameters, success: Schema.String, dependencies: [RunStore.RunStore] })
    )
    const nest = ({ task }: { readonly task: string }) =>
      Effect.orDie(Effect.map(Agent.run(below, task), ({ output }) => output))
    return Agent.make("above", { toolkit: tools, limits }).pipe(Agent.provide(tools.toLayer({ nest })))
  }

  for (const [kind, nesting, expected] of [
    ["a sub-agent", asTool, inside],
    ["a plain run", inHandler, apart]
  ] as const) {
    check(`${kind}: of the model, the budget, the trace and the parameters all`, function* () {
      const store = yield* RunStore.RunStore
      const looks: Array<Effect.Success<typeof seen>> = []
      const looking = Layer.effectDiscard(Effect.map(seen, (look) => void looks.push(look)))
      const below = Agent.make("below", { limits }).pipe(
        Agent.provide(looking),
        Agent.provide(model([Scripted.text("looked")]).layer)
      )
      const calling = once(Scripted.call("nest", { task: "t" }, { id: "n" })).layer
      const agent = nesting(below).pipe(
        Agent.provide(calling),
        Agent.provide(Layer.succeed(RunStore.RunStore, store))
      )
      const around = Layer.mergeAll(
        MemoryBudgetPool.layer("team", { turns: 10 }),
        Layer.succeed(RequestParams.RequestParams, { temperature: 0.5 }),
        Layer.succeed(RunTrace.RunTrace, { write: () => undefined })
      )
      yield* Effect.gen(function* () {
        const host = yield* RunHost.RunHost
        yield* host.start("above", "go", { runId: "r" })
        expect((yield* host.ended("r")).reason).toBe("answered")
        // The budget is that of both.
        const { status } = yield* BudgetPool.BudgetPool
        expect((yield* status).used.turns).toBe(3)
      }).pipe(Effect.provide(Layer.provideMerge(RunHost.layer([agent]), around)))
      expect(looks).toEqual([{ ...expected, params: 0.5, trace: true, pool: true }])
    })
  }
})
