import { expect, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqlError from "effect/sql/SqlError"
import { describe } from "vitest"
import type { BudgetPool, PoolLimits } from "../../src/store/BudgetPool.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as Postgres from "../../src/store/Postgres.ts"
import * as SqlBudgetPool from "../../src/store/SqlBudgetPool.ts"
import { nowText } from "../../src/store/SqlLeases.ts"
import { inWorldTime, worldMs } from "../../src/store/TimeLimit.ts"
import { amounts, connect, describeDatabases } from "./budgetPools.ts"
import { describePostgres, inSchema, url } from "./postgres.ts"

type Pool = BudgetPool["Service"]

const hold = (key: string, usd: number) => ({ key, purpose: "investigate", usd, tokens: 0 }) as const
const call = (key: string) => ({ key, purpose: "investigate" }) as const

/** A hold in a scope of its own, which stays open. */
const holdForEver = (pool: Pool, key: string, usd: number) =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    yield* Scope.provide(pool.hold(hold(key, usd)), scope)
    return scope
  })

/** Time of the world, by which databases go. */
const wait = (duration: Duration.Input) => inWorldTime(Effect.sleep(duration))

/** Waits until something is so. */
const until = (condition: Effect.Effect<boolean, unknown>) =>
  Effect.repeat(
    Effect.tap(condition, () => wait("20 millis")),
    { until: (holds) => holds }
  )

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
    body: (
      sql: SqlClient.SqlClient,
      another: Effect.Effect<SqlClient.SqlClient, never, Scope.Scope>
    ) => Effect.Effect<void, unknown, Scope.Scope | SqlClient.SqlClient>
  ) =>
    it.effect(name, () =>
      Effect.gen(function* () {
        const client = yield* database
        const sql = yield* connect(client)
        yield* Effect.provideService(body(sql, connect(client)), SqlClient.SqlClient, sql)
      })
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

  describe("the status of a pool by its name", () => {
    /** Everything that is in the database. */
    const dump = (sql: SqlClient.SqlClient) =>
      Effect.gen(function* () {
        const tables = yield* sql.onDialectOrElse({
          pg: () => sql<{ name: string }>`SELECT tablename AS name FROM pg_tables
            WHERE schemaname = ANY (current_schemas(false)) ORDER BY name`,
          orElse: () =>
            sql<{ name: string }>`SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`
        })
        const contentOf = ({ name }: { readonly name: string }) =>
          Effect.map(sql`SELECT * FROM ${sql(name)}`, (rows) => [name, rows])
        return yield* Effect.forEach(tables, contentOf)
      })

    test("is that of whoever has it open, and changes nothing", (sql) =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", { toolCalls: 3, usd: 1, reserve: { toolCalls: 1 } })
        yield* SqlBudgetPool.make("team-b", { usd: 2 })
        yield* pool.claimCall(call("a"))
        yield* pool.settle({ key: "b", usd: 0.25, tokens: 7 })
        yield* holdForEver(pool, "c", 0.5)
        // And one of a process that has died.
        yield* sql`INSERT INTO checkrein_pool_holds VALUES ('team-a', 'd', 'nobody', 1, 1, 0)`
        const before = yield* dump(sql)
        const status = yield* SqlBudgetPool.status("team-a")
        expect(status).toMatchObject({
          pool: "team-a",
          limits: { toolCalls: 3, usd: 1, reserve: { toolCalls: 1 } },
          held: amounts({ turns: 1, usd: 0.5 }),
          left: { toolCalls: 2, usd: 0.25 }
        })
        expect(yield* dump(sql)).toEqual(before)
        expect(status).toEqual(yield* pool.status)
      }))

    test("is nothing where there is none, and makes none, nor a table for it", (sql) =>
      Effect.gen(function* () {
        const before = yield* dump(sql)
        expect(yield* SqlBudgetPool.status("team-a")).toBe(undefined)
        expect(yield* dump(sql)).toEqual(before)
        yield* SqlBudgetPool.make("team-b", { usd: 1 })
        expect(yield* SqlBudgetPool.status("team-a")).toBe(undefined)
        yield* SqlBudgetPool.remove("team-b")
        expect(yield* SqlBudgetPool.status("team-b")).toBe(undefined)
      }))

    test("needs no right to write", (sql) =>
      Effect.gen(function* () {
        const asked = Effect.map(SqlBudgetPool.status("team-a"), (status) => status?.limits)
        const read = sql.onDialectOrElse({
          pg: () => sql.withTransaction(Effect.andThen(sql`SET TRANSACTION READ ONLY`, asked)),
          orElse: () =>
            Effect.ensuring(
              Effect.andThen(sql`PRAGMA query_only = 1`, asked),
              Effect.ignore(sql`PRAGMA query_only = 0`)
            )
        })
        expect(yield* read).toBe(undefined)
        yield* SqlBudgetPool.make("team-a", { usd: 1 })
        expect(yield* read).toEqual({ usd: 1 })
      }))

    test("fails where it cannot be read", (sql) =>
      Effect.gen(function* () {
        yield* SqlBudgetPool.make("team-a", { usd: 1 })
        yield* sql`UPDATE checkrein_pools SET limits = '{'`
        const problemOf = Effect.flip(SqlBudgetPool.status("team-a"))
        expect(yield* problemOf).toMatchObject({ _tag: "BudgetPoolError", pool: "team-a", kind: "corrupt" })
        yield* sql`INSERT INTO checkrein_pool_migrations (migration_id, name) VALUES (99, 'later')`
        expect(yield* problemOf).toMatchObject({ _tag: "BudgetPoolError", kind: "newer_version" })
      }))
  })

  describe("a pool that is removed", () => {
    const rowsOf = (sql: SqlClient.SqlClient, pool: string) =>
      Effect.map(
        Effect.forEach(
          [
            sql`SELECT name FROM checkrein_pools WHERE name = ${pool}`,
            sql`SELECT pool FROM checkrein_pool_claims WHERE pool = ${pool}`,
            sql`SELECT pool FROM checkrein_pool_holds WHERE pool = ${pool}`
          ],
          (rows) => rows
        ),
        (tables) => tables.flat().length
      )

    test("leaves nothing, of any other pool everything, and its name is free for a new one", (sql) =>
      Effect.gen(function* () {
        const limits = { toolCalls: 1, usd: 1 }
        const pool = yield* SqlBudgetPool.make("team-a", limits)
        const other = yield* SqlBudgetPool.make("team-A", limits)
        for (const each of [pool, other]) {
          yield* each.claimCall(call("a"))
          yield* each.settle({ key: "a", usd: 0.5, tokens: 1 })
        }
        const before = yield* rowsOf(sql, "team-A")
        expect(yield* SqlBudgetPool.remove("team-a")).toBe(true)
        expect(yield* rowsOf(sql, "team-a")).toBe(0)
        expect(yield* rowsOf(sql, "team-A")).toBe(before)
        expect((yield* other.status).used).toMatchObject({ toolCalls: 1, usd: 0.5 })
        // Who has it open still is told, until somebody opens it anew.
        expect(yield* Effect.flip(pool.claimCall(call("b")))).toMatchObject({
          _tag: "BudgetPoolError",
          problem: expect.stringMatching(/is gone/)
        })
        yield* SqlBudgetPool.make("team-a", limits)
        expect((yield* pool.status).used).toEqual(amounts({}))
        yield* pool.claimCall(call("a"))
        expect((yield* pool.status).used).toEqual(amounts({ toolCalls: 1 }))
      }))

    test("is not, while a model call holds something of it, and is as it was", () =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", { usd: 1 })
        const scope = yield* holdForEver(pool, "a", 0.5)
        yield* pool.claimCall(call("a"))
        const before = yield* pool.status
        const busy = yield* Effect.flip(SqlBudgetPool.remove("team-a"))
        expect(busy).toMatchObject({ _tag: "PoolBusy", pool: "team-a", holds: 1 })
        expect(busy.message).toBe("the budget pool team-a is in use: 1 model call holds something of it")
        expect(yield* pool.status).toEqual(before)
        yield* Scope.close(scope, Exit.void)
        expect(yield* SqlBudgetPool.remove("team-a")).toBe(true)
      }))

    test("may have been held from by a process that died, once its lease has ended", (sql) =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", { usd: 1 })
        yield* holdForEver(pool, "a", 0.5)
        yield* sql`UPDATE checkrein_pool_holds SET expires_at = 0`
        expect(yield* SqlBudgetPool.remove("team-a")).toBe(true)
        expect(yield* rowsOf(sql, "team-a")).toBe(0)
      }))

    test("may be one that there is not, in a database without any", () =>
      Effect.gen(function* () {
        expect(yield* SqlBudgetPool.remove("team-a")).toBe(false)
      }))

    test("may have limits that nobody can read", (sql) =>
      Effect.gen(function* () {
        yield* SqlBudgetPool.make("team-a", { usd: 1 })
        yield* sql`UPDATE checkrein_pools SET limits = '{'`
        expect(yield* SqlBudgetPool.remove("team-a")).toBe(true)
      }))

    test("grants nothing to those who claim at the same moment, or is not removed", () =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", { usd: 10 })
        const holds = Array.from({ length: 8 }, (_, i) => Effect.exit(pool.hold(hold(`${i}`, 1))))
        const [removed, ...held] = yield* Effect.all(
          [Effect.result(SqlBudgetPool.remove("team-a")), ...holds],
          { concurrency: "unbounded" }
        )
        const granted = held.filter((exit) => exit._tag === "Success").length
        expect(granted).toBe(removed._tag === "Success" ? 0 : held.length)
      }))
  })

  describe("what is held", () => {
    const short = { lease: "1 second" } as const

    test("by a process that died is there for others when its lease has ended, and its calls stay counted", (_, another) =>
      Effect.gen(function* () {
        const limits = { usd: 1, turns: 1 }
        const process = yield* Scope.make()
        const client = yield* Scope.provide(another, process)
        const dead = yield* Effect.provideService(
          SqlBudgetPool.make("team-a", limits, { lease: "3 seconds" }),
          SqlClient.SqlClient,
          client
        )
        yield* dead.claimCall(call("a"))
        yield* holdForEver(dead, "a", 1)
        yield* Scope.close(process, Exit.void)

        const pool = yield* SqlBudgetPool.make("team-a", limits)
        expect(yield* Effect.flip(pool.hold(hold("b", 0.1)))).toMatchObject({
          exhausted: { resource: "turns" }
        })
        yield* until(Effect.map(pool.status, ({ held }) => held.usd === 0))
        expect(yield* pool.status).toMatchObject({ used: amounts({ toolCalls: 1 }), held: amounts({}) })
        yield* pool.hold(hold("b", 1))
        // What it has cost after all counts, and passes the limit.
        yield* pool.settle({ key: "a", usd: 0.75, tokens: 0 })
        yield* pool.settle({ key: "a", usd: 0.75, tokens: 0 })
        expect(yield* pool.status).toMatchObject({
          used: { usd: 0.75, turns: 1 },
          held: { usd: 1, turns: 1 },
          left: { usd: 0, turns: 0 }
        })
      }))

    test("by a process that lives is renewed for as long as its scope is open", () =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", { usd: 1 }, short)
        const scope = yield* holdForEver(pool, "a", 1)
        yield* wait("1700 millis")
        yield* until(Effect.map(pool.status, ({ held }) => held.usd === 1))
        yield* Scope.close(scope, Exit.void)
        yield* wait("500 millis")
        expect((yield* pool.status).held.usd).toBe(0)
      }))

    test("by a process that was only away is held again, because its call is still under way", (sql) =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", { usd: 1 }, short)
        const scope = yield* holdForEver(pool, "a", 1)
        yield* sql`UPDATE checkrein_pool_holds SET expires_at = 0`
        expect((yield* pool.status).held.usd).toBe(0)
        yield* until(Effect.map(pool.status, ({ held }) => held.usd === 1))
        yield* Scope.close(scope, Exit.void)
        expect((yield* pool.status).held.usd).toBe(0)
      }))

    test("is taken over by whoever asks for it with the same key, and not given back by who had it", (_, another) =>
      Effect.gen(function* () {
        const first = yield* SqlBudgetPool.make("team-a", { usd: 1 })
        const scope = yield* holdForEver(first, "a", 1)
        const open = SqlBudgetPool.make("team-a", { usd: 1 })
        const second = yield* Effect.provideService(open, SqlClient.SqlClient, yield* another)
        const mine = yield* holdForEver(second, "a", 1)
        yield* Scope.close(scope, Exit.void)
        expect((yield* second.status).held).toEqual(amounts({ usd: 1, turns: 1 }))
        yield* Scope.close(mine, Exit.void)
        expect((yield* first.status).held).toEqual(amounts({}))
      }))

    test("of a lease that is none, or under another name, is refused: it would lapse in mid-call", () =>
      Effect.gen(function* () {
        const misspelt = JSON.parse('{ "leese": "5 minutes" }')
        for (const [options, problem] of [
          [{ lease: Number.NaN }, "options.lease is NaN, and must be a duration of at least 0"],
          [
            { lease: { hours: Number.NaN } },
            "options.lease is an object, and must be a duration of at least 0"
          ],
          [misspelt, 'options has no "leese": there are lease']
        ] as const) {
          const exit = yield* Effect.exit(SqlBudgetPool.make("team-a", {}, options))
          expect(exit).toEqual(Exit.die(new TypeError(problem)))
        }
      }))

    test("lasts a second at least, and a day at most", (sql) =>
      Effect.gen(function* () {
        const left = Effect.fnUntraced(function* (lease: Duration.Input) {
          const pool = yield* SqlBudgetPool.make("team-a", {}, { lease })
          yield* pool.hold(hold(`${lease}`, 0))
          const [row] = yield* sql<{
            rest: unknown
          }>`SELECT expires_at - ${sql.literal(nowText(sql))} AS rest FROM checkrein_pool_holds
            WHERE attempt = ${`${lease}`}`
          return Number(row?.rest)
        })
        for (const [lease, ms] of [
          ["1 milli", 1000],
          ["5 minutes", 300_000],
          ["Infinity", 86_400_000]
        ] as const) {
          const rest = yield* left(lease)
          expect(rest).toBeGreaterThan(ms - 900)
          expect(rest).toBeLessThanOrEqual(ms)
        }
      }))
  })

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

    test("limits that a newer build has set, of which this one would pass some over", (sql) =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", { usd: 2 })
        yield* pool.claimCall(call("a"))
        yield* sql`UPDATE checkrein_pools SET limits = '{"v":2,"usd":2,"onlyOn":"weekdays"}'`
        const refused = yield* Effect.forEach(
          [
            pool.claimCall(call("b")),
            Effect.scoped(pool.hold(hold("b", 1))),
            pool.settle({ key: "b", usd: 1, tokens: 0 }),
            pool.status
          ],
          (claim) => Effect.flip(Effect.asVoid<unknown, unknown, never>(claim))
        )
        for (const failure of refused)
          expect(failure).toMatchObject({
            _tag: "BudgetPoolError",
            kind: "newer_version",
            problem: expect.stringMatching(/^its limits cannot be read: it has version 2.*upgrade checkrein/)
          })
        // What was set before limits had a version.
        yield* sql`UPDATE checkrein_pools SET limits = '{"usd":2}'`
        expect(yield* pool.status).toMatchObject({ limits: { usd: 2 }, used: { toolCalls: 1, usd: 0 } })
        // Whoever opens the pool sets limits for everybody.
        yield* sql`UPDATE checkrein_pools SET limits = '{"v":2}'`
        const reopened = yield* SqlBudgetPool.make("team-a", { usd: 3 })
        expect(yield* reopened.status).toMatchObject({ limits: { usd: 3 }, used: { toolCalls: 1 } })
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
        const pool = yield* SqlBudgetPool.make("team-a", { usd: 2 })
        const scope = yield* holdForEver(pool, "a", 1)
        const settle = pool.settle({ key: "a", usd: 0.75, tokens: 0 })
        const claims = [pool.claimCall(call("a")), Effect.scoped(pool.hold(hold("b", 1))), settle]
        const beganMs = worldMs()
        const errors = yield* Effect.andThen(
          hang(sql),
          Effect.forEach(claims, (claim) => Effect.flip(claim), { concurrency: "unbounded" })
        ).pipe(Effect.scoped)
        expect(worldMs() - beganMs).toBeGreaterThanOrEqual(10_000)
        expect(worldMs() - beganMs).toBeLessThan(20_000)
        for (const error of errors)
          expect(error).toMatchObject({ _tag: "BudgetPoolError", kind: "timed_out" })
        // Of what was spent nothing is given back, although the database has not heard of it.
        yield* Scope.close(scope, Exit.void)
        expect(yield* pool.status).toMatchObject({ used: amounts({}), held: amounts({ usd: 1, turns: 1 }) })
        yield* settle
        yield* pool.claimCall(call("a"))
        expect(yield* pool.status).toMatchObject({
          used: { toolCalls: 1, turns: 1, usd: 0.75 },
          held: amounts({})
        })
      }))

    test("does not keep anybody from stopping", (sql) =>
      Effect.gen(function* () {
        const pool = yield* SqlBudgetPool.make("team-a", {})
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* hang(sql)
            const claims = [pool.claimCall(call("a")), Effect.scoped(pool.hold(hold("a", 1)))]
            const fibers = yield* Effect.forEach(claims, (claim) => Effect.forkChild(claim))
            yield* wait("50 millis")
            const beganMs = worldMs()
            yield* Fiber.interruptAll(fibers)
            expect(worldMs() - beganMs).toBeLessThan(8_000)
          })
        )
        expect(yield* pool.status).toMatchObject({ used: amounts({}), held: amounts({}) })
      }))
  })
})

