/**
 * What a run does next: a pure function of its state. The loop is the interpreter of these steps.
 */
import { mostFruitless } from "./Answer.ts"
import { endingAt, outOf, shortForCall, shortForTurn } from "./Exhaustion.ts"
import { hasExpired } from "./Expiry.ts"
import * as Limits from "./Limits.ts"
import * as Money from "./Money.ts"
import { continues } from "./PendingCalls.ts"
import type { PendingCall, RunState } from "./RunState.ts"
import * as State from "./RunState.ts"
import type { Reason, RunStatus } from "./RunStatus.ts"
import { approvalsOf, doubt, named, toLookUp } from "./Waiting.ts"

/** When the same call with the same result is named to the model, and when the run stops for it. */
export interface RepetitionRule {
  readonly nameAt: number
  readonly stopAt: number
}

/** What an agent decides about its runs besides their limits, which are part of the state. */
export interface Rules {
  /** `undefined` switches the repetition guard off. */
  readonly repetition: RepetitionRule | undefined
  /** Conditions that stop the run; each says why, or `undefined` to go on. */
  readonly stopWhen: ReadonlyArray<(state: RunState) => string | undefined>
}

/** Why a call is answered without being run. */
export type Refusal =
  | { readonly _tag: "Rejected" }
  | { readonly _tag: "HandoffOnly"; readonly exhausted: Limits.Exhausted }
  | { readonly _tag: "NoBudget"; readonly exhausted: Limits.Exhausted }

/** How a run ends, as it will be written down. */
export interface Ending {
  readonly status: Exclude<RunStatus, "running">
  readonly reason: Reason
  readonly detail: string
  readonly exhausted?: Limits.Exhausted
}

/** One thing to do. */
export type Step =
  | { readonly _tag: "AskModel"; readonly purpose: Limits.Purpose }
  | {
      readonly _tag: "ExecuteCalls"
      readonly calls: ReadonlyArray<PendingCall>
    }
  | {
      readonly _tag: "AnswerCalls"
      readonly answers: ReadonlyArray<{
        readonly call: PendingCall
        readonly refusal: Refusal
      }>
    }
  | {
      readonly _tag: "CheckApprovals"
      readonly calls: ReadonlyArray<PendingCall>
    }
  | { readonly _tag: "AskAgain"; readonly calls: ReadonlyArray<PendingCall> }
  | { readonly _tag: "Reconcile"; readonly calls: ReadonlyArray<PendingCall> }
  | { readonly _tag: "BeginHandoff"; readonly exhausted: Limits.Exhausted }
  | { readonly _tag: "AwaitCalls"; readonly calls: ReadonlyArray<PendingCall> }
  | { readonly _tag: "Stop"; readonly ending: Ending }

const stop = (ending: Ending): Step => ({ _tag: "Stop", ending })

const interrupted = (reason: Reason, detail: string): Step => stop({ status: "interrupted", reason, detail })

const mayStart = (call: PendingCall): boolean =>
  call.kind === "tool" &&
  call.status === "waiting" &&
  (call.approval === "none" || call.approval === "approved")

/** The reading calls all at once; without any, the first writer, unless one before it still waits for somebody. */
const runnable = (pending: ReadonlyArray<PendingCall>): ReadonlyArray<PendingCall> => {
  const reads = pending.filter((call) => mayStart(call) && call.effect === "read")
  if (reads.length > 0) return reads
  const writer = pending.find((call) => call.kind === "tool" && call.effect !== "read")
  return writer !== undefined && mayStart(writer) ? [writer] : []
}

/** Claims a tool call for each, in order; what gets none is answered in words, or ends the run if it was told before. */
const claimed = (
  state: RunState,
  calls: ReadonlyArray<PendingCall>,
  elapsedMs: number,
  settling: boolean
): Step => {
  const used = State.used(state, elapsedMs)
  const granted: Array<PendingCall> = []
  const answers: Array<{ call: PendingCall; refusal: Refusal }> = []
  for (const call of calls) {
    if (continues(call)) {
      granted.push(call)
      continue
    }
    const exhausted = shortForCall(
      state.limits,
      { timeMs: used.timeMs, toolCalls: used.toolCalls + granted.length },
      call.purpose
    )
    if (exhausted === undefined) {
      granted.push(call)
      continue
    }
    const told = state.refusedInTurn !== undefined && state.refusedInTurn < call.turn
    if (told && !settling) return stop(outOf(exhausted, state.limits))
    answers.push({ call, refusal: { _tag: "NoBudget", exhausted } })
  }
  return granted.length > 0 ? { _tag: "ExecuteCalls", calls: granted } : { _tag: "AnswerCalls", answers }
}

/** The limits, and what follows from them; `undefined` while there is room. */
const limited = (state: RunState, elapsedMs: number): Step | undefined => {
  const used = State.used(state, elapsedMs)
  const hard = Limits.exhausted(state.limits, used, "handoff")
  if (hard !== undefined) return stop(endingAt(state, used, hard))
  if (state.phase === "handoff") return undefined
  const soft = Limits.exhausted(state.limits, used, "investigate")
  return soft === undefined ? undefined : { _tag: "BeginHandoff", exhausted: soft }
}

const waitingForPeople = (state: RunState): Step | undefined => {
  const approvals = approvalsOf(state)
  if (approvals.length > 0) {
    const problems = approvals.flatMap(({ problem }) => (problem === undefined ? [] : [`; ${problem}`]))
    return interrupted("approval", `waits for a decision about ${named(approvals)}${problems.join("")}`)
  }
  const question = state.pending.find((call) => call.kind === "input")
  if (question !== undefined) return interrupted("input", `waits for an answer to ${question.callId}`)
  const child = state.pending.find(({ suspension }) => suspension !== undefined)?.suspension
  if (child === undefined) return undefined
  const { detail, reason, runId } = child
  // A child that waits for one of its own says which that is.
  return interrupted(reason, detail.startsWith(`${runId}/`) ? detail : `${runId}: ${detail}`)
}

