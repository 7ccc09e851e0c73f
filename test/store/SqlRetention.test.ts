/** Deleting runs in Postgres while other connections write: a run is gone whole, or it is there whole. */
import { expect, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as Postgres from "../../src/store/Postgres.ts"
import type { RunStore } from "../../src/store/RunStore.ts"
import * as SqlRunStore from "../../src/store/SqlRunStore.ts"
import { append, cancel, eventsFrom, second, summary } from "../../src/testing/conformance/Samples.ts"
import { describePostgres, url } from "./postgres.ts"

type Store = RunStore["Service"]

/** The tables of a run, in none of which a deleted one may leave anything. */
const tables = ["runs", "events", "tags", "commands", "leases"]

/** Where a deletion is held up: at a row that it needs, which another transaction has. */
interface Place {
  readonly name: string
  readonly row: string
}

const before: Place = {
  name: "before it has got the run",
  row: "SELECT run_id FROM checkrein_runs WHERE run_id = 'a' FOR UPDATE"
}
const within: Place = {
  name: "in the middle of it",
  row: "SELECT tag FROM checkrein_tags WHERE run_id = 'a' FOR UPDATE"
}

/** A client on a place in the database, known to the server by this name. */
const connect = (at: string, name: string) => {
  const named = new URL(at)
  named.searchParams.set("application_name", name)
  return Effect.map(Layer.build(Layer.fresh(Postgres.layer({ url: named.href }))), (context) =>
    Context.get(context, SqlClient.SqlClient)
  )
}

const storeOn = (sql: SqlClient.SqlClient) =>
  Effect.provideService(SqlRunStore.make, SqlClient.SqlClient, sql)

/** Whether the client of this name waits for a row that another one has. */
const waits = (sql: SqlClient.SqlClient, name: string) =>
  Effect.map(
    sql`SELECT 1 FROM pg_stat_activity WHERE application_name = ${name} AND wait_event_type = 'Lock'`,
    (rows) => rows.length > 0
  )

const unique = () => Math.random().toString(36).slice(2)

/**
 * Deletes the run `a` over one connection and holds it up at this place while `meanwhile` begins over another one. Yields
 * how both ended, and the two clients.
 */
const during = <A, E>({ row }: Place, meanwhile: (store: Store) => Effect.Effect<A, E, Scope.Scope>) =>
  Effect.gen(function* () {
    const at = yield* url
    const other = yield* connect(at, "other")
    const id = unique()
    const [deleter, writer] = [`deleter ${id}`, `writer ${id}`]
    const deleting = yield* Effect.flatMap(connect(at, deleter), storeOn)
    const store = yield* Effect.flatMap(connect(at, writer), storeOn)
    yield* store.append(append("a", 0, 2, { tags: ["t"] }))

    const [deletion, written] = yield* other.withTransaction(
      Effect.gen(function* () {
        yield* other.unsafe(row)
        const deletion = yield* Effect.forkDetach(Effect.exit(deleting.delete("a")))
        while (!(yield* waits(other, deleter))) yield* Effect.yieldNow
        const written = yield* Effect.forkScoped(Effect.exit(meanwhile(store)))
        // It is done already, or waits for the deletion.
        while (written.pollUnsafe() === undefined && !(yield* waits(other, writer))) yield* Effect.yieldNow
        return [deletion, written] as const
      })
    )
    const deleted = yield* Fiber.join(deletion)
    return { deleted, written: yield* Fiber.join(written), other, store }
  })

/** How many rows there are in all tables together. */
const rowsIn = (sql: SqlClient.SqlClient) =>
  Effect.gen(function* () {
    let count = 0
    for (const table of tables) count += (yield* sql.unsafe(`SELECT 1 FROM checkrein_${table}`)).length
    return count
  })

for (const place of [before, within]) {
  describePostgres(`while a run is deleted, ${place.name},`, () => {
    it.effect("a command is taken back with the run or finds none, and no later run of its id gets it", () =>
      Effect.gen(function* () {
        const { deleted, other, store } = yield* during(place, (store) => store.send("a", cancel("stop")))
        expect(deleted).toEqual(Exit.succeed(["a"]))
        expect(yield* rowsIn(other)).toBe(0)
        yield* store.append(append("a", 0))
        expect(yield* store.inbox("a", 0)).toEqual([])
      })
    )

    it.effect("an append is deleted with the run, or refused", () =>
      Effect.gen(function* () {
        const { deleted, other } = yield* during(place, (store) =>
          store.append(append("a", 2, 2, { tags: ["t"] }))
        )
        expect(deleted).toEqual(Exit.succeed(["a"]))
        expect(yield* rowsIn(other)).toBe(0)
      })
    )

    it.effect("a second deletion finds no run, and takes nothing of a later one", () =>
      Effect.gen(function* () {
        const { deleted, other, written } = yield* during(place, (store) => store.delete("a"))
        expect(deleted).toEqual(Exit.succeed(["a"]))
        expect(written).toMatchObject(Exit.fail({ _tag: "RunNotFound" }))
        expect(yield* rowsIn(other)).toBe(0)
      })
    )
  })
}

describePostgres("a run that is deleted if it is old", () => {
  it.effect("is asked for its age when it has been waited for", () =>
    Effect.gen(function* () {
      const at = yield* url
      const deleter = `deleter ${unique()}`
      const deleting = yield* Effect.flatMap(connect(at, deleter), storeOn)
      const other = yield* connect(at, "other")
      yield* deleting.append(append("a", 0, 2))
      const since = { untouchedSince: second(3) }
      const deletion = yield* other.withTransaction(
        Effect.gen(function* () {
          // As an append does it that is not committed yet.
          yield* other`UPDATE checkrein_runs SET summary = ${JSON.stringify(summary("a", 3))} WHERE run_id = 'a'`
          const deletion = yield* Effect.forkDetach(deleting.delete("a", since))
          while (!(yield* waits(other, deleter))) yield* Effect.yieldNow
          return deletion
        })
      )
      expect(yield* Fiber.join(deletion)).toEqual([])
      expect(yield* deleting.read("a")).toHaveLength(2)
    })
  )
})

describePostgres("a driver that comes while its run is deleted", () => {
  it.effect("keeps the run if nothing is deleted yet", () =>
    Effect.gen(function* () {
      const { deleted, store } = yield* during(before, (store) => store.lease("a"))
      expect(deleted).toMatchObject(Exit.fail({ _tag: "RunBusy", runId: "a" }))
      expect(yield* store.read("a")).toEqual(eventsFrom("a", 0, 2))
    })
  )

  it.effect("can write nothing to it later on", () =>
    Effect.gen(function* () {
      const { deleted, other, store } = yield* during(within, (store) => store.lease("a"))
      expect(deleted).toEqual(Exit.succeed(["a"]))
      expect(yield* Effect.flip(store.append(append("a", 2)))).toMatchObject({ _tag: "StaleWriter" })
      yield* other`DELETE FROM checkrein_leases`
      expect(yield* rowsIn(other)).toBe(0)
    })
  )
})

describePostgres("a run that is started while its parent is deleted", () => {
  it.effect("is deleted with it", () =>
    Effect.gen(function* () {
      const { deleted, other } = yield* during(before, (store) =>
        store.append(append("a/1", 0, 1, { parent: { runId: "a", callId: "c" } }))
      )
      expect(deleted).toEqual(Exit.succeed(["a", "a/1"]))
      expect(yield* rowsIn(other)).toBe(0)
    })
  )
})
