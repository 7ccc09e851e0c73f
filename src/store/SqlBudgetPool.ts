/**
 * A `BudgetPool` over effect's `SqlClient`, for the runs of many processes. It makes its own tables, all named
 * `checkrein_pool…`, so it may share a database with a store of runs and with yours.
 *
 * A pool is a row with its limits and with what was used of them. Whoever claims locks that row, looks at it and
 * writes, so claims come one after another, wherever they are made.
 */
import { randomUUID } from "node:crypto"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Semaphore from "effect/Semaphore"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Given from "../run/Given.ts"
import type { InvalidLimits } from "../run/Limits.ts"
import {
  type Amounts,
  BudgetPool,
  BudgetPoolError,
  type Hold,
  PoolBusy,
  type PoolLimits,
  type Status
} from "./BudgetPool.ts"
import * as Rules from "./BudgetRules.ts"
import { reconnecting } from "./Reconnect.ts"
import type { Durability, RunStoreError } from "./RunStore.ts"
import * as SqlBudgetMigrations from "./SqlBudgetMigrations.ts"
import * as SqlBudgetTables from "./SqlBudgetTables.ts"
import { storeError } from "./SqlFailure.ts"
import * as SqlTransaction from "./SqlTransaction.ts"
import { atMost, inWorldTime } from "./TimeLimit.ts"

/** How to share a pool. */
export interface Options {
  /**
   * How long what is held outlives a process that died: from 1 second to 1 day, by default 30 seconds. A process renews
   * what it holds three times as often, so it may be without its database for two thirds of that.
   */
  readonly lease?: Duration.Input | undefined
}

const kinds: Given.Kinds<Options> = { lease: Given.duration }

const insideTransaction =
  "it was asked inside an open transaction, which would take the claim back if it were rolled back; " +
  "run agents outside of transactions"

const failed = (pool: string, { cause, kind, problem }: RunStoreError) =>
  new BudgetPoolError({
    pool,
    // A statement is never that: a store of runs says it of what it was asked.
    kind: kind === "invalid" ? "unavailable" : kind,
    problem: kind === "inside_transaction" ? insideTransaction : problem,
    cause
  })

/** How long to wait for the database with a claim, with giving back what lapses anyway, and with a whole pool. */
const claimPatience = "10 seconds"
const releasePatience = "2 seconds"
// A pool may have counted millions of attempts.
const removalPatience = "2 minutes"

/**
 * Waits for the database, but not for ever. Whatever goes wrong is a failure: a client that is closed meanwhile
 * interrupts or breaks down.
 */
const asking =
  (pool: string, patience: string & Duration.Input) =>
  <A>(effect: Effect.Effect<A, BudgetPoolError>): Effect.Effect<A, BudgetPoolError> => {
    const error = (kind: BudgetPoolError["kind"], problem: string, cause?: unknown) =>
      Effect.fail(new BudgetPoolError({ pool, kind, problem, cause }))
    return effect.pipe(
      Effect.catchCause((cause) => {
        const failure = Cause.findErrorOption(cause)
        return Option.isSome(failure)
          ? Effect.fail(failure.value)
          : error("unavailable", "the database broke down", Cause.squash(cause))
      }),
      atMost(patience, () =>
        error("timed_out", `it took longer than ${patience}; is the database reachable?`)
      ),
      inWorldTime
    )
  }

/** How this client writes for a pool: one transaction after another, each of which sees all that is committed. */
const writing = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  pool: string,
  patience: string & Duration.Input
) {
  const transact = yield* Effect.mapError(SqlTransaction.make(sql), (error) =>
    failed(pool, storeError("", error))
  )
  // They would wait for one another anyway, but each with a connection of its own.
  const semaphore = yield* Semaphore.make(1)
  return <A, E>(
    durability: Durability,
    write: (execute: SqlTransaction.Execute) => Effect.Effect<Result.Result<A, E>, SqlError>
  ): Effect.Effect<A, E | BudgetPoolError> =>
    transact("", durability, write).pipe(
      // With the same key, so that it does not matter whether it was done before the connection was lost.
      reconnecting,
      Effect.mapError((error) => failed(pool, error)),
      semaphore.withPermit,
      asking(pool, patience),
      Effect.flatMap(Effect.fromResult)
    )
})

/** How a pool stands in a database that has the tables; `undefined` if there is none of this name. */
const statusIn = (
  sql: SqlClient.SqlClient,
  pool: string
): Effect.Effect<Status | undefined, BudgetPoolError> =>
  SqlBudgetTables.make(sql, pool, 0)
    .read((text, params) => sql.unsafe(text, params))
    .pipe(
      reconnecting,
      Effect.mapError((error) => failed(pool, storeError("", error))),
      asking(pool, claimPatience),
      Effect.flatMap(Effect.fromResult),
      Effect.map((read) => read && Rules.statusOf(pool, read.limits, read.used, read.held))
    )

