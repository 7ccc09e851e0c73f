/**
 * Writing for a store of runs: one transaction on one connection, never inside the caller's own, that survives what
 * it has to survive.
 *
 * Statements run on the connection itself, compiled beforehand: a span and a compilation for each cost as much as the
 * statement. The transaction has a span.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as SqlClient from "effect/sql/SqlClient"
import type * as SqlConnection from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import type * as Statement from "effect/sql/Statement"
import { answering, reconnecting } from "./Reconnect.ts"
import type { Durability, RunStoreError } from "./RunStore.ts"
import { refuseTransaction, storeError } from "./SqlFailure.ts"

/** Runs one statement: its text as `SqlClient` compiled it, and its parameters. */
export type Execute = (
  text: string,
  params: ReadonlyArray<unknown>
) => Effect.Effect<ReadonlyArray<SqlConnection.Row>, SqlError>

/** Writes in one transaction for a run: all that `write` does, or nothing if a statement fails. */
export type Transact = <A>(
  runId: string,
  durability: Durability,
  write: (execute: Execute) => Effect.Effect<A, SqlError>
) => Effect.Effect<A, RunStoreError>

/** Runs one statement for a run in a transaction of its own. It may be run twice, and must not mind. */
export type Once = (
  runId: string,
  text: string,
  params: ReadonlyArray<unknown>
) => Effect.Effect<ReadonlyArray<SqlConnection.Row>, RunStoreError>

type Connection = SqlConnection.Connection

/** How a transaction begins and ends on a connection. */
interface Bounds {
  readonly begin: (connection: Connection) => Effect.Effect<unknown, SqlError>
  readonly commit: (connection: Connection) => Effect.Effect<unknown, SqlError>
  readonly rollback: (connection: Connection) => Effect.Effect<unknown>
}

const run = (connection: Connection, text: string, params: ReadonlyArray<unknown> = []) =>
  connection.execute(text, params, undefined)

/** How long a database may take to answer: with the time for reconnecting, less than what a driver grants an append. */
export const answerLimit = "5 seconds"

/** The text of a statement in the client's dialect; it is run with other parameters each time. */
export const textOf = (statement: Statement.Statement<unknown>): string => statement.compile(true)[0]

/** What a `SELECT` ends with that keeps others from its rows until the transaction ends. */
export const forUpdate = (sql: SqlClient.SqlClient): Statement.Fragment =>
  sql.onDialectOrElse({
    pg: () => sql.literal("FOR UPDATE"),
    // A transaction that writes has the whole database for itself.
    orElse: () => sql.literal("")
  })

/** Does something for a run, unless the caller has a transaction of its own open. */
export const outside = <A>(
  sql: SqlClient.SqlClient,
  runId: string,
  effect: () => Effect.Effect<A, RunStoreError>
): Effect.Effect<A, RunStoreError> =>
  Effect.withFiber((fiber) =>
    Option.isSome(Context.getOption(fiber.context, sql.transactionService))
      ? Effect.fail(refuseTransaction(runId))
      : effect()
  )

/** Runs single statements, each on whatever connection is free. */
export const executeOn =
  (sql: SqlClient.SqlClient): Execute =>
  (text, params) =>
    Effect.scoped(Effect.flatMap(sql.reserve, (connection) => connection.execute(text, params, undefined)))

// The levels of SQLite's `PRAGMA synchronous`; with a WAL journal, 1 survives the process and 2 a power cut.
const levels: { readonly [D in Durability]: number } = { process: 1, power: 2 }

/**
 * SQLite decides for each connection what a commit waits for, and refuses to change it inside a transaction. So the
 * level is set while this transaction alone has the connection, right before it begins, and put back right after it
 * has ended: what other code writes through the same client keeps the durability that the client was opened with.
 */
