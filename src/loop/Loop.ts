/**
 * The interpreter: asks the core what comes next, does it, and writes down what happened, until the run has stopped.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import { outOf } from "../run/Exhaustion.ts"
import { hasExpired } from "../run/Expiry.ts"
import type { Exhausted } from "../run/Limits.ts"
import { type Ending, nextStep, type Refusal, type Step } from "../run/NextStep.ts"
import { continues } from "../run/PendingCalls.ts"
import type { Body } from "../run/RunEvent.ts"
import type { PendingCall } from "../run/RunState.ts"
import * as RunState from "../run/RunState.ts"
import { lateFor, questionOf, stoppedWith } from "../run/Waiting.ts"
import { RunStoreError } from "../store/RunStore.ts"
import * as Allowances from "./Allowances.ts"
import * as Approvals from "./Approvals.ts"
import * as Author from "./Author.ts"
import * as Cancel from "./Cancel.ts"
import { ChildLink, useOf } from "./ChildRun.ts"
import * as Desk from "./Desk.ts"
import { Drain, isRequested } from "./Drain.ts"
import * as Inbox from "./Inbox.ts"
import type { Job } from "./Job.ts"
import type { Journal } from "./Journal.ts"
import * as ModelCall from "./ModelCall.ts"
import * as Operations from "./Operations.ts"
import * as PoolClaims from "./PoolClaims.ts"
import * as Reconcile from "./Reconcile.ts"
import { isRefused, type Refused } from "./Refused.ts"
import * as RunEnd from "./RunEnd.ts"
import * as TimeLeft from "./TimeLeft.ts"
import * as ToolCall from "./ToolCall.ts"
import { resultOf } from "./ToolResult.ts"
import * as Words from "./Words.ts"

const shortOf = ({ pool, resource }: Exhausted) => ({
  short: resource,
  ...(pool === undefined ? undefined : { pool })
})

const refuse = (call: PendingCall, refusal: Refusal): Body =>
  resultOf(call, {
    content: Words.refusal(call, refusal),
    disposition: refusal._tag === "Rejected" ? "rejected" : "refused",
    ...(refusal._tag === "NoBudget" ? shortOf(refusal.exhausted) : undefined)
  })

/** Writes down what is known of the calls that still run, and are waited for no longer. */
const cutOff = (job: Job, journal: Journal, desk: Desk.Desk): void => {
  for (const call of journal.state().pending) {
    if (call.status === "running") journal.stage(...ToolCall.cutOff(job, journal, desk, call))
  }
}

/** The answer to a call whose run was started, and is not taken up any more: it is ended, and its use is told. */
const withoutChild = Effect.fnUntraced(function* (journal: Journal, call: PendingCall, answer: Body) {
  yield* journal.commit()
  const child = yield* RunEnd.abandonChild(journal, call)
  return child === undefined || answer.type !== "tool_result" ? [answer] : [{ ...answer, ...useOf(child) }]
})