describe("a commit that is done", () => {
  /** A pool on a client whose next commit arrives, but answers as it is told to. */
  const answering = Effect.fnUntraced(function* (limits: PoolLimits) {
    const sql = yield* SqlClient.SqlClient
    let next: Effect.Effect<void, SqlError.SqlError> | undefined
    const reserve = Effect.map(sql.reserve, (connection) => ({
      ...connection,
      execute: (...[text, params, transform]: Parameters<typeof connection.execute>) =>
        Effect.tap(connection.execute(text, params, transform), () => {
          if (text !== "COMMIT" || next === undefined) return Effect.void
          const answer = next
          next = undefined
          return answer
        })
    }))
    const client = new Proxy(sql, {
      get: (target, name, receiver) => (name === "reserve" ? reserve : Reflect.get(target, name, receiver))
    })
    return {
      pool: yield* Effect.provideService(SqlBudgetPool.make("team-a", limits), SqlClient.SqlClient, client),
      answerNext: (answer: Effect.Effect<void, SqlError.SqlError>) => Effect.sync(() => (next = answer))
    }
  })

  const lost = Effect.fail(
    new SqlError.SqlError({
      reason: new SqlError.ConnectionError({
        message: "connection reset",
        operation: "execute",
        cause: undefined
      })
    })
  )

  const test = (name: string, body: Effect.Effect<void, unknown, Scope.Scope | SqlClient.SqlClient>) =>
    it.effect(name, () => Effect.provide(Effect.scoped(body), NodeSqlite.layer({ filename: ":memory:" })))

  test(
    "and whose answer is lost, is asked for again with the same key, and counts once",
    Effect.gen(function* () {
      const { answerNext, pool } = yield* answering({ toolCalls: 1, turns: 1, usd: 1 })
      let answers = 0
      const lose = answerNext(
        Effect.andThen(
          Effect.sync(() => answers++),
          lost
        )
      )
      yield* Effect.andThen(lose, pool.claimCall(call("a")))
      expect((yield* pool.status).used).toEqual(amounts({ toolCalls: 1 }))
      yield* Effect.andThen(lose, pool.hold(hold("a", 1)))
      expect((yield* pool.status).held).toEqual(amounts({ turns: 1, usd: 1 }))
      yield* Effect.andThen(lose, pool.settle({ key: "a", usd: 0.5, tokens: 1 }))
      expect(yield* pool.status).toMatchObject({
        used: { toolCalls: 1, turns: 1, usd: 0.5, tokens: 1 },
        held: amounts({})
      })
      expect(answers).toBe(3)
    })
  )

  test(
    "when nobody waits for it any more, leaves nothing held",
    Effect.gen(function* () {
      const { answerNext, pool } = yield* answering({ usd: 1 })
      const [committed, answer] = yield* Effect.all([Deferred.make<void>(), Deferred.make<void>()])
      yield* answerNext(Effect.andThen(Deferred.succeed(committed, undefined), Deferred.await(answer)))
      const holding = yield* Effect.forkChild(pool.hold(hold("a", 1)))
      yield* Deferred.await(committed)
      const stopping = yield* Effect.forkChild(Fiber.interrupt(holding))
      yield* wait("50 millis")
      yield* Deferred.succeed(answer, undefined)
      yield* Fiber.join(stopping)
      expect((yield* pool.status).held).toEqual(amounts({}))
    })
  )
})

