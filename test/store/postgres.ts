/** Postgres for a test: a part of the database that is its own and empty, and is gone when the test ends. */
import { randomBytes } from "node:crypto"
import { describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import { inject } from "vitest"
import * as Postgres from "../../src/store/Postgres.ts"

const { url: database = "" } = inject("postgres")

/** Whether a server answers; if none does, what needs it is skipped. */
export const available = database !== ""

/** A `describe` for what needs a server. */
export const describePostgres = describe.skipIf(!available)

const execute = (statement: string) =>
  SqlClient.SqlClient.use((sql) => sql.unsafe(statement)).pipe(
    Effect.provide(Postgres.layer({ url: database }), { local: true }),
    Effect.orDie
  )

/**
 * The URL of an empty schema in the test database. Its connections are known by their `application_name`, which is the
 * name of the schema.
 */
export const url = Effect.map(
  Effect.acquireRelease(
    Effect.suspend(() => {
      const schema = `test_${randomBytes(6).toString("hex")}`
      return Effect.as(execute(`CREATE SCHEMA ${schema}`), schema)
    }),
    (schema) => execute(`DROP SCHEMA ${schema} CASCADE`)
  ),
  (schema) => {
    const url = new URL(database)
    url.searchParams.set("application_name", schema)
    url.searchParams.set("options", `-c search_path=${schema} -c client_min_messages=warning`)
    return url.href
  }
)

/** A layer on an empty schema of its own. */
export const inSchema = <A, E, R>(layer: (url: string) => Layer.Layer<A, E, R>): Layer.Layer<A, E, R> =>
  Layer.unwrap(Effect.map(url, layer))
