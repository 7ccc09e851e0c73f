import { join } from "node:path"
import { crc32 } from "node:zlib"
import { describe, expect, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Stream from "effect/Stream"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqlError from "effect/sql/SqlError"
import * as EventCodec from "../../src/run/EventCodec.ts"
import { version } from "../../src/run/RunEvent.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as Postgres from "../../src/store/Postgres.ts"
import { type ListOptions, RunStore, type RunSummary } from "../../src/store/RunStore.ts"
import { checksum } from "../../src/store/SqlEvents.ts"
import * as SqlList from "../../src/store/SqlList.ts"
import * as SqlRunStore from "../../src/store/SqlRunStore.ts"
import { append, event, eventsFrom, second, summary } from "../../src/testing/conformance/Samples.ts"
import { folder, inFolder } from "./folders.ts"
import { describePostgres, inSchema } from "./postgres.ts"

type Body = (store: RunStore["Service"], sql: SqlClient.SqlClient) => Effect.Effect<void, unknown, RunStore>

/** A store and the client under it. */
const Sqlite = inFolder((folder) =>
  Layer.provideMerge(SqlRunStore.layer, NodeSqlite.layer({ filename: join(folder, "runs.db") }))
)
const OnPostgres = inSchema((url) => Layer.provideMerge(SqlRunStore.layer, Postgres.layer({ url })))

const testOn =
  <E>(layer: Layer.Layer<RunStore | SqlClient.SqlClient, E>) =>
  (name: string, body: Body) =>
    it.effect(name, () =>
      Effect.gen(function* () {
        yield* body(yield* RunStore, yield* SqlClient.SqlClient)
      }).pipe(Effect.provide(layer))
    )

const onSqlite = testOn(Sqlite)
const onPostgres = testOn(OnPostgres)

/** Describes the same on both databases. */
const newer = new RegExp(`event 2 of run a .* version ${version + 1}.* upgrade checkrein`)

const describeBoth = (name: string, body: (test: typeof onSqlite) => void) => {
  describe(`${name} (SQLite)`, () => body(onSqlite))
  describePostgres(`${name} (Postgres)`, () => body(onPostgres))
}

describeBoth("a journal that is not whole", (test) => {
  const bodyOf = (value: unknown) => JSON.stringify(value)
  const damaged = [
    {
      name: "text that is not JSON",
      damage: (sql: SqlClient.SqlClient) => sql`UPDATE checkrein_events SET body = '{"v":1,' WHERE seq = 2`,
      error: { kind: "corrupt", seq: 2, message: /event 2 of run a cannot be read: it is not JSON/ }
    },
    {
      name: "an event of no known shape",
      damage: (sql: SqlClient.SqlClient) =>
        sql`UPDATE checkrein_events SET body = ${bodyOf({ ...event("a", 2), ok: "yes" })} WHERE seq = 2`,
      error: { kind: "corrupt", seq: 2, message: /event 2 of run a cannot be read/ }
    },
    {
      name: "an event from a newer version",
      damage: (sql: SqlClient.SqlClient) =>
        sql`UPDATE checkrein_events SET body = ${bodyOf({ v: version + 1, type: "unheard_of" })} WHERE seq = 2`,
      error: { kind: "newer_version", seq: 2, message: newer }
    },
    {
      name: "an event missing in the middle",
      damage: (sql: SqlClient.SqlClient) => sql`DELETE FROM checkrein_events WHERE seq = 2`,
      error: { kind: "corrupt", seq: 2, message: /run a: event 2 is missing/ }
    },
    {
      name: "an event missing at the end",
      damage: (sql: SqlClient.SqlClient) => sql`DELETE FROM checkrein_events WHERE seq = 4`,
      error: { kind: "corrupt", seq: 4, message: /run a: event 4 is missing/ }
    },
    {
      name: "no events at all",
      damage: (sql: SqlClient.SqlClient) => sql`DELETE FROM checkrein_events`,
      error: { kind: "corrupt", seq: 0, message: /run a: event 0 is missing/ }
    },
    {
      name: "an event too many",
      damage: (sql: SqlClient.SqlClient) =>
        sql.onDialectOrElse({
          pg: () =>
            sql`INSERT INTO checkrein_events (run_no, seq, body) VALUES (1, 5, ${bodyOf(event("a", 5))})`,
          orElse: () =>
            sql`INSERT INTO checkrein_events (id, body) SELECT MAX(id) + 1, ${bodyOf(event("a", 5))} FROM checkrein_events`
        }),
      error: { kind: "corrupt", seq: 5, message: /run a: event 5 is one more than its summary counts/ }
    },
    {
      name: "two events swapped",
      damage: (sql: SqlClient.SqlClient) =>
        sql.onDialectOrElse({
          pg: () =>
            Effect.andThen(
              sql`UPDATE checkrein_events SET seq = 5 - seq + 100 WHERE seq IN (2, 3)`,
              sql`UPDATE checkrein_events SET seq = seq - 100 WHERE seq > 100`
            ),
          orElse: () =>
            Effect.andThen(
              sql`UPDATE checkrein_events SET id = id + 5 - 2 * seq + 100 WHERE seq IN (2, 3)`,
              sql`UPDATE checkrein_events SET id = id - 100 WHERE seq > 100`
            )
        }),
      error: { kind: "corrupt", seq: 2, message: /event 2 of run a .* says that it is event 3/ }
    },
    {
      name: "an event of another run",
      damage: (sql: SqlClient.SqlClient) =>
        sql`UPDATE checkrein_events SET body = ${bodyOf(event("b", 2))} WHERE seq = 2`,
      error: { kind: "corrupt", seq: 2, message: /event 2 of run a .* says that it is of run b/ }
    },
    {
      name: "an event that reads well, and is not as it was written",
      damage: (sql: SqlClient.SqlClient) =>
        sql`UPDATE checkrein_events SET body = replace(body, 'result 2', 'result 7') WHERE seq = 2`,
      error: { kind: "corrupt", seq: 2, message: /event 2 of run a .* is not as it was written/ }
    },
    {
      name: "an event that stood at the same place in another run, with its checksum",
      damage: (sql: SqlClient.SqlClient) =>
        sql`UPDATE checkrein_events SET checksum = ${checksum("b", EventCodec.encode(event("b", 2)))} WHERE seq = 2`,
      error: { kind: "corrupt", seq: 2, message: /event 2 of run a .* is not as it was written/ }
    }
  ]
  for (const { damage, error, name } of damaged) {
    test(name, (store, sql) =>
      Effect.gen(function* () {
        yield* store.append(append("a", 0, 5))
        yield* damage(sql)
        const failure = yield* Effect.flip(store.read("a"))
        expect(failure).toMatchObject({ _tag: "RunStoreError", runId: "a", kind: error.kind, seq: error.seq })
        expect(failure.message).toMatch(error.message)
        const watched = yield* Effect.flip(Stream.runDrain(store.watch("a", 1)))
        expect(watched).toMatchObject({ _tag: "RunStoreError", kind: error.kind })
      })
    )
  }

  test("events with a checksum of the text alone, or with none, are those of an older build, and read", (store, sql) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 2))
      const events = yield* store.read("a")
      const before = crc32(EventCodec.encode(event("a", 0))) | 0
      yield* sql`UPDATE checkrein_events SET checksum = ${before} WHERE seq = 0`
      yield* sql`UPDATE checkrein_events SET checksum = NULL WHERE seq = 1`
      expect(yield* store.read("a")).toEqual(events)
    }))

  test("reading from after the damage still works", (store, sql) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 5))
      yield* sql`DELETE FROM checkrein_events WHERE seq = 2`
      expect(yield* store.read("a", 3)).toEqual(eventsFrom("a", 3, 2))
    }))

  test("a summary that cannot be read hides no other run: it is left out of every list, and named in the log", (store, sql) =>
    Effect.gen(function* () {
      const ids = Array.from({ length: 12 }, (_, i) => `run ${String(i).padStart(2, "0")}`)
      for (const [i, id] of ids.entries())
        yield* store.append(append(id, 0, 1, { startedAt: second(i), tags: ["t"] }))
      const damaged = ["run 00", "run 04", "run 05", "run 06", "run 11"]
      for (const id of damaged)
        yield* sql`UPDATE checkrein_runs SET summary = ${'{"runId":'} WHERE run_id = ${id}`
      const whole = ids.filter((id) => !damaged.includes(id)).toReversed()
      const warnings: Array<string> = []
      const heard = Logger.layer([Logger.make(({ message }) => void warnings.push(String(message)))])
      for (const filter of [{}, { tag: "t" }, { status: "running", agent: "analyst" }] as const) {
        const listed = (options: ListOptions) =>
          Effect.map(store.list({ ...filter, ...options }), (runs) => runs.map(({ runId }) => runId)).pipe(
            Effect.provide(heard)
          )
        expect(yield* listed({})).toEqual(whole)
        for (const id of damaged)
          expect(warnings.filter((text) => text.includes(`run ${id} `))).toHaveLength(1)
        expect(warnings.splice(0)).toHaveLength(damaged.length)
        expect(yield* listed({ limit: 0 })).toEqual([])
        // A page is full as long as there are more.
        for (const limit of [1, 2, 3]) {
          const seen: Array<string> = []
          let before: RunSummary | undefined
          do {
            const page = yield* Effect.provide(store.list({ ...filter, limit, before }), heard)
            expect(page.length).toBe(Math.min(limit, whole.length - seen.length))
            seen.push(...page.map(({ runId }) => runId))
            before = page.at(-1)
          } while (before !== undefined)
          expect(seen).toEqual(whole)
        }
        warnings.length = 0
      }
      const error = yield* Effect.flip(store.summary("run 05"))
      expect(error).toMatchObject({ _tag: "RunStoreError", kind: "corrupt", runId: "run 05" })
    }))

  test("a summary that cannot be read", (store, sql) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* sql`UPDATE checkrein_runs SET summary = '{}'`
      expect(yield* Effect.flip(store.summary("a"))).toMatchObject({ kind: "corrupt", runId: "a" })
    }))
})

