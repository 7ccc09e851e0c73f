/**
 * Taking a stored run up where it stands: whether this agent may, with which limits it goes on, and again for what people
 * have said while it stopped.
 */
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import { fromInput, type Limits, type LimitsInput, override } from "../run/Limits.ts"
import { toInput } from "../run/LimitsInput.ts"
import { type RunState, unknownOutcomes } from "../run/RunState.ts"
import { cancelledAlone } from "../run/Waiting.ts"
import { type Lease, RunStoreError, type Stored } from "../store/RunStore.ts"
import * as Allowances from "./Allowances.ts"
import type { Allowance } from "./ChildRun.ts"
import { type Definition, limitsOf, means, ready } from "./Definition.ts"
import * as Digest from "./Digest.ts"
import { Drain, isRequested } from "./Drain.ts"
import * as Inbox from "./Inbox.ts"
import type { Job } from "./Job.ts"
import * as LeftUnknown from "./LeftUnknown.ts"
import { now } from "./Now.ts"
import * as PoolClaims from "./PoolClaims.ts"
import { AgentMismatch, NoBudgetPool } from "./Refused.ts"
import type { ResumeOptions } from "./RunOptions.ts"
import * as Session from "./Session.ts"
import { alone, type Surroundings } from "./Surroundings.ts"

/** Why a stored run is not taken up by this agent. */
export const mismatch = (definition: Definition, runId: string, problem: string) =>
  new AgentMismatch({ runId, agent: definition.name, problem })

/** The limits with which a run goes on, where they are not those that it had. */
export const changedLimits = Effect.fnUntraced(function* (
  definition: Definition,
  state: RunState,
  limits: LimitsInput | undefined,
  allowance: Allowance | undefined
) {
  let changed: Limits
  if (allowance !== undefined)
    changed = Allowances.renew(state, yield* limitsOf(definition), allowance, yield* now)
  else if (limits === undefined) return undefined
  else changed = yield* Effect.fromResult(fromInput(override(toInput(state.limits), limits)))
  // In the form in which a user writes them, where a run that ends by a date has no time beside it.
  return Equal.equals(toInput(changed), toInput(state.limits)) ? undefined : changed
})

/** A run to take up. */
export interface Found {
  readonly state: RunState
  /** How long it was waited for what its agent brings, in milliseconds: that is the run's time. */
  readonly waitedMs?: number | undefined
  readonly last?: PoolClaims.LastAttempt | undefined
  /** The shared budget that it spends from. */
  readonly pool?: string | undefined
}

/** A stored run, without its journal, which would stay in memory as long as the run is driven. */
export const found = ({ events, state }: Stored): Found => {
  const last = PoolClaims.lastOf(events)
  return { state, last, pool: PoolClaims.poolOf(events, last) }
}

/**
 * Fails if a call has other arguments than its digest is of. It is decided about, and repeated, by the digest; so with
 * these it was approved by nobody, and its journal is not as it was written.
 */
const intact = ({ pending, runId }: RunState): Effect.Effect<void, RunStoreError> => {
  const changed = pending.find(({ args, argsDigest }) => Digest.ofArgs(args) !== argsDigest)
  if (changed === undefined) return Effect.void
  const { callId, tool } = changed
  const problem = `call ${callId} (${tool}) has other arguments than its digest is of, so its journal is not as it was written`
  return Effect.fail(new RunStoreError({ runId, kind: "corrupt", problem }))
}

/** Whether there is something to find out about calls of unknown outcome, or somebody has. */
const canSettle = Effect.fnUntraced(function* (state: RunState) {
  const lookUp = unknownOutcomes(state).some((call) => call.reconcile === true)
  return lookUp || (yield* LeftUnknown.resolutions(state)).length > 0
})

