/**
 * The interpreter: asks the core what comes next, does it, and writes down what happened, until the run has stopped.
 */
import type * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type { Numbered } from "../run/Command.ts"
import { type Ending, nextStep, type Refusal } from "../run/NextStep.ts"
import type { Body } from "../run/RunEvent.ts"
import { questionOf } from "../run/RunExit.ts"
import type { PendingCall } from "../run/RunState.ts"
import * as RunState from "../run/RunState.ts"
import { RunStore } from "../store/RunStore.ts"
import { type Outcome, Reconcile, unknown } from "../tool/ToolPolicy.ts"
import { ambient } from "./Ambient.ts"
import * as Desk from "./Desk.ts"
import * as Digest from "./Digest.ts"
import type { Job } from "./Job.ts"
import type { Journal } from "./Journal.ts"
import * as ModelCall from "./ModelCall.ts"
import * as Plan from "./Plan.ts"
import * as ToolCall from "./ToolCall.ts"
import * as Words from "./Words.ts"

/**
 * Why a run is cancelled: annotate an interruption of the run's fiber with it, and it becomes the detail of the ending.
 *
 * @example
 * ```ts
 * import { Context, Fiber } from "effect"
 * import { Agent } from "checkrein"
 *
 * declare const fiber: Fiber.Fiber<unknown, unknown>
 *
 * const stop = Fiber.interruptAs(fiber, undefined, Context.make(Agent.CancelReason, "user pressed Stop"))
 * ```
 */
export const CancelReason = Context.Reference<string | undefined>("checkrein/CancelReason", {
  defaultValue: () => undefined
})

const stopped = (journal: Journal, { detail, exhausted, reason, status }: Ending): Body => ({
  type: "run_stopped",
  status,
  reason,
  detail,
  ...(exhausted === undefined ? undefined : { exhausted }),
  ...RunState.totals(journal.state())
})

const refuse = (call: PendingCall, refusal: Refusal): Body => ({
  type: "tool_result",
  callId: call.callId,
  tool: call.tool,
  content: Words.refusal(call, refusal),
  ok: false,
  ms: 0,
  disposition: refusal._tag === "Rejected" ? "rejected" : "refused",
  ...(refusal._tag === "NoBudget" ? { short: refusal.exhausted.resource } : undefined)
})

/** What the tool says of the need for a person. A question that fails, or is not answered in time, means yes. */
const needsPerson = (
  journal: Journal,
  { name, needsApproval }: Tool.Any,
  toolCallId: string,
  args: unknown,
  messages: ReadonlyArray<Prompt.Message>
): Effect.Effect<boolean> => {
  if (typeof needsApproval !== "function") return Effect.succeed(needsApproval !== false)
  const { timeMs = Number.POSITIVE_INFINITY } = journal.state().limits
  return Effect.suspend(() => {
    const asked = needsApproval(args, { toolCallId, messages })
    return Effect.isEffect(asked) ? ambient(asked) : Effect.succeed(asked)
  }).pipe(
    Effect.timeoutOrElse({
      duration: Math.max(0, timeMs - journal.elapsedMs()),
      orElse: () => Effect.succeed(true)
    }),
    Effect.catchCause((cause) =>
      Effect.as(Effect.logWarning(`needsApproval of ${name} failed, so a person is asked`, cause), true)
    )
  )
}

/**
 * Asks each tool whether the call needs a person, before any of them starts. Whatever goes wrong with the question
 * means yes; arguments that do not fit need nobody, for they cannot run.
 */
const checkApprovals = Effect.fnUntraced(function* (
  job: Job,
  journal: Journal,
  conversation: ModelCall.Conversation,
  calls: ReadonlyArray<PendingCall>
) {
  yield* journal.commit()
  const messages = conversation.mirror.of(journal.state().messages).content
  for (const { args, argsDigest, callId, tool: name } of calls) {
    const tool = Plan.toolOf(job, name)
    const decoded = tool === undefined ? Option.none() : yield* Plan.decodeArgs(tool, args)
    if (tool === undefined || Option.isNone(decoded)) {
      const reason = "the arguments do not fit the tool, so it will not run"
      journal.stage({
        type: "approval_resolved",
        callId,
        decision: "not_required",
        argsDigest,
        reason
      })
      continue
    }
    const answer = yield* needsPerson(journal, tool, callId, decoded.value, messages)
    journal.stage(
      answer === false
        ? {
            type: "approval_resolved",
            callId,
            decision: "not_required",
            argsDigest
          }
        : { type: "approval_required", callId, tool: name, args, argsDigest }
    )
  }
  yield* journal.commit()
})

