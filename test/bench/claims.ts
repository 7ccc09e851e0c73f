/**
 * What one claim costs: by a run's own limits, and from a budget that is shared within a process.
 */
import * as Effect from "effect/Effect"
import * as Limits from "../../src/run/Limits.ts"
import { BudgetPool } from "../../src/store/BudgetPool.ts"
import * as MemoryBudgetPool from "../../src/store/MemoryBudgetPool.ts"
import { median } from "./measure.ts"

const limits: Limits.Limits = {
  toolCalls: 1_000_000,
  timeMs: 600_000,
  reserve: { toolCalls: 2, timeMs: 30_000 }
}

/** Median microseconds of a batch, per claim. */
const perClaim = (batch: () => void, claims: number): number => {
  const samples: Array<number> = []
  for (let round = 0; round < 60; round++) {
    const started = performance.now()
    batch()
    // The first third warms the compiler up.
    if (round >= 20) samples.push(((performance.now() - started) * 1_000) / claims)
  }
  return median(samples)
}

/** Microseconds for a claim that is granted: by `Limits.claim`, and from a pool in memory. */
export const claims = () => {
  const count = 2_000
  let granted = 0
  const own = perClaim(() => {
    for (let i = 0; i < count; i++) {
      const claim = Limits.claim(limits, { toolCalls: i, timeMs: 100_000 }, "investigate")
      if (claim._tag === "Success") granted++
    }
  }, count)
  let key = 0
  const shared = Effect.runSync(
    Effect.provide(
      Effect.gen(function* () {
        const pool = yield* BudgetPool
        const batch = Effect.gen(function* () {
          for (let i = 0; i < count; i++) yield* pool.claimCall({ key: `${key++}`, purpose: "investigate" })
        })
        return perClaim(() => Effect.runSync(batch), count)
      }),
      MemoryBudgetPool.layer("bench", { toolCalls: 1_000_000 })
    )
  )
  return { own, shared, granted }
}
