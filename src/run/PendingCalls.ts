/**
 * What events do to the calls that have no result yet: how a call is asked for, decided about, started, and comes to its
 * one result.
 */
import { type Draft, without } from "./Draft.ts"
import { callsOf, type Message } from "./Message.ts"
import * as Money from "./Money.ts"
import * as Repetition from "./Repetition.ts"
import type { Of } from "./RunEvent.ts"
import type { Finding, PendingCall } from "./RunState.ts"

/** Whether starting a call takes up what it has started before: a child run, which is no new call. */
export const continues = (call: PendingCall): boolean => call.agent === true && call.attempts > 0

const replace = (draft: Draft, callId: string, change: (call: PendingCall) => PendingCall): void => {
  const index = draft.pending.findIndex((call) => call.callId === callId)
  const call = draft.pending[index]
  if (call !== undefined) draft.pending[index] = change(call)
}

/** What a child has used is told as its total so far: what is new since it was last told is added. */
const chargeChild = (
  draft: Draft,
  { callId, childCostUsd, childTokens = 0, childUnpriced }: Of<"tool_result"> | Of<"child_suspended">
): void => {
  if (childUnpriced === true) draft.unpriced = true
  const call = draft.pending.find((pending) => pending.callId === callId)
  if (call === undefined || childCostUsd === undefined) return
  draft.costUsd = Money.add(draft.costUsd, Money.subtract(childCostUsd, call.childCostUsd ?? 0))
  draft.childTokens += childTokens - (call.childTokens ?? 0)
  const unpriced = childUnpriced === undefined ? undefined : { childUnpriced }
  replace(draft, callId, (pending) => ({ ...pending, childCostUsd, childTokens, ...unpriced }))
}

/** Messages from outside wait until every call has its result: nothing may stand between the two. */
export const say = (draft: Draft, messages: ReadonlyArray<Message>): void => {
  if (draft.pending.length > 0) draft.held = [...draft.held, ...messages]
  else draft.messages.push(...messages)
}

const settle = (draft: Draft, callId: string, tool: string, ok: boolean, content: string): void => {
  draft.messages.push({ role: "tool", callId, tool, ok, content })
  draft.pending = draft.pending.filter((call) => call.callId !== callId)
  if (draft.pending.length > 0 || draft.held.length === 0) return
  draft.messages.push(...draft.held)
  draft.held = []
}

/**
 * Whoever wrote `tool_start` is gone, or has let go of the call. What may be repeated waits to be started again; of
 * anything else nobody can tell whether it happened.
 */
const letGo = (call: PendingCall): PendingCall =>
  call.status === "running" ? { ...call, status: call.effect === "write" ? "unknown" : "waiting" } : call

const found = (
  { args, callId, effect, tool }: PendingCall,
  brought: Pick<Finding, "ok" | "digest" | "evidence" | "childCostUsd" | "childUnpriced">
): Finding => ({ callId, tool, args, effect, ...brought })

/** Notes of a call that has its result what it brought, or that it was asked for in vain. */
const note = (draft: Draft, call: PendingCall, event: Of<"tool_result">): void => {
  if (call.kind !== "tool") return
  const { digest, disposition, evidence = [], ok, short } = event
  if (disposition === "refused" && (draft.phase === "handoff" || short !== undefined)) {
    const { args, callId, tool } = call
    draft.refused = [...draft.refused, { callId, tool, args }]
  }
  if (disposition !== "executed") return
  const { childCostUsd = call.childCostUsd, childUnpriced = call.childUnpriced } = event
  draft.findings.push(
    found(call, {
      ok,
      evidence,
      ...(digest === undefined ? undefined : { digest }),
      ...(childCostUsd === undefined ? undefined : { childCostUsd }),
      ...(childUnpriced === undefined ? undefined : { childUnpriced })
    })
  )
}

/** Whether a call investigates although the model was told that only the reserve is left. */
const strays = (draft: Draft, { purpose }: PendingCall, event: Of<"tool_result">): boolean =>
  draft.phase === "handoff" &&
  draft.handoffTold === true &&
  purpose === "investigate" &&
  event.disposition === "refused" &&
  event.wrongArguments !== true

/** The calls of a turn wait, in the order in which the model asked for them. */
export const ask = (draft: Draft, event: Of<"turn">): void => {
  const parts = callsOf(event.message)
  for (const [index, planned] of event.calls.entries()) {
    const part = parts[index]
    if (part === undefined) continue
    const { approval = "none", kind = "tool", purpose = "investigate" } = planned
    const { name: tool, params: args } = part
    const { turn } = event
    draft.pending.push({
      ...planned,
      approval,
      kind,
      purpose,
      turn,
      tool,
      args,
      status: "waiting",
      attempts: 0
    })
  }
}

/** A call is started, for the first time or once more. */
export const start = (draft: Draft, event: Of<"tool_start">): void => {
  const call = draft.pending.find((pending) => pending.callId === event.callId)
  if (call === undefined || !continues(call)) draft.toolCalls++
  const { attempt, holdTokens, holdUsd } = event
  replace(draft, event.callId, (call) => ({
    ...(call.agent === true ? without(without(call, "holdUsd"), "holdTokens") : call),
    status: "running",
    attempts: attempt,
    ...(holdUsd === undefined ? undefined : { holdUsd }),
    ...(holdTokens === undefined ? undefined : { holdTokens })
  }))
}

