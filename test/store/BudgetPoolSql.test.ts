import { expect, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqlError from "effect/sql/SqlError"
import * as TestClock from "effect/testing/TestClock"
import { describe } from "vitest"
import type { BudgetPool, PoolLimits } from "../../src/store/BudgetPool.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as Postgres from "../../src/store/Postgres.ts"
import * as SqlBudgetPool from "../../src/store/SqlBudgetPool.ts"
import { amounts, describeDatabases } from "./budgetPools.ts"
import { describePostgres, inSchema } from "./postgres.ts"

type Pool = BudgetPool["Service"]

const hold = (key: string, usd: number) => ({ key, purpose: "investigate", usd, tokens: 0 }) as const
const call = (key: string) => ({ key, purpose: "investigate" }) as const

/** Time that passes for the database too. */
const wait = (duration: Duration.Input) => TestClock.withLive(Effect.sleep(duration))

/** A hold in a scope that stays open, as that of a process does that is killed: under the test's clock it is not renewed. */
const holdForEver = (pool: Pool, key: string, usd: number) =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    yield* Scope.provide(pool.hold(hold(key, usd)), scope)
    return scope
  })

/** Keeps everybody from the pool until the scope closes. */
const hang = (sql: SqlClient.SqlClient) =>
  Effect.gen(function* () {
    const hangs = yield* Deferred.make<void>()
    const hanging = sql`UPDATE checkrein_pools SET turns = turns`.pipe(
      Effect.andThen(Deferred.succeed(hangs, undefined)),
      Effect.andThen(Effect.never),
      sql.withTransaction
    )
    yield* Effect.forkScoped(hanging)
    yield* Deferred.await(hangs)
  })

