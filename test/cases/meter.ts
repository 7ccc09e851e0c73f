/**
 * Stores whose traffic is counted: what crosses the wire to a database, and for the store in memory what its users hand
 * over and get.
 */
import { join } from "node:path"
import * as PgClient from "@effect/sql-pg/PgClient"
import { describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type * as SqlConnection from "effect/sql/SqlConnection"
import * as Statement from "effect/sql/Statement"
import { EventCodec, MemoryRunStore, RunStore } from "../../src/index.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as Postgres from "../../src/store/Postgres.ts"
import * as SqlRunStore from "../../src/store/SqlRunStore.ts"
import { inFolder } from "../store/folders.ts"
import { describePostgres, inSchema } from "../store/postgres.ts"
import type { StoreName } from "./support.ts"

/** What has been asked of a store: how often, in which words, and how many bytes and rows went each way. */
export interface Traffic {
  readonly asked: ReadonlyArray<string>
  readonly sent: number
  readonly received: number
  readonly rows: number
  /** The bytes of the largest value that was sent. */
  readonly largest: number
}

/** Counts the traffic of the store beside it. */
export class Meter extends Context.Service<
  Meter,
  {
    /** All traffic so far. */
    readonly total: () => Traffic
    /** The traffic of one effect, which nothing else must disturb. */
    readonly of: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<Traffic, E, R>
    /** How SQLite finds what a statement asks for; nothing for the others. */
    readonly planOf: (statement: string) => Effect.Effect<ReadonlyArray<string>>
  }
>()("test/cases/Meter") {}

const bytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value) ?? "")

const counter = () => {
  const asked: Array<string> = []
  let [sent, received, rows, largest] = [0, 0, 0, 0]
  const meter: Pick<Meter["Service"], "total" | "of"> = {
    total: () => ({ asked, sent, received, rows, largest }),
    of: (effect) =>
      Effect.suspend(() => {
        const before = { asked: asked.length, sent, received, rows }
        return Effect.map(effect, () => ({
          asked: asked.slice(before.asked),
          sent: sent - before.sent,
          received: received - before.received,
          rows: rows - before.rows,
          largest
        }))
      })
  }
  const asks = (what: string, values: ReadonlyArray<unknown>): void => {
    asked.push(what)
    for (const size of values.map(bytes)) {
      sent += size
      largest = Math.max(largest, size)
    }
  }
  const gets = (got: ReadonlyArray<unknown>): void => {
    received += bytes(got)
    rows += got.length
  }
  return { meter, asks, gets }
}

type Counter = ReturnType<typeof counter>

const countedConnection = ({ asks, gets }: Counter, connection: SqlConnection.Connection) => {
  const counted =
    <Rest extends ReadonlyArray<unknown>, A, E>(
      run: (text: string, params: ReadonlyArray<unknown>, ...rest: Rest) => Effect.Effect<A, E>
    ) =>
    (text: string, params: ReadonlyArray<unknown>, ...rest: Rest): Effect.Effect<A, E> =>
      Effect.suspend(() => {
        // Whether another process has written is asked by the clock, whatever else goes on.
        if (text === "PRAGMA data_version") return run(text, params, ...rest)
        asks(text, params)
        return Effect.tap(run(text, params, ...rest), (rows) =>
          Effect.sync(() => gets(Array.isArray(rows) ? rows : []))
        )
      })
  const tapped: SqlConnection.Connection = {
    execute: counted((text, params, transform) => connection.execute(text, params, transform)),
    executeUnprepared: counted((text, params, transform) =>
      connection.executeUnprepared(text, params, transform)
    ),
    executeRaw: counted((text, params) => connection.executeRaw(text, params)),
    executeValues: counted((text, params) => connection.executeValues(text, params)),
    executeValuesUnprepared: counted((text, params) => connection.executeValuesUnprepared(text, params)),
    executeStream: (text, params, transform) => connection.executeStream(text, params, transform)
  }
  return tapped
}

const countedClient = (counter: Counter, sql: SqlClient.SqlClient) =>
  SqlClient.make({
    acquirer: Effect.map(sql.reserve, (connection) => countedConnection(counter, connection)),
    compiler: sql.onDialectOrElse({
      pg: () => PgClient.makeCompiler(),
      orElse: () => Statement.makeCompilerSqlite()
    }),
    driver: sql.driver,
    spanAttributes: []
  })

const countedMemory = ({ asks, gets }: Counter) =>
  Effect.map(MemoryRunStore.make, (store): RunStore.RunStore["Service"] => {
    const counted = <A, E, R>(what: string, values: ReadonlyArray<unknown>, effect: Effect.Effect<A, E, R>) =>
      Effect.suspend(() => {
        asks(what, values)
        return Effect.tap(effect, (result) =>
          Effect.sync(() => gets(Array.isArray(result) ? result : [result]))
        )
      })
    return {
      ...store,
      append: (append) =>
        counted("append", [...append.events.map(EventCodec.encode), append.summary], store.append(append)),
      read: (runId, from) => counted("events", [], store.read(runId, from)),
      summary: (runId) => counted("summary", [], store.summary(runId)),
      list: (options) => counted("list", [], store.list(options)),
      inbox: (runId, after) => counted("inbox", [], store.inbox(runId, after)),
      send: (runId, command) => counted("send", [command], store.send(runId, command))
    }
  })

const memory = Effect.gen(function* () {
  const counting = counter()
  const store = yield* countedMemory(counting)
  return Context.make(RunStore.RunStore, store).pipe(
    Context.add(Meter, { ...counting.meter, planOf: () => Effect.succeed([]) })
  )
})

const onClient = (client: Layer.Layer<SqlClient.SqlClient, unknown>) => {
  const both = Effect.gen(function* () {
    const counting = counter()
    const uncounted = yield* SqlClient.SqlClient
    const sql = yield* countedClient(counting, uncounted)
    const store = yield* Effect.provideService(SqlRunStore.make, SqlClient.SqlClient, sql)
    const planOf = (text: string) =>
      uncounted.onDialectOrElse({
        sqlite: () =>
          Effect.map(uncounted.unsafe<{ detail: string }>(`EXPLAIN QUERY PLAN ${text}`), (rows) =>
            rows.map(({ detail }) => detail)
          ),
        orElse: () => Effect.succeed([])
      })
    return Context.make(RunStore.RunStore, store).pipe(
      Context.add(Meter, { ...counting.meter, planOf: (text) => Effect.orDie(planOf(text)) })
    )
  })
  return Layer.effectContext(both).pipe(Layer.provide(client), Layer.provide(Reactivity.layer), Layer.orDie)
}

type Services = RunStore.RunStore | Meter | Scope.Scope

/** A test on an empty store whose traffic is counted. */
export type Check = (
  name: string,
  body: () => Generator<Effect.Effect<unknown, unknown, Services>, void, never>
) => void

/** Describes the same for every store, with its traffic counted. */
export const onEveryMeteredStore = (body: (check: Check, store: StoreName) => void): void => {
  const on = (store: StoreName, layer: Layer.Layer<RunStore.RunStore | Meter>) => () =>
    body(
      (name, test) => it.live(name, () => Effect.provide(Effect.gen(test), layer), { concurrent: true }),
      store
    )
  const sqlite = inFolder((folder) =>
    onClient(NodeSqlite.layer({ filename: join(folder, "runs.db"), synchronous: "normal" }))
  )
  describe("memory", on("memory", Layer.effectContext(memory)))
  describe("SQLite", on("SQLite", sqlite))
  describePostgres(
    "Postgres",
    on(
      "Postgres",
      inSchema((url) => onClient(Postgres.layer({ url })))
    )
  )
}
