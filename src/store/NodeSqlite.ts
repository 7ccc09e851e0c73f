/**
 * A `SqlClient` on `node:sqlite`, and with it a store of runs in one line.
 *
 * One connection, shared through a semaphore: while a transaction is open every other statement waits for it.
 * SQLite works synchronously: a statement keeps the event loop busy while it runs, which is microseconds for the
 * small ones and as long as it takes for the large ones.
 */
import { mkdirSync } from "node:fs"
import { dirname } from "node:path"
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as SqlClient from "effect/sql/SqlClient"
import type * as SqlConnection from "effect/sql/SqlConnection"
import * as SqlError from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import { RunStore, type RunStoreError } from "./RunStore.ts"
import { openError } from "./SqlFailure.ts"
import * as SqlRunStore from "./SqlRunStore.ts"
import { inWorldTime } from "./TimeLimit.ts"

/** How to open a database. */
export interface Options {
  /** The file; its folder is made when it is missing. `":memory:"` for a database that lives as long as the layer. */
  readonly filename: string
  /** How long to wait while another process or connection writes, without blocking this one. Default 5 seconds. */
  readonly busyTimeout?: Duration.Input | undefined
  /**
   * What a commit waits for: `full` (default) survives a power cut, `normal` survives only the process. A store of
   * runs asks for what each of its writes needs, whatever this says.
   */
  readonly synchronous?: "full" | "normal" | undefined
}

// SQLite itself waits by blocking the process; what takes longer than this is waited for on the clock.
const engineWait = Duration.millis(10)
const statementsKept = 256

const errcodeOf = (cause: unknown): number | undefined =>
  cause instanceof Error && "errcode" in cause && typeof cause.errcode === "number"
    ? cause.errcode
    : undefined

const primaryKeyViolation = 1555
const uniqueViolation = 2067

const sqlError = (cause: unknown, operation: string, message: string): SqlError.SqlError => {
  const errcode = errcodeOf(cause)
  // The classifier looks for `errno`, and knows a repeated key by one of its two numbers only.
  const errno = errcode === primaryKeyViolation ? uniqueViolation : errcode
  if (cause instanceof Error && errno !== undefined) Object.assign(cause, { errno })
  return new SqlError.SqlError({
    reason: SqlError.classifySqliteError(cause, { message, operation })
  })
}

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))

const whyNotOpened = (cause: unknown): string => {
  switch ((errcodeOf(cause) ?? 0) & 0xff) {
    case 14:
      return "it is a directory, or this process has no permission to open it and to write in its folder"
    case 8:
      return "it is read-only; give this process permission to write it and its folder"
    case 5:
    case 6:
      return "another process keeps it locked; try again, or end that process"
    case 11:
      return "it is damaged; restore it from a backup"
    default:
      return messageOf(cause)
  }
}

const notADatabase = 26

/** Why a database could not be opened, with its name. */
const notOpened = (filename: string, cause: unknown): string =>
  ((errcodeOf(cause) ?? 0) & 0xff) === notADatabase
    ? `${filename} is not a SQLite database; name another file`
    : `cannot open the database ${filename}: ${whyNotOpened(cause)}`

const isFile = (filename: string) =>
  filename !== "" && filename !== ":memory:" && !filename.startsWith("file:")

const open = (options: Options): DatabaseSync => {
  if (isFile(options.filename)) mkdirSync(dirname(options.filename), { recursive: true })
  const db = new DatabaseSync(options.filename, {
    timeout: Duration.toMillis(engineWait),
    enableForeignKeyConstraints: true
  })
  try {
    // Of a new file: a table or an index takes a page at least, and there are some twenty of them.
    db.exec("PRAGMA page_size = 2048")
    db.exec("PRAGMA journal_mode = WAL")
    db.exec(`PRAGMA synchronous = ${options.synchronous === "normal" ? "NORMAL" : "FULL"}`)
    // On macOS an ordinary fsync leaves the data in the drive's cache.
    db.exec("PRAGMA fullfsync = ON")
    // Writes something and takes it back, so that a file that may only be read is refused now and not in mid-run. A
    // bare BEGIN IMMEDIATE would not do: on such a file SQLite begins a reading transaction instead.
    db.exec("BEGIN IMMEDIATE; PRAGMA user_version = 1; ROLLBACK")
    return db
  } catch (cause) {
    db.close()
    throw cause
  }
}

