/**
 * What is asked of the tables of one shared budget, in SQLite's and Postgres's words. Money is stored in nano-dollars,
 * times are the database's own, in milliseconds since 1970.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Limits from "../run/Limits.ts"
import * as Money from "../run/Money.ts"
import { type Amounts, BudgetPoolError } from "./BudgetPool.ts"
import { nothing } from "./BudgetRules.ts"
import { nowText } from "./SqlLeases.ts"

/** A pool as it is stored. */
export interface Stored {
  readonly limits: Limits.Limits
  readonly used: Amounts
}

/** What counts for good, once for each attempt. */
export type Kind = "call" | "turn"

// What Postgres has of a BIGINT is a bigint.
type Count = number | bigint

interface AmountsRow {
  readonly turns: Count
  readonly usd_nanos: Count
  readonly tokens: Count
  readonly tool_calls: Count
}

const amountsOf = (row: AmountsRow): Amounts => ({
  turns: Number(row.turns),
  usd: Money.fromNanos(Number(row.usd_nanos)),
  tokens: Number(row.tokens),
  toolCalls: Number(row.tool_calls)
})

interface PoolRow extends AmountsRow {
  readonly limits: string
}

const decodeLimits = Schema.decodeUnknownResult(Schema.fromJsonString(Limits.Limits))

const corrupt = (pool: string, problem: string) => new BudgetPoolError({ pool, kind: "corrupt", problem })

const storedOf = (pool: string, row: PoolRow | undefined): Result.Result<Stored, BudgetPoolError> => {
  if (row === undefined) return Result.fail(corrupt(pool, "it is gone from the database; open it again"))
  return Result.mapBoth(decodeLimits(row.limits), {
    onSuccess: (limits) => ({ limits, used: amountsOf(row) }),
    onFailure: (error) => corrupt(pool, `its limits cannot be read: ${error.message}`)
  })
}

