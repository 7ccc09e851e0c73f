/**
 * The right to drive a run, among all processes on one database, by the database's own clock: a row with its holder and
 * when it ends. Its holder renews it as long as it lives, and counts on less than it has: by its own monotonic clock,
 * from before it asked, it stops early enough for what runs to end before the right does.
 */
import { randomUUID } from "node:crypto"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import type * as SqlClient from "effect/sql/SqlClient"
import { type Lease, RunBusy, RunStoreError } from "./RunStore.ts"
import { storeError } from "./SqlFailure.ts"
import { type Once, textOf } from "./SqlTransaction.ts"
import { atMost, inWorldTime, worldMs } from "./TimeLimit.ts"

const releaseLimit = "2 seconds"

const longestMs = 86_400_000

/** When a lease is renewed and given up, in milliseconds after it was last renewed. */
const scheduleOf = (time: Duration.Input) => {
  const leaseMs = Math.round(
    Math.min(Math.max(1_000, Duration.toMillis(Duration.fromInputUnsafe(time))), longestMs)
  )
  return {
    leaseMs,
    renewAfterMs: leaseMs / 3,
    // Sooner than the timer would, so that a run that writes something is renewed by what it writes anyway.
    rideAfterMs: leaseMs / 4,
    stopAfterMs: (leaseMs * 3) / 5,
    tryAgainMs: leaseMs / 30
  }
}

/** The database's clock, in milliseconds, as an expression. */
export const nowText = (sql: SqlClient.SqlClient): string =>
  sql.onDialectOrElse({
    pg: () => "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
    orElse: () => "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
  })

/**
 * Whether a lease is held, as a condition. One that ends further away than twice the longest that can be asked for is not:
 * the clock was set back far since, and whoever lives renews it by the clock as it is. Twice, for a clock that is only
 * put right takes nobody's.
 */
export const heldText = (sql: SqlClient.SqlClient): string =>
  `(checkrein_leases.until_ms > ${nowText(sql)} AND checkrein_leases.until_ms <= ${nowText(sql)} + ${2 * longestMs})`

/** The lease of a driver of this store, for an append to go by: it may write only as long as nobody else has taken it. */
export interface Own {
  readonly holder: string
  /** Whether the append should renew it along with what it writes: mostly not. */
  readonly isDue: boolean
  /** Says whether the holder had it still when it was to be renewed. */
  readonly settle: (held: boolean) => void
}

interface Held {
  readonly holder: string
  readonly lost: Deferred.Deferred<never, RunBusy | RunStoreError>
  /** Until when, by the monotonic clock, counting from before the database was last asked. */
  renewedMs: number
  gone: boolean
}

/** The leases that one store holds. */
export interface SqlLeases {
  readonly take: (runId: string) => Effect.Effect<Lease, RunBusy | RunStoreError, Scope.Scope>
  /** The lease of this run that a driver of this store has, or has lost and not let go of; `undefined` without one. */
  readonly own: (runId: string) => Own | undefined
  /** The statement that renews a lease: how long in milliseconds, run id, holder. It yields a row if there was one. */
  readonly renew: string
  readonly leaseMs: number
}

const notRenewed = (runId: string) =>
  new RunStoreError({
    runId,
    kind: "timed_out",
    problem: "the right to drive the run could not be renewed in time; is the store reachable?"
  })