/** Fails if a stored run is not one that may be taken up here. */
export const mayTakeUp = Effect.fnUntraced(function* (
  definition: Definition,
  state: RunState,
  { parent }: Surroundings
) {
  if (state.agent !== definition.name) {
    return yield* mismatch(definition, state.runId, `it is a run of ${state.agent}`)
  }
  if (
    parent !== undefined &&
    (state.parent?.runId !== parent.runId || state.parent.callId !== parent.callId)
  ) {
    return yield* mismatch(definition, state.runId, `it was not started by call ${parent.callId}`)
  }
  // Whatever else a driver starts has the digest that it has just made of it.
  if (state.status !== "completed") yield* intact(state)
})

/** Whether a stored run stays as it is, for this caller. */
export const isOver = (
  state: RunState,
  { force = false }: ResumeOptions,
  { parent }: Surroundings
): boolean =>
  state.status === "completed" ||
  (state.status === "failed" ? !force : parent !== undefined && cancelledAlone(state))

/** Fails if a run that spends from a shared budget would go on without one. */
const sharesAsBefore = (
  { pool, state: { runId } }: Pick<Found, "pool" | "state">,
  here: Pick<Job, "pool">
): Effect.Effect<void, NoBudgetPool> =>
  pool !== undefined && here.pool === undefined ? Effect.fail(new NoBudgetPool({ runId, pool })) : Effect.void

/**
 * Fails as taking a stored run up would that is below no other, for as much as can be told without what its agent brings
 * along: that may be the model, its price or the shared budget. Yields the limits with which it goes on, where they are
 * others; `undefined` if it is over.
 */
export const foreseen = Effect.fnUntraced(function* (
  definition: Definition,
  run: Found,
  options: ResumeOptions
) {
  const { state } = run
  yield* mayTakeUp(definition, state, alone)
  if (isOver(state, options, alone)) return undefined
  const limits = yield* changedLimits(definition, state, options.limits, undefined)
  if (definition.provided === undefined)
    yield* sharesAsBefore(run, yield* means(definition, limits ?? state.limits))
  return { limits }
})

/** Takes a stored run up and drives it until it stops. One that is over, for this caller, stays as it is. */
export const takeUp = Effect.fnUntraced(function* (
  lease: Lease,
  definition: Definition,
  { last, pool, state: stored, waitedMs = 0 }: Found,
  options: ResumeOptions,
  around: Surroundings,
  sent: number
) {
  if (stored.status === "completed") return stored
  const { parent } = around
  const state = waitedMs === 0 ? stored : { ...stored, elapsedMs: stored.elapsedMs + waitedMs }
  if (isOver(stored, options, around)) {
    const stays = LeftUnknown.endingOf(state)
    if (stays === undefined || parent === undefined || !(yield* canSettle(state))) return stored
    const job = yield* ready(definition, around.isStreamed, state.limits)
    return yield* Session.resume(job, state, { last, sent, stays }, lease, around.watcher)
  }
  const changed = yield* changedLimits(definition, state, options.limits, around.allowance)
  const job = yield* ready(definition, around.isStreamed, changed ?? state.limits)
  yield* sharesAsBefore({ pool, state }, job)
  const withParent = parent !== undefined
  const resumption = { last, limits: changed, message: options.message, sent, withParent }
  return yield* Session.resume(job, state, resumption, lease, around.watcher)
})

/**
 * Takes a run up again that was told something while it was stopping, which is left to its driver: that it stop as
 * cancelled, or what it has stopped for people to answer. A child's answers are seen by the run at the top, which renews
 * what the child may use.
 */
export const heed = Effect.fnUntraced(function* (
  lease: Lease,
  definition: Definition,
  stopped: RunState,
  around: Surroundings
) {
  const heard = new Set<string>()
  const drain = yield* Drain
  let state = stopped
  while (!isRequested(drain)) {
    const said = yield* Inbox.unheard(state, around.parent === undefined)
    const news = said.filter((each) => !heard.has(each))
    if (news.length === 0) break
    for (const each of news) heard.add(each)
    state = yield* takeUp(lease, definition, { state }, {}, around, state.inbox)
  }
  return state
})
