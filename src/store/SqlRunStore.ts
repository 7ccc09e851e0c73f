/**
 * A `RunStore` over effect's `SqlClient`. It makes its own tables, all named `checkrein_…`, so it may share a database
 * with yours; it must not share a transaction.
 *
 * A run is a row with its summary, its events and its inbox. An append moves the row from one event number to the
 * next, and only if it still has the number that the writer expects: this is what keeps a second writer out.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type * as Statement from "effect/sql/Statement"
import { Command, type Numbered } from "../run/Command.ts"
import * as RunEvent from "../run/RunEvent.ts"
import * as Leases from "./Leases.ts"
import { type Append, RunNotFound, RunStore, RunStoreError, RunSummary, StaleWriter } from "./RunStore.ts"
import { storeError } from "./SqlFailure.ts"
import * as SqlSchema from "./SqlSchema.ts"
import * as SqlTransaction from "./SqlTransaction.ts"
import * as Wakeups from "./Wakeups.ts"

/** How often to look for what other processes have written, while somebody watches. */
const pollInterval = "250 millis"

const decodeSummary = Schema.decodeUnknownResult(Schema.fromJsonString(RunSummary))
const decodeCommand = Schema.decodeUnknownResult(Schema.fromJsonString(Command))

const corrupt = (runId: string, problem: string, seq?: number) =>
  new RunStoreError({
    runId,
    kind: "corrupt",
    problem,
    ...(seq === undefined ? undefined : { seq })
  })

const summaryOf = (row: { readonly run_id: string; readonly summary: string }) =>
  Result.mapError(decodeSummary(row.summary), (error) =>
    corrupt(row.run_id, `its summary cannot be read: ${error.message}`)
  )

interface EventRow {
  readonly total: number
  readonly seq: number | null
  readonly body: string | null
}

/** The events of a run from a number on, given what the run's row says of how many there are. */
const eventsOf = (
  runId: string,
  from: number,
  rows: ReadonlyArray<EventRow>
): Result.Result<ReadonlyArray<RunEvent.RunEvent>, RunNotFound | RunStoreError> => {
  const total = rows[0]?.total
  if (total === undefined) return Result.fail(new RunNotFound({ runId }))
  const missing = (seq: number) => Result.fail(corrupt(runId, `event ${seq} is missing`, seq))
  const events: Array<RunEvent.RunEvent> = []
  let next = from
  for (const { body, seq } of rows) {
    if (seq === null || body === null) break
    if (seq !== next) return missing(next)
    if (seq >= total)
      return Result.fail(corrupt(runId, `event ${seq} is one more than its summary counts`, seq))
    const event = RunEvent.decode(runId, seq, body)
    if (Result.isFailure(event)) {
      const { kind, message } = event.failure
      return Result.fail(
        new RunStoreError({
          runId,
          kind,
          seq,
          problem: message,
          cause: event.failure
        })
      )
    }
    events.push(event.success)
    next += 1
  }
  return next < total ? missing(next) : Result.succeed(events)
}

/** The text of a statement in the client's dialect; it is run with other parameters each time. */
const textOf = (statement: Statement.Statement<unknown>): string => statement.compile(true)[0]