describePostgres("a database whose transactions do not see what others commit meanwhile", () => {
  it.effect("grants no more than there is all the same", () =>
    Effect.gen(function* () {
      const at = new URL(yield* url)
      const options = `${at.searchParams.get("options")} -c default_transaction_isolation=repeatable\\ read`
      at.searchParams.set("options", options)
      const open = SqlBudgetPool.make("team-a", { usd: 1 })
      const client = Effect.map(
        Layer.build(Postgres.layer({ url: at.href })),
        Context.get(SqlClient.SqlClient)
      )
      const clients = yield* Effect.all([client, client, client])
      const pools = yield* Effect.forEach(clients, (sql) =>
        Effect.provideService(open, SqlClient.SqlClient, sql)
      )
      let asked = 0
      let granted = 0
      const spender = Effect.fnUntraced(function* (pool: Pool) {
        while (true) {
          yield* pool.hold(hold(`${asked++}`, 0.05))
          granted += 1
        }
      })
      const refused = yield* Effect.forEach(pools, (pool) => Effect.flip(spender(pool)), {
        concurrency: "unbounded"
      })
      for (const error of refused) expect(error).toMatchObject({ _tag: "ClaimRefused" })
      expect(granted).toBe(20)
    }).pipe(Effect.scoped)
  )
})