describe("an event that is too long to be read again", () => {
  // More than 2^29 bytes, in half as many characters.
  const long = { ...event("a", 1), content: "é".repeat(2 ** 28) }

  onSqlite("is not stored", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      expect(yield* Effect.flip(store.append({ ...append("a", 1), events: [long] }))).toMatchObject({
        _tag: "RunStoreError",
        kind: "invalid",
        seq: 1
      })
      yield* store.append(append("a", 1))
      expect(yield* store.read("a")).toEqual(eventsFrom("a", 0, 2))
    })
  )

  onSqlite("is said to be so where it was stored before", (store, sql) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 2))
      yield* Effect.orDie(sql`UPDATE checkrein_events SET body = hex(zeroblob(${2 ** 28})) WHERE seq = 1`)
      expect(yield* Effect.flip(store.read("a"))).toMatchObject({
        _tag: "RunStoreError",
        problem: "a value is longer than a string can be"
      })
    })
  )
})

describeBoth("a page of a journal", (test) => {
  test("has as many events as are not too much together, and no less than one", (store) =>
    Effect.gen(function* () {
      const lengths = [...Array.from({ length: 40 }, () => 30_000), 1_000_000, 1_000_000, 10]
      const events = lengths.map((length, n) => event("a", n, "x".repeat(length)))
      yield* store.append({ ...append("a", 0), events, summary: summary("a", events.length) })
      const pages: Array<number> = []
      let from = 0
      do {
        const page = yield* store.read("a", from, 500)
        expect(page).toEqual(events.slice(from, from + page.length))
        pages.push(page.length)
        from += page.length
      } while (pages.at(-1) !== 0)
      expect(from).toBe(events.length)
      expect(Math.max(...pages)).toBeLessThan(12)
      expect(pages.slice(-4)).toEqual([5, 1, 1, 0])
    }))

  test("of which the next event is missing is the last", (store, sql) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 6))
      yield* Effect.orDie(sql`DELETE FROM checkrein_events WHERE seq >= 3`)
      expect(yield* store.read("a", 0, 3)).toEqual(eventsFrom("a", 0, 3))
      for (const [from, limit] of [
        [0, 4],
        [3, 1]
      ] as const) {
        const read = yield* Effect.result(store.read("a", from, limit))
        if (from === 0) expect(read).toMatchObject({ success: eventsFrom("a", 0, 3) })
        else expect(read).toMatchObject({ failure: { kind: "corrupt", seq: 3 } })
      }
    }))
})

