/** The pools that a test is run on: in memory, in a SQLite file, and on Postgres where a server answers. */
import { join } from "node:path"
import { describe } from "@effect/vitest"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import type { BudgetPool, PoolLimits } from "../../src/store/BudgetPool.ts"
import * as MemoryBudgetPool from "../../src/store/MemoryBudgetPool.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as Postgres from "../../src/store/Postgres.ts"
import * as SqlBudgetPool from "../../src/store/SqlBudgetPool.ts"
import { inFolder } from "./folders.ts"
import { describePostgres, inSchema } from "./postgres.ts"

/** A database of its own. */
export type Database = Layer.Layer<SqlClient.SqlClient>

/** A pool of its own, with these limits. */
export type Open = (limits: PoolLimits) => Layer.Layer<BudgetPool>

/** Describes what holds of a pool on every database. */
export const describeDatabases = (body: (database: Database) => void): void => {
  describe("on SQLite", () =>
    body(inFolder((folder) => NodeSqlite.layer({ filename: join(folder, "budgets.db") }).pipe(Layer.orDie))))
  describePostgres("on Postgres", () => body(inSchema((url) => Postgres.layer({ url }).pipe(Layer.orDie))))
}

/** Describes what holds of every pool. */
export const describePools = (body: (open: Open) => void): void => {
  describe("in memory", () => body((limits) => MemoryBudgetPool.layer("team-a", limits).pipe(Layer.orDie)))
  describeDatabases((database) =>
    body((limits) => SqlBudgetPool.layer("team-a", limits).pipe(Layer.provide(database), Layer.orDie))
  )
}

/** No more than this is held or used of anything. */
export const amounts = (
  some: Partial<{ turns: number; usd: number; tokens: number; toolCalls: number }>
) => ({
  turns: 0,
  usd: 0,
  tokens: 0,
  toolCalls: 0,
  ...some
})