const toInput = (value: unknown): SQLInputValue => {
  if (value === undefined || value === null) return null
  if (typeof value === "boolean") return value ? 1 : 0
  if (value instanceof Date) return value.toISOString()
  if (typeof value === "string" || typeof value === "number" || typeof value === "bigint") return value
  if (value instanceof Uint8Array) return value
  throw new TypeError(`SQLite cannot store a value of type ${typeof value}`)
}

type Rows = ReadonlyArray<object>

const all = (statement: StatementSync, params: ReadonlyArray<SQLInputValue>): Rows => statement.all(...params)

const isBusy = (error: SqlError.SqlError) => error.reason._tag === "LockTimeoutError"

const connect = (db: DatabaseSync, whenFree: Schedule.Schedule<unknown>): SqlConnection.Connection => {
  const kept = new Map<string, StatementSync>()
  const fresh = (text: string) => db.prepare(text)
  const prepared = (text: string): StatementSync => {
    const known = kept.get(text)
    if (known !== undefined) return known
    const statement = fresh(text)
    const [oldest] = kept.keys()
    if (kept.size >= statementsKept && oldest !== undefined) kept.delete(oldest)
    kept.set(text, statement)
    return statement
  }

  const run =
    <A>(
      prepare: (text: string) => StatementSync,
      execute: (statement: StatementSync, params: ReadonlyArray<SQLInputValue>) => A
    ) =>
    (text: string, params: ReadonlyArray<unknown>): Effect.Effect<A, SqlError.SqlError> => {
      const once = (fiber: Fiber.Fiber<unknown, unknown>): Exit.Exit<A, SqlError.SqlError> => {
        try {
          const statement = prepare(text)
          statement.setReadBigInts(Context.get(fiber.context, SqlClient.SafeIntegers))
          return Exit.succeed(execute(statement, params.map(toInput)))
        } catch (cause) {
          return Exit.fail(sqlError(cause, "execute", messageOf(cause)))
        }
      }
      return Effect.withFiber((fiber) => {
        const exit = once(fiber)
        // Nothing of a busy statement was done, and SQLite leaves the transaction around it open, of which only the whole
        // can be tried again.
        if (Exit.isSuccess(exit) || db.isTransaction) return exit
        return Effect.catchIf(exit, isBusy, () =>
          inWorldTime(Effect.retry(Effect.withFiber(once), { while: isBusy, schedule: whenFree }))
        )
      })
    }

  const rows = run(prepared, all)
  const rowsUnprepared = run(fresh, all)
  const values = run(fresh, (statement, params) => {
    statement.setReturnArrays(true)
    // In this mode each row is an array, which the type of `all` does not say.
    return all(statement, params).map(
      (row): ReadonlyArray<unknown> => (Array.isArray(row) ? row : Object.values(row))
    )
  })

  return {
    execute: (text, params, transform) =>
      transform === undefined ? rows(text, params) : Effect.map(rows(text, params), transform),
    executeUnprepared: (text, params, transform) =>
      transform === undefined
        ? rowsUnprepared(text, params)
        : Effect.map(rowsUnprepared(text, params), transform),
    executeRaw: run(prepared, (statement, params) =>
      statement.columns().length > 0 ? statement.all(...params) : statement.run(...params)
    ),
    executeValues: values,
    executeValuesUnprepared: values,
    executeStream: (text, params, transform) =>
      Stream.fromIterableEffect(
        transform === undefined ? rows(text, params) : Effect.map(rows(text, params), transform)
      )
  }
}

