/**
 * The tables of shared budgets, as migrations of their own: a pool needs no store of runs beside it.
 *
 * A migration that was released is never changed; what the tables need next is another migration.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { RunStoreError } from "./RunStore.ts"
import * as SqlMigrations from "./SqlMigrations.ts"

const pools = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE checkrein_pools (
    name TEXT PRIMARY KEY,
    limits TEXT NOT NULL,
    turns BIGINT NOT NULL,
    usd_nanos BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    tool_calls BIGINT NOT NULL
  )`
  // What counts for good, a tool call or a turn that was settled: so that no attempt counts twice.
  yield* sql`CREATE TABLE checkrein_pool_claims (
    pool TEXT NOT NULL,
    kind TEXT NOT NULL,
    attempt TEXT NOT NULL,
    PRIMARY KEY (pool, kind, attempt)
  )`
  // Only the model calls that are under way, so that adding them up costs the same however old the pool is. The time is
  // the database's own, in milliseconds since 1970.
  yield* sql`CREATE TABLE checkrein_pool_holds (
    pool TEXT NOT NULL,
    attempt TEXT NOT NULL,
    holder TEXT NOT NULL,
    usd_nanos BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (pool, attempt)
  )`
})

const migrations = { "1_pools": pools }

const table = "checkrein_pool_migrations"

/** Makes or updates the tables. */
export const migrate: Effect.Effect<void, RunStoreError, SqlClient.SqlClient> = SqlMigrations.run(
  table,
  migrations
)

/** Whether there are such tables, without making any. */
export const areThere: Effect.Effect<boolean, RunStoreError, SqlClient.SqlClient> = SqlMigrations.hasAny(
  table,
  migrations
)
