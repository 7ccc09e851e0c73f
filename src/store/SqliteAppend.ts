/** Appending to a journal in SQLite: one transaction that moves the run's row on and adds its events. */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as EventCodec from "../run/EventCodec.ts"
import { checksum } from "./Checksum.ts"
import type { Append, RunStoreError } from "./RunStore.ts"
import { firstKey } from "./SqlEvents.ts"
import type { Due, SqlLeases } from "./SqlLeases.ts"
import { type Execute, type Transact, textOf } from "./SqlTransaction.ts"

// A statement may have only so many parameters.
const mostRows = 100

/** Says whether the append was made: it was not if the run's next event was not the expected one. */
export const make = (
  sql: SqlClient.SqlClient,
  transact: Transact,
  leases: SqlLeases
): ((append: Append) => Effect.Effect<boolean, RunStoreError>) => {
  const create = textOf(
    sql`INSERT INTO checkrein_runs (run_id, agent, status, started_at, seq, summary, parent)
      VALUES (${""}, ${""}, ${""}, ${""}, ${0}, ${""}, ${""}) ON CONFLICT (run_id) DO NOTHING RETURNING run_no`
  )
  const move = textOf(
    sql`UPDATE checkrein_runs SET seq = ${0}, summary = ${""}
      WHERE run_id = ${""} AND seq = ${0} AND status = ${""} RETURNING run_no`
  )
  const moveAndChange = textOf(
    sql`UPDATE checkrein_runs SET status = ${""}, seq = ${0}, summary = ${""}
      WHERE run_id = ${""} AND seq = ${0} RETURNING run_no`
  )
  const tag = textOf(
    sql`INSERT INTO checkrein_tags (run_no, tag, agent, status, started_at, run_id)
      VALUES (${0}, ${""}, ${""}, ${""}, ${""}, ${""})`
  )
  const changeTags = textOf(sql`UPDATE checkrein_tags SET status = ${""} WHERE run_no = ${0}`)
  const inserts = new Map<number, string>()
  const insert = (count: number): string => {
    const known = inserts.get(count)
    if (known !== undefined) return known
    const rows = Array.from({ length: count }, () => `(${firstKey("?")} + ?, ?, ?)`)
    const text = `INSERT INTO checkrein_events (id, body, checksum) VALUES ${rows.join(", ")}`
    inserts.set(count, text)
    return text
  }

  const createRun = Effect.fnUntraced(function* (execute: Execute, { events, runId, summary }: Append) {
    const { agent, parent, startedAt, status, tags = [] } = summary
    const [created] = yield* execute(create, [
      runId,
      agent,
      status,
      startedAt,
      events.length,
      JSON.stringify(summary),
      parent?.runId ?? null
    ])
    if (created === undefined) return undefined
    const { run_no } = created
    for (const each of new Set(tags)) yield* execute(tag, [run_no, each, agent, status, startedAt, runId])
    return run_no
  })

  /** Moves the run's row on, and says its number; `undefined` if it had not the expected event number. */
  const advance = (execute: Execute, { events, expected, runId, summary }: Append) => {
    const seq = expected + events.length
    const body = JSON.stringify(summary)
    const { status, tags = [] } = summary
    // The status is in two indexes and rarely changes: naming it in every update would write both of them each time.
    return Effect.flatMap(execute(move, [seq, body, runId, expected, status]), ([moved]) =>
      moved !== undefined
        ? Effect.succeed(moved.run_no)
        : Effect.flatMap(execute(moveAndChange, [status, seq, body, runId, expected]), ([changed]) =>
            changed === undefined || tags.length === 0
              ? Effect.succeed(changed?.run_no)
              : Effect.as(execute(changeTags, [status, changed.run_no]), changed.run_no)
          )
    )
  }

  const rowsOf = (run: unknown, events: Append["events"], from: number): ReadonlyArray<unknown> => {
    const rows: Array<unknown> = []
    for (const [index, event] of events.entries()) {
      const body = EventCodec.encode(event)
      rows.push(run, from + index, body, checksum(body))
    }
    return rows
  }

  const write = Effect.fnUntraced(function* (
    execute: Execute,
    append: Append,
    due: Due | undefined
  ): Effect.fn.Return<{ readonly written: boolean; readonly renewed?: boolean }, SqlError> {
    const { events, expected } = append
    const run = yield* expected === 0 ? createRun(execute, append) : advance(execute, append)
    if (run === undefined) return { written: false }
    for (let start = 0; start < events.length; start += mostRows) {
      const some = events.slice(start, start + mostRows)
      yield* execute(insert(some.length), rowsOf(run, some, expected + start))
    }
    if (due === undefined) return { written: true }
    const [renewed] = yield* execute(leases.renew, [leases.leaseMs, due.runId, due.holder])
    return { written: true, renewed: renewed !== undefined }
  })

  return (append) =>
    Effect.suspend(() => {
      const due = leases.due(append.runId)
      return Effect.map(
        transact(append.runId, append.durability, (execute) => write(execute, append, due)),
        ({ renewed, written }) => {
          if (renewed !== undefined) due?.settle(renewed)
          return written
        }
      )
    })
}