/**
 * Opens a database for as long as the scope is open: WAL journal, foreign keys on. Closing it folds the WAL back into
 * the file, if no other connection uses it.
 *
 * Fails with `SqlError`, in words, when the file cannot be opened, is no database, or cannot be written.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Reactivity } from "effect/reactivity"
 * import { SqlClient } from "effect/sql"
 * import * as NodeSqlite from "checkrein/sqlite"
 *
 * const Client = Layer.effect(SqlClient.SqlClient, NodeSqlite.make({ filename: "app.db" })).pipe(
 *   Layer.provide(Reactivity.layer)
 * )
 * const count = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT count(*) FROM orders`).pipe(Effect.provide(Client))
 * ```
 */
export const make = (
  options: Options
): Effect.Effect<SqlClient.SqlClient, SqlError.SqlError, Scope.Scope | Reactivity.Reactivity> =>
  Effect.gen(function* () {
    const patience = Duration.fromInputUnsafe(options.busyTimeout ?? "5 seconds")
    const opened = Effect.try({
      try: () => open(options),
      catch: (cause) => sqlError(cause, "open", notOpened(options.filename, cause))
    })
    const whenFree = Schedule.spaced(engineWait).pipe(Schedule.upTo({ duration: patience }))
    const db = yield* Effect.acquireRelease(
      inWorldTime(Effect.retry(opened, { while: isBusy, schedule: whenFree })),
      (db) => Effect.sync(() => db.close())
    )
    const acquirers = SqlClient.makeSqliteAcquirers({
      connection: Effect.succeed(connect(db, whenFree)),
      semaphore: yield* Semaphore.make(1),
      isTransaction: () => db.isTransaction
    })
    return yield* SqlClient.make({
      ...acquirers,
      compiler: Statement.makeCompilerSqlite(),
      driver: "node-sqlite",
      beginTransaction: "BEGIN IMMEDIATE",
      prepareTransactionControls: true,
      releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
      spanAttributes: [["db.system.name", "sqlite"]]
    })
  })

/**
 * A `SqlClient` on a SQLite file, for your own tables beside those of the runs. Its directory is made if it is missing;
 * `":memory:"` is a database of its own.
 *
 * Fails with `SqlError`, in words, when the file cannot be opened, is no database, or cannot be written.
 *
 * @example
 * ```ts
 * import * as Layer from "effect/Layer"
 * import { SqlRunStore } from "checkrein/store"
 * import * as NodeSqlite from "checkrein/sqlite"
 *
 * const Database = NodeSqlite.layer({ filename: "app.db" })
 * const Runs = SqlRunStore.layer.pipe(Layer.provideMerge(Database))
 * ```
 */
export const layer = (options: Options): Layer.Layer<SqlClient.SqlClient, SqlError.SqlError> =>
  Layer.effect(SqlClient.SqlClient, make(options)).pipe(Layer.provide(Reactivity.layer))

/**
 * A store of runs in a SQLite file, in one line.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { RunStore } from "checkrein/store"
 * import * as NodeSqlite from "checkrein/sqlite"
 *
 * const program = Effect.gen(function* () {
 *   const store = yield* RunStore.RunStore
 *   return yield* store.list()
 * }).pipe(Effect.provide(NodeSqlite.runStore(".checkrein/runs.db")))
 * ```
 */
export const runStore = (
  filename: string,
  options?: Omit<Options, "filename" | "synchronous">
): Layer.Layer<RunStore, RunStoreError> =>
  Layer.effect(
    RunStore,
    // Most appends have to survive the process only, and the lower level is the one that costs nothing to keep.
    make({ ...options, filename, synchronous: "normal" }).pipe(
      Effect.mapError((error) => openError(error)),
      Effect.flatMap((sql) => Effect.provideService(SqlRunStore.make, SqlClient.SqlClient, sql))
    )
  ).pipe(Layer.provide(Reactivity.layer))
