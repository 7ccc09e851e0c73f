import { describe, expect, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import * as Postgres from "../../src/store/Postgres.ts"
import { describePostgres, url } from "./postgres.ts"

const one = SqlClient.SqlClient.use((sql) => sql`SELECT 1 AS one`)

describePostgres("a client", () => {
  it.effect("of a URL, secret or not", () =>
    Effect.gen(function* () {
      const at = yield* url
      expect(yield* Effect.provide(one, Postgres.layer({ url: at }))).toEqual([{ one: 1 }])
      expect(yield* Effect.provide(one, Postgres.layer({ url: Redacted.make(at) }))).toEqual([{ one: 1 }])
    })
  )

  it.effect("of the configuration", () =>
    Effect.gen(function* () {
      const DATABASE_URL = yield* url
      const database = Postgres.layerConfig({ url: Config.Redacted("DATABASE_URL") })
      const configured = Effect.provide(one, database)
      const withConfig = (env: Record<string, string>) =>
        Effect.provideService(configured, ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(env))
      expect(yield* withConfig({ DATABASE_URL })).toEqual([{ one: 1 }])
      expect(yield* Effect.flip(withConfig({}))).toMatchObject({ _tag: "ConfigError" })
    })
  )

  it.effect("has a name that the server shows", () =>
    Effect.gen(function* () {
      const named = yield* url
      const unnamed = new URL(named)
      unnamed.searchParams.delete("application_name")
      const name = SqlClient.SqlClient.use((sql) => sql`SHOW application_name`)
      expect(yield* Effect.provide(name, Postgres.layer({ url: unnamed.href }))).toEqual([
        { application_name: "checkrein" }
      ])
      expect(yield* Effect.provide(name, Postgres.layer({ url: named }), { local: true })).toEqual([
        { application_name: new URL(named).searchParams.get("application_name") }
      ])
    })
  )

  it.effect("has two connections at least, since one may be listening", () =>
    Effect.gen(function* () {
      const reserving = Effect.scoped(SqlClient.SqlClient.use((sql) => Effect.andThen(sql.reserve, one)))
      const database = Postgres.layer({ url: yield* url, maxConnections: 1 })
      expect(yield* Effect.provide(reserving, database)).toEqual([{ one: 1 }])
    })
  )

  it.effect("of a database that is not there, or for a user that is not", () =>
    Effect.gen(function* () {
      const missing = new URL(yield* url)
      missing.pathname = "/no_such_database"
      const why = (url: string) =>
        Effect.map(Effect.flip(Effect.provide(one, Postgres.layer({ url }), { local: true })), String)
      expect(yield* why(missing.href)).toMatch(/\/no_such_database: there is no such database; create it/)
      const stranger = new URL(yield* url)
      stranger.username = "nobody_here"
      stranger.password = "sesame"
      const refused = yield* why(stranger.href)
      expect(refused).toMatch(/the server refuses the user or the password/)
      expect(refused).not.toMatch(/sesame/)
    })
  )
})

const restore = (env: { readonly [name: string]: string | undefined }) => {
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
}

describe("no server", () => {
  it.effect("is said with its name and without the password", () =>
    Effect.gen(function* () {
      const closed = "postgres://app:sesame@127.0.0.1:1/app"
      const client = yield* Effect.flip(Effect.provide(one, Postgres.layer({ url: closed })))
      expect(client._tag).toBe("SqlError")
      expect(client.message).toMatch(
        /cannot open the Postgres database 127\.0\.0\.1:1\/app: is the server running/
      )
      const store = yield* Effect.flip(Effect.provide(Effect.void, Postgres.runStore({ url: closed })))
      expect(store).toMatchObject({ _tag: "RunStoreError", kind: "unavailable", runId: "" })
      expect(store.problem).toBe(client.message)
      expect(JSON.stringify([client.message, store.message])).not.toMatch(/sesame/)
    })
  )

  it.effect("is asked where nothing says as whom", () =>
    Effect.gen(function* () {
      const env = { USER: undefined, USERNAME: undefined }
      const before = Object.fromEntries(Object.keys(env).map((name) => [name, process.env[name]]))
      yield* Effect.addFinalizer(() => Effect.sync(() => restore(before)))
      restore(env)
      const failure = yield* Effect.flip(Effect.provide(one, Postgres.layer({ url: "postgres://h/app" })))
      expect(failure.message).toBe(
        "cannot open the Postgres database h/app: its URL names no user; write postgres://user@host:port/database"
      )
    })
  )

  it.effect.each(["runs.db", "mysql://app@db/app", ""])("is what %j names", (url) =>
    Effect.gen(function* () {
      const failure = yield* Effect.flip(Effect.provide(one, Postgres.layer({ url })))
      expect(failure.message).toBe(
        "this is no URL of a Postgres database; write postgres://user@host:port/database"
      )
    })
  )
})
