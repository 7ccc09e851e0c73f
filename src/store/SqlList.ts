/** Which runs to list, as a statement: a page is a walk along one index, from where the last page ended. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as SqlClient from "effect/sql/SqlClient"
import type * as Statement from "effect/sql/Statement"
import type { ListOptions, RunStoreError, RunSummary } from "./RunStore.ts"

/** A run's row, as far as a list needs it. */
export interface Row {
  readonly run_id: string
  readonly started_at: string
  readonly summary: string
  /** The number of its last command, if that is asked for. */
  readonly last_command?: number
}

const usual = 50

/**
 * Which index to walk along, for SQLite: it knows nothing of what is in its tables, and takes one with less in it where
 * both ends of a time are given. A reason goes with one status, and says more.
 */
const along = (sql: SqlClient.SqlClient, { agent, reason, status, tag }: ListOptions): Statement.Fragment => {
  const standing = reason !== undefined ? "_reason" : status !== undefined ? "_status" : ""
  const by = `${agent === undefined ? "" : "_agent"}${standing}` || "_newest"
  return sql.onDialectOrElse({
    pg: () => sql.literal(""),
    orElse: () => sql.literal(`INDEXED BY checkrein_${tag === undefined ? "runs" : "tags"}${by}`)
  })
}

/** The rows of a page. */
export const rows = (sql: SqlClient.SqlClient, options: ListOptions): Statement.Statement<Row> => {
  const { agent, before, limit = usual, reason, since, status, tag, told, until } = options
  const wanted: Array<Statement.Fragment> = []
  if (tag !== undefined) wanted.push(sql`k.tag = ${tag}`)
  if (status !== undefined) wanted.push(sql`k.status = ${status}`)
  if (reason !== undefined) wanted.push(sql`k.reason = ${reason}`)
  if (agent !== undefined) wanted.push(sql`k.agent = ${agent}`)
  if (since !== undefined) wanted.push(sql`k.started_at >= ${since}`)
  if (until !== undefined) wanted.push(sql`k.started_at < ${until}`)
  if (before !== undefined)
    wanted.push(sql`(k.started_at, k.run_id) < (${before.startedAt}, ${before.runId})`)
  if (told === true) wanted.push(sql`EXISTS (SELECT 1 FROM checkrein_commands c WHERE c.run_id = k.run_id)`)
  // What is beside a tag is enough to find the runs and their order; the summary is in the run's own row.
  const source =
    tag === undefined
      ? sql`checkrein_runs k ${along(sql, options)}`
      : sql`checkrein_tags k ${along(sql, options)} JOIN checkrein_runs r ON r.run_no = k.run_no`
  const last = sql`SELECT MAX(c.id) FROM checkrein_commands c WHERE c.run_id = k.run_id`
  const columns = told === true ? sql`summary, (${last}) AS last_command` : sql`summary`
  return sql<Row>`SELECT k.run_id, k.started_at, ${columns} FROM ${source} WHERE ${sql.and(wanted)}
    ORDER BY k.started_at DESC, k.run_id DESC LIMIT ${limit}`
}

/**
 * A page of runs. One whose summary cannot be read is left out, and the log says so: an operator has to see the others.
 * Nor is one on it that was told nothing new, where that is asked for. What follows fills the page, so that only the last one is shorter than was asked for.
 */
export const page = Effect.fnUntraced(function* <E>(
  options: ListOptions,
  rowsOf: (options: ListOptions) => Effect.Effect<ReadonlyArray<Row>, E>,
  read: (row: Row) => Result.Result<RunSummary, RunStoreError>
) {
  const { limit = usual } = options
  const runs: Array<RunSummary> = []
  let { before } = options
  while (true) {
    const found = yield* rowsOf({ ...options, before, limit })
    for (const row of found) {
      const summary = read(row)
      if (Result.isSuccess(summary)) {
        const { last_command = Number.POSITIVE_INFINITY } = row
        // Only the summary says which commands its driver has taken in.
        if (last_command > summary.success.inbox) runs.push(summary.success)
      } else yield* Effect.logWarning(`run ${row.run_id} is left out of a list: ${summary.failure.problem}`)
    }
    const last = found.at(-1)
    if (last === undefined || found.length < limit || runs.length >= limit) return runs.slice(0, limit)
    before = { startedAt: last.started_at, runId: last.run_id }
  }
})