const lookUp = (job: Job, journal: Journal, call: PendingCall): Effect.Effect<Outcome> => {
  const tool = Plan.toolOf(job, call.tool)
  const ask = tool === undefined ? undefined : Context.get(tool.annotations, Reconcile)
  if (ask === undefined) return Effect.succeed(unknown)
  const { runId } = journal
  return Effect.suspend(() => {
    const { args, callId, tool } = call
    return ask({
      runId,
      callId,
      tool,
      args,
      idempotencyKey: Plan.keyOf(job, runId, call)
    })
  }).pipe(
    Effect.timeoutOrElse({
      duration: "30 seconds",
      orElse: () => Effect.succeed(unknown)
    }),
    Effect.catchCause((cause) =>
      Effect.as(Effect.logWarning(`looking up ${call.tool} (${call.callId}) failed`, cause), unknown)
    )
  )
}

const reconcile = Effect.fnUntraced(function* (
  job: Job,
  journal: Journal,
  calls: ReadonlyArray<PendingCall>
) {
  yield* journal.commit()
  for (const call of calls) {
    const { callId, tool } = call
    const found = yield* lookUp(job, journal, call)
    const base = {
      type: "outcome_resolved",
      callId,
      tool,
      by: "reconcile"
    } as const
    if (found._tag === "Happened") {
      const { result } = found
      const content = typeof result === "string" ? result : JSON.stringify(result)
      yield* journal.commit({ ...base, outcome: "happened", content })
    } else if (found._tag === "DidNotHappen") {
      yield* journal.commit({
        ...base,
        outcome: "did_not_happen",
        content: Words.didNotHappen
      })
    } else {
      yield* journal.commit({
        ...base,
        outcome: "still_unknown",
        content: Words.outcomeUnknown(tool)
      })
    }
  }
})

const executeAll = Effect.fnUntraced(function* (
  job: Job,
  journal: Journal,
  desk: Desk.Desk,
  calls: ReadonlyArray<PendingCall>
) {
  const running: Array<ToolCall.Claimed> = []
  for (const call of calls) {
    const known = ToolCall.withoutExecution(job, desk, call)
    const claimed = known === undefined ? ToolCall.claim(job, journal, call) : undefined
    if (claimed === undefined || known !== undefined) {
      if (known !== undefined) journal.stage(known)
    } else if (Result.isFailure(claimed)) {
      journal.stage(ToolCall.notStarted(call, claimed.failure))
    } else {
      running.push(claimed.success)
      journal.stage(ToolCall.startOf(claimed.success))
    }
  }
  yield* journal.commit()
  const [only] = running
  if (only !== undefined && running.length === 1) return yield* ToolCall.execute(job, journal, desk, only)
  const endings = yield* Effect.forEach(running, (claimed) => ToolCall.execute(job, journal, desk, claimed), {
    concurrency: "unbounded"
  })
  return endings.find((ending) => ending !== undefined)
})

/**
 * Turns commands from outside into events. A decision counts for a call that waits for one and still has the arguments
 * that were decided about; any other is left where it is. Says whether anything changed.
 */
export const takeIn = Effect.fnUntraced(function* (
  job: Job,
  journal: Journal,
  commands: ReadonlyArray<Numbered>
) {
  let changed = false
  for (const { command, id } of commands) {
    if (command.type === "cancel") continue
    const call = journal.state().pending.find((pending) => pending.callId === command.callId)
    if (call === undefined) continue
    const by = command.by === undefined ? undefined : { by: command.by }
    const { callId } = call
    if (command.type === "answer" && call.kind === "input") {
      journal.stage({
        type: "input_given",
        callId,
        answer: command.answer,
        command: id,
        ...by
      })
    } else if (command.type === "resolve" && call.status === "unknown") {
      const { content, outcome } = command
      journal.stage({
        type: "outcome_resolved",
        callId,
        tool: call.tool,
        outcome,
        content,
        command: id,
        ...by
      })
    } else if (command.type === "decide" && call.approval === "required" && call.status === "waiting") {
      if (command.argsDigest !== undefined && command.argsDigest !== call.argsDigest) continue
      const { args, decision, reason } = command
      if (args !== undefined && !(yield* fits(job, call, args))) continue
      const argsDigest = args === undefined ? call.argsDigest : Digest.ofArgs(args)
      journal.stage({
        type: "approval_resolved",
        callId,
        decision,
        argsDigest,
        command: id,
        ...(args === undefined ? undefined : { args }),
        ...(reason === undefined ? undefined : { reason }),
        ...by
      })
    } else continue
    changed = true
  }
  return changed
})

