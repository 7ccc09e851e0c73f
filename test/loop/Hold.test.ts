import { describe, expect, it } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Agent, type Limits, MemoryRunStore, PriceBook, RequestParams } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { expectTag, finish, of, reader, withTime } from "./support.ts"

const Prices = PriceBook.layer({
  bot: { input: 2, cacheWrite: 2.5, output: 12 },
  aide: { input: 1, output: 4 }
})

const tools = Toolkit.make(reader("read"))
const Handlers = tools.toLayer({ read: ({ q }) => Effect.succeed(`content of ${q}`) })
const agent = Agent.make("bot", { toolkit: tools, policy: { repetition: "off" } }).pipe(
  Agent.provide(Handlers)
)

const reads = (n: number) =>
  Scripted.make("bot", [
    ...Array.from({ length: n }, (_, i) => Scripted.call("read", { q: `file ${i} ${"x".repeat(i * 7)}` })),
    Scripted.text("done")
  ])

const upTo = (most: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: most }))

const capped = (cap: number) => Layer.succeed(RequestParams.RequestParams, { maxOutputTokens: cap })

const world = (script: Scripted.Script, cap = 60) =>
  Layer.mergeAll(Scripted.layer(script), Prices, capped(cap), MemoryRunStore.layer)

const run = (limits: Limits.LimitsInput) =>
  Agent.run(agent, "go", { runId: "r", limits: { money: "hold", ...limits } })

const minimum = (limits: Limits.LimitsInput, n: number) =>
  Effect.provide(
    Effect.map(finish(run({ usd: 1, ...limits })), ({ exit, events }) => ({ run: exit.run, events })),
    world(reads(n))
  )

describe("hold", () => {
  it.effect.prop(
    "money and tokens never pass their limits, whatever the limits are",
    { micros: upTo(20_000), tokens: upTo(4_000), n: upTo(8) },
    ({ micros, n, tokens }) =>
      Effect.gen(function* () {
        const usd = micros / 1e6
        const { events, exit } = yield* finish(run({ usd, tokens }))
        const { promptTokens, completionTokens } = exit.run.usage
        expect(exit.run.costUsd).toBeLessThanOrEqual(usd)
        expect(promptTokens + completionTokens).toBeLessThanOrEqual(tokens)
        for (const turn of of(events, "turn")) expect(turn.overHold).toBeUndefined()
      }).pipe(Effect.provide(world(reads(n)))),
    { arbitrary: { runs: 60 } }
  )

  it.effect("a call is sent if its worst case fits exactly, and not if it misses by a nano-dollar", () =>
    Effect.gen(function* () {
      const { events } = yield* minimum({}, 0)
      const worst = of(events, "turn_started")[0]?.estimate.costUsd ?? 0
      const fits = yield* Effect.provide(finish(run({ usd: worst })), world(reads(0)))
      expectTag(fits.exit, "Completed")
      const short = yield* Effect.provide(finish(run({ usd: worst - 1e-9 })), world(reads(0)))
      const exit = expectTag(short.exit, "BudgetExceeded")
      expect(exit).toMatchObject({ resource: "usd", used: 0, run: { turns: 0 } })
      expect(of(short.events, "turn_started")).toEqual([])
    })
  )

  it.effect("the worst case is what is paid for writing the cache, and all the output that is allowed", () =>
    Effect.gen(function* () {
      const { events } = yield* minimum({}, 0)
      const [started] = of(events, "turn_started")
      const [turn] = of(events, "turn")
      expect(started?.estimate.usage).toEqual({
        promptTokens: turn?.usage.promptTokens,
        completionTokens: 60
      })
      const { promptTokens = 0 } = started?.estimate.usage ?? {}
      expect(started?.estimate.costUsd).toBeCloseTo((promptTokens * 2.5 + 60 * 12) / 1e6, 9)
    })
  )

  it.effect("with a reserve, what does not fit begins the handoff, which may use the rest", () =>
    Effect.gen(function* () {
      const { run: whole } = yield* minimum({}, 6)
      const limits = { usd: whole.costUsd, reserve: { usd: whole.costUsd / 2 } }
      const { events, exit } = yield* Effect.provide(finish(run(limits)), world(reads(20)))
      const stopped = expectTag(exit, "BudgetExceeded")
      expect(stopped.resource).toBe("usd")
      expect(of(events, "handoff").length).toBe(1)
      expect(of(events, "turn_started").at(-1)?.purpose).toBe("handoff")
      expect(stopped.run.costUsd).toBeLessThanOrEqual(limits.usd)
    })
  )

  it.effect(
    "a handoff that does not fit says which limit was reached, and that its rest was kept for it",
    () =>
      Effect.gen(function* () {
        const { events } = yield* minimum({}, 1)
        const [first] = of(events, "turn").map(({ costUsd }) => costUsd)
        const limits = { usd: (first ?? 0) * 2, turns: 10, reserve: { turns: 9 } }
        const { exit } = yield* Effect.provide(finish(run(limits)), world(reads(1)))
        const { run: stopped } = expectTag(exit, "MaxTurnsExceeded")
        expect(stopped.detail).toBe(
          "used 1 turns of a limit of 10 turns, and the rest was kept for its handoff"
        )
      })
  )

  it.effect("a model call that is lost counts as all that was held for it", () =>
    Effect.gen(function* () {
      const never = Scripted.make("bot", [Scripted.text("late", { latency: "1 hour" })])
      const { events, exit } = yield* Effect.provide(
        withTime(finish(run({ usd: 1, time: "1 second" }))),
        world(never)
      )
      expectTag(exit, "BudgetExceeded")
      expect(exit.run.costUsd).toBe(of(events, "turn_started")[0]?.estimate.costUsd)
    })
  )

  it.effect("is refused without an output cap, and before anything has run", () =>
    Effect.gen(function* () {
      const layers = Layer.mergeAll(Scripted.layer(reads(0)), Prices, MemoryRunStore.layer)
      const refused = yield* Effect.provide(Effect.flip(run({ usd: 1 })), layers)
      expect(refused).toBeInstanceOf(Agent.HoldUnavailable)
      expect(refused.message).toContain("maxOutputTokens")
    })
  )

  it.effect("is refused with a provider that does not say that it enforces the cap", () =>
    Effect.gen(function* () {
      const own = Layer.effect(
        LanguageModel.LanguageModel,
        LanguageModel.make({ generateText: () => Effect.succeed([]), streamText: () => Stream.empty })
      )
      const layers = Layer.mergeAll(own, capped(60), MemoryRunStore.layer)
      const refused = yield* Effect.provide(Effect.flip(run({ tokens: 100 })), layers)
      expect(refused).toBeInstanceOf(Agent.HoldUnavailable)
      expect(refused.message).toContain("CapsOutput")
    })
  )

  it.effect("what another tokeniser counts beyond the hold is recorded", () =>
    Effect.gen(function* () {
      const greedy = Layer.mergeAll(
        Scripted.layer(reads(0), { usage: { promptTokens: 5_000, completionTokens: 20 } }),
        Prices,
        capped(60),
        MemoryRunStore.layer
      )
      const { events, exit } = yield* Effect.provide(finish(run({ usd: 1 })), greedy)
      expectTag(exit, "Completed")
      expect(of(events, "turn").map(({ overHold }) => overHold)).toEqual([true])
    })
  )
})