describeBoth("a command in an inbox", (test) => {
  const decide = { type: "decide", callId: "c1", decision: "approved" } as const
  const stored = (sql: SqlClient.SqlClient, body: string) =>
    Effect.asVoid(sql`UPDATE checkrein_commands SET body = ${body} WHERE id = 2`)

  const unreadable = [
    { name: "that is not JSON", body: '{"v":1,', kind: "corrupt", says: /it is not JSON/ },
    { name: "that is no object", body: "7", kind: "corrupt", says: /it is not JSON/ },
    { name: "without a type", body: '{"v":1}', kind: "corrupt", says: /type/ },
    { name: "with a field missing", body: '{"v":1,"type":"cancel"}', kind: "corrupt", says: /reason/ },
    { name: "with a version that is none", body: '{"v":"1"}', kind: "corrupt", says: /no version/ },
    {
      name: "of a newer version",
      body: JSON.stringify({ v: 2, ...decide, onlyOn: "weekdays" }),
      kind: "newer_version",
      says: /version 2, and this build reads up to 1; upgrade checkrein/
    },
    {
      name: "of a type from another build",
      body: '{"type":"dance"}',
      kind: "newer_version",
      says: /no command of the type "dance"; upgrade checkrein/
    }
  ]
  for (const { body, kind, name, says } of unreadable) {
    test(`${name} is refused, and not passed over`, (store, sql) =>
      Effect.gen(function* () {
        yield* store.append(append("a", 0))
        for (const callId of ["c1", "c2", "c3"]) yield* store.send("a", { ...decide, callId })
        yield* stored(sql, body)
        const failure = yield* Effect.flip(store.inbox("a", 0))
        expect(failure).toMatchObject({ _tag: "RunStoreError", runId: "a", kind })
        expect(failure.problem).toMatch(/^command 2 of its inbox cannot be read: /)
        expect(failure.problem).toMatch(says)
        const watched = yield* Effect.flip(Stream.runDrain(store.watchInbox("a", 1)))
        expect(watched).toMatchObject({ _tag: "RunStoreError", kind })
        expect(yield* store.inbox("a", 2)).toEqual([{ id: 3, command: { ...decide, callId: "c3" } }])
      }))
  }

  test("says of which version it is, and has version 1 if it does not", (store, sql) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* store.send("a", decide)
      yield* store.send("a", decide)
      const bodies = yield* sql<{ body: string }>`SELECT body FROM checkrein_commands ORDER BY id`
      expect(JSON.parse(bodies[0]?.body ?? "")).toEqual({ v: 1, ...decide })
      yield* stored(sql, JSON.stringify(decide))
      expect(yield* store.inbox("a", 0)).toEqual([
        { id: 1, command: decide },
        { id: 2, command: decide }
      ])
    }))
})

