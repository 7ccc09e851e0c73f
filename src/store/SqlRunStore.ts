/**
 * A `RunStore` over effect's `SqlClient`, on SQLite or on Postgres. It makes its own tables, all named `checkrein_…`, so
 * it may share a database with yours; it must not share a transaction.
 *
 * On Postgres a statement that is not answered within 5 seconds is taken for lost and made again on another connection,
 * for some 15 seconds in all; then what was asked for fails with `RunStoreError`. Only reading a journal, `read` and
 * `watch`, has no limit of its own: how long that takes depends on how long the journal is, so whoever cannot wait sets one.
 *
 * A run is a row with its summary, its events and its inbox. An append moves the row from one event number to the
 * next, and only if it still has the number that the writer expects: this is what keeps a second writer out.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { duration, shown } from "../run/Given.ts"
import * as Keepable from "./Keepable.ts"
import * as PostgresAppend from "./PostgresAppend.ts"
import { answering, reconnecting } from "./Reconnect.ts"
import { LeaseTime, RunNotFound, RunStore, RunStoreError, RunSummary, StaleWriter } from "./RunStore.ts"
import * as SqlEvents from "./SqlEvents.ts"
import { isRepeated, storeError } from "./SqlFailure.ts"
import * as SqlInbox from "./SqlInbox.ts"
import * as SqliteAppend from "./SqliteAppend.ts"
import * as SqlLeases from "./SqlLeases.ts"
import * as SqlList from "./SqlList.ts"
import * as SqlNews from "./SqlNews.ts"
import * as SqlRetention from "./SqlRetention.ts"
import * as SqlRunMigrations from "./SqlRunMigrations.ts"
import * as SqlTransaction from "./SqlTransaction.ts"
import { atMost, unattended } from "./TimeLimit.ts"
import * as Wakeups from "./Wakeups.ts"

const sendLimit = "10 seconds"
// A run may have started thousands.
const deletionLimit = "2 minutes"

const decodeSummary = Schema.decodeUnknownResult(Schema.fromJsonString(RunSummary))

const summaryOf = (row: { readonly run_id: string; readonly summary: string }) =>
  Result.mapError(
    decodeSummary(row.summary),
    (error) =>
      new RunStoreError({
        runId: row.run_id,
        kind: "corrupt",
        problem: `its summary cannot be read: ${error.message}`
      })
  )

/**
 * Makes a store of runs on the `SqlClient` in the context, and its tables when they are missing. What other processes
 * write is noticed as long as the scope is open.
 *
 * Fails with `RunStoreError` when the tables cannot be made, or were made by a newer build, and when `RunStore.LeaseTime` is
 * no duration.
 *
 * @example
 * ```ts
 * import * as Layer from "effect/Layer"
 * import * as NodeSqlite from "checkrein/sqlite"
 * import { RunStore, SqlRunStore } from "checkrein/store"
 *
 * const Runs = Layer.effect(RunStore.RunStore, SqlRunStore.make).pipe(
 *   Layer.provide(NodeSqlite.layer({ filename: "app.db" }))
 * )
 * ```
 */
