/**
 * Makes tables by migrations: a database that an older build made is brought up to date when it is opened, one that a
 * newer build made is refused.
 */
import * as Effect from "effect/Effect"
import * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import { RunStoreError } from "./RunStore.ts"
import { storeError } from "./SqlFailure.ts"

/** Runs the migrations that the database has not had, in order; `table` is where it keeps those that it has. */
export const run = (
  table: string,
  migrations: Parameters<typeof Migrator.fromRecord>[0]
): Effect.Effect<void, RunStoreError, SqlClient.SqlClient> =>
  Effect.gen(function* () {
    const sql = (yield* SqlClient.SqlClient).withoutTransforms()
    const known = Object.keys(migrations).length
    yield* Migrator.make({})({ loader: Migrator.fromRecord(migrations), table })
    const [row] = yield* sql<{ newest: number }>`SELECT MAX(migration_id) AS newest FROM ${sql(table)}`
    if (row !== undefined && row.newest > known) {
      const problem = `its tables were made by a newer build (${row.newest}, and this one knows ${known}); upgrade checkrein`
      return yield* new RunStoreError({ runId: "", kind: "newer_version", problem })
    }
  }).pipe(
    Effect.catchTags({
      SqlError: (error) => Effect.fail(storeError("", error)),
      MigrationError: (error) => Effect.fail(storeError("", error.cause ?? error))
    })
  )
