/**
 * A `SqlClient` on `node:sqlite`, and with it a store of runs in one line.
 *
 * One connection, shared through a semaphore: while a transaction is open every other statement waits for it.
 * SQLite works synchronously: a statement keeps the event loop busy while it runs, which is microseconds for the
 * small ones and as long as it takes for the large ones.
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as SqlClient from "effect/sql/SqlClient"
import type * as SqlConnection from "effect/sql/SqlConnection"
import type * as SqlError from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import * as Given from "../run/Given.ts"
import { RunStore, RunStoreError } from "./RunStore.ts"
import { openError } from "./SqlFailure.ts"
import * as SqliteFile from "./SqliteFile.ts"
import { messageOf, type Options, type Patience, sqlError } from "./SqliteFile.ts"
import * as SqlRunStore from "./SqlRunStore.ts"
import { inWorldTime } from "./TimeLimit.ts"

export type { Options } from "./SqliteFile.ts"

const kinds: Given.Kinds<Options> = {
  filename: Given.text,
  busyTimeout: Given.duration,
  synchronous: Given.oneOf("full", "normal")
}

const statementsKept = 256

const toInput = (value: unknown): SQLInputValue => {
  if (value === undefined || value === null) return null
  if (typeof value === "boolean") return value ? 1 : 0
  if (value instanceof Date) return value.toISOString()
  if (typeof value === "string" || typeof value === "number" || typeof value === "bigint") return value
  if (value instanceof Uint8Array) return value
  throw new TypeError(`SQLite cannot store a value of type ${typeof value}`)
}

type Rows = ReadonlyArray<object>

const all = (statement: StatementSync, params: ReadonlyArray<SQLInputValue>): Rows => {
  // Node yields nothing at all, whatever its types say, where a text is too long for a string.
  const rows: Rows | undefined = statement.all(...params)
  if (rows === undefined) throw new Error("a value is longer than a string can be")
  return rows
}

const connect = (db: DatabaseSync, patience: Patience): SqlConnection.Connection => {
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
        return Effect.catchIf(exit, patience.while, () =>
          inWorldTime(Effect.retry(Effect.withFiber(once), patience))
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
 * Fails with `SqlError`, in words, when the file cannot be opened, is no database, or cannot be written. An option that is
 * misspelt, or a `busyTimeout` that is no duration, is a defect.
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
    const problem = Given.problemOf(options, "options", kinds, ["filename"])
    if (problem !== undefined) return yield* Effect.die(new TypeError(problem))
    const patience = SqliteFile.patienceOf(options)
    const db = yield* Effect.acquireRelease(SqliteFile.open(options, patience), (db) =>
      Effect.sync(() => db.close())
    )
    const acquirers = SqlClient.makeSqliteAcquirers({
      connection: Effect.succeed(connect(db, patience)),
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

const refuseAnother = Effect.fnUntraced(function* (options: Options) {
  const content = yield* Effect.mapError(SqliteFile.contentOf(options), openError)
  if (content !== "another's") return
  const problem = `${options.filename} is a database of something else, and has no runs; name another file`
  return yield* new RunStoreError({ runId: "", kind: "invalid", problem })
})

/** The same store, which looks where its file is after whatever has to survive a power cut: waiting for a disk takes longer. */
const present = (filename: string, store: RunStore["Service"]): RunStore["Service"] => {
  const isPresent = SqliteFile.presence(filename)
  const gone = (runId: string) => {
    const problem = `the file ${filename} was removed or replaced while it was open, and what was written since is lost with it`
    return new RunStoreError({ runId, kind: "unavailable", problem })
  }
  return {
    ...store,
    append: (request) =>
      request.durability === "power"
        ? Effect.andThen(
            store.append(request),
            Effect.flatMap(isPresent, (is) => (is ? Effect.void : Effect.fail(gone(request.runId))))
          )
        : store.append(request)
  }
}

/**
 * A store of runs in a SQLite file, in one line. A database that has tables, and none of this package, is refused with
 * `RunStoreError` (`invalid`) and stays as it is: for runs beside your own tables, put `SqlRunStore.layer` on a client of
 * yours.
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
    refuseAnother({ ...options, filename }).pipe(
      Effect.andThen(make({ ...options, filename, synchronous: "normal" }).pipe(Effect.mapError(openError))),
      Effect.flatMap((sql) => Effect.provideService(SqlRunStore.make, SqlClient.SqlClient, sql)),
      Effect.map((store) => present(filename, store))
    )
  ).pipe(Layer.provide(Reactivity.layer))
