/** How a watcher on Postgres hears of what other stores write, also when nobody tells it. */

import * as PgClient from "@effect/sql-pg/PgClient"
import { expect, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import * as SqlClient from "effect/sql/SqlClient"
import * as Postgres from "../../src/store/Postgres.ts"
import type { RunStore } from "../../src/store/RunStore.ts"
import * as SqlRunStore from "../../src/store/SqlRunStore.ts"
import { append, cancel, eventsFrom } from "../../src/testing/conformance/Samples.ts"
import { describePostgres, url } from "./postgres.ts"

type Store = RunStore["Service"]

const clientOf = (url: string) =>
  Effect.map(Layer.build(Layer.fresh(Postgres.layer({ url }))), (context) =>
    Context.get(context, PgClient.PgClient)
  )

const storeOn = (sql: SqlClient.SqlClient) =>
  Effect.provideService(SqlRunStore.make, SqlClient.SqlClient, sql)

/** A watcher of run `a` from event 1 on, that has read what there was. */
const watch = (store: Store, count: number) =>
  Effect.gen(function* () {
    const watcher = yield* Effect.forkChild(Stream.runCollect(Stream.take(store.watch("a", 1), count)), {
      startImmediately: true
    })
    yield* store.summary("a")
    return watcher
  })

/** That what `other` writes is seen by `store` within a second, and what a busy machine adds. */
const hears = (store: Store, other: Store) =>
  Effect.gen(function* () {
    const { seq } = yield* store.summary("a")
    const watcher = yield* watch(store, seq)
    const inbox = yield* Effect.forkChild(Stream.runHead(store.watchInbox("a", 0)))
    yield* other.append(append("a", seq))
    yield* other.send("a", cancel("enough"))
    expect(yield* Effect.timeout(Fiber.join(watcher), "3 seconds")).toEqual(eventsFrom("a", 1, seq))
    yield* Effect.timeout(Fiber.join(inbox), "3 seconds")
  })

describePostgres("a watcher", () => {
  it.live("hears at once what another store tells", () =>
    Effect.gen(function* () {
      const at = yield* url
      const told: Array<string> = []
      const sql = yield* clientOf(at)
      const { listen: original } = sql
      const listen: typeof original = (channel) =>
        Effect.tap(original(channel), () => Effect.sync(() => told.push(channel)))
      const store = yield* storeOn(Object.assign(sql, { listen }))
      const other = yield* storeOn(yield* clientOf(at))
      yield* store.append(append("a", 0))
      expect(told).toEqual([])
      yield* hears(store, other)
      yield* hears(store, other)
      // One connection listens for all watchers, and from the first of them on.
      expect(told).toEqual(["checkrein"])
    })
  )

  it.live("goes on to hear when the connection that listens is lost", () =>
    Effect.gen(function* () {
      const at = yield* url
      const sql = yield* clientOf(at)
      const store = yield* storeOn(sql)
      const other = yield* storeOn(yield* clientOf(at))
      yield* store.append(append("a", 0))
      yield* hears(store, other)
      const name = new URL(at).searchParams.get("application_name")
      const listening = sql<{ pid: number }>`SELECT pid FROM pg_stat_activity
        WHERE application_name = ${name} AND query LIKE 'LISTEN%'`
      const [connection] = yield* listening
      yield* sql`SELECT pg_terminate_backend(${connection?.pid})`
      yield* hears(store, other)
      yield* hears(store, other)
    })
  )

  it.live("looks for itself where a client cannot listen, or hears nothing", () =>
    Effect.gen(function* () {
      const at = yield* url
      const other = yield* storeOn(yield* clientOf(at))
      yield* other.append(append("a", 0))
      const mute: { readonly listen?: unknown } = { listen: undefined }
      yield* hears(yield* storeOn(Object.assign(yield* clientOf(at), mute)), other)
      // As behind a pooler that lends connections for a transaction only.
      const deaf = { listen: () => Queue.unbounded<never>() }
      yield* hears(yield* storeOn(Object.assign(yield* clientOf(at), deaf)), other)
    })
  )
})
