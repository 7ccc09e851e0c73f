/**
 * The runs below a run whose driver has died: nobody has told the run above what they have used, and the model calls that
 * they had on their way are in nobody's books. Nor has anybody told it of those that were driven by themselves. Whoever
 * takes the tree up first closes the books of each of these runs, the deepest first, and only then writes into the one
 * above what the run below it adds up to.
 *
 * A run's books are closed in its own journal and under its own lease, so that what is told of it is a total which that
 * journal has. Here the tree goes on, and a run is left where it was; see `RunEnd` for a tree that ends.
 */
import * as Effect from "effect/Effect"
import { continues } from "../run/PendingCalls.ts"
import type { Body } from "../run/RunEvent.ts"
import * as RunState from "../run/RunState.ts"
import { load, type RunBusy, type RunNotFound, RunStore, type RunStoreError } from "../store/RunStore.ts"
import { useOf } from "./ChildRun.ts"
import type { Job } from "./Job.ts"
import * as Journal from "./Journal.ts"
import * as PoolClaims from "./PoolClaims.ts"
import { resultOf } from "./ToolResult.ts"
import * as Words from "./Words.ts"

type Pooled = Pick<Job, "pool">

/** What the run in a call has used and the call has not told: its driver has died, or somebody else has driven it. */
export const newUse = (call: RunState.PendingCall, child: RunState.RunState): ReadonlyArray<Body> => {
  const { childCostUsd = 0, childTokens = 0, tool } = call
  const use = useOf(child)
  if (use.childCostUsd === childCostUsd && use.childTokens === childTokens) return []
  return [resultOf(call, { content: Words.cancelled(tool), disposition: "cancelled", ...use })]
}

/** A call may have been claimed, and its run not have begun. */
export const ifStored = <A, E, R>(effect: Effect.Effect<A, E | RunNotFound, R>) =>
  Effect.catchTag(effect, "RunNotFound", () => Effect.undefined)

/** Closes the books of a run whose driver has died, without ending it. Yields its state then. */
const closed = (
  job: Pooled,
  runId: string
): Effect.Effect<RunState.RunState, RunBusy | RunNotFound | RunStoreError, RunStore> =>
  Effect.gen(function* () {
    const { state: before } = yield* load(runId)
    if (before.status !== "running") return before
    const store = yield* RunStore
    const lease = yield* store.lease(runId)
    const { events, state } = yield* load(runId)
    if (state.status !== "running") return state
    yield* PoolClaims.settleAgain(job, PoolClaims.lastOf(events))
    const news = yield* closeBelow(job, state)
    if (news.length === 0 && state.claim === undefined) return state
    const journal = yield* Journal.retake(state, lease, news)
    yield* journal.commit()
    return journal.state()
  }).pipe(Effect.scoped)

/**
 * What the runs below a run have used and its journal does not say, once each of them was closed or ended in this way. The
 * deepest is closed first, for a way that does the same below.
 */
export const useBelow = Effect.fnUntraced(function* <E, R>(
  { pending, runId }: RunState.RunState,
  close: (childId: string) => Effect.Effect<RunState.RunState, E | RunNotFound, R>
) {
  const below = pending.filter(continues)
  const news = yield* Effect.forEach(
    below,
    (call) =>
      Effect.map(
        ifStored(close(RunState.childId(runId, call.callId))),
        (child): ReadonlyArray<Body> => (child === undefined ? [] : newUse(call, child))
      ),
    { concurrency: "unbounded" }
  )
  return news.flat()
})

/**
 * What the runs below a run have used and its journal does not say, because its driver has died or because they were
 * driven by themselves: to be staged once the run is resumed. Fails with `RunBusy` while one of them is driven by somebody
 * else, or its driver's lease has not ended: what it uses is not known yet.
 */
export const closeBelow: (
  job: Pooled,
  state: RunState.RunState
) => Effect.Effect<ReadonlyArray<Body>, RunBusy | RunStoreError, RunStore> = (job, state) =>
  useBelow(state, (childId) => closed(job, childId))
