/**
 * What is asked of the tables of one shared budget, in SQLite's and Postgres's words. Money is stored in nano-dollars,
 * times are the database's own, in milliseconds since 1970.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as SqlClient from "effect/sql/SqlClient"
import type * as SqlConnection from "effect/sql/SqlConnection"
import * as Limits from "../run/Limits.ts"
import * as Money from "../run/Money.ts"
import * as Version from "../run/Version.ts"
import { type Amounts, BudgetPoolError } from "./BudgetPool.ts"
import { nothing } from "./BudgetRules.ts"
import { nowText } from "./SqlLeases.ts"
import { type Execute, forUpdate, textOf } from "./SqlTransaction.ts"

/** A pool as it is stored. */
export interface Stored {
  readonly limits: Limits.Limits
  readonly used: Amounts
}

/** What counts for good, once for each attempt. */
export type Kind = "call" | "turn"

type Row = SqlConnection.Row

// What Postgres has of a BIGINT is a bigint.
const amountsOf = (row: Row): Amounts => ({
  turns: Number(row.turns),
  usd: Money.fromNanos(Number(row.usd_nanos)),
  tokens: Number(row.tokens),
  toolCalls: Number(row.tool_calls)
})

/** The version of the limits that this build writes: one that knows fewer of them must not go by those it knows. */
const version = 1

const decodeLimits = Schema.decodeUnknownResult(Limits.Limits)

const limitsOf = (text: unknown): Result.Result<Limits.Limits, Version.Refusal> =>
  Result.flatMap(Version.read(String(text), version), (json) =>
    Result.mapError(decodeLimits(json), ({ message }) => ({ kind: "corrupt", problem: message }))
  )

/** What whoever has a pool open is told when somebody has removed it. */
export const gone = (pool: string): BudgetPoolError =>
  new BudgetPoolError({ pool, kind: "corrupt", problem: "it is gone from the database; open it again" })

const storedOf = (pool: string, row: Row): Result.Result<Stored, BudgetPoolError> =>
  Result.mapBoth(limitsOf(row.limits), {
    onSuccess: (limits) => ({ limits, used: amountsOf(row) }),
    onFailure: ({ kind, problem }) =>
      new BudgetPoolError({ pool, kind, problem: `its limits cannot be read: ${problem}` })
  })

const statementsOf = (sql: SqlClient.SqlClient) => {
  const now = sql.literal(nowText(sql))
  return {
    open: textOf(sql`INSERT INTO checkrein_pools (name, limits, turns, usd_nanos, tokens, tool_calls)
      VALUES (${""}, ${""}, 0, 0, 0, 0) ON CONFLICT (name) DO UPDATE SET limits = excluded.limits`),
    clean: textOf(sql`DELETE FROM checkrein_pool_holds WHERE pool = ${""} AND expires_at <= ${now}`),
    lock: textOf(sql`SELECT limits, turns, usd_nanos, tokens, tool_calls FROM checkrein_pools
      WHERE name = ${""} ${forUpdate(sql)}`),
    spend: textOf(sql`UPDATE checkrein_pools SET turns = turns + ${0}, usd_nanos = usd_nanos + ${0},
      tokens = tokens + ${0}, tool_calls = tool_calls + ${0} WHERE name = ${""}`),
    count: textOf(sql`INSERT INTO checkrein_pool_claims (pool, kind, attempt) VALUES (${""}, ${""}, ${""})
      ON CONFLICT (pool, kind, attempt) DO NOTHING RETURNING attempt`),
    counted: textOf(sql`SELECT attempt FROM checkrein_pool_claims
      WHERE pool = ${""} AND kind = ${""} AND attempt = ${""}`),
    held: textOf(sql`SELECT COUNT(*) AS turns, 0 AS tool_calls,
        CAST(COALESCE(SUM(usd_nanos), 0) AS BIGINT) AS usd_nanos,
        CAST(COALESCE(SUM(tokens), 0) AS BIGINT) AS tokens,
        COUNT(CASE WHEN attempt = ${""} THEN 1 END) AS same
      FROM checkrein_pool_holds WHERE pool = ${""} AND expires_at > ${now}`),
    hold: textOf(sql`INSERT INTO checkrein_pool_holds (pool, attempt, holder, usd_nanos, tokens, expires_at)
      VALUES (${""}, ${""}, ${""}, ${0}, ${0}, ${now} + ${0})
      ON CONFLICT (pool, attempt) DO UPDATE SET holder = excluded.holder, usd_nanos = excluded.usd_nanos,
        tokens = excluded.tokens, expires_at = excluded.expires_at`),
    takeOver: textOf(sql`UPDATE checkrein_pool_holds SET holder = ${""}, expires_at = ${now} + ${0}
      WHERE pool = ${""} AND attempt = ${""}`),
    renew: textOf(sql`UPDATE checkrein_pool_holds SET expires_at = ${now} + ${0}
      WHERE pool = ${""} AND attempt = ${""} AND holder = ${""}`),
    release: textOf(sql`DELETE FROM checkrein_pool_holds
      WHERE pool = ${""} AND attempt = ${""} AND holder = ${""}`),
    drop: textOf(sql`DELETE FROM checkrein_pool_holds WHERE pool = ${""} AND attempt = ${""}`),
    forget: textOf(sql`DELETE FROM checkrein_pool_claims WHERE pool = ${""}`),
    remove: textOf(sql`DELETE FROM checkrein_pools WHERE name = ${""}`),
    // Everything at one moment, without keeping anybody from the pool.
    read: textOf(sql`SELECT p.limits, p.turns, p.usd_nanos, p.tokens, p.tool_calls,
        COUNT(h.attempt) AS held_turns,
        CAST(COALESCE(SUM(h.usd_nanos), 0) AS BIGINT) AS held_usd_nanos,
        CAST(COALESCE(SUM(h.tokens), 0) AS BIGINT) AS held_tokens
      FROM checkrein_pools p LEFT JOIN checkrein_pool_holds h ON h.pool = p.name AND h.expires_at > ${now}
      WHERE p.name = ${""} GROUP BY p.name`)
  }
}

