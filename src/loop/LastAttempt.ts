/**
 * What a run's last model call has used, as its journal says. Whoever drove the run may have died between writing that
 * down and telling it to the budget that the run shares, so whoever comes next tells it again: the same claim counts once.
 */
import * as Money from "../run/Money.ts"
import type { RunEvent } from "../run/RunEvent.ts"
import type { Spent } from "../store/BudgetPool.ts"
import * as PoolClaims from "./PoolClaims.ts"

/** A model call that was claimed, and what it has used. */
export interface LastAttempt {
  readonly claim: PoolClaims.Claim
  /** The budget that it was claimed from; `undefined` if there was none, or its journal is of a time before that was said. */
  readonly pool: string | undefined
  /** `undefined` for one that never came back. */
  readonly spent: Omit<Spent, "key"> | undefined
}

/** The last model call of a journal, if it has any. */
export const of = (events: ReadonlyArray<RunEvent>): LastAttempt | undefined => {
  let spent: LastAttempt["spent"]
  for (let index = events.length - 1; index >= 0; index--) {
    const event = events[index]
    if (event?.type === "turn_started") {
      const { estimate, key = PoolClaims.oldKeyOf(event), pool, runId } = event
      return { claim: { runId, key, estimate }, pool, spent }
    }
    if (event?.type !== "turn" && event?.type !== "turn_failed") continue
    const { costUsd, type, usage } = event
    spent = { usd: costUsd, tokens: Money.tokensOf(usage ?? Money.noUsage), turns: type === "turn" ? 1 : 0 }
  }
  return undefined
}