/** The statements of an append. */
const appending = (sql: SqlClient.SqlClient) => {
  const create = textOf(
    sql`INSERT INTO checkrein_runs (run_id, agent, status, started_at, seq, summary)
      VALUES (${""}, ${""}, ${""}, ${""}, ${0}, ${""}) ON CONFLICT (run_id) DO NOTHING RETURNING run_no`
  )
  const move = textOf(
    sql`UPDATE checkrein_runs SET seq = ${0}, summary = ${""}
      WHERE run_id = ${""} AND seq = ${0} AND status = ${""} RETURNING run_no`
  )
  const moveAndChange = textOf(
    sql`UPDATE checkrein_runs SET status = ${""}, seq = ${0}, summary = ${""}
      WHERE run_id = ${""} AND seq = ${0} RETURNING run_no`
  )
  const inserts = new Map<number, string>()
  const insert = (count: number): string => {
    const known = inserts.get(count)
    if (known !== undefined) return known
    const row = { run_no: 0, seq: 0, body: "" }
    const text = textOf(
      sql`INSERT INTO checkrein_events ${sql.insert([row, ...Array.from({ length: count - 1 }, () => row)])}`
    )
    inserts.set(count, text)
    return text
  }

  /** Moves the run's row on, and says its number; `undefined` if it had not the expected event number. */
  const take = Effect.fnUntraced(function* (
    execute: SqlTransaction.Execute,
    { events, expected, runId, summary }: Append
  ) {
    const seq = expected + events.length
    const body = JSON.stringify(summary)
    const { agent, startedAt, status } = summary
    if (expected === 0) {
      const created = yield* execute(create, [runId, agent, status, startedAt, seq, body])
      return created[0]?.run_no
    }
    // The status is in two indexes and rarely changes: naming it in every update would write both of them each time.
    const moved = yield* execute(move, [seq, body, runId, expected, status])
    if (moved[0] !== undefined) return moved[0].run_no
    const changed = yield* execute(moveAndChange, [status, seq, body, runId, expected])
    return changed[0]?.run_no
  })

  return Effect.fnUntraced(function* (execute: SqlTransaction.Execute, append: Append) {
    const run = yield* take(execute, append)
    if (run === undefined) return false
    const { events, expected } = append
    // Bounded, because a statement may have only so many parameters.
    for (let start = 0; start < events.length; start += 100) {
      const some = events.slice(start, start + 100)
      yield* execute(
        insert(some.length),
        some.flatMap((event, i) => [run, expected + start + i, RunEvent.encode(event)])
      )
    }
    return true
  })
}

/**
 * Wakes those who watch when another process has written. SQLite says with one cheap number whether any other
 * connection has; of other databases it is assumed.
 */
const noticeOthers = (sql: SqlClient.SqlClient, wakeups: Wakeups.Wakeups) => {
  const version = sql.onDialectOrElse({
    sqlite: () =>
      Effect.map(sql<{ data_version: number }>`PRAGMA data_version`, ([row]) => row?.data_version),
    orElse: () => Effect.undefined
  })
  return Effect.gen(function* () {
    let seen: number | undefined
    while (true) {
      yield* wakeups.watched
      yield* Effect.sleep(pollInterval)
      // Whoever watches a database that is gone finds out by reading it.
      const now = yield* Effect.orElseSucceed(version, () => undefined)
      if (now !== undefined && now === seen) continue
      seen = now
      yield* wakeups.wakeAll
    }
  }).pipe(Effect.withTracerEnabled(false))
}

/**
 * Makes a store of runs on the `SqlClient` in the context, and its tables when they are missing. What other processes
 * write is noticed as long as the scope is open.
 *
 * Fails with `RunStoreError` when the database cannot be written, or was made by a newer build.
 */
