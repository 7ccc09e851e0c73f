/**
 * What a run that has stopped waits for from people: decisions, answers, and what became of calls.
 */
import * as Schema from "effect/Schema"
import { type Question, Suspension, type WaitingCall } from "./Call.ts"
import * as State from "./RunState.ts"

/**
 * Whether a child run that has stopped for this reason holds up its parent, which goes on with it. Any other ending is
 * told to the parent in words, and it goes on without the child, unless it has left an unknown outcome; a Stop is one for
 * both.
 */
export const suspends: (reason: unknown) => reason is Suspension["reason"] = Schema.is(
  Suspension.fields.reason
)

/** Why a run has stopped that goes on when people have said something. A provider that is away is nobody who does. */
export const forPeople = ["approval", "input", "unknown_outcome"] as const

/** Whether a run that has stopped for this reason waits for people. */
export const waitsForPeople = (reason: unknown): boolean => forPeople.some((each) => each === reason)

/** Why a run has stopped that was stopped together with the run above it: what its journal says then. */
export const stoppedWith = (parentId: string): string => `run ${parentId} was stopped`

/** Why a run has stopped that was cut off by the run above it, which was not stopped: the time of its call was up. */
export const lateFor = (parentId: string): string => `the time that run ${parentId} gave it was up`

/** Whether this is why a run has stopped by what happened in the run above it, which takes it up again when it goes on. */
export const isFromAbove = (why: string | undefined, parentId: string): boolean =>
  why === stoppedWith(parentId) || why === lateFor(parentId)

/**
 * Whether a child run was cancelled and the run above it was not: that is an ending of its own, and nobody takes it up
 * again unless asked.
 */
export const cancelledAlone = ({ detail, parent, reason }: State.RunState): boolean =>
  parent !== undefined && reason === "cancelled" && !isFromAbove(detail, parent.runId)

/** Calls by their names, for people. */
export const named = (calls: ReadonlyArray<Pick<WaitingCall, "callId" | "tool">>): string =>
  calls.map(({ callId, tool }) => `${tool} (${callId})`).join(", ")

/** What a run says that stops for calls of unknown outcome. */
export const doubt = (calls: ReadonlyArray<Pick<WaitingCall, "callId" | "tool">>): string =>
  `nobody can tell whether ${named(calls)} happened`

const asRequest = (state: State.RunState) => (call: State.PendingCall) => ({
  runId: state.runId,
  callId: call.callId,
  tool: call.tool,
  args: call.args,
  argsDigest: call.argsDigest,
  ...(call.problem === undefined ? undefined : { problem: call.problem })
})

/**
 * All calls that wait for a decision, those of suspended children included.
 *
 * @example
 * ```ts
 * import { RunExit, type RunState } from "checkrein"
 *
 * declare const run: RunState.RunState
 *
 * const asked = RunExit.approvalsOf(run).map(({ tool }) => tool)
 * ```
 */
export const approvalsOf = (state: State.RunState): ReadonlyArray<WaitingCall> => [
  ...State.undecided(state).map(asRequest(state)),
  ...state.pending.flatMap((call) => call.suspension?.approvals ?? [])
]

/** The calls of a run itself whose outcome is unknown. */
export const ownUnknownOf = (state: State.RunState): ReadonlyArray<WaitingCall> =>
  State.unknownOutcomes(state).map(asRequest(state))

/**
 * The calls of a run itself of unknown outcome whose tool can look them up, and has not been asked since the run was last
 * taken up: that is the first thing that it does when it is resumed.
 */
export const toLookUp = (state: State.RunState): ReadonlyArray<State.PendingCall> =>
  State.unknownOutcomes(state).filter((call) => call.reconcile === true && call.reconciled !== true)

/**
 * All calls of unknown outcome, those of suspended children included.
 *
 * @example
 * ```ts
 * import { RunExit, type RunState } from "checkrein"
 *
 * declare const run: RunState.RunState
 *
 * const lost = RunExit.unknownOf(run).map(({ callId }) => callId)
 * ```
 */
export const unknownOf = (state: State.RunState): ReadonlyArray<WaitingCall> => [
  ...ownUnknownOf(state),
  ...state.pending.flatMap((call) => call.suspension?.unknown ?? [])
]

/**
 * The question a run waits for an answer to: its own, or a child's.
 *
 * @example
 * ```ts
 * import { RunExit, type RunState } from "checkrein"
 *
 * declare const run: RunState.RunState
 *
 * const question = RunExit.questionOf(run)?.text
 * ```
 */
export const questionOf = (state: State.RunState): Question | undefined => {
  const call = state.pending.find((pending) => pending.kind === "input")
  if (call === undefined)
    return state.pending.find((pending) => pending.suspension?.question)?.suspension?.question
  const { args } = call
  const question = typeof args === "object" && args !== null && "question" in args ? args.question : ""
  return { runId: state.runId, callId: call.callId, text: String(question) }
}