/** The statements for one pool. Those that write run in a transaction, after `lock`. */
export const make = (sql: SqlClient.SqlClient, pool: string, leaseMs: number) => {
  const texts = statementsOf(sql)
  const some = (rows: ReadonlyArray<Row>) => rows.length > 0

  return {
    /** Makes the pool, or gives it other limits, and forgets what holders that died have left. */
    open: (execute: Execute, limits: Limits.Limits) =>
      Effect.andThen(
        execute(texts.open, [pool, JSON.stringify({ v: version, ...limits })]),
        Effect.asVoid(execute(texts.clean, [pool]))
      ),

    /** Reads the pool, and keeps everybody else from it until the transaction ends. */
    lock: (execute: Execute) =>
      Effect.map(execute(texts.lock, [pool]), ([row]) =>
        row === undefined ? Result.fail(gone(pool)) : storedOf(pool, row)
      ),

    /** Keeps everybody else from the pool until the transaction ends, whatever is in it; `false` if there is none. */
    seize: (execute: Execute) => Effect.map(execute(texts.lock, [pool]), some),

    /** Adds to what was used. */
    spend: (execute: Execute, { tokens, toolCalls, turns, usd }: Amounts) =>
      execute(texts.spend, [turns, Money.toNanos(usd), tokens, toolCalls, pool]),

    /** Remembers an attempt that counts; `false` if it has counted before. */
    count: (execute: Execute, kind: Kind, key: string) =>
      Effect.map(execute(texts.count, [pool, kind, key]), some),

    /** Whether an attempt has counted. */
    counted: (execute: Execute, kind: Kind, key: string) =>
      Effect.map(execute(texts.counted, [pool, kind, key]), some),

    /** What is held by all, and whether some of it is for this attempt. */
    held: (execute: Execute, key: string) =>
      Effect.map(execute(texts.held, [key, pool]), ([row]) => ({
        held: row === undefined ? nothing : amountsOf(row),
        same: row !== undefined && Number(row.same) > 0
      })),

    /** Holds what an attempt needs at most. */
    hold: (execute: Execute, key: string, holder: string, { tokens, usd }: Amounts) =>
      execute(texts.hold, [pool, key, holder, Money.toNanos(usd), tokens, leaseMs]),

    /** Gives what is held for an attempt to another holder. */
    takeOver: (execute: Execute, key: string, holder: string) =>
      execute(texts.takeOver, [holder, leaseMs, pool, key]),

    /** Keeps what this holder has. Also when its lease has ended meanwhile: the call is on its way and will cost. */
    renew: (execute: Execute, key: string, holder: string) =>
      execute(texts.renew, [leaseMs, pool, key, holder]),

    /** Gives back what this holder has. */
    release: (execute: Execute, key: string, holder: string) => execute(texts.release, [pool, key, holder]),

    /** Forgets what is held for an attempt, whoever holds it. */
    drop: (execute: Execute, key: string) => execute(texts.drop, [pool, key]),

    /** Removes the pool, with every attempt that has counted and what holders that died have left. */
    remove: (execute: Execute) =>
      Effect.forEach([texts.clean, texts.forget, texts.remove], (text) => execute(text, [pool]), {
        discard: true
      }),

    /** Reads the pool and what is held; `undefined` if there is none. */
    read: (execute: Execute) =>
      Effect.map(execute(texts.read, [pool]), ([row]) =>
        row === undefined
          ? Result.succeed(undefined)
          : Result.map(storedOf(pool, row), (stored) => ({
              ...stored,
              held: amountsOf({
                turns: row.held_turns,
                usd_nanos: row.held_usd_nanos,
                tokens: row.held_tokens,
                tool_calls: 0
              })
            }))
      )
  }
}