/** The client of the context, for a database that has the tables. */
const clientFor = (pool: string) =>
  Effect.gen(function* () {
    const sql = (yield* SqlClient.SqlClient).withoutTransforms()
    yield* Effect.mapError(SqlBudgetMigrations.migrate, (error) => failed(pool, error))
    return sql
  })

/**
 * Opens a pool on the `SqlClient` in the context, and makes its tables when they are missing. What was used of it stays
 * used; other limits than before replace those before, for everybody.
 *
 * What is claimed, held or spent survives a power cut. What is held outlives the process that holds it by its lease,
 * which goes by the database's clock.
 *
 * Fails with `InvalidLimits` when the limits are written wrongly, and with `BudgetPoolError` when the database cannot be
 * written, or was made by a newer build. A `lease` that is no duration, or a misspelt option, is a defect.
 *
 * @example
 * ```ts
 * import * as Layer from "effect/Layer"
 * import * as NodeSqlite from "checkrein/sqlite"
 * import { BudgetPool, SqlBudgetPool } from "checkrein/store"
 *
 * const Team = Layer.effect(BudgetPool.BudgetPool, SqlBudgetPool.make("team-a", { usd: 5 })).pipe(
 *   Layer.provide(NodeSqlite.layer({ filename: "app.db" }))
 * )
 * ```
 */
export const make = (
  pool: string,
  limits: PoolLimits,
  options: Options = {}
): Effect.Effect<BudgetPool["Service"], InvalidLimits | BudgetPoolError, SqlClient.SqlClient> =>
  Effect.gen(function* () {
    const opened = yield* Effect.fromResult(Rules.limitsOf(pool, limits))
    const problem = Given.problemOf(options, "options", kinds)
    if (problem !== undefined) return yield* Effect.die(new TypeError(problem))
    const lease = Duration.clamp(Duration.fromInputUnsafe(options.lease ?? "30 seconds"), {
      minimum: Duration.seconds(1),
      maximum: Duration.days(1)
    })

    const sql = yield* clientFor(pool)
    const tables = SqlBudgetTables.make(sql, pool, Duration.toMillis(lease))
    const write = yield* writing(sql, pool, claimPatience)
    const done = Effect.as(Result.void)
    yield* write("power", (execute) => done(tables.open(execute, opened)))

    /** Writes what the pool as it stands allows; nobody else gets at it meanwhile. */
    const locked = <E>(
      durability: Durability,
      body: (
        execute: SqlTransaction.Execute,
        stored: SqlBudgetTables.Stored
      ) => Effect.Effect<Result.Result<void, E>, SqlError>
    ) =>
      write(durability, (execute) =>
        Effect.flatMap(
          tables.lock(execute),
          (stored): Effect.Effect<Result.Result<void, E | BudgetPoolError>, SqlError> =>
            Result.isFailure(stored)
              ? Effect.succeed(Result.fail(stored.failure))
              : body(execute, stored.success)
        )
      )

    // What this process holds, by key. Each hold has a name of its own, so that nobody gives back another one's.
    const holders = new Map<string, string>()

    const take = ({ key, purpose }: Hold, worst: Amounts, holder: string) =>
      locked(
        "power",
        Effect.fnUntraced(function* (execute, { limits, used }) {
          const { held, same } = yield* tables.held(execute, key)
          if (same) {
            yield* tables.takeOver(execute, key, holder)
            return Result.void
          }
          if (yield* tables.counted(execute, "turn", key)) return Result.void
          const judged = Rules.hold(limits, used, held, worst, purpose)
          if (Result.isSuccess(judged)) yield* tables.hold(execute, key, holder, worst)
          return judged
        })
      )

    const release = (key: string, holder: string) =>
      Effect.ignore(write("process", (execute) => done(tables.release(execute, key, holder)))).pipe(
        atMost(releasePatience, () => Effect.void),
        inWorldTime
      )

    // Where it cannot renew it tries again next time: by then the hold may have lapsed, and is taken up again.
    const renewing = (key: string, holder: string) =>
      Effect.sleep(Duration.divideUnsafe(lease, 3)).pipe(
        Effect.andThen(
          Effect.ignore(write("process", (execute) => done(tables.renew(execute, key, holder))))
        ),
        Effect.repeat({ while: () => holders.get(key) === holder }),
        Effect.withTracerEnabled(false),
        inWorldTime
      )

    return BudgetPool.of({
      pool,
      claimCall: (claim) =>
        Effect.gen(function* () {
          const one = yield* Effect.fromResult(Rules.callOf(claim))
          yield* locked(
            "power",
            Effect.fnUntraced(function* (execute, { limits, used }) {
              const judged = Rules.claimCall(limits, used, claim.purpose)
              if (Result.isFailure(judged)) {
                return (yield* tables.counted(execute, "call", claim.key)) ? Result.void : judged
              }
              if (yield* tables.count(execute, "call", claim.key)) yield* tables.spend(execute, one)
              return Result.void
            })
          )
        }),

      hold: (hold) =>
        Effect.gen(function* () {
          const worst = yield* Effect.fromResult(Rules.worstOf(hold))
          const { key } = hold
          const holder = randomUUID()
          yield* Effect.acquireRelease(
            take(hold, worst, holder).pipe(
              Effect.tap(() => Effect.sync(() => holders.set(key, holder))),
              Effect.onInterrupt(() => release(key, holder))
            ),
            () =>
              Effect.suspend(() => {
                if (holders.get(key) !== holder) return Effect.void
                holders.delete(key)
                return release(key, holder)
              }),
            { interruptible: true }
          )
          yield* Effect.forkScoped(renewing(key, holder))
        }),

      settle: (spent) =>
        Effect.gen(function* () {
          const { key } = spent
          const amounts = yield* Effect.fromResult(Rules.spentOf(spent))
          // It is spent, whether or not the database gets to know it now: closing the scope does not give it back.
          holders.delete(key)
          yield* locked(
            "power",
            Effect.fnUntraced(function* (execute) {
              yield* tables.drop(execute, key)
              if (yield* tables.count(execute, "turn", key)) yield* tables.spend(execute, amounts)
              return Result.void
            })
          )
        }),

      status: Effect.flatMap(statusIn(sql, pool), (status) =>
        status === undefined ? Effect.fail(SqlBudgetTables.gone(pool)) : Effect.succeed(status)
      )
    })
  })

