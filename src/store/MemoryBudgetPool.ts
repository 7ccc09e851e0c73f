/**
 * A `BudgetPool` in memory, for the runs of one process. Its keys stay until the pool is dropped.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type { ClaimRefused, InvalidClaim, InvalidLimits } from "../run/Limits.ts"
import {
  type Amounts,
  BudgetPool,
  type CallClaim,
  type Hold,
  type PoolLimits,
  type Spent
} from "./BudgetPool.ts"
import * as Rules from "./BudgetRules.ts"

// An object for each time that somebody asks for a hold: only its last owner may give it back.
interface Held {
  readonly worst: Amounts
}

/**
 * Makes a pool of which nothing is used.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { MemoryBudgetPool } from "checkrein/store"
 *
 * const left = Effect.gen(function* () {
 *   const pool = yield* MemoryBudgetPool.make("team-a", { usd: 1 })
 *   return (yield* pool.status).left.usd
 * })
 * ```
 */
export const make = (pool: string, limits: PoolLimits): Effect.Effect<BudgetPool["Service"], InvalidLimits> =>
  Effect.gen(function* () {
    const limit = yield* Effect.fromResult(Rules.limitsOf(pool, limits))
    const calls = new Set<string>()
    const settled = new Set<string>()
    const holds = new Map<string, Held>()
    let used = Rules.nothing

    const held = (): Amounts => {
      let sum = Rules.nothing
      for (const { worst } of holds.values()) sum = Rules.add(sum, worst)
      return sum
    }

    const claimCall = (claim: CallClaim): Result.Result<void, ClaimRefused | InvalidClaim> =>
      Result.gen(function* () {
        const one = yield* Rules.callOf(claim)
        if (calls.has(claim.key)) return
        yield* Rules.claimCall(limit, used, claim.purpose)
        calls.add(claim.key)
        used = Rules.add(used, one)
      })

    const take = (hold: Hold): Result.Result<Held, ClaimRefused | InvalidClaim> =>
      Result.gen(function* () {
        const worst = yield* Rules.worstOf(hold)
        const known = holds.get(hold.key)
        const taken: Held = { worst: known?.worst ?? worst }
        if (settled.has(hold.key)) return taken
        if (known === undefined) yield* Rules.hold(limit, used, held(), worst, hold.purpose)
        holds.set(hold.key, taken)
        return taken
      })

    const settle = (spent: Spent): Result.Result<void, InvalidClaim> =>
      Result.map(Rules.spentOf(spent), (amounts) => {
        holds.delete(spent.key)
        if (settled.has(spent.key)) return
        settled.add(spent.key)
        used = Rules.add(used, amounts)
      })

    return BudgetPool.of({
      pool,
      claimCall: (claim) => Effect.suspend(() => Effect.fromResult(claimCall(claim))),
      hold: (hold) =>
        Effect.acquireRelease(
          Effect.suspend(() => Effect.fromResult(take(hold))),
          (taken) =>
            Effect.sync(() => {
              if (holds.get(hold.key) === taken) holds.delete(hold.key)
            })
        ),
      settle: (spent) => Effect.suspend(() => Effect.fromResult(settle(spent))),
      status: Effect.sync(() => Rules.statusOf(pool, limit, used, held()))
    })
  })

/**
 * A pool of which nothing is used. Each build of the layer has its own.
 *
 * Fails with `InvalidLimits` when the limits are written wrongly.
 *
 * @example
 * ```ts
 * import * as Layer from "effect/Layer"
 * import { MemoryBudgetPool, MemoryRunStore } from "checkrein/store"
 *
 * const Services = Layer.merge(MemoryRunStore.layer, MemoryBudgetPool.layer("team-a", { toolCalls: 1000, usd: 1 }))
 * ```
 */
export const layer = (pool: string, limits: PoolLimits): Layer.Layer<BudgetPool, InvalidLimits> =>
  Layer.effect(BudgetPool, make(pool, limits))