const executeAll = Effect.fnUntraced(function* (
  job: Job,
  journal: Journal,
  desk: Desk.Desk,
  calls: ReadonlyArray<PendingCall>
) {
  yield* journal.lease.check
  const refused = new Map<string, Exhausted>()
  if (job.pool !== undefined) {
    // Whatever is staged waits for nobody.
    yield* journal.commit()
    for (const call of calls) {
      if (continues(call) || ToolCall.withoutExecution(job, journal.state(), desk, call)) continue
      const short = yield* PoolClaims.call(job, journal.state(), call, call.attempts + 1)
      if (short === undefined) continue
      const { refusedInTurn } = journal.state()
      if (refusedInTurn !== undefined && refusedInTurn < call.turn) return outOf(short)
      refused.set(call.callId, short)
    }
  }
  const running: Array<ToolCall.Keyed> = []
  const starts = (call: PendingCall): boolean =>
    !refused.has(call.callId) && ToolCall.withoutExecution(job, journal.state(), desk, call) === undefined
  let children = calls.filter((call) => call.agent === true && starts(call)).length
  for (const call of calls) {
    const exhausted = refused.get(call.callId)
    if (exhausted !== undefined) {
      journal.stage(refuse(call, { _tag: "NoBudget", exhausted }))
      continue
    }
    const known = ToolCall.withoutExecution(job, journal.state(), desk, call)
    if (known !== undefined) {
      journal.stage(...(continues(call) ? yield* withoutChild(journal, call, known) : [known]))
      continue
    }
    const keyed = ToolCall.keyed(job, journal, call)
    if (Result.isFailure(keyed)) {
      journal.stage(ToolCall.notStarted(call, keyed.failure))
      continue
    }
    // Since the core has looked, others may have been waited for.
    const at = journal.date()
    if (hasExpired(call, at)) continue
    running.push(keyed.success)
    const hold = call.agent === true ? Allowances.hold(journal.state(), call, children--) : undefined
    journal.stage({ ...ToolCall.startOf(keyed.success, hold), at })
  }
  yield* journal.commit()
  const ends: Array<ToolCall.Last> = []
  const refusals: Array<Refused> = []
  const over = Deferred.makeUnsafe<void>()
  // As a failure it would keep the calls from starting that come after it.
  const execute = (call: ToolCall.Keyed) =>
    Effect.map(ToolCall.execute(job, journal, desk, call), (end) => {
      if (end === undefined) return
      if (isRefused(end)) {
        refusals.push(end)
        return
      }
      ends.push(end)
      Deferred.doneUnsafe(over, Exit.void)
    })
  const [only] = running
  if (running.length === 1 && only !== undefined) yield* execute(only)
  else {
    const all = Effect.forEach(running, execute, { concurrency: "unbounded", discard: true })
    yield* Effect.raceFirst(all, Deferred.await(over))
  }
  const [last] = ends
  const [refusal] = refusals
  if (last === undefined) {
    if (refusal !== undefined) return yield* Effect.fail(refusal)
    const waiting = new Set(journal.state().pending.map(({ callId }) => callId))
    for (const { call } of running) if (!waiting.has(call.callId)) Desk.settled(desk, call)
    return undefined
  }
  journal.stage(...last.bodies)
  cutOff(job, journal, desk)
  return last.ending
})

const stop = Effect.fnUntraced(function* (job: Job, journal: Journal, ending: Ending) {
  if (ending.reason === "submitted") {
    for (const call of journal.state().pending) {
      if (call.kind !== "submit") continue
      journal.stage(resultOf(call, { content: Words.submitted, ok: true, disposition: "executed" }))
    }
  }
  if (ending.reason === "input") {
    const question = questionOf(journal.state())
    if (question?.runId === journal.runId) {
      journal.stage({
        type: "input_required",
        callId: question.callId,
        question: question.text
      })
    }
  }
  const atLimit = RunState.isAtLimit(ending)
  // What an operation does when it is cancelled or waited for is up to its tool: a paid turn does not wait for that.
  if (atLimit && RunState.live(journal.state()).length > 0) yield* journal.commit()
  const operations = atLimit ? yield* Operations.settle(job, journal) : []
  yield* RunEnd.stopDriven(journal, ending, operations)
})

const begins = ({ _tag }: Step): boolean =>
  _tag === "AskModel" || _tag === "ExecuteCalls" || _tag === "CheckApprovals"

