/**
 * Makes tables by migrations: a database that an older build made is brought up to date when it is opened, one that a
 * newer build made is refused.
 */
import * as Effect from "effect/Effect"
import * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import { RunStoreError } from "./RunStore.ts"
import { storeError } from "./SqlFailure.ts"

const refuseNewer = (newest: number, known: number) => {
  const problem = `its tables were made by a newer build (${newest}, and this one knows ${known}); upgrade checkrein`
  return newest > known
    ? Effect.fail(new RunStoreError({ runId: "", kind: "newer_version", problem }))
    : Effect.void
}

/** The last migration that the database has had; 0 if none. It is asked without a lock, which whoever reads would hold up. */
const newestIn = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, table: string) {
  const found = yield* sql.onDialectOrElse({
    pg: () => sql`SELECT 1 WHERE to_regclass(${table}) IS NOT NULL`,
    orElse: () => sql`SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ${table}`
  })
  if (found.length === 0) return 0
  const [row] = yield* sql<{ newest: number | null }>`SELECT MAX(migration_id) AS newest FROM ${sql(table)}`
  return row?.newest ?? 0
})

// With SQL_ASCII the server keeps the very bytes that it is sent, and those are UTF-8.
const encodings = new Set(["UTF8", "SQL_ASCII"])

/** A database in an encoding that has not every letter would refuse what a tool or a model says in mid-run. */
const refuseEncoding = (sql: SqlClient.SqlClient) =>
  sql.onDialectOrElse({
    pg: () =>
      Effect.flatMap(sql<{ server_encoding: string }>`SHOW server_encoding`, ([row]) => {
        const encoding = row?.server_encoding ?? ""
        const problem = `the database is encoded in ${encoding}, which has not every letter; make one with ENCODING 'UTF8'`
        return encodings.has(encoding)
          ? Effect.void
          : Effect.fail(new RunStoreError({ runId: "", kind: "unavailable", problem }))
      }),
    orElse: () => Effect.void
  })

type Migrations = Parameters<typeof Migrator.fromRecord>[0]

/** Runs the migrations that the database has not had, in order; `table` is where it keeps those that it has. */
export const run = (
  table: string,
  migrations: Migrations
): Effect.Effect<void, RunStoreError, SqlClient.SqlClient> =>
  Effect.gen(function* () {
    const sql = (yield* SqlClient.SqlClient).withoutTransforms()
    yield* refuseEncoding(sql)
    const known = Object.keys(migrations).length
    let newest = yield* newestIn(sql, table)
    // The migrator waits for everybody who reads the table, such as a backup, and whoever comes next waits for the migrator.
    if (newest < known) {
      yield* Migrator.make({})({ loader: Migrator.fromRecord(migrations), table })
      newest = yield* newestIn(sql, table)
    }
    yield* refuseNewer(newest, known)
  }).pipe(
    Effect.catchTags({
      SqlError: (error) => Effect.fail(storeError("", error)),
      MigrationError: (error) => Effect.fail(storeError("", error.cause ?? error))
    })
  )

/** Whether the database has had any of the migrations, without running one. */
export const hasAny = (
  table: string,
  migrations: Migrations
): Effect.Effect<boolean, RunStoreError, SqlClient.SqlClient> =>
  Effect.gen(function* () {
    const sql = (yield* SqlClient.SqlClient).withoutTransforms()
    const newest = yield* newestIn(sql, table)
    yield* refuseNewer(newest, Object.keys(migrations).length)
    return newest > 0
  }).pipe(Effect.catchTag("SqlError", (error) => Effect.fail(storeError("", error))))
