import { it as test } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { expect } from "vitest"
import { Purpose } from "../../src/run/Limits.ts"
import * as Money from "../../src/run/Money.ts"
import type { BudgetPool, PoolLimits } from "../../src/store/BudgetPool.ts"
import * as MemoryBudgetPool from "../../src/store/MemoryBudgetPool.ts"
import * as SqlBudgetPool from "../../src/store/SqlBudgetPool.ts"
import { describeDatabases } from "./budgetPools.ts"

type Pool = BudgetPool["Service"]

const upTo = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

// Few keys, so that they meet again; small amounts around limits that a few of them reach.
const key = upTo(5)
const usd = upTo(6)
const tokens = upTo(60)

const Operation = Schema.Union([
  Schema.Struct({ op: Schema.Literal("claim"), key, purpose: Purpose }),
  Schema.Struct({ op: Schema.Literal("hold"), key, purpose: Purpose, usd, tokens }),
  Schema.Struct({ op: Schema.Literal("settle"), key, usd, tokens, turns: Schema.Literals([0, 1]) }),
  // The nth scope that holds something closes.
  Schema.Struct({ op: Schema.Literal("close"), nth: upTo(5) }),
  // The process dies, its leases end, and another one opens the pool.
  Schema.Struct({ op: Schema.Literal("crash") })
])
type Operation = typeof Operation.Type

const limitsOf = Schema.Struct({
  toolCalls: upTo(5),
  usd: upTo(20),
  tokens: upTo(200),
  turns: upTo(8),
  limited: upTo(15),
  reserved: upTo(15)
})

/** Of these limits those whose bit is set, and a reserve of a quarter of those whose second bit is set. */
const pick = (drawn: typeof limitsOf.Type): PoolLimits => {
  const some = (bits: number, share: number) => ({
    ...(bits & 1 ? { toolCalls: Math.floor(drawn.toolCalls * share) } : undefined),
    ...(bits & 2 ? { usd: Math.floor(drawn.usd * share) / 1e9 } : undefined),
    ...(bits & 4 ? { tokens: Math.floor(drawn.tokens * share) } : undefined),
    ...(bits & 8 ? { turns: Math.floor(drawn.turns * share) } : undefined)
  })
  return { ...some(drawn.limited, 1), reserve: some(drawn.limited & drawn.reserved, 0.25) }
}

/** A pool under test, and the scopes in which something is held. */
interface Subject {
  pool: Pool
  scopes: Array<Scope.Closeable>
}

const perform = (subject: Subject, operation: Exclude<Operation, { readonly op: "crash" }>) =>
  Effect.gen(function* () {
    switch (operation.op) {
      case "claim":
        return yield* subject.pool.claimCall({ key: `${operation.key}`, purpose: operation.purpose })
      case "hold": {
        const scope = yield* Scope.make()
        yield* Scope.provide(
          subject.pool.hold({ ...operation, key: `${operation.key}`, usd: operation.usd / 1e9 }),
          scope
        )
        subject.scopes.push(scope)
        return
      }
      case "settle":
        return yield* subject.pool.settle({ ...operation, key: `${operation.key}`, usd: operation.usd / 1e9 })
      case "close": {
        const [scope] = subject.scopes.splice(operation.nth % Math.max(1, subject.scopes.length), 1)
        if (scope !== undefined) yield* Scope.close(scope, Exit.void)
      }
    }
  })

/** What must be so after each operation, whatever it was; `spent` is what has been settled, by key. */
const check = (
  { limits, used, held, left }: Effect.Success<Pool["status"]>,
  granted: ReadonlySet<number>,
  spent: ReadonlyMap<number, Extract<Operation, { readonly op: "settle" }>>
) => {
  const settled = [...spent.values()]
  expect(used).toEqual({
    toolCalls: granted.size,
    turns: settled.reduce((sum, { turns }) => sum + turns, 0),
    usd: Money.fromNanos(settled.reduce((sum, { usd }) => sum + usd, 0)),
    tokens: settled.reduce((sum, { tokens }) => sum + tokens, 0)
  })
  expect(used.toolCalls).toBeLessThanOrEqual(limits.toolCalls ?? Number.POSITIVE_INFINITY)
  for (const name of ["turns", "usd", "tokens", "toolCalls"] as const) {
    const limit = limits[name]
    const rest = limit === undefined ? undefined : Math.max(0, limit - used[name] - held[name])
    if (rest === undefined) expect(left[name]).toBeUndefined()
    else expect(left[name]).toBeCloseTo(rest, 12)
  }
}

describeDatabases((database) => {
  test.effect(
    "any sequence of claims, holds, settlements and crashes has the same outcome as in memory",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        let pools = 0
        const sequence = Arbitrary.all({
          limits: Arbitrary.schema(limitsOf),
          operations: Arbitrary.array(Arbitrary.schema(Operation), { minLength: 5, maxLength: 30 })
        })
        const result = yield* Arbitrary.checkEffect(
          sequence,
          ({ limits: drawn, operations }) =>
            Effect.gen(function* () {
              const limits = pick(drawn)
              const name = `pool ${pools++}`
              const open = SqlBudgetPool.make(name, limits)
              const memory: Subject = { pool: yield* MemoryBudgetPool.make(name, limits), scopes: [] }
              const stored: Subject = { pool: yield* open, scopes: [] }
              const dead: Array<Scope.Closeable> = []
              const granted = new Set<number>()
              const spent = new Map<number, Extract<Operation, { readonly op: "settle" }>>()
              for (const operation of operations) {
                if (operation.op === "crash") {
                  for (const scope of memory.scopes) yield* Scope.close(scope, Exit.void)
                  dead.push(...stored.scopes)
                  yield* sql`UPDATE checkrein_pool_holds SET expires_at = 0 WHERE pool = ${name}`
                  memory.scopes = []
                  stored.scopes = []
                  stored.pool = yield* open
                } else {
                  const expected = yield* Effect.result(perform(memory, operation))
                  const actual = yield* Effect.result(perform(stored, operation))
                  expect(actual).toEqual(expected)
                  if (Result.isSuccess(expected)) {
                    if (operation.op === "claim") granted.add(operation.key)
                    if (operation.op === "settle" && !spent.has(operation.key))
                      spent.set(operation.key, operation)
                  }
                }
                const status = yield* memory.pool.status
                expect(yield* stored.pool.status).toEqual(status)
                check(status, granted, spent)
              }
              // What the dead have left to do when their scopes close harms nobody.
              const before = yield* stored.pool.status
              for (const scope of dead) yield* Scope.close(scope, Exit.void)
              expect(yield* stored.pool.status).toEqual(before)
              for (const scope of stored.scopes) yield* Scope.close(scope, Exit.void)
              expect((yield* stored.pool.status).held).toEqual({ turns: 0, usd: 0, tokens: 0, toolCalls: 0 })
              return true
            }),
          { runs: 60, size: 100 }
        )
        expect(Arbitrary.formatCheckFailure(result)).toBeUndefined()
      }).pipe(Effect.provide(Layer.unwrap(database))),
    120_000
  )
})
