/** Which runs to list, as a statement: a page is a walk along one index, from where the last page ended. */
import type { Effect } from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type * as Statement from "effect/sql/Statement"
import type { ListOptions } from "./RunStore.ts"

/** A run's row, as far as a list needs it. */
export interface Row {
  readonly run_id: string
  readonly summary: string
}

/** The rows of a page. */
export const rows = (
  sql: SqlClient.SqlClient,
  { agent, before, limit = 50, since, status, tag, until }: ListOptions
): Effect<ReadonlyArray<Row>, SqlError> => {
  const wanted: Array<Statement.Fragment> = []
  if (tag !== undefined) wanted.push(sql`k.tag = ${tag}`)
  if (status !== undefined) wanted.push(sql`k.status = ${status}`)
  if (agent !== undefined) wanted.push(sql`k.agent = ${agent}`)
  if (since !== undefined) wanted.push(sql`k.started_at >= ${since}`)
  if (until !== undefined) wanted.push(sql`k.started_at < ${until}`)
  if (before !== undefined)
    wanted.push(sql`(k.started_at, k.run_id) < (${before.startedAt}, ${before.runId})`)
  // What is beside a tag is enough to find the runs and their order; the summary is in the run's own row.
  const source =
    tag === undefined
      ? sql`checkrein_runs k`
      : sql`checkrein_tags k JOIN checkrein_runs r ON r.run_no = k.run_no`
  return sql<Row>`SELECT k.run_id, summary FROM ${source} WHERE ${sql.and(wanted)}
    ORDER BY k.started_at DESC, k.run_id DESC LIMIT ${limit}`
}
