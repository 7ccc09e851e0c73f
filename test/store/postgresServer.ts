/**
 * Looks once, before all tests, for a Postgres server: `CHECKREIN_TEST_PG`, or the default below. Without one the tests
 * that need it are skipped and one line says so; with `CHECKREIN_TEST_PG_REQUIRED` the run fails instead.
 *
 * All tests of a run share one database that is made here and dropped at the end.
 */
import { randomBytes } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as SqlClient from "effect/sql/SqlClient"
import type { TestProject } from "vitest/node"
import * as Postgres from "../../src/store/Postgres.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** The URL of this run's database, or why there is none. */
    readonly postgres: { readonly url: string | undefined }
  }
}

const server = process.env.CHECKREIN_TEST_PG ?? "postgres://postgres@127.0.0.1:5432/test"

const execute = (statement: string) =>
  SqlClient.SqlClient.use((sql) => sql.unsafe(statement)).pipe(
    Effect.provide(Postgres.layer({ url: server, connectTimeout: "5 seconds" }))
  )

export default async (project: TestProject) => {
  const database = `checkrein_${randomBytes(6).toString("hex")}`
  const made = await Effect.runPromise(Effect.result(execute(`CREATE DATABASE ${database}`)))
  if (Result.isFailure(made)) {
    const { message } = made.failure
    if (process.env.CHECKREIN_TEST_PG_REQUIRED !== undefined)
      throw new Error(message, { cause: made.failure })
    console.log(`The tests on Postgres are not run (CHECKREIN_TEST_PG names a server): ${message}`)
    project.provide("postgres", { url: undefined })
    return
  }
  const url = new URL(server)
  url.pathname = `/${database}`
  project.provide("postgres", { url: url.href })
  return () => Effect.runPromise(execute(`DROP DATABASE ${database} WITH (FORCE)`))
}