describeDatabases((database) => {
  const test = (
    name: string,
    body: (sql: SqlClient.SqlClient) => Effect.Effect<void, unknown, Scope.Scope | SqlClient.SqlClient>
  ) =>
    it.effect(name, () =>
      // Says that the clock is in use: holds are not renewed here unless a test lets them.
      TestClock.adjust(0).pipe(
        Effect.andThen(Effect.scoped(Effect.flatMap(SqlClient.SqlClient, body))),
        Effect.provide(database)
      )
    )

  describe("whoever opens a pool by its name", () => {
    test("shares it, and what was used stays used", () =>
      Effect.gen(function* () {
        const limits = { toolCalls: 2, usd: 1 }
        const first = yield* SqlBudgetPool.make("team-a", limits)
        yield* first.claimCall(call("a"))
        yield* first.hold(hold("a", 0.75))
        const second = yield* SqlBudgetPool.make("team-a", limits)
        yield* second.claimCall(call("a"))
        yield* second.claimCall(call("b"))
        expect(yield* Effect.flip(first.claimCall(call("c")))).toMatchObject({ _tag: "ClaimRefused" })
        expect(yield* Effect.flip(second.hold(hold("b", 0.5)))).toMatchObject({ _tag: "ClaimRefused" })
        yield* second.settle({ key: "a", usd: 0.25, tokens: 7 })
        const status = yield* first.status
        expect(status).toEqual(yield* second.status)
        expect(status).toMatchObject({
          used: { toolCalls: 2, turns: 1, usd: 0.25, tokens: 7 },
          held: amounts({})
        })
      }))

    test("with other limits changes them for everybody", () =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", { toolCalls: 3, reserve: { toolCalls: 1 } })
        for (const key of ["a", "b"]) yield* pool.claimCall(call(key))
        const limitsOf = (limits: PoolLimits) => SqlBudgetPool.make("team-a", limits)
        yield* limitsOf({ toolCalls: 3 })
        yield* pool.claimCall(call("c"))
        // Lowered below what was used.
        yield* limitsOf({ toolCalls: 1, usd: 0.5 })
        expect(yield* Effect.flip(pool.claimCall(call("d")))).toMatchObject({
          exhausted: { resource: "tool_calls", used: 3, limit: 1 }
        })
        expect(yield* pool.status).toMatchObject({
          limits: { toolCalls: 1, usd: 0.5 },
          left: { toolCalls: 0, usd: 0.5 }
        })
      }))

    test("has nothing to do with other pools", () =>
      Effect.gen(function* () {
        const names = ["a", "A", "ä", "a'; --", ""]
        const pools = yield* Effect.forEach(names, (name) =>
          SqlBudgetPool.make(name, { toolCalls: 1, usd: 1 })
        )
        for (const pool of pools) {
          yield* pool.claimCall(call("a"))
          yield* pool.hold(hold("a", 1))
        }
        for (const pool of pools) yield* pool.settle({ key: "a", usd: 0.5, tokens: 0 })
        for (const pool of pools) {
          expect((yield* pool.status).used).toEqual(amounts({ toolCalls: 1, usd: 0.5, turns: 1 }))
        }
      }))

    test("may do so at the same moment as others", () =>
      Effect.gen(function* () {
        const opening = SqlBudgetPool.make("team-a", { toolCalls: 1 })
        const pools = yield* Effect.all([opening, opening, opening, opening], { concurrency: "unbounded" })
        const results = yield* Effect.forEach(pools, (pool, i) => Effect.exit(pool.claimCall(call(`${i}`))), {
          concurrency: "unbounded"
        })
        expect(results.filter(Exit.isSuccess)).toHaveLength(1)
      }))

    test("with limits that are written wrongly is told so, and changes nothing", () =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", { toolCalls: 1 })
        const failure = yield* Effect.flip(SqlBudgetPool.make("team-a", { toolCalls: 0.5 }))
        expect(failure).toMatchObject({ _tag: "InvalidLimits" })
        expect((yield* pool.status).limits).toEqual({ toolCalls: 1 })
      }))
  })

  describe("what a holder that died has held", () => {
    const limits = { usd: 1, turns: 1 }
    const short = { lease: "1 second" } as const

    test("is there for others when its lease has ended, and its calls stay counted", () =>
      Effect.gen(function* () {
        const dead = yield* SqlBudgetPool.make("team-a", limits, short)
        yield* dead.claimCall(call("a"))
        yield* holdForEver(dead, "a", 1)
        const pool = yield* SqlBudgetPool.make("team-a", limits)
        expect(yield* Effect.flip(pool.hold(hold("b", 0.1)))).toMatchObject({
          exhausted: { resource: "turns" }
        })
        yield* wait("1100 millis")
        expect(yield* pool.status).toMatchObject({ used: amounts({ toolCalls: 1 }), held: amounts({}) })
        yield* pool.hold(hold("b", 1))
      }))

    test("counts when it is settled after all", () =>
      Effect.gen(function* () {
        const dead = yield* SqlBudgetPool.make("team-a", limits, short)
        yield* holdForEver(dead, "a", 1)
        yield* wait("1100 millis")
        const pool = yield* SqlBudgetPool.make("team-a", limits)
        yield* pool.settle({ key: "b", usd: 0.75, tokens: 0 })
        yield* pool.settle({ key: "a", usd: 0.75, tokens: 0 })
        yield* pool.settle({ key: "a", usd: 0.75, tokens: 0 })
        expect(yield* pool.status).toMatchObject({ used: { usd: 1.5, turns: 2 }, left: { usd: 0, turns: 0 } })
      }))

    test("is taken over by whoever asks for it with the same key, and not given back by the dead", () =>
      Effect.gen(function* () {
        const dead = yield* SqlBudgetPool.make("team-a", limits, short)
        const scope = yield* holdForEver(dead, "a", 1)
        const pool = yield* SqlBudgetPool.make("team-a", limits, { lease: "1 minute" })
        yield* pool.hold(hold("a", 1))
        yield* wait("1100 millis")
        yield* Scope.close(scope, Exit.void)
        expect((yield* pool.status).held).toEqual(amounts({ usd: 1, turns: 1 }))
      }))

    test("comes back to a process that was only away, because its call is still under way", () =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", { usd: 1 }, short)
        const scope = yield* holdForEver(pool, "a", 1)
        yield* wait("1100 millis")
        expect((yield* pool.status).held.usd).toBe(0)
        yield* TestClock.adjust("1 second")
        yield* wait("200 millis")
        expect((yield* pool.status).held.usd).toBe(1)
        yield* Scope.close(scope, Exit.void)
        expect((yield* pool.status).held.usd).toBe(0)
      }))
  })

  it.live("what a living holder holds is renewed for as long as its scope is open", () =>
    Effect.gen(function* () {
      const pool = yield* SqlBudgetPool.make("team-a", { usd: 1 }, { lease: "1 second" })
      const scope = yield* holdForEver(pool, "a", 1)
      yield* Effect.sleep("1700 millis")
      expect((yield* pool.status).held.usd).toBe(1)
      yield* Scope.close(scope, Exit.void)
      yield* Effect.sleep("500 millis")
      expect((yield* pool.status).held.usd).toBe(0)
    }).pipe(Effect.scoped, Effect.provide(database))
  )

  describe("a claim inside an open transaction", () => {
    test("is refused, since it would be taken back with it", (sql) =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", {})
        const inside = <A, E, R>(claim: Effect.Effect<A, E, R>) => Effect.flip(sql.withTransaction(claim))
        const error = { _tag: "BudgetPoolError", pool: "team-a", kind: "inside_transaction" }
        expect(yield* inside(pool.claimCall(call("a")))).toMatchObject(error)
        expect(yield* inside(pool.hold(hold("a", 0)))).toMatchObject(error)
        expect(yield* inside(pool.settle({ key: "a", usd: 1, tokens: 0 }))).toMatchObject(error)
        expect(yield* pool.status).toMatchObject({ used: amounts({}), held: amounts({}) })
      }))
  })

  describe("a database that cannot do what it is asked", () => {
    test("grants nothing, and says so", (sql) =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", {})
        yield* sql`DROP TABLE checkrein_pool_holds`
        yield* sql`DROP TABLE checkrein_pool_claims`
        const error = { _tag: "BudgetPoolError", pool: "team-a", kind: "unavailable" }
        expect(yield* Effect.flip(pool.claimCall(call("a")))).toMatchObject(error)
        expect(yield* Effect.flip(Effect.scoped(pool.hold(hold("a", 1))))).toMatchObject(error)
        expect(yield* Effect.flip(pool.settle({ key: "a", usd: 1, tokens: 0 }))).toMatchObject(error)
        expect(yield* Effect.flip(pool.status)).toMatchObject(error)
        const rows = yield* sql<{ used: unknown }>`SELECT turns + tool_calls AS used FROM checkrein_pools`
        expect(rows.map(({ used }) => Number(used))).toEqual([0])
      }))

    test("a pool that is gone", (sql) =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", {})
        yield* sql`DELETE FROM checkrein_pools`
        const failure = yield* Effect.flip(pool.claimCall(call("a")))
        expect(failure).toMatchObject({ _tag: "BudgetPoolError", kind: "corrupt" })
        expect(failure.message).toBe(
          "the budget pool team-a failed: it is gone from the database; open it again"
        )
        expect(yield* Effect.flip(pool.status)).toEqual(failure)
      }))

    test("limits that nobody can read", (sql) =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", {})
        for (const limits of ["{", '{"usd":-1}']) {
          yield* sql`UPDATE checkrein_pools SET limits = ${limits}`
          const failure = yield* Effect.flip(pool.claimCall(call("a")))
          expect(failure).toMatchObject({
            kind: "corrupt",
            problem: expect.stringMatching(/its limits cannot be read/)
          })
        }
      }))

    test("tables of a newer build", (sql) =>
      Effect.gen(function* () {
        yield* SqlBudgetPool.make("team-a", {})
        yield* sql`INSERT INTO checkrein_pool_migrations (migration_id, name) VALUES (99, 'later')`
        expect(yield* Effect.flip(SqlBudgetPool.make("team-a", {}))).toMatchObject({
          _tag: "BudgetPoolError",
          kind: "newer_version",
          problem: expect.stringMatching(/upgrade checkrein/)
        })
      }))
  })

  describe("a database that hangs", () => {
    test("keeps a claim waiting for ten seconds, and then it is as if it had not been made", (sql) =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", {})
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* hang(sql)
            const claims = [
              pool.claimCall(call("a")),
              Effect.scoped(pool.hold(hold("a", 1))),
              pool.settle({ key: "a", usd: 1, tokens: 0 })
            ]
            const fibers = yield* Effect.forEach(claims, (claim) => Effect.forkChild(Effect.flip(claim)))
            yield* wait("50 millis")
            yield* TestClock.adjust("9999 millis")
            expect(fibers.map((fiber) => fiber.pollUnsafe())).toEqual([undefined, undefined, undefined])
            yield* TestClock.adjust("1 millis")
            for (const fiber of fibers) {
              expect(yield* Fiber.join(fiber)).toMatchObject({ _tag: "BudgetPoolError", kind: "timed_out" })
            }
          })
        )
        expect(yield* pool.status).toMatchObject({ used: amounts({}), held: amounts({}) })
        yield* pool.claimCall(call("a"))
        expect((yield* pool.status).used).toEqual(amounts({ toolCalls: 1 }))
      }))

    test("does not keep anybody from stopping", (sql) =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", {})
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* hang(sql)
            const claim = yield* Effect.forkChild(pool.claimCall(call("a")))
            yield* wait("50 millis")
            yield* Fiber.interrupt(claim)
          })
        )
        expect((yield* pool.status).used).toEqual(amounts({}))
      }))
  })
})