describe("a database that cannot take more", () => {
  onSqlite("a run whose row somebody has deleted is in the way of no new one", (store, sql) =>
    Effect.gen(function* () {
      for (const id of ["a", "b", "c"]) yield* store.append(append(id, 0, 2, { tags: ["t"] }))
      yield* sql`DELETE FROM checkrein_runs WHERE run_id IN ('b', 'c')`
      for (const id of ["d", "c", "e"]) {
        yield* store.append(append(id, 0, 3, { tags: ["t"] }))
        expect(yield* store.read(id)).toEqual(eventsFrom(id, 0, 3))
      }
      expect((yield* store.list({ tag: "t" })).map(({ runId }) => runId)).toEqual(["e", "d", "c", "a"])
    })
  )

  onSqlite("a full disk takes nothing of the append that failed, and all of it later", (store, sql) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 2))
      yield* store.send("a", { type: "cancel", reason: "before" })
      const [pages] = yield* sql<{ page_count: number }>`PRAGMA page_count`
      const [most] = yield* sql<{ max_page_count: number }>`PRAGMA max_page_count`
      yield* sql.unsafe(`PRAGMA max_page_count = ${(pages?.page_count ?? 0) + 2}`)
      const large = {
        ...append("a", 2),
        events: [event("a", 2, "small"), event("a", 3, "x".repeat(100_000))]
      }
      for (const durability of ["process", "power"] as const) {
        const failure = yield* Effect.flip(store.append({ ...large, durability }))
        expect(failure).toMatchObject({ _tag: "RunStoreError", runId: "a", kind: "full" })
        expect(failure.message).toMatch(/no space left; free some, then resume/)
      }
      const command = { type: "cancel", reason: "x".repeat(100_000) } as const
      expect(yield* Effect.flip(store.send("a", command))).toMatchObject({ kind: "full" })
      expect(yield* store.read("a")).toEqual(eventsFrom("a", 0, 2))
      expect(yield* store.summary("a")).toEqual(summary("a", 2))
      yield* sql.unsafe(`PRAGMA max_page_count = ${most?.max_page_count}`)
      yield* store.append({ ...large, summary: summary("a", 4) })
      expect(yield* store.read("a", 2)).toEqual(large.events)
      expect(yield* store.send("a", command)).toBe(2)
    })
  )

  onSqlite("a database that has become read-only", (store, sql) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* sql`PRAGMA query_only = ON`
      const failure = yield* Effect.flip(store.append(append("a", 1)))
      expect(failure).toMatchObject({ _tag: "RunStoreError", runId: "a", kind: "read_only" })
      expect(failure.message).toMatch(/cannot be written; give this process permission/)
      expect(yield* store.read("a")).toEqual(eventsFrom("a", 0, 1))
      yield* sql`PRAGMA query_only = OFF`
      yield* store.append(append("a", 1))
    })
  )

  onSqlite("a table that is gone", (store, sql) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* sql`DROP TABLE checkrein_events`
      const failure = yield* Effect.flip(store.append(append("a", 1)))
      expect(failure).toMatchObject({
        kind: "unavailable",
        problem: expect.stringMatching(/checkrein_events/)
      })
      expect((yield* store.summary("a")).seq).toBe(1)
    })
  )
})