/** No lease is held yet. */
export const make = (sql: SqlClient.SqlClient, once: Once, time: Duration.Input): SqlLeases => {
  const { leaseMs, renewAfterMs, rideAfterMs, stopAfterMs, tryAgainMs } = scheduleOf(time)
  const now = sql.literal(nowText(sql))
  const takeText = textOf(sql`INSERT INTO checkrein_leases (run_id, holder, until_ms)
    VALUES (${""}, ${""}, ${now} + ${leaseMs})
    ON CONFLICT (run_id) DO UPDATE SET holder = excluded.holder, until_ms = excluded.until_ms
    WHERE NOT ${sql.literal(heldText(sql))} OR checkrein_leases.holder = excluded.holder
    RETURNING run_id`)
  const releaseText = textOf(sql`DELETE FROM checkrein_leases WHERE run_id = ${""} AND holder = ${""}`)
  const renew = textOf(sql`UPDATE checkrein_leases SET until_ms = ${now} + ${leaseMs}
    WHERE run_id = ${""} AND holder = ${""} RETURNING run_id`)
  const all = new Map<string, Held>()

  const settle = (runId: string, held: Held, askedMs: number, had: boolean): void => {
    if (had) held.renewedMs = Math.max(held.renewedMs, askedMs)
    else {
      held.gone = true
      Deferred.doneUnsafe(held.lost, Effect.fail(new RunBusy({ runId })))
    }
  }

  /** Renews a lease whenever it is due, until it is lost. */
  const keep = Effect.fnUntraced(function* (runId: string, held: Held) {
    let failure: RunStoreError | undefined
    while (!held.gone) {
      const endsMs = held.renewedMs + stopAfterMs
      const wokenMs = worldMs()
      if (failure !== undefined && wokenMs >= endsMs) {
        held.gone = true
        return yield* Deferred.fail(held.lost, failure)
      }
      const nextMs = failure === undefined ? held.renewedMs + renewAfterMs : wokenMs + tryAgainMs
      yield* Effect.sleep(Math.max(0, Math.min(nextMs, endsMs) - wokenMs))
      const askedMs = worldMs()
      if (askedMs < held.renewedMs + renewAfterMs) continue
      // A process that was held up is late, but if nobody was quicker the right is still its own.
      const limitMs = Math.max(1_000, endsMs - askedMs)
      const asked = yield* once(runId, renew, [leaseMs, runId, held.holder]).pipe(
        atMost(limitMs, () => Effect.fail(notRenewed(runId))),
        // A client that is closed while a run goes on breaks down rather than fails.
        Effect.catchDefect((defect) => Effect.fail(storeError(runId, defect))),
        Effect.result
      )
      failure = Result.isFailure(asked) ? asked.failure : undefined
      if (Result.isSuccess(asked)) settle(runId, held, askedMs, asked.success.length > 0)
    }
  })

  const take = Effect.fnUntraced(function* (runId: string) {
    // Also while one that has lost it is on its way out: what that still writes would pass for the next one's.
    if (all.has(runId)) return yield* new RunBusy({ runId })
    const holder = randomUUID()
    const held: Held = { holder, lost: Deferred.makeUnsafe(), renewedMs: worldMs(), gone: false }
    yield* Effect.addFinalizer(() => {
      if (all.get(runId) === held) all.delete(runId)
      // It ends by itself, if it cannot be given back.
      const release = Effect.exit(once(runId, releaseText, [runId, holder]))
      return held.gone ? Effect.void : atMost(releaseLimit, () => Effect.void)(release)
    })
    // What is given up on its way may arrive after it was given back, and then nobody would hold it.
    const [taken] = yield* Effect.uninterruptible(once(runId, takeText, [runId, holder, leaseMs]))
    if (taken === undefined) {
      held.gone = true
      return yield* new RunBusy({ runId })
    }
    all.set(runId, held)
    yield* Effect.forkScoped(inWorldTime(keep(runId, held)))
    const lease: Lease = {
      check: Effect.suspend(() =>
        held.gone || worldMs() >= held.renewedMs + stopAfterMs
          ? Effect.fail(new RunBusy({ runId }))
          : Effect.void
      ),
      lost: Deferred.await(held.lost)
    }
    return lease
  })

  return {
    take,
    renew,
    leaseMs,
    own: (runId) => {
      const held = all.get(runId)
      if (held === undefined) return undefined
      const askedMs = worldMs()
      return {
        holder: held.holder,
        isDue: !held.gone && askedMs >= held.renewedMs + rideAfterMs,
        settle: (had) => settle(runId, held, askedMs, had)
      }
    }
  }
}
