/**
 * A `SqlClient` on Postgres, and with it a store of runs in one line, for machines that share their runs.
 *
 * It is `@effect/sql-pg`'s client with what a store of runs wants of it; install that package beside this one. A client
 * of your own making, from its `PgClient.layer`, does as well under `SqlRunStore.layer`.
 */
import { connect, type NetConnectOpts, type Socket } from "node:net"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Config from "effect/Config"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqlError from "effect/sql/SqlError"
import { RunStore, type RunStoreError } from "./RunStore.ts"
import { openError } from "./SqlFailure.ts"
import * as SqlRunStore from "./SqlRunStore.ts"
import { inWorldTime } from "./TimeLimit.ts"

/** How to reach a database. */
export interface Options {
  /** `postgres://user:password@host:port/database`, with the parameters that libpq knows, such as `sslmode=require`. */
  readonly url: string | Redacted.Redacted
  /**
   * How many connections to open at most, from 2 on. Default 10. A store of runs keeps one of them to hear what other
   * processes write.
   */
  readonly maxConnections?: number | undefined
  /** How long opening a connection may take. Default: the URL's `connect_timeout`, or 5 seconds. */
  readonly connectTimeout?: Duration.Input | undefined
}

const parsed = (url: string): URL | undefined => (URL.canParse(url) ? new URL(url) : undefined)

/** The server and the database of a URL, without what may be secret. */
const place = (url: string): string => `${parsed(url)?.host ?? ""}${parsed(url)?.pathname ?? ""}`

const codeOf = (error: SqlError.SqlError): string | undefined => {
  const { cause } = error.reason
  return typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string"
    ? cause.code
    : undefined
}

const noSuchDatabase = "3D000"

const isPostgres = (url: string): boolean => /^postgres(ql)?:$/.test(parsed(url)?.protocol ?? "")

const noUser = "No username configured"

const whyNotOpened = (error: SqlError.SqlError): string => {
  if (codeOf(error) === noSuchDatabase) return "there is no such database; create it, or name another one"
  const { cause, message } = error.reason
  const detail = (cause instanceof Error && cause.message !== "" ? cause.message : codeOf(error)) ?? message
  if (detail === noUser) return "its URL names no user; write postgres://user@host:port/database"
  switch (error.reason._tag) {
    case "AuthenticationError":
      return `the server refuses the user or the password (${detail})`
    case "ConnectionError":
      return `is the server running, and may this machine reach it? (${detail})`
    default:
      return String(detail)
  }
}

/** An error of opening, with the name of what could not be opened. */
const notOpened = (url: string, error: SqlError.SqlError): SqlError.SqlError => {
  const message = isPostgres(url)
    ? `cannot open the Postgres database ${place(url)}: ${whyNotOpened(error)}`
    : "this is no URL of a Postgres database; write postgres://user@host:port/database"
  const props = { message, operation: "open", cause: error.reason.cause }
  switch (error.reason._tag) {
    case "AuthenticationError":
      return new SqlError.SqlError({ reason: new SqlError.AuthenticationError(props) })
    case "ConnectionError":
      return new SqlError.SqlError({ reason: new SqlError.ConnectionError(props) })
    default:
      return new SqlError.SqlError({ reason: new SqlError.UnknownError(props) })
  }
}

// Postgres itself takes no value of a gigabyte, so this refuses nothing that is stored.
const largestMessage = 2 ** 30

/** Where the server of a URL listens. */
const addressOf = (url: URL): NetConnectOpts => {
  const host = (url.searchParams.get("host") ?? decodeURIComponent(url.hostname)).replace(/^\[(.*)\]$/, "$1")
  const port = Number(url.searchParams.get("port") ?? url.port) || 5432
  return host.startsWith("/")
    ? { path: `${host}/.s.PGSQL.${port}` }
    : {
        host: host === "" ? "localhost" : host,
        port,
        noDelay: true,
        // A connection that only listens would not notice otherwise that the other side is gone.
        keepAlive: true,
        keepAliveInitialDelay: 10_000
      }
}

/**
 * The sockets of a client, opened so that they can be closed: a client whose server does not answer any more waits for
 * ever for what it has asked.
 */
const socketsTo = (url: string) => {
  const open = new Set<Socket>()
  const target = parsed(url)
  return {
    stream:
      target === undefined
        ? undefined
        : () => {
            const socket = connect(addressOf(target))
            open.add(socket)
            socket.on("close", () => open.delete(socket))
            return socket
          },
    close: Effect.sync(() => {
      for (const socket of open) socket.destroy()
    })
  }
}

