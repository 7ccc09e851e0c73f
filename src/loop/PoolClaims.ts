/**
 * What a run claims from the budget that it shares with others, where there is one, beside what its own limits allow.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Exhaustion from "../run/Exhaustion.ts"
import type * as Limits from "../run/Limits.ts"
import * as Money from "../run/Money.ts"
import type { Estimate, RunEvent } from "../run/RunEvent.ts"
import type { PendingCall, RunState } from "../run/RunState.ts"
import type { BudgetPool, BudgetPoolError, Spent } from "../store/BudgetPool.ts"
import { RunStoreError } from "../store/RunStore.ts"
import type { Job } from "./Job.ts"

/** A model call that is claimed, under the key by which a pool knows it. */
export interface Claim {
  readonly runId: string
  readonly key: string
  readonly estimate: Estimate
}

type Refusable<R = never> = Effect.Effect<Limits.Exhausted | undefined, RunStoreError, R>

// With its start, which every resume of it has in common: a run that is deleted and started again is another one.
const nameOf = ({ runId, startedAt }: RunState): string => `${runId} ${startedAt}`

/**
 * The key of the model call that a run claims next, by the number of the event that claims it in its journal. Not by turn
 * and attempt: a turn that a provider could not give is asked for anew, from the first attempt on.
 */
export const keyOf = (run: RunState): string => `${nameOf(run)} model call ${run.seq}`

/** The key of a model call whose journal does not say it: all had such a key before it was written down. */
const oldKeyOf = ({ runId, seq }: Pick<RunState, "runId" | "seq">): string => `${runId} model call ${seq}`

/** What a model call counts for that has not come back, or never will. */
const expected = ({ costUsd, usage }: Estimate) => ({ usd: costUsd, tokens: Money.tokensOf(usage) })

/** A pool that cannot be reached stops a run as its store does: nothing is granted, and nothing is lost. */
export const stopped =
  (runId: string) =>
  ({ cause, kind, message }: BudgetPoolError): RunStoreError =>
    new RunStoreError({ runId, kind, problem: message, ...(cause === undefined ? undefined : { cause }) })

const refusable = <R>(
  { pool }: BudgetPool["Service"],
  runId: string,
  claim: Effect.Effect<void, Limits.ClaimRefused | Limits.InvalidClaim | BudgetPoolError, R>
): Refusable<R> =>
  claim.pipe(
    Effect.as(undefined),
    Effect.catchTags({
      ClaimRefused: ({ exhausted }) => Effect.succeed({ ...exhausted, pool }),
      InvalidClaim: Effect.die,
      BudgetPoolError: (error) => Effect.fail(stopped(runId)(error))
    })
  )

/** Claims a tool call. Yields what was short, or `undefined` if it may run. */
export const call = (
  job: Job,
  run: RunState,
  { callId, purpose }: PendingCall,
  attempt: number
): Refusable => {
  const { pool } = job
  return pool === undefined
    ? Effect.undefined
    : refusable(pool, run.runId, pool.claimCall({ key: `${nameOf(run)} call ${callId}.${attempt}`, purpose }))
}

/** Holds an attempt until it is settled, or the scope closes. Yields what was short, or `undefined` if it may be sent. */
export const turn = (
  job: Job,
  { limits }: RunState,
  claim: Claim,
  purpose: Limits.Purpose
): Refusable<Scope.Scope> => {
  const { pool } = job
  if (pool === undefined) return Effect.undefined
  const worst = limits.money === "hold" ? expected(claim.estimate) : { usd: 0, tokens: 0 }
  return refusable(pool, claim.runId, pool.hold({ key: claim.key, purpose, ...worst }))
}

/** Settles an attempt by what it has used. */
export const settle = (
  { pool }: Pick<Job, "pool">,
  claim: Claim,
  spent: Omit<Spent, "key">
): Effect.Effect<void, RunStoreError> => {
  if (pool === undefined) return Effect.void
  return pool.settle({ key: claim.key, ...spent }).pipe(
    Effect.catchTags({
      InvalidClaim: Effect.die,
      BudgetPoolError: (error) => Effect.fail(stopped(claim.runId)(error))
    })
  )
}

/** What a run's last model call has used, as its journal says. */
export interface LastAttempt {
  readonly claim: Claim
  /** The budget that it was claimed from; `undefined` if there was none, or its journal is of a time before that was said. */
  readonly pool: string | undefined
  /** `undefined` for one that never came back. */
  readonly spent: Omit<Spent, "key"> | undefined
}

/** The last model call of a journal, if it has any. */
export const lastOf = (events: ReadonlyArray<RunEvent>): LastAttempt | undefined => {
  let spent: LastAttempt["spent"]
  for (let index = events.length - 1; index >= 0; index--) {
    const event = events[index]
    if (event?.type === "turn_started") {
      const { estimate, key = oldKeyOf(event), pool, runId } = event
      return { claim: { runId, key, estimate }, pool, spent }
    }
    if (event?.type !== "turn" && event?.type !== "turn_failed") continue
    const { costUsd, type, usage } = event
    spent = { usd: costUsd, tokens: Money.tokensOf(usage ?? Money.noUsage), turns: type === "turn" ? 1 : 0 }
  }
  return undefined
}

/** The pool that a run spends from by its journal, which may be of a time before that was said. */
export const poolOf = (
  events: ReadonlyArray<RunEvent>,
  last: LastAttempt | undefined
): string | undefined => {
  const [first] = events
  return last?.pool ?? (first?.type === "run_started" ? first.pool : undefined)
}

/**
 * Settles the last attempt of a run whose driver is gone: it may have died between writing down what that used and telling
 * it to the budget. By what the run says, and at its estimate if nothing of it ever came back. If it was settled before
 * this counts nothing, and so it does if it was claimed from another budget: a sub-agent may have one of its own, which
 * is told when that is taken up.
 */
export const settleAgain = (
  job: Pick<Job, "pool">,
  last: LastAttempt | undefined
): Effect.Effect<void, RunStoreError> => {
  if (last === undefined || (last.pool !== undefined && last.pool !== job.pool?.pool)) return Effect.void
  const { claim, spent } = last
  return settle(job, claim, spent ?? expected(claim.estimate))
}

/** Whether a pool keeps a part of a resource for handoffs. */
export const keeps = (
  job: Job,
  runId: string,
  { resource }: Limits.Exhausted
): Effect.Effect<boolean, RunStoreError> =>
  job.pool === undefined
    ? Effect.succeed(false)
    : Effect.mapBoth(job.pool.status, {
        onFailure: stopped(runId),
        onSuccess: ({ limits }) => Exhaustion.keeps(limits, resource)
      })

/** The pool whose money this job's runs spend, if it has a limit of money. Asked before a run is begun or taken up. */
export const ofMoney = ({ pool }: Pick<Job, "pool">): Effect.Effect<string | undefined, RunStoreError> =>
  pool === undefined
    ? Effect.undefined
    : pool.status.pipe(
        Effect.map(({ limits, pool }) => (limits.usd === undefined ? undefined : pool)),
        Effect.mapError(stopped(""))
      )