const fits = Effect.fnUntraced(function* (job: Job, call: PendingCall, args: PendingCall["args"]) {
  const tool = Plan.toolOf(job, call.tool)
  if (tool !== undefined && Option.isSome(yield* Plan.decodeArgs(tool, args))) return true
  yield* Effect.logWarning(
    `the arguments given with the approval of ${call.callId} do not fit ${call.tool}; the call still waits for a decision`
  )
  return false
})

/** Whether somebody has said meanwhile what the run is about to stop for. */
const somethingArrived = Effect.fnUntraced(function* (job: Job, journal: Journal, { reason }: Ending) {
  if (reason !== "approval" && reason !== "input" && reason !== "unknown_outcome") return false
  const store = yield* RunStore
  yield* journal.commit()
  return yield* takeIn(job, journal, yield* store.inbox(journal.runId, journal.state().inbox))
})

const stop = Effect.fnUntraced(function* (journal: Journal, ending: Ending) {
  if (ending.reason === "submitted") {
    for (const { callId, kind, tool } of journal.state().pending) {
      if (kind !== "submit") continue
      const content = Words.submitted
      journal.stage({
        type: "tool_result",
        callId,
        tool,
        content,
        ok: true,
        ms: 0,
        disposition: "executed"
      })
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
  yield* journal.commit(stopped(journal, ending))
})

const interpret = Effect.fnUntraced(function* (job: Job, journal: Journal, desk: Desk.Desk) {
  const conversation = ModelCall.converse(job, journal.state().messages)
  while (true) {
    const step = nextStep(journal.state(), job.rules, journal.elapsedMs())
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
        yield* checkApprovals(job, journal, conversation, step.calls)
        break
      case "Reconcile":
        yield* reconcile(job, journal, step.calls)
        break
      case "BeginHandoff":
        yield* journal.commit({ type: "handoff", exhausted: step.exhausted })
        break
      case "AwaitCalls":
        return yield* Effect.die(
          new Error(`calls of run ${journal.runId} are running, and nobody waits for them`)
        )
      case "Stop":
        if (yield* somethingArrived(job, journal, step.ending)) break
        ending = step.ending
        break
    }
    if (ending !== undefined) return yield* stop(journal, ending)
  }
})

const cancelReasonOf = (cause: Cause.Cause<unknown>): string | undefined =>
  Context.get(Cause.annotations(cause), CancelReason)

/** Waits for a cancel command, and then interrupts with its reason. */
const cancelled = Effect.fnUntraced(function* (journal: Journal) {
  const store = yield* RunStore
  const inbox = store.watchInbox(journal.runId, journal.state().inbox)
  const command = yield* Stream.runHead(Stream.filter(inbox, ({ command }) => command.type === "cancel"))
  if (Option.isNone(command) || command.value.command.type !== "cancel") return yield* Effect.never
  const annotation = Context.make(CancelReason, command.value.command.reason)
  return yield* Effect.failCause(Cause.annotate(Cause.interrupt(), annotation))
})

/**
 * Drives a run until it has stopped, and leaves the way it ended in the journal's state. Interruption writes `cancelled`
 * with its reason before it goes on; a defect becomes the ending `failed`. Only the store can fail.
 */
export const drive = Effect.fnUntraced(function* (job: Job, journal: Journal) {
  const desk = Desk.make(job, journal.state())
  const cut = () => {
    for (const call of journal.state().pending) {
      if (call.status === "running") journal.stage(ToolCall.cutOff(journal, desk, call))
    }
  }
  yield* Effect.raceFirst(interpret(job, journal, desk), cancelled(journal)).pipe(
    Effect.catchCause((cause) => {
      if (!Cause.hasDies(cause) || Cause.hasInterrupts(cause)) return Effect.failCause(cause)
      cut()
      const error = Cause.squash(cause)
      const detail = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
      return Effect.andThen(
        Effect.logError(`run ${journal.runId} failed with a defect`, cause),
        journal.commit(stopped(journal, { status: "failed", reason: "defect", detail }))
      )
    }),
    Effect.onExit((exit) => {
      if (Exit.isSuccess(exit) || !Cause.hasInterrupts(exit.cause)) return Effect.void
      cut()
      const { parent } = journal.state()
      const without = parent === undefined ? "the run was interrupted" : `run ${parent.runId} was stopped`
      const detail = cancelReasonOf(exit.cause) ?? without
      return journal.commit(
        stopped(journal, {
          status: "interrupted",
          reason: "cancelled",
          detail
        })
      )
    })
  )
})
