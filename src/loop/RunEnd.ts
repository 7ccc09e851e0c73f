/**
 * How a run ends, whatever it ends for: the runs below it first, the deepest before all others, and their use told. So
 * nothing below a run that has stopped is left as `running` with nobody to drive it.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type { Ending } from "../run/NextStep.ts"
import { continues } from "../run/PendingCalls.ts"
import type { Body, Of } from "../run/RunEvent.ts"
import * as RunState from "../run/RunState.ts"
import { stoppedWith } from "../run/Waiting.ts"
import { BudgetPool } from "../store/BudgetPool.ts"
import {
  type Lease,
  load,
  type RunBusy,
  type RunNotFound,
  RunStore,
  type RunStoreError,
  type RunSummary
} from "../store/RunStore.ts"
import * as Cancel from "./Cancel.ts"
import * as Journal from "./Journal.ts"
import { ifStored, newUse, useBelow } from "./Orphans.ts"
import * as PoolClaims from "./PoolClaims.ts"

/** The event with which a run ends. */
const stopped = (
  { state }: Journal.Journal,
  { detail, exhausted, reason, status }: Ending,
  operations: NonNullable<Of<"run_stopped">["operations"]>
): Body => ({
  type: "run_stopped",
  status,
  reason,
  detail,
  ...(exhausted === undefined ? undefined : { exhausted }),
  ...(operations.length === 0 ? undefined : { operations }),
  ...RunState.totals(state()),
  ...(state().unpriced === true ? { unpriced: true } : undefined)
})

// --- a run that nobody drives ---------------------------------------------------------------------------------------

const stopTree = Effect.fnUntraced(function* (state: RunState.RunState, ending: Ending, lease: Lease) {
  const news = yield* useBelow(state, (childId) => stopWherever(childId, stoppedWith(state.runId)))
  const journal = yield* Journal.retake(state, lease, news)
  yield* journal.commit(stopped(journal, ending, []))
  return journal.state()
})

/**
 * Ends a run, and the runs below it before it, if nobody drives it: fails with `RunBusy` otherwise. What has come to an
 * end of its own keeps it. Yields its state then.
 */
export const stopUndriven: (
  runId: string,
  reason: string
) => Effect.Effect<RunState.RunState, RunBusy | RunNotFound | RunStoreError, RunStore> = Effect.fnUntraced(
  function* (runId, reason) {
    const store = yield* RunStore
    const lease = yield* store.lease(runId)
    const { events, state } = yield* load(runId)
    if (state.reason === "cancelled" || (state.status !== "running" && state.status !== "interrupted")) {
      return state
    }
    const pool = Option.getOrUndefined(yield* Effect.serviceOption(BudgetPool))
    // If the pool cannot be told now it is told when the run is taken up again.
    yield* Effect.ignore(PoolClaims.settleAgain({ pool }, PoolClaims.lastOf(events)), { log: "Warn" })
    return yield* stopTree(state, Cancel.endingFor(reason), lease)
  },
  Effect.scoped
)

/** A driver stops within a second of being told, and the lease of one that has died ends soon after that of its parent. */
const patience = Schedule.spaced("100 millis").pipe(Schedule.upTo({ duration: "10 seconds" }))

const isBusy = ({ _tag }: RunBusy | RunNotFound | RunStoreError): boolean => _tag === "RunBusy"

/** The same for a run below one that ends: whoever drives it is told, and waited for. */
const stopWherever = Effect.fnUntraced(function* (runId: string, reason: string) {
  const store = yield* RunStore
  const attempt = stopUndriven(runId, reason)
  return yield* attempt.pipe(
    Effect.catchTag("RunBusy", () =>
      Effect.andThen(
        store.send(runId, { type: "cancel", reason }),
        Effect.retry(attempt, { while: isBusy, schedule: patience })
      )
    ),
    // It goes on stopping, or its driver's lease is a long one: what is known of it is better than nothing.
    Effect.catchTag("RunBusy", () => Effect.map(load(runId), ({ state }) => state))
  )
})

// --- a run that is driven -------------------------------------------------------------------------------------------

/** Ends the run in a call, if it has not ended. Yields its state then. */
const stopChild = Effect.fnUntraced(function* (
  journal: Journal.Journal,
  { callId }: RunState.PendingCall,
  isOpen: (child: RunSummary) => boolean
) {
  const store = yield* RunStore
  const childId = RunState.childId(journal.runId, callId)
  const child = yield* ifStored(store.summary(childId))
  if (child === undefined || !isOpen(child)) return undefined
  // Whoever has lost the run has no say about those below it either.
  yield* journal.lease.check
  return yield* ifStored(stopWherever(childId, stoppedWith(journal.runId)))
})

const isRunning = ({ status }: RunSummary): boolean => status === "running"

/**
 * Ends the run in a call that comes to its result without it, if it has not ended: nobody would ever take it up again.
 * Yields its state then; `undefined` if there is no such run.
 */
export const abandonChild = Effect.fnUntraced(function* (
  journal: Journal.Journal,
  call: RunState.PendingCall
) {
  const child = yield* stopChild(journal, call, isRunning)
  if (child !== undefined) return child
  const stored = yield* ifStored(load(RunState.childId(journal.runId, call.callId)))
  return stored?.state
})

/**
 * Ends a run that is driven: the one place through which it gets its `run_stopped`. A run below it has ended before, as
 * a rule; where it has not, because its driver has died or has left off, it is ended here.
 */
export const stopDriven = Effect.fnUntraced(function* (
  journal: Journal.Journal,
  ending: Ending,
  operations: NonNullable<Of<"run_stopped">["operations"]> = []
) {
  const isStop = ending.reason === "cancelled"
  const isOpen = ({ reason, status }: RunSummary): boolean =>
    status === "running" || (isStop && status === "interrupted" && reason !== "cancelled")
  for (const call of journal.state().pending.filter(continues)) {
    // It waits, and goes on waiting unless this is a Stop, which is one for both.
    if (call.status === "suspended" && !isStop) continue
    const child = yield* stopChild(journal, call, isOpen)
    if (child !== undefined) journal.stage(...newUse(call, child))
  }
  yield* journal.commit(stopped(journal, ending, operations))
})