/** Whether one more turn that investigates, if it is like the last, would reach into what is kept for the handoff. */
const reaching = (state: RunState, elapsedMs: number): Step | undefined => {
  const { lastCostUsd = 0, lastUsage, limits, phase } = state
  if (limits.reserve === undefined || phase === "handoff") return undefined
  const last = { usd: lastCostUsd, tokens: Money.tokensOf(lastUsage) }
  const exhausted = shortForTurn(limits, State.used(state, elapsedMs), last)
  return exhausted === undefined ? undefined : { _tag: "BeginHandoff", exhausted }
}

/** A model that says nothing, or that its provider does not let say it, is not asked for ever. */
const fruitless = (state: RunState, elapsedMs: number): Step | undefined => {
  const { exhausted, fruitless } = state
  if (fruitless === undefined || fruitless.replies < mostFruitless) return undefined
  // It had only its handoff left.
  if (state.phase === "handoff" && exhausted !== undefined) {
    return stop(endingAt(state, State.used(state, elapsedMs), exhausted))
  }
  const { filtered, replies } = fruitless
  if (filtered === replies) {
    const detail = `the provider's content filter stopped ${replies} replies of the model in a row`
    return stop({ status: "failed", reason: "provider_refused", detail })
  }
  const detail = `${replies} replies of the model in a row had neither text nor a call that could be run`
  return interrupted("provider", filtered === 0 ? detail : `${detail}, or were stopped by a content filter`)
}

/**
 * What to do next, in this order: settle, unknown outcomes, limits and stop conditions, pending calls, people,
 * repetition, replies that bring nothing, a reserve that the next turn would reach into, the model. `elapsedMs` is the
 * time that the run has been driven so far, in milliseconds, and `at` the date (ISO 8601) by which approvals expire;
 * without it, that of the last event.
 *
 * @example
 * ```ts
 * import { NextStep, type RunState } from "checkrein"
 *
 * declare const state: RunState.RunState
 * declare const rules: NextStep.Rules
 *
 * const step = NextStep.nextStep(state, rules, state.elapsedMs)
 * ```
 */
export const nextStep = (
  state: RunState,
  rules: Rules,
  elapsedMs: number,
  at: string = state.updatedAt
): Step => {
  const { pending } = state

  if (pending.length === 0 && state.answered) {
    return state.phase === "handoff" && state.exhausted !== undefined
      ? stop(endingAt(state, State.used(state, elapsedMs), state.exhausted))
      : stop({
          status: "completed",
          reason: "answered",
          detail: "the model answered"
        })
  }
  const settling = pending.some((call) => call.kind !== "tool")
  if (settling && pending.every((call) => call.kind === "submit")) {
    return stop({
      status: "completed",
      reason: "submitted",
      detail: "the model submitted a valid result"
    })
  }

  const unknown = State.unknownOutcomes(state)
  const open = toLookUp(state)
  if (open.length > 0) return { _tag: "Reconcile", calls: open }
  if (unknown.length > 0) {
    return interrupted("unknown_outcome", doubt(unknown))
  }

  if (!settling) {
    const step = limited(state, elapsedMs)
    if (step !== undefined) return step
    for (const condition of rules.stopWhen) {
      const why = condition(state)
      if (why !== undefined) return interrupted("stop_condition", why)
    }
  }

  const { exhausted } = state
  if (state.phase === "handoff" && exhausted !== undefined) {
    const refused = pending.filter(
      (call) =>
        call.kind === "tool" &&
        call.status === "waiting" &&
        call.purpose === "investigate" &&
        call.approval !== "rejected" &&
        !continues(call)
    )
    const [first] = refused
    if (first !== undefined) {
      // A model that was told, was refused and asks for nothing else again would go on so until its turns are used up.
      const { strayedInTurn: before } = state
      if (before !== undefined && before < first.turn && refused.length === pending.length) {
        return stop(endingAt(state, State.used(state, elapsedMs), exhausted))
      }
      return {
        _tag: "AnswerCalls",
        answers: refused.map((call) => ({
          call,
          refusal: { _tag: "HandoffOnly", exhausted }
        }))
      }
    }
  }
  const rejected = pending.filter((call) => call.approval === "rejected")
  if (rejected.length > 0) {
    return {
      _tag: "AnswerCalls",
      answers: rejected.map((call) => ({
        call,
        refusal: { _tag: "Rejected" }
      }))
    }
  }
  const expired = pending.filter((call) => hasExpired(call, at))
  if (expired.length > 0) return { _tag: "AskAgain", calls: expired }
  const unasked = pending.filter((call) => call.approval === "ask")
  if (unasked.length > 0) return { _tag: "CheckApprovals", calls: unasked }
  const ready = runnable(pending)
  if (ready.length > 0) return claimed(state, ready, elapsedMs, settling)

  // Only for whoever looks at a run that somebody drives: its driver asks again when they have ended.
  const running = pending.filter((call) => call.status === "running")
  if (running.length > 0) return { _tag: "AwaitCalls", calls: running }

  const waiting = waitingForPeople(state)
  if (waiting !== undefined) return waiting

  const { worst } = state.repetition
  if (rules.repetition !== undefined && worst !== undefined && worst.count >= rules.repetition.stopAt) {
    return interrupted("stalled", `${worst.tool} brought the same result ${worst.count} times`)
  }
  return (
    fruitless(state, elapsedMs) ?? reaching(state, elapsedMs) ?? { _tag: "AskModel", purpose: state.phase }
  )
}