describe("a commit that fails", () => {
  onSqlite("leaves nothing behind, and no transaction open", (_, sql) =>
    Effect.gen(function* () {
      let failing = true
      const broken = new SqlError.SqlError({
        reason: new SqlError.UnknownError({ message: "disk I/O error", cause: new Error("disk I/O error") })
      })
      const reserve = Effect.map(sql.reserve, (connection) => ({
        ...connection,
        execute: (...args: Parameters<typeof connection.execute>) =>
          args[0] === "COMMIT" && failing ? Effect.fail(broken) : connection.execute(...args)
      }))
      const store = yield* SqlRunStore.make.pipe(
        Effect.provideService(SqlClient.SqlClient, Object.assign(sql, { reserve }))
      )
      for (const durability of ["process", "power"] as const) {
        const failure = yield* Effect.flip(store.append(append("a", 0, 2, {}, durability)))
        expect(failure).toMatchObject({ kind: "unavailable", problem: "disk I/O error" })
        expect(yield* sql`PRAGMA synchronous`).toEqual([{ synchronous: 2 }])
      }
      failing = false
      expect(yield* store.list()).toEqual([])
      yield* store.append(append("a", 0))
      expect(yield* store.read("a")).toEqual(eventsFrom("a", 0, 1))
    }).pipe(Effect.scoped)
  )
})

describe("an append that is interrupted", () => {
  onSqlite("is whole or not there, and leaves no transaction open and no level changed", (_, sql) =>
    Effect.gen(function* () {
      let [at, reached] = ["", yield* Deferred.make<void>()]
      const held = <A>(text: string, effect: Effect.Effect<A, SqlError.SqlError>) =>
        at !== "" && text.startsWith(at)
          ? Effect.andThen(
              Effect.andThen(Deferred.succeed(reached, undefined), Effect.yieldNow),
              Effect.andThen(Effect.yieldNow, effect)
            )
          : effect
      const reserve = Effect.map(sql.reserve, (connection) => ({
        ...connection,
        execute: (...args: Parameters<typeof connection.execute>) =>
          held(args[0], connection.execute(...args)),
        executeUnprepared: (...args: Parameters<typeof connection.executeUnprepared>) =>
          held(args[0], connection.executeUnprepared(...args))
      }))
      const store = yield* SqlRunStore.make.pipe(
        Effect.provideService(SqlClient.SqlClient, Object.assign(sql, { reserve }))
      )
      const places = ["PRAGMA synchronous", "BEGIN", "INSERT INTO checkrein_events", "COMMIT"]
      for (const place of places) {
        for (const durability of ["process", "power"] as const) {
          const runId = `${place} ${durability}`
          at = place
          reached = yield* Deferred.make<void>()
          const fiber = yield* Effect.forkChild(store.append(append(runId, 0, 2, {}, durability)))
          yield* Effect.raceFirst(Deferred.await(reached), Fiber.await(fiber))
          yield* Fiber.interrupt(fiber)
          at = ""
          const stored = yield* Effect.orElseSucceed(store.read(runId), () => [])
          expect([[], eventsFrom(runId, 0, 2)], runId).toContainEqual(stored)
          if (place === "COMMIT") expect(stored, runId).toHaveLength(2)
          if (place.startsWith("INSERT")) expect(stored, runId).toHaveLength(0)
          expect(yield* sql`PRAGMA synchronous`, runId).toEqual([{ synchronous: 2 }])
          yield* store.append(append(`after ${runId}`, 0, 1, {}, durability))
        }
      }
    }).pipe(Effect.scoped)
  )
})

