/** Appending to a journal in SQLite: one transaction that moves the run's row on and adds its events. */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Append, RunStoreError } from "./RunStore.ts"
import { checksum, firstKey, runOf } from "./SqlEvents.ts"
import type { Own, SqlLeases } from "./SqlLeases.ts"
import { type Execute, type Transact, textOf } from "./SqlTransaction.ts"

// A statement may have only so many parameters.
const mostRows = 100

/**
 * Says whether the append was made: it was not if the run's next event was not the expected one, or if its writer had the
 * lease of the run and somebody else has taken it. The number alone does not tell a run from another one of its id.
 */
export const make = (
  sql: SqlClient.SqlClient,
  transact: Transact,
  leases: SqlLeases
): ((append: Append, bodies: ReadonlyArray<string>) => Effect.Effect<boolean, RunStoreError>) => {
  // A number that nothing has: where the row of a run is gone, what it had must not be in the way of another.
  const create = textOf(
    sql`INSERT INTO checkrein_runs (run_no, run_id, agent, status, reason, started_at, seq, summary, parent)
      VALUES (1 + MAX(
        COALESCE((SELECT MAX(run_no) FROM checkrein_runs), 0),
        COALESCE(${sql.literal(runOf("(SELECT MAX(id) FROM checkrein_events)"))}, 0),
        COALESCE((SELECT MAX(run_no) FROM checkrein_tags), 0)
      ), ${""}, ${""}, ${""}, ${""}, ${""}, ${0}, ${""}, ${""})
      ON CONFLICT (run_id) DO NOTHING RETURNING run_no`
  )
  const look = textOf(
    sql`SELECT run_no, status, reason FROM checkrein_runs WHERE run_id = ${""} AND seq = ${0}`
  )
  const isHeld = textOf(sql`SELECT 1 AS held FROM checkrein_leases WHERE run_id = ${""} AND holder = ${""}`)
  const lookHeld = `${look} AND EXISTS (${isHeld})`
  const move = textOf(sql`UPDATE checkrein_runs SET seq = ${0}, summary = ${""} WHERE run_no = ${0}`)
  const change = textOf(sql`UPDATE checkrein_runs SET status = ${""}, reason = ${""} WHERE run_no = ${0}`)
  const tag = textOf(
    sql`INSERT INTO checkrein_tags (run_no, tag, agent, status, reason, started_at, run_id)
      VALUES (${0}, ${""}, ${""}, ${""}, ${""}, ${""}, ${""})`
  )
  const changeTags = textOf(sql`UPDATE checkrein_tags SET status = ${""}, reason = ${""} WHERE run_no = ${0}`)
  const inserts = new Map<number, string>()
  const insert = (count: number): string => {
    const known = inserts.get(count)
    if (known !== undefined) return known
    const rows = Array.from({ length: count }, () => `(${firstKey("?")} + ?, ?, ?)`)
    const text = `INSERT INTO checkrein_events (id, body, checksum) VALUES ${rows.join(", ")}`
    inserts.set(count, text)
    return text
  }

  const createRun = Effect.fnUntraced(function* (
    execute: Execute,
    { events, runId, summary }: Append,
    own: Own | undefined
  ) {
    if (own !== undefined && (yield* execute(isHeld, [runId, own.holder])).length === 0) return undefined
    const { agent, parent, reason = null, startedAt, status, tags = [] } = summary
    const [created] = yield* execute(create, [
      runId,
      agent,
      status,
      reason,
      startedAt,
      events.length,
      JSON.stringify(summary),
      parent?.runId ?? null
    ])
    if (created === undefined) return undefined
    const { run_no } = created
    for (const each of new Set(tags))
      yield* execute(tag, [run_no, each, agent, status, reason, startedAt, runId])
    return run_no
  })

  /** Moves the run's row on, and says its number; `undefined` if that was not for this writer to do. */
  const advance = Effect.fnUntraced(function* (
    execute: Execute,
    { events, expected, runId, summary }: Append,
    own: Own | undefined
  ) {
    // Nobody else writes in between. An update that said which row it moved would cost as much as both.
    const [run] = yield* own === undefined
      ? execute(look, [runId, expected])
      : execute(lookHeld, [runId, expected, runId, own.holder])
    if (run === undefined) return undefined
    const { reason = null, status, tags = [] } = summary
    yield* execute(move, [expected + events.length, JSON.stringify(summary), run.run_no])
    // They are in indexes, and rarely change.
    if (run.status !== status || run.reason !== reason) {
      yield* execute(change, [status, reason, run.run_no])
      if (tags.length > 0) yield* execute(changeTags, [status, reason, run.run_no])
    }
    return run.run_no
  })

  const rowsOf = (
    run: unknown,
    runId: string,
    bodies: ReadonlyArray<string>,
    from: number
  ): ReadonlyArray<unknown> => {
    const rows: Array<unknown> = []
    for (const [index, body] of bodies.entries()) rows.push(run, from + index, body, checksum(runId, body))
    return rows
  }

  const write = Effect.fnUntraced(function* (
    execute: Execute,
    append: Append,
    bodies: ReadonlyArray<string>,
    own: Own | undefined
  ): Effect.fn.Return<boolean, SqlError> {
    const { expected, runId } = append
    const run = yield* expected === 0 ? createRun(execute, append, own) : advance(execute, append, own)
    if (run === undefined) return false
    for (let start = 0; start < bodies.length; start += mostRows) {
      const some = bodies.slice(start, start + mostRows)
      yield* execute(insert(some.length), rowsOf(run, runId, some, expected + start))
    }
    if (own?.isDue === true) yield* execute(leases.renew, [leases.leaseMs, runId, own.holder])
    return true
  })

  return (append, bodies) =>
    Effect.suspend(() => {
      const own = leases.own(append.runId)
      return Effect.map(
        transact(append.runId, append.durability, (execute) => write(execute, append, bodies, own)),
        (written) => {
          if (written && own?.isDue === true) own.settle(true)
          return written
        }
      )
    })
}
