/** The pools that a test is run on: in memory, in a SQLite file, and on Postgres where a server answers. */
import { join } from "node:path"
import { describe } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type { BudgetPool, PoolLimits } from "../../src/store/BudgetPool.ts"
import * as MemoryBudgetPool from "../../src/store/MemoryBudgetPool.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as Postgres from "../../src/store/Postgres.ts"
import * as SqlBudgetPool from "../../src/store/SqlBudgetPool.ts"
import { folder } from "./folders.ts"
import { describePostgres, url } from "./postgres.ts"

/** A new database, for any number of clients: each build of the layer is another one. */
export type Database = Effect.Effect<Layer.Layer<SqlClient.SqlClient>, never, Scope.Scope>

/** A client of a database. */
export const connect = (
  client: Layer.Layer<SqlClient.SqlClient>
): Effect.Effect<SqlClient.SqlClient, never, Scope.Scope> =>
  Effect.map(Layer.build(Layer.fresh(client)), Context.get(SqlClient.SqlClient))

/** A pool of its own, with these limits. */
export type Open = (limits: PoolLimits) => Layer.Layer<BudgetPool>

const sqlite: Database = Effect.map(folder, (path) =>
  NodeSqlite.layer({ filename: join(path, "budgets.db") }).pipe(Layer.orDie)
)

const postgres: Database = Effect.map(url, (url) => Postgres.layer({ url }).pipe(Layer.orDie))

/** Describes what holds of a pool on every database. */
export const describeDatabases = (body: (database: Database) => void): void => {
  describe("on SQLite", () => body(sqlite))
  describePostgres("on Postgres", () => body(postgres))
}

/** Describes what holds of every pool. */
export const describePools = (body: (open: Open) => void): void => {
  describe("in memory", () => body((limits) => MemoryBudgetPool.layer("team-a", limits).pipe(Layer.orDie)))
  describeDatabases((database) =>
    body((limits) =>
      SqlBudgetPool.layer("team-a", limits).pipe(Layer.provide(Layer.unwrap(database)), Layer.orDie)
    )
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
