import { expect, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as TestClock from "effect/testing/TestClock"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as Postgres from "../../src/store/Postgres.ts"
import { LeaseTime, type RunStore } from "../../src/store/RunStore.ts"
import * as SqlRunStore from "../../src/store/SqlRunStore.ts"
import { append } from "../../src/testing/conformance/Samples.ts"
import { describeShared } from "./stores.ts"

type Store = RunStore["Service"]

const clientOf = (where: string) =>
  Layer.orDie(
    where.startsWith("postgres:") ? Postgres.layer({ url: where }) : NodeSqlite.layer({ filename: where })
  )

/** A store and the client under it, with leases of this many seconds. */
const opened = (where: string, seconds: number) =>
  Effect.gen(function* () {
    const sql = Context.get(yield* Layer.build(Layer.fresh(clientOf(where))), SqlClient.SqlClient)
    const store = yield* SqlRunStore.make.pipe(
      Effect.provideService(SqlClient.SqlClient, sql),
      Effect.provideService(LeaseTime, `${seconds} seconds`)
    )
    return { sql, store }
  })

const untilMs = (sql: SqlClient.SqlClient) =>
  Effect.map(sql<{ until_ms: number | bigint }>`SELECT until_ms FROM checkrein_leases`, ([row]) =>
    Number(row?.until_ms)
  )

const wait = (duration: `${number} millis`) => TestClock.withLive(Effect.sleep(duration))

const stale = (appended: ReturnType<Store["append"]>) =>
  Effect.match(appended, { onFailure: ({ _tag }) => _tag, onSuccess: () => "success" })

const busy = (store: Store, runId = "a") => Effect.flip(Effect.scoped(Effect.asVoid(store.lease(runId))))

it.effect.each([Number.NaN, -1, { hours: Number.NaN }])(
  "a lease of %s is refused, and makes nothing",
  (time) =>
    Effect.gen(function* () {
      const sql = Context.get(yield* Layer.build(clientOf(":memory:")), SqlClient.SqlClient)
      const failure = yield* SqlRunStore.make.pipe(
        Effect.provideService(SqlClient.SqlClient, sql),
        Effect.provideService(LeaseTime, time),
        Effect.flip
      )
      expect(failure).toMatchObject({ _tag: "RunStoreError", kind: "invalid" })
      expect(failure.message).toContain("RunStore.LeaseTime is")
      expect(yield* sql`SELECT name FROM sqlite_master`).toEqual([])
    })
)

describeShared((where) => {
  const test = (
    name: string,
    seconds: number,
    body: (
      one: { readonly store: Store; readonly sql: SqlClient.SqlClient },
      other: { readonly store: Store; readonly sql: SqlClient.SqlClient }
    ) => Effect.Effect<void, unknown, Scope.Scope>
  ) =>
    it.effect(
      name,
      () =>
        Effect.gen(function* () {
          const at = yield* where
          yield* body(yield* opened(at, seconds), yield* opened(at, seconds))
        }),
      { concurrent: true, timeout: 60_000 }
    )

  test("two stores on one database know of each other's drivers", 15, ({ store }, { sql, store: other }) =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const lease = yield* Scope.provide(store.lease("a"), scope)
      expect(yield* busy(other)).toMatchObject({ _tag: "RunBusy", runId: "a" })
      yield* Effect.scoped(other.lease("b"))
      yield* lease.check
      yield* Scope.close(scope, Exit.void)
      expect(yield* sql`SELECT * FROM checkrein_leases`).toEqual([])
      yield* Effect.scoped(other.lease("a"))
    })
  )

  test("a lease that ends later than any can is nobody's, one that ends in time is", 15, ({ sql, store }) =>
    Effect.gen(function* () {
      const hours = (count: number) =>
        Effect.gen(function* () {
          yield* Effect.orDie(sql`DELETE FROM checkrein_leases`)
          const until = Date.now() + count * 3_600_000
          yield* Effect.orDie(
            sql`INSERT INTO checkrein_leases (run_id, holder, until_ms) VALUES ('a', 'somebody', ${until})`
          )
        })
      yield* store.append(append("a", 0))
      yield* hours(25)
      expect(yield* store.isDriven("a")).toBe(true)
      expect(yield* busy(store)).toMatchObject({ _tag: "RunBusy" })
      expect(yield* Effect.flip(store.delete("a"))).toMatchObject({ _tag: "RunBusy" })
      yield* hours(49)
      expect(yield* store.isDriven("a")).toBe(false)
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* store.lease("a")
          expect(yield* store.isDriven("a")).toBe(true)
          expect((yield* untilMs(sql)) - Date.now()).toBeLessThan(20_000)
        })
      )
      yield* hours(49)
      expect(yield* store.delete("a")).toEqual(["a"])
      expect(yield* Effect.orDie(sql`SELECT * FROM checkrein_leases`)).toEqual([])
    })
  )

  test("a clock that a test has set is no matter of a lease", 15, ({ store }, { store: other }) =>
    Effect.gen(function* () {
      const lease = yield* store.lease("a")
      const lost = yield* Effect.forkChild(lease.lost)
      yield* TestClock.adjust("1 day")
      yield* lease.check
      expect(yield* busy(other)).toMatchObject({ _tag: "RunBusy" })
      expect(lost.pollUnsafe()).toBe(undefined)
    })
  )

  test("it is renewed as long as it is held", 3, ({ sql, store }, { store: other }) =>
    Effect.gen(function* () {
      const lease = yield* store.lease("a")
      const before = yield* untilMs(sql)
      yield* wait("3500 millis")
      yield* lease.check
      expect(yield* untilMs(sql)).toBeGreaterThan(before)
      expect(yield* busy(other)).toMatchObject({ _tag: "RunBusy" })
    })
  )

  test("an append renews it when it is due, and only then", 15, ({ sql, store }) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* store.lease("a")
      const before = yield* untilMs(sql)
      yield* store.append(append("a", 1))
      expect(yield* untilMs(sql)).toBe(before)
      yield* wait("4000 millis")
      expect(yield* untilMs(sql)).toBe(before)
      yield* store.append(append("a", 2))
      expect(yield* untilMs(sql)).toBeGreaterThan(before)
    })
  )

  test("its holder finds out with the next append that somebody else has it", 15, ({ sql, store }) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      const lease = yield* store.lease("a")
      yield* sql`UPDATE checkrein_leases SET holder = 'somebody else'`
      yield* wait("4000 millis")
      expect(yield* stale(store.append(append("a", 1)))).toBe("StaleWriter")
      expect(yield* Effect.flip(lease.lost)).toMatchObject({ _tag: "RunBusy", runId: "a" })
      expect(yield* Effect.flip(lease.check)).toMatchObject({ _tag: "RunBusy", runId: "a" })
    })
  )

  /** The database thinks that whoever holds these leases has died. */
  const expire = (sql: SqlClient.SqlClient) => sql`UPDATE checkrein_leases SET until_ms = 0`

  test(
    "a driver that was held up writes nothing into another run of the id of its own",
    15,
    (one, { store: other }) =>
      Effect.gen(function* () {
        const { sql, store } = one
        for (const isOver of [false, true])
          for (const tags of [[], ["t"]])
            for (const durability of ["process", "power"] as const) {
              const run = `${isOver} ${tags.length} ${durability}`
              yield* Effect.scoped(
                Effect.gen(function* () {
                  yield* store.lease(run)
                  yield* store.append(append(run, 0, 2, { tags }))
                  yield* expire(sql)
                  yield* other.delete(run)
                  const scope = yield* Scope.make()
                  yield* Scope.provide(other.lease(run), scope)
                  yield* other.append(append(run, 0, 2, { tags, detail: "another" }))
                  if (isOver) yield* Scope.close(scope, Exit.void)
                  expect(yield* stale(store.append(append(run, 2, 1, { tags }, durability)))).toBe(
                    "StaleWriter"
                  )
                  expect(yield* other.summary(run)).toMatchObject({ seq: 2, detail: "another" })
                  yield* other.append(append(run, 2, 1, { tags }, durability))
                  expect(yield* other.read(run)).toHaveLength(3)
                  yield* Scope.close(scope, Exit.void)
                })
              )
            }
      })
  )

  test(
    "a driver that was held up before its first event creates nothing",
    15,
    ({ sql, store }, { store: other }) =>
      Effect.gen(function* () {
        yield* store.lease("a")
        yield* expire(sql)
        yield* Effect.scoped(
          Effect.andThen(other.lease("a"), Effect.andThen(other.append(append("a", 0)), Effect.void))
        )
        yield* other.delete("a")
        expect(yield* stale(store.append(append("a", 0)))).toBe("StaleWriter")
        expect(yield* other.list()).toEqual([])
      })
  )

  test("a driver that was held up and that nobody was waiting for goes on", 15, ({ sql, store }) =>
    Effect.gen(function* () {
      yield* store.lease("a")
      yield* store.append(append("a", 0))
      yield* expire(sql)
      yield* store.append(append("a", 1))
      expect(yield* store.read("a")).toHaveLength(2)
    })
  )

  test(
    "while a driver that has lost a run is on its way out, its process takes up no other one of that id",
    15,
    (one, { store: other }) =>
      Effect.gen(function* () {
        const { sql, store } = one
        const late = yield* Scope.make()
        yield* Scope.provide(store.lease("a"), late)
        yield* store.append(append("a", 0))
        yield* expire(sql)
        yield* other.delete("a")
        expect(yield* busy(store)).toMatchObject({ _tag: "RunBusy", runId: "a" })
        yield* Scope.close(late, Exit.void)
        yield* store.lease("a")
        yield* store.append(append("a", 0))
      })
  )

  test("its holder finds out by itself that somebody else has it, or that it is gone", 2, ({ sql, store }) =>
    Effect.gen(function* () {
      const taken = yield* store.lease("taken")
      const gone = yield* store.lease("gone")
      yield* sql`UPDATE checkrein_leases SET holder = 'somebody else' WHERE run_id = 'taken'`
      yield* sql`DELETE FROM checkrein_leases WHERE run_id = 'gone'`
      for (const lease of [taken, gone]) {
        expect(yield* Effect.flip(lease.lost)).toMatchObject({ _tag: "RunBusy" })
        expect(yield* Effect.flip(lease.check)).toMatchObject({ _tag: "RunBusy" })
      }
      // What is somebody else's is not given back.
      expect(yield* sql`SELECT holder FROM checkrein_leases`).toEqual([{ holder: "somebody else" }])
    })
  )

  test("a lease that cannot be renewed is given up before it ends", 5, ({ sql, store }, { sql: otherSql }) =>
    Effect.gen(function* () {
      const lease = yield* store.lease("a")
      const end = yield* untilMs(sql)
      yield* otherSql`ALTER TABLE checkrein_leases RENAME TO elsewhere`
      const why = yield* Effect.flip(lease.lost)
      expect(why).toMatchObject({ _tag: "RunStoreError", runId: "a" })
      expect(yield* Effect.flip(lease.check)).toMatchObject({ _tag: "RunBusy" })
      const now = yield* TestClock.withLive(Effect.clockWith((clock) => clock.currentTimeMillis))
      expect(now).toBeLessThan(end)
      yield* otherSql`ALTER TABLE elsewhere RENAME TO checkrein_leases`
    })
  )

  test("a store that breaks down for a moment does not cost the lease", 4, ({ store }, { sql: otherSql }) =>
    Effect.gen(function* () {
      const lease = yield* store.lease("a")
      const lost = yield* Effect.forkChild(lease.lost)
      yield* otherSql`ALTER TABLE checkrein_leases RENAME TO elsewhere`
      yield* wait("1500 millis")
      yield* otherSql`ALTER TABLE elsewhere RENAME TO checkrein_leases`
      yield* wait("3500 millis")
      yield* lease.check
      expect(lost.pollUnsafe()).toBe(undefined)
      yield* Fiber.interrupt(lost)
    })
  )

  test("of many drivers on two stores one gets the run", 15, ({ store }, { store: other }) =>
    Effect.gen(function* () {
      const tags = yield* Effect.forEach(
        Array.from({ length: 32 }, (_, i) => (i % 2 === 0 ? store : other)),
        (each) =>
          Effect.match(each.lease("a"), { onFailure: (error) => error._tag, onSuccess: () => "success" }),
        { concurrency: "unbounded" }
      )
      expect(tags.filter((tag) => tag === "success")).toHaveLength(1)
      expect(tags.filter((tag) => tag === "RunBusy")).toHaveLength(31)
    })
  )

  test("whoever gives up while asking for it keeps nobody else out", 15, ({ sql, store }) =>
    Effect.gen(function* () {
      for (let i = 0; i < 100; i++) {
        const asking = Effect.scoped(store.lease(`run ${i}`))
        const fiber = yield* Effect.forkChild(asking, { startImmediately: true })
        yield* wait(`${(i % 20) / 10} millis`)
        yield* Fiber.interrupt(fiber)
      }
      yield* wait("300 millis")
      expect(yield* sql`SELECT run_id FROM checkrein_leases`).toEqual([])
    })
  )
})