const sqlite = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const [level] = yield* sql<{ synchronous: number }>`PRAGMA synchronous`
  const [journal] = yield* sql<{ journal_mode: string }>`PRAGMA journal_mode`
  const base = level?.synchronous ?? levels.power
  // Without a WAL the lower level may damage the file in a power cut, not merely lose the last writes.
  const lowest = journal?.journal_mode === "wal" ? levels.process : levels.power

  const plain: Bounds = {
    begin: (connection) => run(connection, "BEGIN IMMEDIATE"),
    commit: (connection) => run(connection, "COMMIT"),
    rollback: (connection) =>
      run(connection, "ROLLBACK").pipe(
        // A full disk makes SQLite roll back by itself.
        Effect.catchIf(
          (error) => /no transaction is active/i.test(error.message),
          () => Effect.void
        ),
        Effect.orDie
      )
  }
  const withLevel = (wanted: number): Bounds => {
    if (wanted === base) return plain
    // Unprepared, because SQLite obeys this pragma when it compiles it: a statement kept from before may do nothing.
    const set = (connection: Connection, to: number) =>
      connection.executeUnprepared(`PRAGMA synchronous = ${to}`, [], undefined)
    const restore = (connection: Connection) => Effect.orDie(set(connection, base))
    return {
      begin: (connection) =>
        Effect.andThen(
          set(connection, wanted),
          Effect.onError(plain.begin(connection), () => restore(connection))
        ),
      commit: (connection) => Effect.andThen(plain.commit(connection), restore(connection)),
      rollback: (connection) => Effect.andThen(plain.rollback(connection), restore(connection))
    }
  }
  return {
    process: withLevel(Math.min(base, lowest)),
    power: withLevel(Math.max(base, levels.power))
  }
})

/**
 * What a commit waits for on Postgres: `synchronous_commit` off survives our process and not the server's machine. What
 * the server waits for beyond its own disk is left as it is set.
 */
export const postgresLevels = (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql<{ synchronous_commit: string }>`SHOW synchronous_commit`,
    ([row]): { readonly [D in Durability]: string } => ({
      process: "off",
      power: row === undefined || row.synchronous_commit === "off" ? "on" : row.synchronous_commit
    })
  )

const postgres = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const levels = yield* postgresLevels(sql)
  // Fails when the connection is gone, and then the server rolls back; the first failure is the one to tell.
  const rollback = (connection: Connection) => Effect.ignore(run(connection, "ROLLBACK"))
  const withLevel = (level: string): Bounds => ({
    // Whatever the database is set to: what is read after waiting for a lock has to be as new as the lock.
    begin: (connection) =>
      run(connection, "BEGIN ISOLATION LEVEL READ COMMITTED").pipe(
        Effect.andThen(run(connection, "SELECT set_config('synchronous_commit', $1, true)", [level])),
        Effect.onError(() => rollback(connection))
      ),
    commit: (connection) => run(connection, "COMMIT"),
    rollback
  })
  return { process: withLevel(levels.process), power: withLevel(levels.power) }
})

/**
 * Runs `write` between these bounds, on a connection that nobody else has meanwhile. It is less than a client's own
 * transactions do, which may be nested and be told of their end: those cost as much as the statements of an append.
 */
const bounded = <A>(
  sql: SqlClient.SqlClient,
  { begin, commit, rollback }: Bounds,
  write: (execute: Execute) => Effect.Effect<A, SqlError>
): Effect.Effect<A, SqlError> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.scoped(
      Effect.flatMap(restore(sql.reserve), (connection) => {
        const written = restore(write((text, params) => connection.execute(text, params, undefined)))
        const committed = Effect.tap(written, () => commit(connection))
        return Effect.andThen(
          begin(connection),
          Effect.onError(committed, () => rollback(connection))
        )
      })
    )
  )

/** How this client writes for a store of runs. */
export const make = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const bounds = yield* sql.onDialectOrElse({
    pg: () => postgres(sql),
    orElse: () => sqlite(sql)
  })
  const system = sql.onDialectOrElse({ pg: () => "postgresql", orElse: () => "sqlite" })
  const options = { attributes: { "db.system.name": system } }
  const transact: Transact = (runId, durability, write) =>
    outside(sql, runId, () =>
      bounded(sql, bounds[durability], write).pipe(
        // Looking up where it was called costs as much as the rest of the span.
        Effect.withSpan("sql.transaction", options, { captureStackTrace: false }),
        Effect.mapError((error) => storeError(runId, error))
      )
    )
  return transact
})

/** How this client runs a single statement that has to survive the process at least. */
export const onceOf = (sql: SqlClient.SqlClient, transact: Transact): Once => {
  const execute = executeOn(sql)
  return sql.onDialectOrElse({
    // A statement is a transaction: the round trips of an explicit one are spared.
    pg: (): Once => (runId, text, params) =>
      outside(sql, runId, () =>
        execute(text, params).pipe(
          answering(answerLimit),
          reconnecting,
          Effect.mapError((error) => storeError(runId, error))
        )
      ),
    orElse: (): Once => (runId, text, params) =>
      transact(runId, "process", (execute) => execute(text, params))
  })
}