describe("a commit whose answer is lost", () => {
  /** The same client, whose commits arrive, and whose next answer to one does not. */
  const lossy = (sql: SqlClient.SqlClient) => {
    let lost = 0
    const reason = () =>
      new SqlError.ConnectionError({ message: "connection reset", operation: "execute", cause: undefined })
    const losing = <A>(text: string, answer: Effect.Effect<A, SqlError.SqlError>) =>
      Effect.suspend(() => {
        if (text !== "COMMIT" || lost === 0) return answer
        lost -= 1
        return Effect.andThen(answer, Effect.fail(new SqlError.SqlError({ reason: reason() })))
      })
    const reserve = Effect.map(sql.reserve, (connection) => ({
      ...connection,
      execute: (...[text, params, transform]: Parameters<typeof connection.execute>) =>
        losing(text, connection.execute(text, params, transform))
    }))
    const client = new Proxy(sql, {
      get: (target, name, receiver) => (name === "reserve" ? reserve : Reflect.get(target, name, receiver))
    })
    return { client, loseNext: Effect.sync(() => (lost = 1)) }
  }

  it.effect("is settled by asking again with the same key", () =>
    Effect.gen(function* () {
      const { client, loseNext } = lossy(yield* SqlClient.SqlClient)
      const open = SqlBudgetPool.make("team-a", { toolCalls: 1, turns: 1, usd: 1 })
      const pool = yield* Effect.provideService(open, SqlClient.SqlClient, client)
      const error = { _tag: "BudgetPoolError", kind: "unavailable" }

      yield* loseNext
      expect(yield* Effect.flip(pool.claimCall(call("a")))).toMatchObject(error)
      expect((yield* pool.status).used).toEqual(amounts({ toolCalls: 1 }))
      yield* pool.claimCall(call("a"))
      yield* loseNext
      expect(yield* Effect.flip(pool.hold(hold("a", 1)))).toMatchObject(error)
      yield* pool.hold(hold("a", 1))
      expect((yield* pool.status).held).toEqual(amounts({ turns: 1, usd: 1 }))
      yield* loseNext
      expect(yield* Effect.flip(pool.settle({ key: "a", usd: 0.5, tokens: 1 }))).toMatchObject(error)
      yield* pool.settle({ key: "a", usd: 0.5, tokens: 1 })
      expect(yield* pool.status).toMatchObject({
        used: { toolCalls: 1, turns: 1, usd: 0.5, tokens: 1 },
        held: amounts({})
      })
    }).pipe(Effect.scoped, Effect.provide(NodeSqlite.layer({ filename: ":memory:" })))
  )
})

describePostgres("a connection that is lost in the middle of a claim", () => {
  it.effect("grants nothing, is a typed error, and the next one is another", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const pool = yield* SqlBudgetPool.make("team-a", { toolCalls: 1 })
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* hang(sql)
          const claim = yield* Effect.forkChild(Effect.flip(pool.claimCall(call("a"))))
          const terminated = sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = current_setting('application_name') AND wait_event_type = 'Lock'`
          yield* Effect.repeat(terminated, { until: (rows) => rows.length > 0 })
          expect(yield* Fiber.join(claim)).toMatchObject({ _tag: "BudgetPoolError", kind: "unavailable" })
        })
      )
      yield* pool.claimCall(call("a"))
      expect((yield* pool.status).used.toolCalls).toBe(1)
    }).pipe(Effect.scoped, Effect.provide(inSchema((url) => Postgres.layer({ url }))))
  )
})
