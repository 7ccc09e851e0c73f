/** Deleting runs, whole and never while they are driven. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { type DeleteOptions, RunBusy, RunNotFound, type RunStoreError } from "./RunStore.ts"
import { firstKey } from "./SqlEvents.ts"
import { heldText } from "./SqlLeases.ts"
import { type Execute, forUpdate, type Transact, textOf } from "./SqlTransaction.ts"

const decodeUpdated = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Struct({ updatedAt: Schema.String }))
)

/** Whether something is known to have been written to a run since: a summary that cannot be read keeps no run. */
const isTouched = (summary: unknown, since: string): boolean =>
  Option.exists(decodeUpdated(summary), ({ updatedAt }) => updatedAt >= since)

/** Deletes a run and those that it has started, and yields their ids: none, if one is to stay. */
export const make = (
  sql: SqlClient.SqlClient,
  transact: Transact
): ((
  runId: string,
  options?: DeleteOptions
) => Effect.Effect<ReadonlyArray<string>, RunNotFound | RunBusy | RunStoreError>) => {
  const held = sql.literal(heldText(sql))
  const locked = forUpdate(sql)
  const runText = textOf(
    sql`SELECT run_id, run_no, summary FROM checkrein_runs WHERE run_id = ${""} ${locked}`
  )
  const startedText = textOf(
    sql`SELECT run_id, run_no, summary FROM checkrein_runs WHERE parent = ${""} ${locked}`
  )
  const drivenText = textOf(sql`SELECT run_id FROM checkrein_leases WHERE run_id = ${""} AND ${held}`)
  const byNumber = [
    sql.onDialectOrElse({
      pg: () => textOf(sql`DELETE FROM checkrein_events WHERE run_no = ${0}`),
      orElse: () =>
        `DELETE FROM checkrein_events WHERE id >= ${firstKey("?1")} AND id < ${firstKey("?1 + 1")}`
    }),
    textOf(sql`DELETE FROM checkrein_tags WHERE run_no = ${0}`),
    textOf(sql`DELETE FROM checkrein_runs WHERE run_no = ${0}`)
  ]
  const byId = [
    textOf(sql`DELETE FROM checkrein_commands WHERE run_id = ${""}`),
    textOf(sql`DELETE FROM checkrein_leases WHERE run_id = ${""} AND NOT ${held}`)
  ]

  // On Postgres others write meanwhile. Once a run's row is locked nothing is added to the run: an append and a command
  // wait, and then find no run. So only what is read after that is true until the end.
  const remove = Effect.fnUntraced(function* (
    execute: Execute,
    runId: string,
    { untouchedSince }: DeleteOptions
  ): Effect.fn.Return<ReadonlyArray<string> | RunBusy | RunNotFound, SqlError> {
    const family = new Map<unknown, string>()
    let isToStay = false
    const lock = (text: string, id: string) =>
      Effect.map(execute(text, [id]), (rows) => {
        for (const { run_id, run_no, summary } of rows) {
          family.set(run_no, String(run_id))
          if (untouchedSince !== undefined && isTouched(summary, untouchedSince)) isToStay = true
        }
      })
    yield* lock(runText, runId)
    if (family.size === 0) return new RunNotFound({ runId })
    for (const id of family.values()) {
      // Whoever takes the lease from here on is refused its first append.
      if ((yield* execute(drivenText, [id])).length > 0) return new RunBusy({ runId: id })
      yield* lock(startedText, id)
    }
    if (isToStay) return []
    for (const [number, id] of family) {
      for (const text of byId) yield* execute(text, [id])
      for (const text of byNumber) yield* execute(text, [number])
    }
    return [...family.values()]
  })

  return (runId, options = {}) =>
    Effect.flatMap(
      transact(runId, "power", (execute) => remove(execute, runId, options)),
      (removed) =>
        removed instanceof RunBusy || removed instanceof RunNotFound
          ? Effect.fail(removed)
          : Effect.succeed(removed)
    )
}