describe("sub-agents", () => {
  const aide = (limits: Limits.LimitsInput, n: number) =>
    Agent.make("aide", { toolkit: tools, limits, policy: { repetition: "off" } }).pipe(
      Agent.provide(
        Layer.mergeAll(
          Handlers,
          Scripted.layer(
            Scripted.make("aide", [
              ...Array.from({ length: n }, (_, i) => Scripted.call("read", { q: `page ${i}` })),
              Scripted.text("found it")
            ])
          )
        )
      )
    )

  const family = (
    limits: Limits.LimitsInput,
    aideLimits: Limits.LimitsInput = { turns: 50 },
    children = 3
  ) => {
    const ask = Agent.asTool(aide(aideLimits, 30), { name: "ask_aide", description: "Asks the aide." })
    const parallel = { ...ask, tool: ask.tool }
    const lead = Agent.make("bot", {
      toolkit: Toolkit.make(parallel.tool),
      policy: { repetition: "off" }
    }).pipe(Agent.provide(ask.layer))
    const script = Scripted.make("bot", [
      Scripted.turn(
        ...Array.from({ length: children }, (_, i) =>
          Scripted.call("ask_aide", { task: `part ${i}` }, { id: `c${i}` })
        )
      ),
      Scripted.text("that is all")
    ])
    return Effect.provide(finish(Agent.run(lead, "go", { runId: "r", limits })), world(script))
  }

  it.effect.prop(
    "in hold mode a run and its children together never pass the money limit",
    { micros: upTo(50_000) },
    ({ micros }) =>
      Effect.map(family({ usd: micros / 1e6, money: "hold" }), ({ exit }) => {
        expect(exit.run.costUsd).toBeLessThanOrEqual(micros / 1e6)
      }),
    { arbitrary: { runs: 15 } }
  )

  it.effect("else a child passes what its parent has left by less than one of its own turns", () =>
    Effect.gen(function* () {
      const { exit } = yield* family({ usd: 0.004 }, { turns: 50 }, 1)
      expectTag(exit, "BudgetExceeded")
      expect(exit.run.costUsd).toBeGreaterThanOrEqual(0.004)
      expect(exit.run.costUsd).toBeLessThan(0.006)
    })
  )

  it.effect("a child's own lower limit still counts", () =>
    Effect.gen(function* () {
      const { exit, events } = yield* family({ usd: 1 }, { turns: 50, usd: 0.001 }, 1)
      expectTag(exit, "Completed")
      const [result] = of(events, "tool_result")
      expect(result?.childCostUsd).toBeGreaterThan(0)
      expect(result?.childCostUsd).toBeLessThan(0.003)
    })
  )

  it.effect("the tokens of a child count for its parent's limit", () =>
    Effect.gen(function* () {
      const { exit } = yield* family({ tokens: 2_000 }, { turns: 50 }, 1)
      const stopped = expectTag(exit, "BudgetExceeded")
      expect(stopped.resource).toBe("tokens")
      const { promptTokens, completionTokens } = stopped.run.usage
      expect(stopped.used).toBe(promptTokens + completionTokens + stopped.run.childTokens)
      expect(stopped.run.childTokens).toBeGreaterThan(1_000)
    })
  )

  it.effect("a child without a limit of its own and under a parent without one has none", () =>
    Effect.gen(function* () {
      const { exit } = yield* family({ turns: 3 }, { turns: 50 }, 1)
      expectTag(exit, "Completed")
    })
  )
})
