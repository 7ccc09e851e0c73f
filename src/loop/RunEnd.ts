/**
 * How a run ends, whatever it ends for: the runs below it first, the deepest before all others, and their use told. So
 * nothing below a run that has stopped is left as `running` with nobody to drive it.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type { Ending } from "../run/NextStep.ts"
import { continues } from "../run/PendingCalls.ts"
import type { Body, Of } from "../run/RunEvent.ts"
import * as RunState from "../run/RunState.ts"
import { stoppedWith } from "../run/Waiting.ts"
import { BudgetPool } from "../store/BudgetPool.ts"
import {
  load,
  type RunBusy,
  type RunNotFound,
  RunStore,
  RunStoreError,
  type RunSummary
} from "../store/RunStore.ts"
import { atMost } from "../store/TimeLimit.ts"
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

/**
 * How long a run may take to end, with all that has to be done for the runs below it, in milliseconds: as long as one
 * append, however many runs there are, and whatever it is that their store does not answer.
 */
const limitMs = Duration.toMillis(Journal.appendTimeout)

/** What the runs below the run around have taken of that already; `undefined` outside a run. */
export const Spent = Context.Reference<Journal.Spent | undefined>("checkrein/loop/RunEnd/Spent", {
  defaultValue: () => undefined
})

/**
 * Fails when the time is over that the runs below have left. What still runs then is interrupted, but not waited for: it
 * may have hung.
 */
export const within = (runId: string, { belowMs }: Journal.Spent = { belowMs: 0 }) => {
  const late = Effect.suspend(() => {
    const problem = `to end the run and those below it took longer than ${limitMs / 1_000} s; is the store reachable?`
    return Effect.fail(new RunStoreError({ runId, kind: "timed_out", problem }))
  })
  const leftMs = limitMs - belowMs
  return <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | RunStoreError, R> =>
    leftMs > 0 ? atMost(leftMs, () => late)(effect) : late
}

// --- a run that nobody drives ---------------------------------------------------------------------------------------

const stopUnbounded: (
  runId: string,
  reason: string,
  leavesWord?: boolean
) => Effect.Effect<RunState.RunState, RunBusy | RunNotFound | RunStoreError, RunStore> = Effect.fnUntraced(
  function* (runId, reason, leavesWord = false) {
    const store = yield* RunStore
    const lease = yield* store.lease(runId)
    const { events, state } = yield* load(runId)
    if (!Cancel.isOpen(state)) {
      // Somebody may have been asked to have it go on, and wait for a place.
      if (leavesWord && state.status !== "completed") yield* store.send(runId, { type: "cancel", reason })
      return state
    }
    const pool = Option.getOrUndefined(yield* Effect.serviceOption(BudgetPool))
    // If the pool cannot be told now it is told when the run is taken up again.
    yield* Effect.ignore(PoolClaims.settleAgain({ pool }, PoolClaims.lastOf(events)), { log: "Warn" })
    const news = yield* useBelow(state, (childId) => stopWherever(childId, stoppedWith(runId)))
    const journal = yield* Journal.retake(state, lease, news)
    yield* journal.commit(stopped(journal, Cancel.endingFor(reason), []))
    return journal.state()
  },
  Effect.scoped
)

/**
 * Ends a run, and the runs below it before it, if nobody drives it: fails with `RunBusy` otherwise, and with
 * `RunStoreError` (`timed_out`) if that takes longer than the run may take to end. What has come to an end of its own
 * keeps it; but whoever was asked before this to have it go on is told to stop it. Yields its state then.
 */
export const stopUndriven = (runId: string, reason: string) =>
  within(runId)(stopUnbounded(runId, reason, true))

/** A driver stops within a second of being told, and the lease of one that has died ends soon after that of its parent. */
const patience = Schedule.spaced("100 millis").pipe(Schedule.upTo({ duration: "10 seconds" }))

const isBusy = ({ _tag }: RunBusy | RunNotFound | RunStoreError): boolean => _tag === "RunBusy"

/** The same for a run below one that ends: whoever drives it is told, and waited for. */
const stopWherever = Effect.fnUntraced(function* (runId: string, reason: string) {
  const store = yield* RunStore
  const attempt = stopUnbounded(runId, reason)
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
  isOpen: (child: RunSummary) => boolean,
  why = stoppedWith
) {
  const store = yield* RunStore
  const childId = RunState.childId(journal.runId, callId)
  const child = yield* ifStored(store.summary(childId))
  if (child === undefined || !isOpen(child)) return undefined
  // Whoever has lost the run has no say about those below it either.
  yield* journal.lease.check
  return yield* ifStored(stopWherever(childId, why(journal.runId)))
})

const isRunning = ({ status }: RunSummary): boolean => status === "running"

/**
 * Ends the run in a call that comes to its result without it, if it has not ended: nobody would ever take it up again.
 * Yields its state then; `undefined` if there is no such run. `why` words that for its journal, by the id of the run above.
 */
export const abandonChild = Effect.fnUntraced(
  function* (journal: Journal.Journal, call: RunState.PendingCall, why = stoppedWith) {
    const child = yield* stopChild(journal, call, isRunning, why)
    if (child !== undefined) return child
    const stored = yield* ifStored(load(RunState.childId(journal.runId, call.callId)))
    return stored?.state
  },
  (effect, journal) =>
    Effect.tap(within(journal.runId, journal.spent)(effect), () => {
      journal.spent.belowMs = 0
      return Effect.void
    })
)

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
  const isOpen = isStop ? Cancel.isOpen : isRunning
  // One that waits goes on waiting unless this is a Stop, which is one for both.
  const below = journal
    .state()
    .pending.filter((call) => continues(call) && (isStop || call.status !== "suspended"))
  if (below.length > 0) {
    yield* journal.check
    const children = yield* Effect.forEach(below, (call) => stopChild(journal, call, isOpen), {
      concurrency: "unbounded"
    }).pipe(within(journal.runId, journal.spent))
    below.forEach((call, index) => {
      const child = children[index]
      if (child !== undefined) journal.stage(...newUse(call, child))
    })
  }
  yield* journal.commit(stopped(journal, ending, operations))
})

/**
 * Ends a run whose driver was interrupted, which nothing can interrupt any more: so it fails with `RunStoreError`
 * (`timed_out`) when the run and those below it take longer together than one may.
 */
export const stopInterrupted = Effect.fnUntraced(function* (journal: Journal.Journal, ending: Ending) {
  const { runId, spent } = journal
  const since = journal.nowMs()
  const above = yield* Spent
  const tell = (exit: Exit.Exit<void, RunBusy | RunStoreError>) => {
    if (above === undefined) return
    const failure = Option.getOrUndefined(Exit.findErrorOption(exit))
    const isLate = failure?._tag === "RunStoreError" && failure.kind === "timed_out"
    const belowMs = isLate ? Number.POSITIVE_INFINITY : spent.belowMs + journal.nowMs() - since
    above.belowMs = Math.max(above.belowMs, belowMs)
  }
  yield* Effect.onExit(within(runId, spent)(stopDriven(journal, ending)), (exit) =>
    Effect.sync(() => tell(exit))
  )
})