describeBoth("a caller's transaction", (test) => {
  test("is refused by whatever writes, and by nothing else", (store, sql) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* sql`CREATE TABLE own (id INTEGER)`
      const inside = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`INSERT INTO own VALUES (1)`
          const failures = [
            yield* Effect.flip(store.append(append("a", 1))),
            yield* Effect.flip(store.append(append("b", 0))),
            yield* Effect.flip(store.send("a", { type: "cancel", reason: "" })),
            yield* Effect.flip(store.delete("a")),
            yield* Effect.flip(Effect.scoped(store.lease("a"))),
            yield* Effect.flip(sql.withTransaction(store.append(append("a", 1))))
          ]
          expect(yield* store.read("a")).toEqual(eventsFrom("a", 0, 1))
          return failures
        })
      )
      for (const failure of inside) expect(failure).toMatchObject({ kind: "inside_transaction" })
      expect(inside[0]?.message).toMatch(/inside an open transaction.*run agents outside of transactions/)
      // Only the refused writes are missing; what the caller wrote is committed.
      expect(yield* sql`SELECT id FROM own`).toHaveLength(1)
      expect((yield* store.list()).map((run) => run.runId)).toEqual(["a"])
    }))
})

describe("a transaction on the only connection", () => {
  onSqlite("that was begun by hand is refused too", (store, sql) =>
    Effect.gen(function* () {
      yield* sql`BEGIN`
      expect(yield* Effect.flip(store.append(append("a", 0)))).toMatchObject({ kind: "inside_transaction" })
      yield* sql`ROLLBACK`
      yield* store.append(append("a", 0))
    })
  )

  onSqlite("of another fiber only makes the append wait", (store, sql) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      const order: Array<string> = []
      const other = yield* Effect.forkChild(
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT 1`
            for (let i = 0; i < 20; i++) yield* Effect.yieldNow
            order.push("transaction")
          })
        )
      )
      yield* Effect.yieldNow
      yield* store.append(append("a", 1))
      order.push("append")
      yield* Fiber.join(other)
      expect(order).toEqual(["transaction", "append"])
    })
  )
})

describe("what an append has to survive", () => {
  /** The levels of `PRAGMA synchronous` at each commit of the store, and after it. */
  const observe = (options: Omit<NodeSqlite.Options, "filename">) =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const levels: Array<number> = []
      const reserve = Effect.map(sql.reserve, (connection) => ({
        ...connection,
        execute: (...args: Parameters<typeof connection.execute>) =>
          args[0] === "COMMIT"
            ? connection.executeUnprepared("PRAGMA synchronous", [], undefined).pipe(
                Effect.tap(([row]) => Effect.sync(() => levels.push(row.synchronous))),
                Effect.andThen(connection.execute(...args))
              )
            : connection.execute(...args)
      }))
      const store = yield* SqlRunStore.make.pipe(
        Effect.provideService(SqlClient.SqlClient, Object.assign(sql, { reserve }))
      )
      const now = Effect.map(sql<{ synchronous: number }>`PRAGMA synchronous`, ([row]) => row?.synchronous)
      yield* store.append(append("a", 0, 1, {}, "process"))
      yield* store.append(append("a", 1, 1, {}, "power"))
      yield* store.append(append("a", 2, 1, {}, "power"))
      yield* store.append(append("a", 3, 1, {}, "process"))
      const afterAppend = yield* now
      yield* Effect.flip(store.append(append("a", 0, 1, {}, "power")))
      yield* Effect.flip(store.append(append("a", 0, 1, {}, "process")))
      yield* store.send("a", { type: "cancel", reason: "" })
      return { levels, base: [afterAppend, yield* now] }
    }).pipe(
      Effect.provide(inFolder((path) => NodeSqlite.layer({ ...options, filename: join(path, "a.db") }))),
      Effect.scoped
    )
  const normal = 1
  const full = 2
  const levels = [normal, full, full, normal, full, normal, full]

  it.effect("is written at its own level through a client that waits for the disk", () =>
    Effect.gen(function* () {
      expect(yield* observe({})).toEqual({ levels, base: [full, full] })
    })
  )

  it.effect("is written at its own level through a client that does not", () =>
    Effect.gen(function* () {
      expect(yield* observe({ synchronous: "normal" })).toEqual({ levels, base: [normal, normal] })
    })
  )

  onSqlite("a failed append puts the level back", (store, sql) =>
    Effect.gen(function* () {
      yield* sql`PRAGMA query_only = ON`
      yield* Effect.flip(store.append(append("a", 0, 1, {}, "process")))
      expect(yield* sql`PRAGMA synchronous`).toEqual([{ synchronous: full }])
    })
  )
})

/** Has the tables of the build before runs were listed by why they have stopped. */
const withoutReasons = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  for (const index of ["runs_reason", "runs_agent_reason", "tags_reason", "tags_agent_reason"])
    yield* sql`DROP INDEX ${sql(`checkrein_${index}`)}`
  for (const table of ["checkrein_runs", "checkrein_tags"])
    yield* sql`ALTER TABLE ${sql(table)} DROP COLUMN reason`
  yield* sql`DELETE FROM checkrein_migrations WHERE name = 'reasons'`
})

describePostgres("a process of a newer build that is started beside others (Postgres)", () =>
  onPostgres(
    "keeps nobody waiting for longer than an append does, whoever reads the tables meanwhile",
    (store, sql) =>
      Effect.gen(function* () {
        yield* store.append(append("a", 0))
        yield* withoutReasons(sql)
        const open = SqlRunStore.make.pipe(
          Effect.provideService(SqlClient.SqlClient, sql),
          Effect.asVoid,
          Effect.scoped
        )
        const [reads, isRead] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const backup = yield* sql`SELECT 1 FROM checkrein_runs`.pipe(
          Effect.andThen(Deferred.succeed(reads, undefined)),
          Effect.andThen(Deferred.await(isRead)),
          sql.withTransaction,
          Effect.forkChild
        )
        yield* Deferred.await(reads)
        const begunMs = performance.now()
        const [failure] = yield* Effect.all([Effect.flip(open), sql`UPDATE checkrein_runs SET seq = seq`], {
          concurrency: "unbounded"
        })
        expect(performance.now() - begunMs).toBeLessThan(5_000)
        expect(failure).toMatchObject({ _tag: "RunStoreError", kind: "unavailable", runId: "" })
        expect(failure.message).toContain("locked by somebody else")
        yield* Deferred.succeed(isRead, undefined)
        yield* Fiber.join(backup)
        yield* open
        expect(yield* sql`SELECT reason FROM checkrein_runs`).toEqual([{ reason: null }])
      })
  )
)

describeBoth("the tables of the build before runs were listed by why they have stopped", (test) =>
  test("are brought over with all their runs, whatever can be read of them", (store, sql) =>
    Effect.gen(function* () {
      const approval = { status: "interrupted", reason: "approval" } as const
      const answered = { status: "completed", reason: "answered" } as const
      const count = 1_200
      for (let i = 0; i < count; i++) {
        const tags = i % 400 === 0 ? { tags: ["t", "u"] } : {}
        const rest = i % 300 === 0 ? approval : i % 300 === 1 ? {} : answered
        yield* store.append(append(`run ${i}`, 0, 1, { startedAt: second(i), ...tags, ...rest }))
      }
      yield* sql`UPDATE checkrein_runs SET summary = '{"reason":"appr' WHERE run_id = 'run 300'`
      yield* withoutReasons(sql)

      const opened = yield* SqlRunStore.make.pipe(
        Effect.provideService(SqlClient.SqlClient, sql),
        Effect.scoped
      )
      const listed = (options: ListOptions) =>
        Effect.map(opened.list({ limit: count, ...options }), (runs) => runs.map(({ runId }) => runId))
      expect(yield* listed({ reason: "approval" })).toEqual(["run 900", "run 600", "run 0"])
      expect(yield* listed({ reason: "approval", tag: "u" })).toEqual(["run 0"])
      expect(yield* listed({ reason: "answered", tag: "t", agent: "analyst" })).toEqual([
        "run 800",
        "run 400"
      ])
      expect(yield* listed({ reason: "answered" })).toHaveLength(count - 8)
      yield* opened.append(append("run 600", 1, 1, { startedAt: second(600) }))
      expect(yield* listed({ reason: "approval" })).toEqual(["run 900", "run 0"])
    }))
)

describe("the tables", () => {
  it.effect("are made once, and open again with what they had", () =>
    Effect.gen(function* () {
      const filename = join(yield* folder, "deep/er/runs.db")
      const writing = RunStore.use((store) =>
        Effect.andThen(store.append(append("a", 0, 3)), store.send("a", { type: "cancel", reason: "stop" }))
      )
      yield* Effect.provide(writing, NodeSqlite.runStore(filename))
      yield* Effect.gen(function* () {
        const store = yield* RunStore
        expect(yield* store.read("a")).toEqual(eventsFrom("a", 0, 3))
        expect(yield* store.inbox("a", 0)).toHaveLength(1)
        yield* store.append(append("a", 3))
      }).pipe(Effect.provide(NodeSqlite.runStore(filename)))
    })
  )

  it.effect("are not made in a database of another kind", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const onDialectOrElse = <A>({ orElse }: { readonly orElse: () => A }): A => orElse()
      const failure = yield* SqlRunStore.make.pipe(
        Effect.provideService(SqlClient.SqlClient, Object.assign(sql, { onDialectOrElse })),
        Effect.asVoid,
        Effect.flip
      )
      expect(failure).toMatchObject({
        kind: "unavailable",
        problem: expect.stringMatching(/SQLite or in Postgres/)
      })
    }).pipe(Effect.scoped, Effect.provide(NodeSqlite.layer({ filename: ":memory:" })))
  )

  it.effect("made by a newer build are refused", () =>
    Effect.gen(function* () {
      const client = NodeSqlite.layer({ filename: join(yield* folder, "runs.db") })
      const newer = SqlClient.SqlClient.use(
        (sql) => sql`INSERT INTO checkrein_migrations (migration_id, name) VALUES (99, 'future')`
      )
      yield* Effect.provide(newer, Layer.provideMerge(SqlRunStore.layer, client))
      const failure = yield* Effect.flip(
        Effect.provide(RunStore.use(Effect.succeed), Layer.provide(SqlRunStore.layer, client))
      )
      expect(failure).toMatchObject({ _tag: "RunStoreError", kind: "newer_version" })
    })
  )

  it.effect("have a page of whatever is asked for at hand, however many runs there are", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const among = { tag: ["t"], agent: ["a"], status: ["failed"], reason: ["defect"] } as const
      const when = { since: ["2026"], until: ["2027"], before: [{ startedAt: "2026", runId: "a" }] } as const
      let asked: ReadonlyArray<ListOptions> = [{}]
      for (const [key, [value]] of Object.entries({ ...among, ...when }))
        asked = asked.flatMap((options) => [options, { ...options, [key]: value }])
      for (const options of asked) {
        const [text, params] = SqlList.rows(sql, options).compile()
        const plan = yield* sql.unsafe<{ detail: string }>(`EXPLAIN QUERY PLAN ${text}`, params)
        const [walk, ...rest] = plan.map((step) => step.detail)
        // A reason goes with one status.
        const isOne = (key: string) => key in among && !(key === "status" && options.reason !== undefined)
        const steps = Object.keys(options)
          .filter((key) => isOne(key) || key in when)
          .map((key) => (isOne(key) ? `.*${key}=\\?` : ".*started_at"))
        const walks = [...new Set(steps)].join("")
        const how = walks === "" ? "SCAN" : "SEARCH"
        expect([options, walk]).toEqual([
          options,
          expect.stringMatching(new RegExp(`^${how} k USING INDEX${walks}`))
        ])
        expect(rest).toEqual(
          options.tag === undefined ? [] : ["SEARCH r USING INTEGER PRIMARY KEY (rowid=?)"]
        )
      }
      expect(asked).toHaveLength(128)
    }).pipe(Effect.provide(Sqlite))
  )
})
