/** Deleting runs, whole and never while they are driven. */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { RunBusy, RunNotFound, type RunStoreError } from "./RunStore.ts"
import { firstKey } from "./SqlEvents.ts"
import { nowText } from "./SqlLeases.ts"
import { type Execute, type Transact, textOf } from "./SqlTransaction.ts"

/** Deletes a run and those that it has started, and yields their ids. */
export const make = (
  sql: SqlClient.SqlClient,
  transact: Transact
): ((runId: string) => Effect.Effect<ReadonlyArray<string>, RunNotFound | RunBusy | RunStoreError>) => {
  const now = sql.literal(nowText(sql))
  const familyText = textOf(sql`WITH RECURSIVE family (run_id, run_no) AS (
      SELECT run_id, run_no FROM checkrein_runs WHERE run_id = ${""}
      UNION SELECT r.run_id, r.run_no FROM checkrein_runs r JOIN family f ON r.parent = f.run_id
    )
    SELECT f.run_id, f.run_no, CASE WHEN l.until_ms > ${now} THEN 1 ELSE 0 END AS busy
    FROM family f LEFT JOIN checkrein_leases l ON l.run_id = f.run_id`)
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
    textOf(sql`DELETE FROM checkrein_leases WHERE run_id = ${""} AND until_ms <= ${now}`)
  ]

  const remove = Effect.fnUntraced(function* (
    execute: Execute,
    runId: string
  ): Effect.fn.Return<ReadonlyArray<string> | RunBusy | RunNotFound, SqlError> {
    const family = yield* execute(familyText, [runId])
    if (family.length === 0) return new RunNotFound({ runId })
    const driven = family.find(({ busy }) => busy === 1)
    if (driven !== undefined) return new RunBusy({ runId: String(driven.run_id) })
    // Whoever takes a lease from here on finds no run: its first append is refused.
    for (const { run_id, run_no } of family) {
      for (const text of byId) yield* execute(text, [run_id])
      for (const text of byNumber) yield* execute(text, [run_no])
    }
    return family.map(({ run_id }) => String(run_id))
  })

  return (runId) =>
    Effect.flatMap(
      transact(runId, "power", (execute) => remove(execute, runId)),
      (removed) =>
        removed instanceof RunBusy || removed instanceof RunNotFound
          ? Effect.fail(removed)
          : Effect.succeed(removed)
    )
}