const patience = "3 seconds"

/**
 * Opens a pool of connections for as long as the scope is open, and sees that the server answers.
 *
 * Fails with `SqlError`, in words, when it does not, or refuses this user or this database.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Reactivity } from "effect/reactivity"
 * import * as Postgres from "checkrein/postgres"
 *
 * const now = Effect.gen(function* () {
 *   const sql = yield* Postgres.make({ url: "postgres://app@db.example/app" })
 *   return yield* sql`SELECT now()`
 * }).pipe(Effect.scoped, Effect.provide(Reactivity.layer))
 * ```
 */
export const make = ({
  connectTimeout,
  maxConnections = 10,
  url
}: Options): Effect.Effect<PgClient.PgClient, SqlError.SqlError, Scope.Scope | Reactivity.Reactivity> =>
  Effect.gen(function* () {
    const secret = typeof url === "string" ? Redacted.make(url) : url
    const sockets = socketsTo(Redacted.value(secret))
    const scope = yield* Effect.acquireRelease(Scope.make(), (scope, exit) =>
      Effect.flatMap(Effect.forkDetach(Effect.andThen(Effect.sleep(patience), sockets.close)), (impatient) =>
        Effect.ensuring(Scope.close(scope, exit), Fiber.interrupt(impatient))
      ).pipe(inWorldTime)
    )
    const client = PgClient.make({
      url: secret,
      stream: sockets.stream,
      // What `pg_stat_activity` shows; a name in the URL is the more telling one.
      applicationName: parsed(Redacted.value(secret))?.searchParams.has("application_name")
        ? undefined
        : "checkrein",
      maxConnections: Math.max(2, maxConnections),
      connectTimeout,
      maxMessageSize: largestMessage
    })
    // How long a connection lives, and may take to be made, is a matter of the world's time as well.
    return yield* inWorldTime(Scope.provide(client, scope)).pipe(
      Effect.tap((sql) => sql`SELECT 1`),
      Effect.mapError((error) => notOpened(Redacted.value(secret), error))
    )
  })

/**
 * A `SqlClient` on a Postgres database, for your own tables beside those of the runs.
 *
 * Fails with `SqlError`, in words, when the server does not answer, or refuses this user or this database.
 *
 * @example
 * ```ts
 * import * as Layer from "effect/Layer"
 * import * as Postgres from "checkrein/postgres"
 * import { SqlRunStore } from "checkrein/store"
 *
 * const Database = Postgres.layer({ url: "postgres://app@db.internal/app?sslmode=require" })
 * const Runs = SqlRunStore.layer.pipe(Layer.provideMerge(Database))
 * ```
 */
export const layer = (
  options: Options
): Layer.Layer<SqlClient.SqlClient | PgClient.PgClient, SqlError.SqlError> =>
  PgClient.layerFrom(make(options))

/**
 * A `SqlClient` on the Postgres database that the configuration names.
 *
 * @example
 * ```ts
 * import * as Config from "effect/Config"
 * import * as Postgres from "checkrein/postgres"
 *
 * const Database = Postgres.layerConfig({ url: Config.Redacted("DATABASE_URL") })
 * ```
 */
export const layerConfig = (
  config: Config.Wrap<Options>
): Layer.Layer<SqlClient.SqlClient | PgClient.PgClient, SqlError.SqlError | Config.ConfigError> =>
  PgClient.layerFrom(Effect.flatMap(Config.unwrap(config), make))

/**
 * A store of runs in a Postgres database, in one line.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Postgres from "checkrein/postgres"
 * import { RunStore } from "checkrein/store"
 *
 * const program = Effect.gen(function* () {
 *   const store = yield* RunStore.RunStore
 *   return yield* store.list({ status: "running" })
 * }).pipe(Effect.provide(Postgres.runStore({ url: "postgres://app@db.internal/app" })))
 * ```
 */
export const runStore = (options: Options): Layer.Layer<RunStore, RunStoreError> =>
  Layer.effect(
    RunStore,
    make(options).pipe(
      Effect.mapError(openError),
      Effect.flatMap((sql) => Effect.provideService(SqlRunStore.make, SqlClient.SqlClient, sql))
    )
  ).pipe(Layer.provide(Reactivity.layer))
