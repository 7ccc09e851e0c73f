/**
 * What is in the store when something begins that takes its time.
 */
import { describe, expect } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Agent, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as BudgetPool from "../../src/store/BudgetPool.ts"
import * as MemoryBudgetPool from "../../src/store/MemoryBudgetPool.ts"
import { call, check, expectTag, finish, type Model, model, of, reader, settle, writer } from "./support.ts"

/** The types of the events that are stored of the run `r`. */
const stored = Effect.map(
  Effect.flatMap(RunStore.RunStore, (store) => store.read("r")),
  (events) => events.map(({ type }) => type)
)

const count = (types: ReadonlyArray<string>, type: string) => types.filter((each) => each === type).length

const tools = Toolkit.make(reader("read"), writer("write"))

const agentOf = (bot: Model, read: (q: string) => Effect.Effect<string> = Effect.succeed) =>
  Agent.make("bot", { toolkit: tools }).pipe(
    Agent.provide(
      Layer.merge(bot.layer, tools.toLayer({ read: ({ q }) => read(q), write: () => Effect.succeed("w") }))
    )
  )

/** Counts the appends of a run, and names their events. */
const appending = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const appends: Array<string> = []
    const store = yield* RunStore.RunStore
    const spied: RunStore.RunStore["Service"] = {
      ...store,
      append: (append) => {
        appends.push(append.events.map(({ type }) => type).join(" "))
        return store.append(append)
      }
    }
    yield* Effect.provideService(effect, RunStore.RunStore, spied)
    return appends
  })

describe("what is stored when", () => {
  check(
    "a turn with a tool is three appends: before the tool, after it, before the next request",
    function* () {
      const bot = model([call("read", "a"), call("write", "b"), Scripted.text("done")])
      const agent = agentOf(bot)
      expect(yield* appending(finish(Agent.run(agent, "go", { runId: "r" })))).toEqual([
        "run_started turn_started",
        "turn tool_start",
        "tool_result",
        "turn_started",
        "turn tool_start",
        "tool_result",
        "turn_started",
        "turn run_stopped"
      ])
    }
  )

  check("a result is stored while other calls of its turn still run", function* () {
    const [first, second] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
    const bot = model([Scripted.turn(call("read", "a", "1"), call("read", "b", "2")), Scripted.text("done")])
    const seen: Array<number> = []
    const agent = agentOf(bot, (q) => Effect.as(Deferred.await(q === "1" ? first : second), q))
    const watching = Effect.gen(function* () {
      yield* settle
      seen.push(count(yield* stored, "tool_result"))
      yield* Deferred.succeed(first, undefined)
      yield* settle
      seen.push(count(yield* stored, "tool_result"))
      yield* Deferred.succeed(second, undefined)
    })
    yield* Effect.all([finish(Agent.run(agent, "go", { runId: "r" })), watching], { concurrency: 2 })
    expect(seen).toEqual([0, 1])
  })

  check("a shared budget is asked only after every result is stored", function* () {
    const asked: Array<number> = []
    const spied = Layer.effect(
      BudgetPool.BudgetPool,
      Effect.gen(function* () {
        const pool = yield* BudgetPool.BudgetPool
        const store = yield* RunStore.RunStore
        const look = Effect.ignore(
          Effect.tap(store.read("r"), (events) =>
            Effect.sync(() =>
              asked.push(
                count(
                  events.map(({ type }) => type),
                  "tool_start"
                ) - of(events, "tool_result").length
              )
            )
          )
        )
        return {
          ...pool,
          claimCall: (claim) => Effect.andThen(look, pool.claimCall(claim)),
          hold: (hold) => Effect.andThen(look, pool.hold(hold))
        } satisfies BudgetPool.BudgetPool["Service"]
      })
    ).pipe(Layer.provide(MemoryBudgetPool.layer("team", { toolCalls: 10 })))
    const bot = model([call("read", "a"), call("write", "b"), Scripted.text("done")])
    const agent = agentOf(bot)
    const { exit } = yield* Effect.provide(finish(Agent.run(agent, "go", { runId: "r" })), spied)
    expectTag(exit, "Completed")
    expect(asked.length).toBeGreaterThan(3)
    expect(asked.every((open) => open === 0)).toBe(true)
  })
})
