/** The stores that are measured, each in a place of its own: a file, and a database on the server if one answers. */
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as Postgres from "../../src/store/Postgres.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import * as SqlRunStore from "../../src/store/SqlRunStore.ts"

/** A store, and the client under it. */
export interface Database {
  readonly name: "SQLite" | "Postgres"
  readonly sql: SqlClient.SqlClient
  readonly store: RunStore["Service"]
}

const server = process.env.CHECKREIN_TEST_PG ?? "postgres://postgres@127.0.0.1:5432/test"

const database = (name: Database["name"], client: Layer.Layer<SqlClient.SqlClient, unknown>) =>
  Effect.map(
    Layer.build(Layer.fresh(Layer.provideMerge(SqlRunStore.layer, client))),
    (context): Database => ({
      name,
      sql: Context.get(context, SqlClient.SqlClient),
      store: Context.get(context, RunStore)
    })
  )

/** A store in a file that is gone when the scope closes. */
export const sqlite = Effect.gen(function* () {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "checkrein-bench-"))),
    (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
  )
  // As `NodeSqlite.runStore` opens it.
  return yield* database(
    "SQLite",
    NodeSqlite.layer({ filename: join(folder, "runs.db"), synchronous: "normal" })
  )
})

const execute = (statement: string) =>
  SqlClient.SqlClient.use((sql) => sql.unsafe(statement)).pipe(
    Effect.provide(Postgres.layer({ url: server }), { local: true })
  )

/** A store in a database that is dropped when the scope closes. Fails if no server answers. */
export const postgres = Effect.gen(function* () {
  const name = `checkrein_bench_${randomBytes(6).toString("hex")}`
  yield* Effect.acquireRelease(execute(`CREATE DATABASE ${name}`), () =>
    Effect.orDie(execute(`DROP DATABASE ${name} WITH (FORCE)`))
  )
  const url = new URL(server)
  url.pathname = `/${name}`
  return yield* database("Postgres", Postgres.layer({ url: url.href }))
})

/** Whether a server answers. */
export const postgresAnswers: Effect.Effect<boolean> = Effect.match(execute("SELECT 1"), {
  onFailure: () => false,
  onSuccess: () => true
})
