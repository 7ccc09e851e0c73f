/**
 * The fault: a model that comes with `Agent.provide` is taken for the one around it, whose name, price and promise to
 * keep to an output cap are all in force where it runs.
 */
import { describe, expect, it } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import type * as Response from "effect/ai/Response"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { Agent, MemoryRunStore, PriceBook, RequestParams, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { of, usage } from "./support.ts"

const answer: Array<Response.PartEncoded> = [
  { type: "text", text: "found" },
  {
    type: "finish",
    reason: "stop",
    usage: {
      inputTokens: { uncached: 10, total: 10, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 5, text: 5, reasoning: 0 }
    },
    response: undefined
  }
]

/** A model of another library: it answers, and says nothing of itself. */
const foreign = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({ generateText: () => Effect.succeed(answer), streamText: () => Stream.empty })
)
const named = Layer.mergeAll(
  foreign,
  Layer.succeed(Model.ModelName, "cheap"),
  Layer.succeed(Model.ProviderName, "elsewhere")
)

const cheap = (lines: ReadonlyArray<Scripted.Line>) =>
  Layer.mergeAll(
    Scripted.layer(Scripted.make("cheap", lines), { usage }),
    PriceBook.layer({ cheap: { input: 0, output: 1 }, dear: { input: 0, output: 200_000 } }),
    Layer.succeed(RequestParams.RequestParams, { maxOutputTokens: 100 }),
    MemoryRunStore.layer
  )

const helper = Agent.make("helper", { limits: { time: "1 hour" } })
const run = <E, R>(agent: Agent.Agent<string, E, R>, limits: Parameters<typeof Agent.run>[2]) =>
  Agent.run(agent, "go", { runId: "r", ...limits })

describe("a model that an agent is provided with", () => {
  it.effect("and that has no name has none, whatever the one around it is called", () =>
    Effect.gen(function* () {
      const refused = yield* Effect.flip(run(helper.pipe(Agent.provide(foreign)), { limits: { usd: 1 } }))
      expect(refused._tag).toBe("UnpricedModel")
      const { run: state } = yield* run(helper.pipe(Agent.provide(foreign)), {})
      expect(state.unpriced).toBe(true)
    }).pipe(Effect.provide(cheap([])))
  )

  for (const [kind, layer] of [
    ["without a name", foreign],
    ["with one", named]
  ] as const) {
    it.effect(`and ${kind} does not keep to a cap because the one around it does`, () =>
      Effect.gen(function* () {
        const limits = { money: "hold", tokens: 10_000 } as const
        const refused = yield* Effect.flip(run(helper.pipe(Agent.provide(layer)), { limits }))
        expect(refused._tag).toBe("HoldUnavailable")
        expect(refused.message).toContain("CapsOutput")
        const caps = Layer.succeed(RequestParams.CapsOutput, true)
        const kept = yield* run(helper.pipe(Agent.provide(Layer.merge(layer, caps))), { limits })
        expect(kept.output).toBe("found")
      }).pipe(Effect.provide(cheap([])))
    )
  }

  it.effect("keeps the name that comes with it, also where it is that of the one around it", () =>
    Effect.gen(function* () {
      const { run: state } = yield* run(helper.pipe(Agent.provide(named)), { limits: { usd: 1 } })
      expect(state.costUsd).toBeCloseTo(5e-6, 9)
      const other = Layer.succeed(Model.ModelName, "dear")
      const dear = helper.pipe(Agent.provide(Layer.merge(foreign, other)))
      expect((yield* Agent.run(dear, "go", { limits: { usd: 9 } })).run.costUsd).toBeCloseTo(1, 9)
    }).pipe(Effect.provide(cheap([])))
  )

  it.effect("is not what a layer without a model brings: then the one around it is in force whole", () =>
    Effect.gen(function* () {
      const agent = helper.pipe(Agent.provide(PriceBook.layer({ cheap: { input: 0, output: 200_000 } })))
      const { run: state } = yield* run(agent, { limits: { usd: 9, money: "hold" } }).pipe(
        RequestParams.add({ maxOutputTokens: 5 })
      )
      expect(state.costUsd).toBeCloseTo(1, 9)
    }).pipe(Effect.provide(cheap([Scripted.text("done")])))
  )

  it.effect("of a sub-agent is not billed at its lead's price", () =>
    Effect.gen(function* () {
      const ask = Agent.asTool(helper.pipe(Agent.provide(foreign)), { name: "ask", description: "Asks." })
      const lead = Agent.make("lead", { toolkit: Toolkit.make(ask.tool) }).pipe(Agent.provide(ask.layer))
      yield* run(lead, {})
      const store = yield* RunStore.RunStore
      expect(of(yield* store.read("r/c1"), "turn")[0]?.unpriced).toBe(true)
    }).pipe(
      Effect.provide(cheap([Scripted.call("ask", { task: "look" }, { id: "c1" }), Scripted.text("done")]))
    )
  )
})
