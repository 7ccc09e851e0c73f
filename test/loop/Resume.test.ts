/** What a resume is refused for: the same whoever resumes, and before anything is done where it can be told then. */
import { describe, expect, it } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
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
const bare = Layer.merge(handlers, model)
const priced = Layer.merge(bare, PriceBook.layer({ m: { input: 1, output: 1 } }))
const capped = Layer.merge(bare, Layer.succeed(RequestParams.RequestParams, { maxOutputTokens: 100 }))
type Means = typeof bare
const cleaner = Agent.make("cleaner", { toolkit: tools, limits: { time: "1 hour" } })
type Cleaner = typeof cleaner

/** The agent, and what is around it: all that it needs, or none of what it brings. */
const places = {
  "around it": (means: Means) => ({ agent: cleaner, around: means }),
  "that it brings": (means: Means): { agent: Cleaner; around: Means } => ({
    agent: cleaner.pipe(Agent.provide(means)),
    around: bare
  })
}

const misspelt: object = { usdd: 3 }

/** A run that waits for an approval, and with what it is resumed. `refused` is how that fails, if it does. */
interface Case {
  readonly name: string
  readonly limits?: Limits
  readonly refused?: Agent.Refused["_tag"]
  readonly before?: { readonly means?: Means; readonly limits?: Limits; readonly pool?: boolean }
  readonly means?: Means
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
  { name: "money, and a price", limits: { usd: 1 }, means: priced },
  {
    name: "a price that is not known any more",
    before: { means: priced, limits: { usd: 1 } },
    refused: "UnpricedModel"
  },
  { name: "a hold without an output cap", limits: hold, refused: "HoldUnavailable" },
  { name: "a hold with one", limits: hold, means: capped },
  { name: "a shared limit of money, and no price", pool: { usd: 1 }, refused: "UnpricedModel" },
  { name: "a shared limit of turns", pool: { turns: 9 } },
  { name: "no shared budget any more", before: { pool: true }, refused: "NoBudgetPool" }
]

const sharing = (pool: Pool | undefined) =>
  pool === undefined ? Context.empty() : Context.make(BudgetPool, pool)

const hostOf = (agent: Cleaner, options: RunHost.Options<never> = {}) =>
  Effect.map(Layer.build(Layer.fresh(RunHost.layer([agent], options))), Context.get(RunHost.RunHost))

const waiting = (agent: Cleaner, { limits, pool }: NonNullable<Case["before"]>) =>
  Effect.gen(function* () {
    const shared = pool === true ? yield* MemoryBudgetPool.make("p", { turns: 9 }) : undefined
    const exit = yield* Effect.provideContext(
      Effect.flip(Agent.run(agent, "go", { runId: "r", limits })),
      sharing(shared)
    )
    expect(exit._tag).toBe("ApprovalRequired")
  })

/** What is logged as an error. */
const collector = () => {
  const errors: Array<string> = []
  const logger = Logger.make(({ cause, logLevel, message }) => {
    if (logLevel === "Error") errors.push(`${String(message)} ${Cause.pretty(cause)}`)
  })
  return { errors, layer: Logger.layer([logger]) }
}

describe("a resume", () => {
  const hosts = {
    "whose `budget` says": (agent: Cleaner, pool: Pool | undefined) =>
      hostOf(agent, { budget: () => Effect.succeed(pool) }),
    "with it around": (agent: Cleaner, pool: Pool | undefined) =>
      Effect.provideContext(hostOf(agent), sharing(pool))
  }

  for (const { before = {}, limits, means = bare, name, pool, refused } of cases)
    for (const [how, make] of Object.entries(hosts))
      for (const [where, placed] of Object.entries(places))
        it.effect(
          `with ${name}, and a model ${where}, is ${refused ?? "taken"}, by a host (${how}) as by Agent.resume`,
          () =>
            Effect.gen(function* () {
              const store = yield* RunStore.RunStore
              const then = placed(before.means ?? bare)
              yield* Effect.provide(waiting(then.agent, before), then.around)
              const shared = pool === undefined ? undefined : yield* MemoryBudgetPool.make("p", pool)
              const { agent, around } = placed(means)
              const { errors, layer: log } = collector()
              const context = yield* Layer.build(Layer.merge(around, log))
              const host = yield* Effect.provideContext(make(agent, shared), context)
              const stood = yield* store.read("r")
              const failure = Option.getOrUndefined(
                Result.getFailure(yield* Effect.result(host.resume("r", { limits })))
              )
              const foreseen = where === "around it" || refused === "InvalidLimits"
              expect(failure?._tag).toBe(foreseen ? refused : undefined)
              yield* host.ended("r")
              // What nobody could foresee is found by whoever drives the run on, now or when it has the means.
              const goesOn = refused === undefined || !foreseen
              expect((yield* store.read("r")).length > stood.length).toBe(goesOn)
              if (!foreseen && refused !== undefined)
                expect(yield* store.summary("r")).toMatchObject({ status: "running" })
              const own = yield* Effect.flip(Agent.resume(agent, "r", { limits })).pipe(
                Effect.provideContext(sharing(shared)),
                Effect.provideContext(context)
              )
              expect(own._tag).toBe(refused ?? "ApprovalRequired")
              if (foreseen && refused !== undefined) expect(failure?.message).toBe(own.message)
              expect(errors.length).toBe(foreseen || refused === undefined ? 0 : 1)
              for (const text of errors) expect(text).toContain(own.message)
            }).pipe(Effect.scoped, Effect.provide(MemoryRunStore.layer))
        )

  it.effect("of what is over asks for nothing, whatever it comes with", () =>
    Effect.gen(function* () {
      const store = yield* RunStore.RunStore
      yield* waiting(cleaner, {})
      yield* Agent.decide({ runId: "r", callId: "c" }, Agent.approve())
      yield* Agent.resume(cleaner, "r")
      const host = yield* hostOf(cleaner)
      const stood = yield* store.read("r")
      yield* host.resume("r", { limits: { turns: -1 } })
      yield* host.ended("r")
      expect(yield* store.read("r")).toEqual(stood)
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryRunStore.layer, bare)))
  )

  it.effect(
    "does not wait for what its agent brings, and builds it once; one that is driven or over has none of it built",
    () =>
      Effect.gen(function* () {
        const store = yield* RunStore.RunStore
        yield* waiting(cleaner, {})
        let builds = 0
        const gate = Latch.makeUnsafe()
        const begun = Latch.makeUnsafe()
        const slow = Layer.effectDiscard(
          Effect.suspend(() => {
            builds++
            return Effect.andThen(begun.open, gate.await)
          })
        )
        let reads = 0
        const counted = {
          ...store,
          read: (...given: Parameters<typeof store.read>) => {
            reads++
            return store.read(...given)
          }
        }
        yield* Effect.gen(function* () {
          const host = yield* hostOf(cleaner.pipe(Agent.provide(slow)))
          yield* Agent.decide({ runId: "r", callId: "c" }, Agent.approve())
          yield* host.resume("r")
          yield* begun.await
          const read = reads
          expect(read).toBeGreaterThan(0)
          yield* host.resume("r")
          expect([builds, reads]).toEqual([1, read])
          expect(yield* Effect.flip(host.resume("r", { limits: { turns: -1 } }))).toMatchObject({
            _tag: "InvalidLimits"
          })
          yield* gate.open
          expect((yield* host.ended("r")).status).toBe("completed")
          const readThen = reads
          yield* host.resume("r")
          expect([builds, reads]).toEqual([1, readThen])
        }).pipe(Effect.provideService(RunStore.RunStore, counted))
      }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryRunStore.layer, bare)))
  )
})
