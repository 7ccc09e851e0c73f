/** What a resume is refused for: the same whoever resumes, and before anything is done. */
import { describe, expect, it } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { Agent, MemoryRunStore, PriceBook, RequestParams, RunHost, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { BudgetPool } from "../../src/store/BudgetPool.ts"
import * as MemoryBudgetPool from "../../src/store/MemoryBudgetPool.ts"
import { call, guarded, usage } from "./support.ts"

type Pool = BudgetPool["Service"]
type Limits = NonNullable<Agent.ResumeOptions["limits"]>

const tools = Toolkit.make(guarded("delete"))
const handlers = tools.toLayer({ delete: () => Effect.succeed("gone") })
const model = Scripted.layer(Scripted.make("m", [call("delete", "c"), Scripted.text("done")]), { usage })
const bare = Agent.make("cleaner", { toolkit: tools, limits: { time: "1 hour" } }).pipe(
  Agent.provide(Layer.merge(handlers, model))
)
const priced = bare.pipe(Agent.provide(PriceBook.layer({ m: { input: 1, output: 1 } })))
const capped = bare.pipe(Agent.provide(Layer.succeed(RequestParams.RequestParams, { maxOutputTokens: 100 })))
type Cleaner = typeof bare

const misspelt: object = { usdd: 3 }

/** A run that waits for an approval, and with what it is resumed. `refused` is how that fails, if it does. */
interface Case {
  readonly name: string
  readonly limits?: Limits
  readonly refused?: Agent.Refused["_tag"]
  readonly before?: { readonly agent?: Cleaner; readonly limits?: Limits; readonly pool?: boolean }
  readonly agent?: Cleaner
  /** The limits of the budget that it shares from now on. */
  readonly pool?: { readonly usd: number } | { readonly turns: number }
}

const hold = { tokens: 100_000, money: "hold" } as const

const cases: ReadonlyArray<Case> = [
  { name: "nothing" },
  { name: "turns below zero", limits: { turns: -1 }, refused: "InvalidLimits" },
  { name: "a limit that is misspelt", limits: misspelt, refused: "InvalidLimits" },
  { name: "a reserve of what has no limit", limits: { reserve: { usd: 1 } }, refused: "InvalidLimits" },
  { name: "money, and no price", limits: { usd: 1 }, refused: "UnpricedModel" },
  { name: "money, and a price", limits: { usd: 1 }, agent: priced },
  {
    name: "a price that is not known any more",
    before: { agent: priced, limits: { usd: 1 } },
    refused: "UnpricedModel"
  },
  { name: "a hold without an output cap", limits: hold, refused: "HoldUnavailable" },
  { name: "a hold with one", limits: hold, agent: capped },
  { name: "a shared limit of money, and no price", pool: { usd: 1 }, refused: "UnpricedModel" },
  { name: "a shared limit of turns", pool: { turns: 9 } },
  { name: "no shared budget any more", before: { pool: true }, refused: "NoBudgetPool" }
]

const around = (pool: Pool | undefined) =>
  pool === undefined ? Context.empty() : Context.make(BudgetPool, pool)

const hostOf = (agent: Cleaner, options: RunHost.Options<never> = {}) =>
  Effect.map(Layer.build(Layer.fresh(RunHost.layer([agent], options))), Context.get(RunHost.RunHost))

const waiting = ({ agent = bare, limits, pool }: NonNullable<Case["before"]>) =>
  Effect.gen(function* () {
    const shared = pool === true ? yield* MemoryBudgetPool.make("p", { turns: 9 }) : undefined
    const exit = yield* Effect.provideContext(
      Effect.flip(Agent.run(agent, "go", { runId: "r", limits })),
      around(shared)
    )
    expect(exit._tag).toBe("ApprovalRequired")
  })

describe("a resume", () => {
  const hosts = {
    "whose `budget` says": (agent: Cleaner, pool: Pool | undefined) =>
      hostOf(agent, { budget: () => Effect.succeed(pool) }),
    "with it around": (agent: Cleaner, pool: Pool | undefined) =>
      Effect.provideContext(hostOf(agent), around(pool))
  }

  for (const { agent = bare, before = {}, limits, name, pool, refused } of cases)
    for (const [how, make] of Object.entries(hosts))
      it.effect(`with ${name} is ${refused ?? "taken"}, by a host (${how}) as by Agent.resume`, () =>
        Effect.gen(function* () {
          const store = yield* RunStore.RunStore
          yield* waiting(before)
          const shared = pool === undefined ? undefined : yield* MemoryBudgetPool.make("p", pool)
          const host = yield* make(agent, shared)
          const stood = yield* store.read("r")
          const failure = Option.getOrUndefined(
            Result.getFailure(yield* Effect.result(host.resume("r", { limits })))
          )
          expect(failure?._tag).toBe(refused)
          yield* host.ended("r")
          expect((yield* store.read("r")).length > stood.length).toBe(refused === undefined)
          const own = yield* Effect.provideContext(
            Effect.flip(Agent.resume(agent, "r", { limits })),
            around(shared)
          )
          expect(own._tag).toBe(refused ?? "ApprovalRequired")
          if (refused !== undefined) expect(failure?.message).toBe(own.message)
        }).pipe(Effect.scoped, Effect.provide(MemoryRunStore.layer))
      )

  it.effect("of what is over asks for nothing, whatever it comes with", () =>
    Effect.gen(function* () {
      const store = yield* RunStore.RunStore
      yield* waiting({})
      yield* Agent.decide({ runId: "r", callId: "c" }, Agent.approve())
      yield* Agent.resume(bare, "r")
      const host = yield* hostOf(bare)
      const stood = yield* store.read("r")
      yield* host.resume("r", { limits: { turns: -1 } })
      yield* host.ended("r")
      expect(yield* store.read("r")).toEqual(stood)
    }).pipe(Effect.scoped, Effect.provide(MemoryRunStore.layer))
  )
})