/**
 * A pool on your `SqlClient`, which many processes may open by the same name.
 *
 * What was used of it stays used; other limits than before replace those before, for everybody. A pool has no period: for
 * a budget of a month, put the month into its name.
 *
 * @example
 * ```ts
 * import * as Layer from "effect/Layer"
 * import { SqlBudgetPool } from "checkrein/store"
 * import * as NodeSqlite from "checkrein/sqlite"
 *
 * const TeamA = SqlBudgetPool.layer("team-a", { toolCalls: 1000, usd: 1 }).pipe(
 *   Layer.provide(NodeSqlite.layer({ filename: "budgets.db" }))
 * )
 * ```
 */
export const layer = (
  pool: string,
  limits: PoolLimits,
  options?: Options
): Layer.Layer<BudgetPool, InvalidLimits | BudgetPoolError, SqlClient.SqlClient> =>
  Layer.effect(BudgetPool, make(pool, limits, options))

/**
 * How a pool stands, by its name alone: its limits, what was used and is held, and what is left. It only reads, so a client
 * that may not write will do, and the limits stay as they are; `make` would set them. `undefined` if there is no such pool.
 *
 * Fails with `BudgetPoolError` when the database cannot be read, or was made by a newer build.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { SqlBudgetPool } from "checkrein/store"
 *
 * const usdLeft = Effect.map(SqlBudgetPool.status("team-a"), (status) => status?.left.usd)
 * ```
 */
export const status = (
  pool: string
): Effect.Effect<Status | undefined, BudgetPoolError, SqlClient.SqlClient> =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const areThere = yield* SqlBudgetMigrations.areThere.pipe(
      reconnecting,
      Effect.provideService(SqlClient.SqlClient, sql),
      Effect.mapError((error) => failed(pool, error)),
      asking(pool, claimPatience)
    )
    return areThere ? yield* statusIn(sql.withoutTransforms(), pool) : undefined
  })

/**
 * Removes a pool by its name, whole: its limits, what was used of it and the key of every claim, which are otherwise kept for
 * ever. Yields whether there was one. A pool in memory needs no removal: it goes with its layer.
 *
 * Fails with `PoolBusy` while a model call that is under way holds something of it; what a process that died has held lapses
 * with its lease. A run that still claims from it afterwards is told that the pool is gone. Opened again, the same name is a
 * new pool, of which nothing is used.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { SqlBudgetPool } from "checkrein/store"
 *
 * const cleanUp = SqlBudgetPool.remove("team-a 2026-10").pipe(
 *   Effect.catchTag("PoolBusy", ({ message }) => Effect.as(Effect.logWarning(message), false))
 * )
 * ```
 */
export const remove = (
  pool: string
): Effect.Effect<boolean, PoolBusy | BudgetPoolError, SqlClient.SqlClient> =>
  Effect.gen(function* () {
    const sql = yield* clientFor(pool)
    const tables = SqlBudgetTables.make(sql, pool, 0)
    const write = yield* writing(sql, pool, removalPatience)
    return yield* write(
      "power",
      Effect.fnUntraced(function* (execute) {
        if (!(yield* tables.seize(execute))) return Result.succeed(false)
        const { held } = yield* tables.held(execute, "")
        if (held.turns > 0) return Result.fail(new PoolBusy({ pool, holds: held.turns }))
        yield* tables.remove(execute)
        return Result.succeed(true)
      })
    )
  })