const interpret = Effect.fnUntraced(function* (job: Job, journal: Journal, desk: Desk.Desk) {
  // The claim to drive on: a driver that has lost a run finds out here, before it does anything.
  if (journal.state().seq > 1) yield* journal.commit()
  const conversation = ModelCall.converse(job, desk, journal.state().messages)
  const drain = yield* Drain
  const problems: Array<string> = []
  const stopWhen = Author.conditions(job.rules.stopWhen, (problem) => problems.push(problem))
  const rules = { ...job.rules, stopWhen }
  while (true) {
    const step = nextStep(TimeLeft.state(journal), rules, journal.elapsedMs(), journal.date())
    if (problems.length > 0) yield* Effect.logWarning(problems.splice(0).join("; "))
    // It has not stopped, only nobody drives it now: whoever looks for such runs takes it up at once.
    if (begins(step) && isRequested(drain)) return yield* journal.commit()
    let ending: Ending | undefined
    switch (step._tag) {
      case "AskModel":
        ending = yield* ModelCall.ask(job, journal, conversation, step.purpose)
        break
      case "ExecuteCalls":
        ending = yield* executeAll(job, journal, desk, step.calls)
        break
      case "AnswerCalls":
        yield* journal.commit(...step.answers.map(({ call, refusal }) => refuse(call, refusal)))
        break
      case "CheckApprovals":
        yield* Approvals.check(job, journal, conversation, step.calls)
        break
      case "AskAgain":
        yield* journal.commit(...step.calls.map((call) => Approvals.again(journal.state(), call)))
        break
      case "Reconcile":
        yield* Reconcile.lookUp(job, journal, step.calls)
        break
      case "BeginHandoff":
        yield* journal.commit({ type: "handoff", exhausted: step.exhausted })
        break
      case "AwaitCalls":
        return yield* Effect.die(
          new Error(`calls of run ${journal.runId} are running, and nobody waits for them`)
        )
      case "Stop":
        if (yield* Inbox.somethingArrived(job, journal, step.ending)) break
        ending = step.ending
        break
    }
    if (ending !== undefined) return yield* stop(job, journal, ending)
  }
})

/**
 * Drives a run until it has stopped, and leaves the way it ended in the journal's state. Interruption writes `cancelled`
 * with its reason before it goes on; a defect becomes the ending `failed`. Only the store can fail.
 */
export const drive = Effect.fnUntraced(function* (job: Job, journal: Journal) {
  const desk = Desk.make(job, journal.state())
  const drain = yield* Drain
  const link = yield* ChildLink
  // A run ends once: whatever comes while its last event is being stored comes too late.
  const hasStopped = () => journal.state().status !== "running"
  const broken = (cause: Cause.Cause<unknown>) => {
    const problem = "the store, or the budget that the run shares, broke down"
    const { runId } = journal
    return Effect.fail(new RunStoreError({ runId, kind: "unavailable", problem, cause: Cause.squash(cause) }))
  }
  const calledOff = Effect.raceFirst(Cancel.received(journal), journal.lease.lost)
  yield* Effect.raceFirst(
    Effect.provideService(interpret(job, journal, desk), RunEnd.Spent, journal.spent),
    Effect.catchCauseIf(calledOff, Cause.hasDies, broken)
  ).pipe(
    Effect.catchCause((cause) => {
      if (hasStopped()) {
        // What its caller hears is the run's own end, or why that could not be stored.
        const told = Effect.logWarning(`run ${journal.runId} had stopped when this came`, cause)
        return Effect.andThen(Cause.hasDies(cause) ? told : Effect.void, journal.commit())
      }
      // Who stops the run interrupts this fiber, which does not come here then, or says why: this has interrupted itself.
      if (Cause.hasInterruptsOnly(cause) && Cancel.reasonOf(cause) === undefined) return broken(cause)
      if (!Cause.hasDies(cause)) return Effect.failCause(cause)
      cutOff(job, journal, desk)
      const error = Cause.squash(cause)
      const detail = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
      return Effect.andThen(
        Effect.logError(`run ${journal.runId} failed with a defect`, cause),
        RunEnd.stopDriven(journal, { status: "failed", reason: "defect", detail })
      )
    }),
    Effect.onExit((exit) => {
      if (Exit.isSuccess(exit) || !Cause.hasInterrupts(exit.cause)) return Effect.void
      // The last event may be decided on and not stored yet.
      if (hasStopped()) return journal.commit()
      cutOff(job, journal, desk)
      const reason = Cancel.reasonOf(exit.cause)
      if (reason === undefined && isRequested(drain)) return journal.commit()
      const { parent } = journal.state()
      const fromAbove = link?.isLate() === true ? lateFor : stoppedWith
      const without = parent === undefined ? "the run was interrupted" : fromAbove(parent.runId)
      return RunEnd.stopInterrupted(journal, Cancel.endingFor(reason ?? without))
    })
  )
})