export const make: Effect.Effect<RunStore["Service"], RunStoreError, SqlClient.SqlClient | Scope.Scope> =
  Effect.gen(function* () {
    const sql = (yield* SqlClient.SqlClient).withoutTransforms()
    if (sql.onDialectOrElse({ pg: () => false, sqlite: () => false, orElse: () => true })) {
      const problem = "runs are kept in SQLite or in Postgres, and this client is of another database"
      return yield* new RunStoreError({ runId: "", kind: "unavailable", problem })
    }
    const leaseTime = yield* LeaseTime
    if (!duration.is(leaseTime)) {
      const problem = `RunStore.LeaseTime is ${shown(leaseTime)}, and must be ${duration.what}`
      return yield* new RunStoreError({ runId: "", kind: "invalid", problem })
    }
    yield* SqlRunMigrations.migrate
    const transact = yield* Effect.mapError(SqlTransaction.make(sql), (error) => storeError("", error))
    const wakeups = Wakeups.make()
    const news = SqlNews.make(sql, wakeups)
    yield* Effect.forkScoped(news.follow)

    const leases = SqlLeases.make(sql, SqlTransaction.onceOf(sql, transact), leaseTime)
    const append = yield* Effect.mapError(
      sql.onDialectOrElse({
        pg: () => PostgresAppend.make(sql, leases, news),
        orElse: () => Effect.succeed(SqliteAppend.make(sql, transact, leases))
      }),
      (error) => storeError("", error)
    )
    const tell = (execute: SqlTransaction.Execute, topic: Wakeups.Topic) =>
      sql.onDialectOrElse({
        pg: () => Effect.asVoid(execute(SqlNews.tellText, [SqlNews.channel, news.payload(topic)])),
        orElse: () => Effect.void
      })
    // Waits for whoever deletes the run, and keeps it from being deleted; it is in the way of no append.
    const lasting = sql.onDialectOrElse({
      pg: () => sql.literal("FOR KEY SHARE"),
      orElse: () => sql.literal("")
    })
    const sendText = SqlTransaction.textOf(
      sql`INSERT INTO checkrein_commands (run_id, id, body)
      SELECT run_id, (SELECT COALESCE(MAX(id), 0) + 1 FROM checkrein_commands WHERE run_id = ${""}), ${""}
      FROM checkrein_runs WHERE run_id = ${""} ${lasting} RETURNING id`
    )
    const remove = SqlRetention.make(sql, transact)
    // A file has no server that may not answer, and its client is told how long to wait.
    const answered = <A, E>(
      runId: string,
      limit: string & Duration.Input,
      advice: string,
      effect: Effect.Effect<A, E | RunStoreError>
    ): Effect.Effect<A, E | RunStoreError> =>
      sql.onDialectOrElse({
        pg: () => {
          const problem = `it took longer than ${limit}; is the database reachable? ${advice}`
          const late = () => Effect.fail(new RunStoreError({ runId, kind: "timed_out", problem }))
          return atMost(limit, late)(effect)
        },
        orElse: () => effect
      })
    const readFor =
      (runId: string) =>
      <A>(rows: Effect.Effect<A, SqlError>): Effect.Effect<A, RunStoreError> =>
        Effect.mapError(reconnecting(unattended(rows)), (error) => storeError(runId, error))
    const answers: <A>(rows: Effect.Effect<A, SqlError>) => Effect.Effect<A, SqlError> = sql.onDialectOrElse({
      pg: () => answering(SqlTransaction.answerLimit),
      orElse: () => (rows) => rows
    })
    /** What is short, as a page of a list is: a server that does not send it in time does not answer. */
    const readShortFor = (runId: string) => {
      const read = readFor(runId)
      return <A>(rows: Effect.Effect<A, SqlError>): Effect.Effect<A, RunStoreError> => read(answers(rows))
    }

    const store = Wakeups.watching(wakeups, {
      append: (request) => {
        const { expected, runId } = request
        const appended = Effect.suspend(() => Effect.fromResult(SqlEvents.encode(request))).pipe(
          Effect.flatMap((bodies) => append(request, bodies)),
          Effect.flatMap((done) => (done ? Effect.void : Effect.fail(new StaleWriter({ runId, expected }))))
        )
        return Effect.onExit(appended, () => {
          wakeups.wake(`events ${runId}`)
          return Effect.void
        })
      },

      read: (runId, from = 0, limit = undefined) =>
        // Without a limit of time: over a slow link a long journal, or a long event, takes its time.
        SqlEvents.rows(sql, runId, from, limit).pipe(
          readFor(runId),
          Effect.flatMap((rows) => Effect.fromResult(SqlEvents.decode(runId, from, rows, limit)))
        ),

      summary: (runId) =>
        Effect.gen(function* () {
          const rows = sql<{ run_id: string; summary: string }>`
          SELECT run_id, summary FROM checkrein_runs WHERE run_id = ${runId}`
          const [row] = yield* readShortFor(runId)(rows)
          return row === undefined
            ? yield* new RunNotFound({ runId })
            : yield* Effect.fromResult(summaryOf(row))
        }),

      list: (options = {}) =>
        SqlList.page(options, (options) => readShortFor("")(SqlList.rows(sql, options)), summaryOf),

      delete: (runId, options) =>
        Effect.tap(
          answered(runId, deletionLimit, "The run may be gone all the same", remove(runId, options)),
          (runs) => {
            for (const run of runs) wakeups.wake(`events ${run}`)
            return Effect.void
          }
        ),

      send: (runId, command) => {
        const sent = transact(runId, "power", (execute) =>
          Effect.tap(execute(sendText, [runId, SqlInbox.encode(command), runId]), () =>
            tell(execute, `inbox ${runId}`)
          )
        ).pipe(
          // Another command got the number first.
          Effect.retry({ while: isRepeated }),
          Effect.flatMap(([row]) =>
            row === undefined ? Effect.fail(new RunNotFound({ runId })) : Effect.succeed(Number(row.id))
          )
        )
        return Effect.ensuring(
          answered(runId, sendLimit, "The command may have been recorded all the same", sent),
          Effect.sync(() => wakeups.wake(`inbox ${runId}`))
        )
      },

      inbox: (runId, after) =>
        readShortFor(runId)(sql<{ id: number; body: string }>`
          SELECT id, body FROM checkrein_commands WHERE run_id = ${runId} AND id > ${after} ORDER BY id`).pipe(
          Effect.flatMap((rows) =>
            Effect.fromResult(Result.all(rows.map((row) => SqlInbox.decode(runId, row))))
          )
        ),

      lease: leases.take,

      isDriven: (runId) =>
        Effect.map(
          readShortFor(runId)(sql<{ run_id: string }>`SELECT run_id FROM checkrein_leases
            WHERE run_id = ${runId} AND ${sql.literal(SqlLeases.heldText(sql))}`),
          (rows) => rows.length > 0
        )
    })
    return Keepable.only(store)
  })

/**
 * A store of runs on your `SqlClient`.
 *
 * @example
 * ```ts
 * import * as Layer from "effect/Layer"
 * import { SqlRunStore } from "checkrein/store"
 * import * as NodeSqlite from "checkrein/sqlite"
 *
 * const Runs = SqlRunStore.layer.pipe(Layer.provide(NodeSqlite.layer({ filename: "app.db" })))
 * ```
 */
export const layer: Layer.Layer<RunStore, RunStoreError, SqlClient.SqlClient> = Layer.effect(RunStore, make)
