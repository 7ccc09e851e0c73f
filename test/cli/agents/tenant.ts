/**
 * An agent whose runs share the budget of the tenant that is their first tag, in the file `CHECKREIN_TEST_POOLS`, or else
 * that of everybody; that of `far` cannot be had. It pays once it may, a dollar a turn.
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Agent from "../../../src/Agent.ts"
import * as PriceBook from "../../../src/provider/PriceBook.ts"
import * as Scripted from "../../../src/provider/Scripted.ts"
import type { Hosted } from "../../../src/RunHost.ts"
import { BudgetPoolError } from "../../../src/store/BudgetPool.ts"
import * as NodeSqlite from "../../../src/store/NodeSqlite.ts"
import * as SqlBudgetPool from "../../../src/store/SqlBudgetPool.ts"

const Pay = Tool.make("pay", { success: Schema.String, needsApproval: true })
const toolkit = Toolkit.make(Pay)

const script = Scripted.make("payer", [Scripted.call("pay", {}, { id: "p1" }), Scripted.text("Paid.")])

const pools = NodeSqlite.layer({ filename: process.env.CHECKREIN_TEST_POOLS ?? ":memory:" })

export const agent = Agent.make("tenant", { toolkit, limits: { turns: 5, time: "1 minute" } })

export const layer = Layer.mergeAll(
  toolkit.toLayer({ pay: () => Effect.succeed("paid") }),
  Scripted.layer(script, { usage: { promptTokens: 0, completionTokens: 1 } }),
  PriceBook.layer({ payer: { input: 0, output: 1_000_000 } }),
  SqlBudgetPool.layer("everybody", { usd: 100 })
).pipe(Layer.provideMerge(pools))

export const budget = ({ agent, tags: [tenant] }: Hosted) => {
  if (tenant === undefined) return Effect.undefined
  const pool = `${agent} ${tenant}`
  return tenant === "far"
    ? Effect.fail(new BudgetPoolError({ pool, kind: "unavailable", problem: "it is far away" }))
    : SqlBudgetPool.make(pool, { usd: 5 })
}