export const make: Effect.Effect<RunStore["Service"], RunStoreError, SqlClient.SqlClient | Scope.Scope> =
  Effect.gen(function* () {
    const sql = (yield* SqlClient.SqlClient).withoutTransforms()
    yield* SqlSchema.migrate
    const transact = yield* Effect.mapError(SqlTransaction.make(sql), (error) => storeError("", error))
    const wakeups = Wakeups.make()
    yield* Effect.forkScoped(noticeOthers(sql, wakeups))

    const append = appending(sql)
    const sendText = textOf(
      sql`INSERT INTO checkrein_commands (run_id, id, body)
      SELECT run_id, (SELECT COALESCE(MAX(id), 0) + 1 FROM checkrein_commands WHERE run_id = ${""}), ${""}
      FROM checkrein_runs WHERE run_id = ${""} RETURNING id`
    )
    const failing =
      (runId: string) =>
      <A>(effect: Effect.Effect<A, SqlError>): Effect.Effect<A, RunStoreError> =>
        Effect.mapError(effect, (error) => storeError(runId, error))

    const store: RunStore["Service"] = {
      append: (request) =>
        Effect.gen(function* () {
          const { expected, runId } = request
          const written = yield* transact(runId, request.durability, (execute) => append(execute, request))
          if (!written) return yield* new StaleWriter({ runId, expected })
        }).pipe(Effect.ensuring(Effect.sync(() => wakeups.wake(`events ${request.runId}`)))),

      read: (runId, from = 0) =>
        sql<EventRow>`SELECT r.seq AS total, e.seq AS seq, e.body AS body
        FROM checkrein_runs r LEFT JOIN checkrein_events e ON e.run_no = r.run_no AND e.seq >= ${from}
        WHERE r.run_id = ${runId} ORDER BY e.seq`.pipe(
          failing(runId),
          Effect.flatMap((rows) => Effect.fromResult(eventsOf(runId, from, rows)))
        ),

      summary: (runId) =>
        Effect.gen(function* () {
          const rows = sql<{ run_id: string; summary: string }>`
          SELECT run_id, summary FROM checkrein_runs WHERE run_id = ${runId}`
          const [row] = yield* failing(runId)(rows)
          return row === undefined
            ? yield* new RunNotFound({ runId })
            : yield* Effect.fromResult(summaryOf(row))
        }),

      list: ({ agent, before, limit = 50, status } = {}) =>
        Effect.gen(function* () {
          const wanted: Array<Statement.Fragment> = []
          if (status !== undefined) wanted.push(sql`status = ${status}`)
          if (agent !== undefined) wanted.push(sql`agent = ${agent}`)
          if (before !== undefined)
            wanted.push(sql`(started_at, run_id) < (${before.startedAt}, ${before.runId})`)
          const rows = sql<{ run_id: string; summary: string }>`
          SELECT run_id, summary FROM checkrein_runs WHERE ${sql.and(wanted)}
          ORDER BY started_at DESC, run_id DESC LIMIT ${limit}`
          const page: Array<RunSummary> = []
          for (const row of yield* failing("")(rows)) page.push(yield* Effect.fromResult(summaryOf(row)))
          return page
        }),

      watch: (runId, from = 0) =>
        Wakeups.follow(wakeups, {
          topic: `events ${runId}`,
          from,
          read: (position) => store.read(runId, position),
          after: (event) => event.seq + 1
        }),

      send: (runId, command) =>
        Effect.gen(function* () {
          const [row] = yield* transact(runId, "power", (execute) =>
            execute(sendText, [runId, JSON.stringify(command), runId])
          )
          return row === undefined ? yield* new RunNotFound({ runId }) : Number(row.id)
        }).pipe(Effect.ensuring(Effect.sync(() => wakeups.wake(`inbox ${runId}`)))),

      inbox: (runId, after) =>
        Effect.gen(function* () {
          const rows = sql<{ id: number; body: string }>`
          SELECT id, body FROM checkrein_commands WHERE run_id = ${runId} AND id > ${after} ORDER BY id`
          const commands: Array<Numbered> = []
          for (const { body, id } of yield* failing(runId)(rows)) {
            const command = decodeCommand(body)
            if (Result.isFailure(command)) {
              return yield* corrupt(
                runId,
                `command ${id} of its inbox cannot be read: ${command.failure.message}`
              )
            }
            commands.push({ id, command: command.success })
          }
          return commands
        }),

      watchInbox: (runId, after) =>
        Wakeups.follow(wakeups, {
          topic: `inbox ${runId}`,
          from: after,
          read: (position) => store.inbox(runId, position),
          after: ({ id }) => id
        }),

      lease: Leases.make()
    }
    return store
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