describePostgres("claims that wait for one another", () => {
  it.effect("leave connections for others", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const pool = yield* SqlBudgetPool.make("team-a", {})
      yield* hang(sql)
      for (const key of ["a", "b", "c", "d"]) yield* Effect.forkScoped(pool.claimCall(call(key)))
      const waiting = sql`SELECT pid FROM pg_stat_activity
        WHERE application_name = current_setting('application_name') AND wait_event_type = 'Lock'`
      yield* until(Effect.map(waiting, (rows) => rows.length === 1))
      yield* wait("100 millis")
      expect(yield* waiting).toHaveLength(1)
    }).pipe(Effect.scoped, Effect.provide(inSchema((url) => Postgres.layer({ url, maxConnections: 3 }))))
  )
})

describePostgres("a connection that is lost in the middle of a claim", () => {
  it.effect("is replaced by another, on which the claim is granted once", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const pool = yield* SqlBudgetPool.make("team-a", { toolCalls: 1 })
      const claim = yield* Effect.scoped(
        Effect.gen(function* () {
          yield* hang(sql)
          const claim = yield* Effect.forkIn(pool.claimCall(call("a")), yield* Scope.make())
          const terminated = sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = current_setting('application_name') AND wait_event_type = 'Lock'`
          yield* Effect.repeat(terminated, { until: (rows) => rows.length > 0 })
          return claim
        })
      )
      yield* Fiber.join(claim)
      expect((yield* pool.status).used.toolCalls).toBe(1)
      expect(yield* Effect.flip(pool.claimCall(call("b")))).toMatchObject({ _tag: "ClaimRefused" })
    }).pipe(Effect.scoped, Effect.provide(inSchema((url) => Postgres.layer({ url }))))
  )
})
