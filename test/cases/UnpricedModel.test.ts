/**
 * The fault: a limit of money counts what has a price, and takes what has none for free, so that a run with a limit spends
 * without one, and nobody is told.
 */
import { expect } from "@effect/vitest"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { Agent, PriceBook, RunHost, type RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as MemoryBudgetPool from "../../src/store/MemoryBudgetPool.ts"
import { usage } from "./plans.ts"
import { expectLawful, journal, of, onTwoStores, summary } from "./support.ts"

/** A dollar for each turn of ten tokens in and five out. */
const Prices = PriceBook.layer({ known: { input: 0, output: 200_000 }, dear: { input: 0, output: 400_000 } })

/** A script that counts how often it is asked. */
const counted = (lines: ReadonlyArray<Scripted.Line>) => {
  let asked = 0
  const script = Scripted.make("script", (turn, transcript) => {
    asked++
    const line = lines[turn]
    return typeof line === "function" ? line(transcript) : line
  })
  return { asked: () => asked, on: (model: string) => Scripted.layer(script, { model, usage }) }
}

const limits = { usd: 2.5, time: "1 hour" } as const
const agent = Agent.make("spender", { limits })
const free = Agent.make("spender", { limits: { time: "1 hour" } })

/** What a refusal has to say. */
const refusal = { _tag: "UnpricedModel", agent: "spender", model: "mystery-1" }

onTwoStores((check) => {
  check(
    "a run with a limit of money is refused by its model's name, before anything is sent or stored",
    function* () {
      const { asked, on } = counted([Scripted.text("done")])
      const mystery = Effect.provide(Layer.merge(on("mystery-1"), Prices))
      const starts: ReadonlyArray<Effect.Effect<unknown, unknown, RunStore.RunStore>> = [
        mystery(Agent.run(agent, "go", { runId: "r" })),
        mystery(Agent.run(free, "go", { runId: "r", limits })),
        mystery(Agent.create(agent, "go", { runId: "r" })),
        mystery(Stream.runDrain(Agent.stream(agent, "go", { runId: "r" }))),
        mystery(
          Effect.provide(
            RunHost.RunHost.use((host) => host.start("spender", "go", { runId: "r" })),
            RunHost.layer([agent])
          )
        )
      ]
      for (const start of starts) {
        const refused = yield* Effect.flip(start)
        expect(refused).toMatchObject(refusal)
        expect(refused).toHaveProperty("message", expect.stringContaining("mystery-1"))
      }
      expect(asked()).toBe(0)
      expect((yield* Effect.flip(summary("r")))._tag).toBe("RunNotFound")
    }
  )

  check("the limit of a shared budget counts as one", function* () {
    const { asked, on } = counted([Scripted.text("done")])
    const start = (pool: { usd?: number; tokens?: number }, runId: string) =>
      Agent.run(free, "go", { runId }).pipe(
        Effect.provide(Layer.mergeAll(on("mystery-1"), Prices, MemoryBudgetPool.layer("team", pool)))
      )
    const refused = yield* Effect.flip(start({ usd: 1 }, "r"))
    expect(refused).toMatchObject({ ...refusal, pool: "team" })
    expect(asked()).toBe(0)
    expect((yield* Effect.flip(summary("r")))._tag).toBe("RunNotFound")
    expect((yield* start({ tokens: 1_000 }, "s")).output).toBe("done")
  })

  check("a run that is taken up is refused likewise, and stays as it was", function* () {
    const { asked, on } = counted([Scripted.text("half an ans", { finish: "length" }), Scripted.text("done")])
    const taken = (model: string, limits: object) =>
      Effect.flip(Effect.provide(Agent.resume(agent, "r", { limits }), Layer.merge(on(model), Prices)))
    yield* Effect.exit(
      Effect.provide(
        Agent.run(agent, "go", { runId: "r", limits: { turns: 1 } }),
        Layer.merge(on("known"), Prices)
      )
    )
    const before = yield* journal("r")
    expect(asked()).toBe(1)
    for (const limits of [{}, { turns: 5 }, { turns: 5, usd: 10 }]) {
      expect(yield* taken("mystery-1", limits)).toMatchObject(refusal)
    }
    expect(asked()).toBe(1)
    expect(yield* journal("r")).toEqual(before)
    yield* Effect.provide(
      Agent.resume(agent, "r", { limits: { turns: 5 } }),
      Layer.merge(on("known"), Prices)
    )
    expect((yield* summary("r")).costUsd).toBe(2)
  })

  check("a sub-agent that spends from the limit of the run above it is refused by name", function* () {
    const helper = counted([Scripted.text("found")])
    const { layer, tool } = Agent.asTool(free.pipe(Agent.provide(helper.on("mystery-1"))), {
      name: "ask",
      description: "Asks."
    })
    const lead = counted([Scripted.call("ask", { task: "look" }, { id: "a" }), Scripted.text("done")])
    const above = Agent.make("lead", { toolkit: Toolkit.make(tool), limits }).pipe(
      Agent.provide(Layer.mergeAll(layer, lead.on("known"), Prices))
    )
    const exit = yield* Agent.outcome(Agent.run(above, "go", { runId: "r" }))
    expect(exit).toMatchObject({ _tag: "RunFailed", detail: expect.stringContaining("mystery-1") })
    expect(helper.asked()).toBe(0)
    expect((yield* Effect.flip(summary("r/a")))._tag).toBe("RunNotFound")
    yield* expectLawful("r")
  })

  check("a reply of a model that has no price is counted at that of the model that was asked", function* () {
    for (const [answers, costUsd] of [
      ["known", 1],
      ["known-2026-01-01", 1],
      ["dear", 2]
    ] as const) {
      const { on } = counted([Scripted.text("done")])
      const asked = Layer.succeedContext(Context.make(Model.ModelName, "known"))
      const { run } = yield* Effect.provide(
        Agent.run(agent, "go", { runId: answers }),
        Layer.mergeAll(on(answers), Prices).pipe(Layer.merge(asked))
      )
      expect(run.costUsd, answers).toBe(costUsd)
      const [turn] = of(yield* journal(answers), "turn")
      expect(turn).toMatchObject({ model: answers, costUsd })
      expect(turn?.unpriced).toBeUndefined()
    }
  })

  check(
    "without a limit of money a price need not be known, and each turn says that it has none",
    function* () {
      const { on } = counted([Scripted.text("done")])
      yield* Effect.provide(Agent.run(free, "go", { runId: "r" }), Layer.merge(on("mystery-1"), Prices))
      const events = yield* journal("r")
      expect(of(events, "turn").map(({ unpriced }) => unpriced)).toEqual([true])
      expect(events.at(-1)).toMatchObject({ type: "run_stopped", unpriced: true })
    }
  )

  check("an attempt that fails and was paid for says so too", function* () {
    const reason = new AiError.InvalidOutputError({
      description: "no JSON",
      usage: { promptTokens: 100, completionTokens: 10, totalTokens: 110 }
    })
    const { on } = counted([])
    const failing = Layer.effect(
      LanguageModel.LanguageModel,
      Effect.map(LanguageModel.LanguageModel, (real) => ({
        ...real,
        generateText: () => Effect.fail(AiError.make({ module: "m", method: "generateText", reason }))
      }))
    ).pipe(Layer.provideMerge(on("mystery-1")))
    const once = Agent.make("spender", { limits: { time: "1 hour" }, policy: { modelRetries: 0 } })
    yield* Agent.outcome(Effect.provide(Agent.run(once, "go", { runId: "r" }), Layer.merge(failing, Prices)))
    expect(of(yield* journal("r"), "turn_failed").map(({ unpriced }) => unpriced)).toEqual([true])
    expect((yield* summary("r")).unpriced).toBe(true)
  })
})
