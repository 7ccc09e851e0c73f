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
  const look = textOf(sql`SELECT run_no, status FROM checkrein_runs WHERE run_id = ${""} AND seq = ${0}`)
  const move = textOf(sql`UPDATE checkrein_runs SET seq = ${0}, summary = ${""} WHERE run_no = ${0}`)
  const change = textOf(sql`UPDATE checkrein_runs SET status = ${""} WHERE run_no = ${0}`)
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
  const advance = Effect.fnUntraced(function* (
    execute: Execute,
    { events, expected, runId, summary }: Append
  ) {
    // Nobody else writes in between. An update that said which row it moved would cost as much as both.
    const [run] = yield* execute(look, [runId, expected])
    if (run === undefined) return undefined
    const { status, tags = [] } = summary
    yield* execute(move, [expected + events.length, JSON.stringify(summary), run.run_no])
    // It is in two indexes, and rarely changes.
    if (run.status !== status) {
      yield* execute(change, [status, run.run_no])
      if (tags.length > 0) yield* execute(changeTags, [status, run.run_no])
    }
    return run.run_no
  })

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
