import * as Effect from "effect/Effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import * as Agent from "../../../src/Agent.ts"
import * as Scripted from "../../../src/provider/Scripted.ts"
import * as NodeSqlite from "../../../src/store/NodeSqlite.ts"
import * as SqlBudgetPool from "../../../src/store/SqlBudgetPool.ts"
import { cli, module, parsed, withoutEndpoint, workshop } from "../support.ts"
import { storeAt } from "./storeAt.ts"

const { path } = workshop()
withoutEndpoint()

const agent = module("tenant")
const { runs, store } = storeAt(path("runs.db"))
const pools = path("pools.db")

beforeAll(() => {
  process.env.CHECKREIN_TEST_POOLS = pools
})
afterAll(() => {
  delete process.env.CHECKREIN_TEST_POOLS
})

/** What was used of these budgets, in dollars. */
const usedOf = (...names: ReadonlyArray<string>) =>
  Effect.forEach(names, (name) => Effect.map(SqlBudgetPool.status(name), (status) => status?.used.usd)).pipe(
    Effect.provide(NodeSqlite.layer({ filename: pools })),
    Effect.runPromise
  )

/** Starts a run by the command. */
const starting = async (...tags: ReadonlyArray<string>): Promise<string> => {
  const given = tags.flatMap((tag) => ["--tag", tag])
  return parsed(await cli("run", ...agent, ...given, ...store, "--json", "Pay.")).runId
}

/** Stores a run that nobody has driven yet, as a process leaves it that dies at once. */
const leave = (runId: string, tag: string) =>
  Agent.create(Agent.make("tenant"), "Pay.", { runId, tags: [tag], limits: { time: "1 minute" } }).pipe(
    Effect.provide(Scripted.layer(Scripted.make("none", []), { usage: "omitted" })),
    Effect.provide(NodeSqlite.runStore(path("runs.db"))),
    Effect.runPromise
  )

describe("the budget of a tenant, which the module of --agent names,", () => {
  it("is what its runs spend from, whichever command drives them", async () => {
    const runId = await starting("a")
    expect(await usedOf("tenant a", "everybody")).toEqual([1, 0])
    expect(await runs("approve", runId, "--resume", ...agent)).toMatchObject({ code: 0, stdout: "Paid." })
    expect(await usedOf("tenant a", "everybody")).toEqual([2, 0])

    const other = await starting("b", "a")
    await runs("reject", other)
    expect((await runs("resume", other, ...agent)).code).toBe(0)
    expect(await usedOf("tenant a", "tenant b", "everybody")).toEqual([2, 2, 0])

    await leave("left", "c")
    expect((await runs("recover", ...agent)).code).toBe(3)
    expect(await usedOf("tenant a", "tenant b", "tenant c", "everybody")).toEqual([2, 2, 1, 0])
  })

  it("is that of the module's layer for a run of which it says nothing", async () => {
    const runId = await starting()
    await runs("approve", runId, "--resume", ...agent)
    expect(await usedOf("tenant undefined", "everybody")).toEqual([undefined, 2])
  })

  it("is used up for that tenant alone", async () => {
    for (const _ of [1, 2]) await runs("approve", await starting("d"), "--resume", ...agent)
    const last = await starting("d")
    const ended = await runs("approve", last, "--resume", "--json", ...agent)
    expect([ended.code, parsed(ended)]).toMatchObject([3, { reason: "max_budget" }])
    expect(await runs("approve", await starting("e"), "--resume", ...agent)).toMatchObject({ code: 0 })
  })

  it("may not be had: then nothing is stored, and a run that is stays as it was", async () => {
    const started = await cli("run", ...agent, "--tag", "far", ...store, "--json", "Pay.")
    await leave("apart", "far")
    const resumed = await runs("resume", "apart", "--json", ...agent)
    const error = {
      tag: "BudgetPoolError",
      message: "the budget pool tenant far failed: it is far away"
    }
    for (const ended of [started, resumed]) expect([ended.code, parsed(ended)]).toEqual([1, { error }])
    expect(parsed(await runs("recover", "--json", ...agent)).failed).toMatchObject([
      { runId: "apart", error }
    ])
    const { runs: stored } = parsed(await runs("list", "--tag", "far", "--json"))
    expect(stored).toMatchObject([{ runId: "apart", status: "running", turns: 0 }])
  })
})