/** An attempt has ended: the call has its result, or waits again, or nobody can tell what became of it. */
export const finish = (draft: Draft, event: Of<"tool_result">): void => {
  const call = draft.pending.find((pending) => pending.callId === event.callId)
  if (call === undefined) return
  chargeChild(draft, event)
  if (event.disposition === "cancelled") {
    replace(draft, event.callId, (pending) =>
      event.mayRepeat === true ? { ...pending, status: "waiting" } : letGo(pending)
    )
    return
  }
  if (event.disposition === "unknown") {
    replace(draft, event.callId, (pending) => ({
      ...pending,
      status: "unknown",
      ...(event.detail === undefined ? undefined : { problem: event.detail }),
      ...(event.evidence === undefined ? undefined : { evidence: event.evidence })
    }))
    return
  }
  draft.repetition = Repetition.observe(draft.repetition, call, event)
  if (call.kind === "submit" && event.ok) draft.result = call.args
  if (event.short === "tool_calls") draft.refusedInTurn = call.turn
  if (strays(draft, call, event)) draft.strayedInTurn ??= call.turn
  if (event.wrongArguments !== true) note(draft, call, event)
  settle(draft, event.callId, event.tool, event.ok, event.content)
}

/** A call turns out to need a decision, or another one than it had. */
export const requireApproval = (draft: Draft, event: Of<"approval_required">): void => {
  const { args, argsDigest, problem } = event
  draft.inbox = Math.max(draft.inbox, event.command ?? 0)
  replace(draft, event.callId, (call) => ({
    // What was approved and never started takes the arguments with it that came with the approval.
    ...without(call.attempts > 0 ? call : { ...without(call, "edited"), args, argsDigest }, "expires"),
    approval: "required",
    ...(problem === undefined ? undefined : { problem })
  }))
}

/** A call is decided about. */
export const decide = (draft: Draft, event: Of<"approval_resolved">): void => {
  draft.inbox = Math.max(draft.inbox, event.command ?? 0)
  replace(draft, event.callId, (call) => {
    // What was looked at is what is decided about, and once: an approval of other arguments is none.
    if (event.args === undefined && event.argsDigest !== call.argsDigest) return call
    if (call.approval === "approved" || call.approval === "rejected") return call
    if (event.decision === "not_required") return { ...call, approval: "none" }
    if (event.decision === "rejected") {
      return {
        ...call,
        approval: "rejected",
        ...(event.reason === undefined ? undefined : { rejection: event.reason })
      }
    }
    const { args, argsDigest, by, expires } = event
    return {
      // Whatever was wrong with an earlier decision, or until when it counted, is settled by this one.
      ...without(without(call, "problem"), "expires"),
      approval: "approved",
      ...(args === undefined ? undefined : { args, argsDigest, edited: true }),
      ...(expires === undefined
        ? undefined
        : { expires: { at: expires, ...(by === undefined ? undefined : { by }) } })
    }
  })
}

/** A question is answered. */
export const answer = (draft: Draft, event: Of<"input_given">): void => {
  draft.inbox = Math.max(draft.inbox, event.command ?? 0)
  const call = draft.pending.find((pending) => pending.callId === event.callId)
  if (call !== undefined) settle(draft, event.callId, call.tool, true, event.answer)
}

/** A call waits with the child run that it has started. */
export const suspend = (draft: Draft, event: Of<"child_suspended">): void => {
  chargeChild(draft, event)
  const { suspension } = event
  replace(draft, event.callId, (call) => ({
    ...call,
    status: "suspended",
    suspension
  }))
}

/** It was found out, or not, whether a call has happened. */
export const resolve = (draft: Draft, event: Of<"outcome_resolved">): void => {
  draft.inbox = Math.max(draft.inbox, event.command ?? 0)
  if (event.outcome === "still_unknown") {
    replace(draft, event.callId, (call) => ({ ...call, reconciled: true }))
    return
  }
  const call = draft.pending.find((pending) => pending.callId === event.callId)
  if (call !== undefined && event.outcome === "happened") {
    draft.findings.push(found(call, { ok: true, evidence: call.evidence ?? [] }))
  }
  settle(draft, event.callId, event.tool, event.outcome === "happened", event.content)
}

/** A call of which its driver has seen no end; a sub-agent has its own calls, and goes on with its run. */
const lose = (call: PendingCall): PendingCall =>
  call.status === "running" && call.agent !== true ? { ...call, lost: (call.lost ?? 0) + 1 } : call

/** The run is driven again: whatever ran or waited with a child may be started again, if it may be repeated. */
export const takeUp = (draft: Draft): void => {
  draft.pending = draft.pending.map((call) => {
    const free = without(letGo(lose(call)), "reconciled")
    return free.status === "suspended" ? { ...without(free, "suspension"), status: "waiting" } : free
  })
}

/** The run has stopped, and nobody waits any more for what still runs. */
export const letGoAll = (draft: Draft): void => {
  draft.pending = draft.pending.map(letGo)
}
