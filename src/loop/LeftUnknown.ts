/**
 * What nobody can tell of a child run that has ended for good: a call of it, or of a run below it, was cut off. Nobody
 * drives these runs on, so what people find out is taken in here, and each stays ended as it was.
 */
import * as Effect from "effect/Effect"
import type { Ending } from "../run/NextStep.ts"
import { continues } from "../run/PendingCalls.ts"
import type { Suspension, WaitingCall } from "../run/RunEvent.ts"
import * as RunState from "../run/RunState.ts"
import { doubt, ownUnknownOf, stoppedWith } from "../run/Waiting.ts"
import { load, type RunBusy, type RunNotFound, RunStore, type RunStoreError } from "../store/RunStore.ts"
import * as Cancel from "./Cancel.ts"
import * as Inbox from "./Inbox.ts"
import * as Journal from "./Journal.ts"
import { ifStored } from "./Orphans.ts"
import * as RunEnd from "./RunEnd.ts"

type Failure = RunBusy | RunNotFound | RunStoreError

/** What people have said of the calls of a run of which nobody could tell whether they happened. */
export const resolutions = Effect.fnUntraced(function* (state: RunState.RunState) {
  const unknown = RunState.unknownOutcomes(state)
  if (unknown.length === 0) return []
  const store = yield* RunStore
  const commands = yield* store.inbox(state.runId, state.inbox)
  return commands.filter(
    ({ command }) => command.type === "resolve" && unknown.some(({ callId }) => callId === command.callId)
  )
})

/**
 * How a run has ended, so that it can end so again; `undefined` while it has not. A limit belongs to the ending only where
 * that was it: a run that was stopped while it handed over has met a limit, too.
 */
export const endingOf = (state: RunState.RunState): Ending | undefined => {
  const { detail = "", exhausted, reason, status } = state
  if (status === "running" || reason === undefined) return undefined
  const ending = { status, reason, detail }
  return exhausted === undefined || !RunState.isAtLimit(state) ? ending : { ...ending, exhausted }
}

/** Takes in what people have said, under the lease of the run. Yields its state then. */
const takeInResolutions = Effect.fnUntraced(function* (runId: string) {
  const { state: before } = yield* load(runId)
  if ((yield* resolutions(before)).length === 0) return before
  const store = yield* RunStore
  const lease = yield* store.lease(runId)
  const { state } = yield* load(runId)
  const ending = endingOf(state)
  const commands = yield* resolutions(state)
  if (ending === undefined || commands.length === 0) return state
  const journal = yield* Journal.retake(state, lease)
  Inbox.takeIn(journal, commands, new Map())
  const waits = RunState.unknownOutcomes(journal.state()).length > 0
  const { parent } = state
  // It waits for nobody any more, and goes on only with the run above it.
  const goesOn = ending.reason === "unknown_outcome" && !waits && parent !== undefined
  yield* RunEnd.stopDriven(journal, goesOn ? Cancel.endingFor(stoppedWith(parent.runId)) : ending)
  return journal.state()
}, Effect.scoped)

/** The calls of unknown outcome of a run that has ended, and of the runs below it. */
const below: (state: RunState.RunState) => Effect.Effect<ReadonlyArray<WaitingCall>, Failure, RunStore> =
  Effect.fnUntraced(function* (state) {
    const unknown = [...ownUnknownOf(state)]
    for (const call of state.pending) {
      if (!continues(call)) continue
      const child = yield* ifStored(takeInResolutions(RunState.childId(state.runId, call.callId)))
      if (child !== undefined) unknown.push(...(yield* below(child)))
    }
    return unknown
  })

/** What a run that has ended leaves to a person to find out: the run above it waits for that. */
export const suspensionOf = Effect.fnUntraced(function* (state: RunState.RunState) {
  const unknown = yield* RunEnd.within(state.runId)(below(state))
  if (unknown.length === 0) return undefined
  const suspension: Suspension = {
    runId: state.runId,
    reason: "unknown_outcome",
    detail: doubt(unknown),
    approvals: [],
    unknown
  }
  return suspension
})