/** The statements for one pool. Those that write run in a transaction, after `lock`. */
export const make = (sql: SqlClient.SqlClient, pool: string) => {
  const now = sql.literal(nowText(sql))
  const forUpdate = sql.onDialectOrElse({
    pg: () => sql.literal("FOR UPDATE"),
    // A transaction that writes has the whole database for itself.
    orElse: () => sql.literal("")
  })

  return {
    /** Makes the pool, or gives it other limits, and forgets what holders that died have left. */
    open: (limits: Limits.Limits): Effect.Effect<void, SqlError> =>
      Effect.andThen(
        sql`INSERT INTO checkrein_pools (name, limits, turns, usd_nanos, tokens, tool_calls)
          VALUES (${pool}, ${JSON.stringify(limits)}, 0, 0, 0, 0)
          ON CONFLICT (name) DO UPDATE SET limits = excluded.limits`,
        sql`DELETE FROM checkrein_pool_holds WHERE pool = ${pool} AND expires_at <= ${now}`
      ),

    /** Reads the pool, and keeps everybody else from it until the transaction ends. */
    lock: Effect.map(
      sql<PoolRow>`SELECT limits, turns, usd_nanos, tokens, tool_calls FROM checkrein_pools
        WHERE name = ${pool} ${forUpdate}`,
      ([row]) => storedOf(pool, row)
    ),

    /** Adds to what was used. */
    spend: ({ tokens, toolCalls, turns, usd }: Amounts) =>
      sql`UPDATE checkrein_pools SET turns = turns + ${turns}, usd_nanos = usd_nanos + ${Money.toNanos(usd)},
        tokens = tokens + ${tokens}, tool_calls = tool_calls + ${toolCalls} WHERE name = ${pool}`,

    /** Remembers an attempt that counts; `false` if it has counted before. */
    count: (kind: Kind, key: string) =>
      Effect.map(
        sql`INSERT INTO checkrein_pool_claims (pool, kind, attempt) VALUES (${pool}, ${kind}, ${key})
          ON CONFLICT (pool, kind, attempt) DO NOTHING RETURNING attempt`,
        (rows) => rows.length > 0
      ),

    /** Whether an attempt has counted. */
    counted: (kind: Kind, key: string) =>
      Effect.map(
        sql`SELECT attempt FROM checkrein_pool_claims
          WHERE pool = ${pool} AND kind = ${kind} AND attempt = ${key}`,
        (rows) => rows.length > 0
      ),

    /** What is held by all, and whether some of it is for this attempt. */
    held: (key: string) =>
      Effect.map(
        sql<AmountsRow & { readonly same: Count }>`SELECT COUNT(*) AS turns, 0 AS tool_calls,
            CAST(COALESCE(SUM(usd_nanos), 0) AS BIGINT) AS usd_nanos,
            CAST(COALESCE(SUM(tokens), 0) AS BIGINT) AS tokens,
            COUNT(CASE WHEN attempt = ${key} THEN 1 END) AS same
          FROM checkrein_pool_holds WHERE pool = ${pool} AND expires_at > ${now}`,
        ([row]) => ({
          held: row === undefined ? nothing : amountsOf(row),
          same: row !== undefined && Number(row.same) > 0
        })
      ),

    /** Holds what an attempt needs at most, for so many milliseconds. */
    hold: (key: string, holder: string, { tokens, usd }: Amounts, leaseMs: number) =>
      sql`INSERT INTO checkrein_pool_holds (pool, attempt, holder, usd_nanos, tokens, expires_at)
        VALUES (${pool}, ${key}, ${holder}, ${Money.toNanos(usd)}, ${tokens}, ${now} + ${leaseMs})
        ON CONFLICT (pool, attempt) DO UPDATE SET holder = excluded.holder, usd_nanos = excluded.usd_nanos,
          tokens = excluded.tokens, expires_at = excluded.expires_at`,

    /** Gives what is held for an attempt to another holder. */
    takeOver: (key: string, holder: string, leaseMs: number) =>
      sql`UPDATE checkrein_pool_holds SET holder = ${holder}, expires_at = ${now} + ${leaseMs}
        WHERE pool = ${pool} AND attempt = ${key}`,

    /** Keeps what this holder has. Also when its lease has ended meanwhile: the call is on its way and will cost. */
    renew: (key: string, holder: string, leaseMs: number) =>
      sql`UPDATE checkrein_pool_holds SET expires_at = ${now} + ${leaseMs}
        WHERE pool = ${pool} AND attempt = ${key} AND holder = ${holder}`,

    /** Gives back what this holder has. */
    release: (key: string, holder: string) =>
      sql`DELETE FROM checkrein_pool_holds WHERE pool = ${pool} AND attempt = ${key} AND holder = ${holder}`,

    /** Forgets what is held for an attempt, whoever holds it. */
    drop: (key: string) => sql`DELETE FROM checkrein_pool_holds WHERE pool = ${pool} AND attempt = ${key}`,

    /** Reads the pool and what is held, at one moment and without keeping anybody from it. */
    read: Effect.map(
      sql<
        PoolRow & { readonly held_turns: Count; readonly held_usd_nanos: Count; readonly held_tokens: Count }
      >`
        SELECT p.limits, p.turns, p.usd_nanos, p.tokens, p.tool_calls, COUNT(h.attempt) AS held_turns,
          CAST(COALESCE(SUM(h.usd_nanos), 0) AS BIGINT) AS held_usd_nanos,
          CAST(COALESCE(SUM(h.tokens), 0) AS BIGINT) AS held_tokens
        FROM checkrein_pools p LEFT JOIN checkrein_pool_holds h ON h.pool = p.name AND h.expires_at > ${now}
        WHERE p.name = ${pool} GROUP BY p.name`,
      ([row]) =>
        Result.map(storedOf(pool, row), (stored) => ({
          ...stored,
          held: amountsOf({
            turns: row?.held_turns ?? 0,
            usd_nanos: row?.held_usd_nanos ?? 0,
            tokens: row?.held_tokens ?? 0,
            tool_calls: 0
          })
        }))
    )
  }
}
