/**
 * What an outsider can count in a journal. It is kept apart from the fold by which a run is driven, so that a mistake
 * in either does not hide itself; and it goes on after an event that breaks a law, so that one breach is not told many
 * times.
 */
import type * as Schema from "effect/Schema"
import * as Digest from "../../loop/Digest.ts"
import { anchor, follow } from "../../run/Deadline.ts"
import type * as Limits from "../../run/Limits.ts"
import { callsOf, textOf } from "../../run/Message.ts"
import * as Money from "../../run/Money.ts"
import type { Of, PlannedCall, RunEvent, Suspension } from "../../run/RunEvent.ts"

/** What a child has used, as its parent's journal tells it: totals. */
export interface Told {
  readonly usd: number
  readonly tokens: number
}

/** What is held for a child while it runs. */
export interface Hold {
  readonly usd: number
  readonly tokens: number
}

/** A call that a turn has asked for. */
export interface Call {
  readonly planned: PlannedCall
  readonly tool: string
  readonly args: Schema.Json
  readonly turn: number
  status: "waiting" | "running" | "suspended" | "unknown" | "settled"
  starts: number
  /** The last attempt did not execute anything, and its driver is about to make another. */
  retrying: boolean
  key: string | undefined
  asked: boolean
  /** It was approved, the approval has expired, and a person is asked again. */
  askedAgain: boolean
  decision: Of<"approval_resolved"> | undefined
  /** The arguments that it was started with, which bind whoever starts it again. */
  begun: { readonly args: Schema.Json; readonly argsDigest: string } | undefined
  suspension: Suspension | undefined
  told: Told
  hold: Hold
}

/** Work that a tool has started. */
export interface Operation {
  readonly started: Of<"operation_started">
  ended: boolean
}

/** A ledger; it is stepped in place. Money in USD, times in milliseconds. */
export interface Ledger {
  readonly runId: string
  next: number
  elapsedMs: number
  previous: RunEvent["type"] | undefined
  /** Whether the last event says that a model call has failed, also in the middle of its reply. */
  failed: boolean
  stopped: Of<"run_stopped"> | undefined
  /** The tool with which a result has to be submitted, where text does not complete the run. */
  contract: string | undefined
  limits: Limits.Limits
  phase: Limits.Purpose
  /** What the last handoff began for. */
  handsOver: Limits.Exhausted | undefined
  claim: Of<"turn_started"> | undefined
  failedAttempts: number
  turns: number
  usd: number
  tokens: number
  toolCalls: number
  /** What the last turn has used. */
  last: { readonly usd: number; readonly tokens: number }
  answered: boolean
  /** The last replies that have brought nothing, and those among them that a content filter has stopped. */
  fruitless: { readonly replies: number; readonly filtered: number }
  submitted: boolean
  /** Every call of the run. */
  readonly calls: Map<string, Call>
  /** Those without a result, in the model's order. */
  readonly open: Map<string, Call>
  readonly operations: Map<string, Operation>
  /** Digests of what calls have brought, by tool and arguments. */
  readonly brought: Map<string, Set<string>>
  /** The last command that was taken in, and the number up to which the inbox was read. */
  command: number
  inbox: number
}

const noReplies: Ledger["fruitless"] = { replies: 0, filtered: 0 }

/** The ledger of a run before its first event. */
export const empty = (runId: string): Ledger => ({
  runId,
  next: 0,
  elapsedMs: 0,
  previous: undefined,
  failed: false,
  stopped: undefined,
  contract: undefined,
  limits: {},
  phase: "investigate",
  handsOver: undefined,
  claim: undefined,
  failedAttempts: 0,
  turns: 0,
  usd: 0,
  tokens: 0,
  toolCalls: 0,
  last: { usd: 0, tokens: 0 },
  answered: false,
  fruitless: noReplies,
  submitted: false,
  calls: new Map(),
  open: new Map(),
  operations: new Map(),
  brought: new Map(),
  command: 0,
  inbox: 0
})

/** A call in words. */
export const nameOf = ({ planned, tool }: Call): string => `call ${planned.callId} (${tool})`

/** The tokens of a model call. */
export const tokensOf = (usage: Money.Usage | undefined): number =>
  usage === undefined ? 0 : usage.promptTokens + usage.completionTokens

/** The arguments that a person is asked about, and their digest. */
export const askable = (call: Call): { readonly args: Schema.Json; readonly argsDigest: string } =>
  call.begun ?? { args: call.args, argsDigest: call.planned.argsDigest }

/** The arguments as they are executed, and their digest as it was decided about. */
export const executable = (call: Call): { readonly args: Schema.Json; readonly argsDigest: string } => {
  const { decision } = call
  return decision?.decision === "approved" && decision.args !== undefined
    ? { args: decision.args, argsDigest: decision.argsDigest }
    : askable(call)
}

/** Whether an approval has expired by a date (both ISO 8601); it counts until the moment that it names. */
export const hasExpired = (decision: Call["decision"], at: string): boolean =>
  decision?.decision === "approved" &&
  decision.expires !== undefined &&
  !(Date.parse(at) < Date.parse(decision.expires))

/** Whether starting a call takes up the child run that it has started before, which is no new call. */
export const continues = ({ planned, starts }: Call): boolean => planned.agent === true && starts > 0

/** What tells the result of a call from that of another. */
export const sameCall = (tool: string, argsDigest: string): string => `${tool} ${argsDigest}`

const spend = (ledger: Ledger, usd: number, tokens: number): void => {
  ledger.usd = Money.add(ledger.usd, usd)
  ledger.tokens += tokens
}

const loseClaim = (ledger: Ledger): void => {
  const { claim } = ledger
  if (claim === undefined) return
  ledger.turns++
  spend(ledger, claim.estimate.costUsd, tokensOf(claim.estimate.usage))
  ledger.claim = undefined
}

const charge = (
  ledger: Ledger,
  call: Call,
  { childCostUsd, childTokens = 0 }: Of<"tool_result"> | Of<"child_suspended">
): void => {
  if (childCostUsd === undefined) return
  spend(ledger, Money.subtract(childCostUsd, call.told.usd), childTokens - call.told.tokens)
  call.told = { usd: childCostUsd, tokens: childTokens }
}

/** Whoever drove the call is gone, or has let go of it. */
const letGo = (call: Call): void => {
  if (call.status === "running") call.status = call.planned.effect === "write" ? "unknown" : "waiting"
}

const settle = (ledger: Ledger, call: Call): void => {
  call.status = "settled"
  ledger.open.delete(call.planned.callId)
}

const remember = (ledger: Ledger, call: Call, event: Of<"tool_result"> | Of<"outcome_resolved">): void => {
  const digests = [Digest.ofText(event.content)]
  if ("digest" in event && event.digest !== undefined) digests.push(event.digest)
  for (const argsDigest of [call.planned.argsDigest, executable(call).argsDigest]) {
    const key = sameCall(call.tool, argsDigest)
    const known = ledger.brought.get(key) ?? new Set()
    for (const digest of digests) known.add(digest)
    ledger.brought.set(key, known)
  }
}

const plan = (ledger: Ledger, { calls, message, turn }: Of<"turn">): void => {
  const parts = callsOf(message)
  for (const [index, planned] of calls.entries()) {
    const part = parts[index]
    if (part === undefined || ledger.calls.has(planned.callId)) continue
    const call: Call = {
      planned,
      tool: part.name,
      args: part.params,
      turn,
      status: "waiting",
      starts: 0,
      retrying: false,
      key: undefined,
      asked: false,
      askedAgain: false,
      decision: undefined,
      begun: undefined,
      suspension: undefined,
      told: { usd: 0, tokens: 0 },
      hold: { usd: 0, tokens: 0 }
    }
    ledger.calls.set(planned.callId, call)
    ledger.open.set(planned.callId, call)
  }
}

const takeTurn = (ledger: Ledger, event: Of<"turn">): void => {
  ledger.claim = undefined
  ledger.failedAttempts = 0
  ledger.turns++
  ledger.last = { usd: event.costUsd, tokens: tokensOf(event.usage) }
  spend(ledger, ledger.last.usd, ledger.last.tokens)
  ledger.answered = event.answers
  const { filtered, replies } = ledger.fruitless
  const isFiltered = event.finish === "content_filter"
  const isEmpty = !event.answers && event.calls.length === 0 && textOf(event.message).trim() === ""
  ledger.fruitless =
    isFiltered || (isEmpty && event.note !== undefined)
      ? { replies: replies + 1, filtered: isFiltered ? filtered + 1 : filtered }
      : noReplies
  plan(ledger, event)
}

const takeResult = (ledger: Ledger, call: Call, event: Of<"tool_result">): void => {
  charge(ledger, call, event)
  call.hold = { usd: 0, tokens: 0 }
  if (event.disposition === "cancelled") {
    if (event.mayRepeat === true) {
      call.status = "waiting"
      call.retrying = true
    } else letGo(call)
    return
  }
  if (event.disposition === "unknown") {
    call.status = "unknown"
    return
  }
  if (event.ok) remember(ledger, call, event)
  if (event.ok && call.planned.kind === "submit") ledger.submitted = true
  settle(ledger, call)
}

const takeDecision = (call: Call, event: Of<"approval_resolved">): void => {
  // A decision about other arguments is none, and neither is a second one.
  if (call.decision !== undefined) return
  if (event.args === undefined && event.argsDigest !== askable(call).argsDigest) return
  call.decision = event
}

const resume = (ledger: Ledger, event: Of<"run_resumed">): void => {
  loseClaim(ledger)
  ledger.stopped = undefined
  ledger.failedAttempts = 0
  ledger.fruitless = noReplies
  ledger.submitted = false
  ledger.limits = anchor(ledger.limits, event.at, event.elapsedMs)
  if (ledger.phase === "handoff" || event.messages.length > 0) ledger.answered = false
  ledger.phase = "investigate"
  ledger.inbox = Math.max(ledger.inbox, event.inbox)
  if (event.queued === true) return
  for (const call of ledger.open.values()) {
    letGo(call)
    call.retrying = false
    call.hold = { usd: 0, tokens: 0 }
    if (call.status === "suspended") call.status = "waiting"
    call.suspension = undefined
  }
}

const start = (ledger: Ledger, call: Call, { holdTokens, holdUsd, idempotencyKey }: Of<"tool_start">) => {
  if (!continues(call)) ledger.toolCalls++
  call.begun ??= executable(call)
  call.askedAgain = false
  call.status = "running"
  call.starts++
  call.retrying = false
  call.key ??= idempotencyKey
  call.hold = { usd: holdUsd ?? 0, tokens: holdTokens ?? 0 }
}

const step = (ledger: Ledger, event: RunEvent): void => {
  const call = "callId" in event ? ledger.calls.get(event.callId) : undefined
  switch (event.type) {
    case "run_started":
      ledger.contract = event.contract?.tool
      ledger.limits = anchor(event.limits, event.at, event.elapsedMs)
      return
    case "limits_changed":
      ledger.limits = anchor(event.limits, event.at, event.elapsedMs)
      return
    case "run_resumed":
      resume(ledger, event)
      return
    case "turn_started":
      ledger.claim = event
      return
    case "turn":
      takeTurn(ledger, event)
      return
    case "turn_failed":
      ledger.claim = undefined
      ledger.failedAttempts++
      spend(ledger, event.costUsd, tokensOf(event.usage))
      return
    case "handoff":
      loseClaim(ledger)
      ledger.failedAttempts = 0
      ledger.fruitless = noReplies
      ledger.phase = "handoff"
      ledger.handsOver = event.exhausted
      return
    case "run_stopped":
      loseClaim(ledger)
      ledger.stopped = event
      for (const open of ledger.open.values()) letGo(open)
      return
    case "operation_started":
      ledger.operations.set(event.operationId, { started: event, ended: false })
      return
    case "operation_ended": {
      const operation = ledger.operations.get(event.operationId)
      if (operation !== undefined) operation.ended = true
      return
    }
  }
  if (call === undefined) return
  switch (event.type) {
    case "tool_start":
      start(ledger, call, event)
      return
    case "tool_result":
      takeResult(ledger, call, event)
      return
    case "approval_required":
      call.asked = true
      if (!hasExpired(call.decision, event.at)) return
      call.decision = undefined
      call.askedAgain = true
      return
    case "approval_resolved":
      takeDecision(call, event)
      return
    case "input_given":
      settle(ledger, call)
      return
    case "child_suspended":
      charge(ledger, call, event)
      call.hold = { usd: 0, tokens: 0 }
      call.status = "suspended"
      call.suspension = event.suspension
      return
    case "outcome_resolved":
      if (event.outcome === "still_unknown") return
      if (event.outcome === "happened") remember(ledger, call, event)
      settle(ledger, call)
      return
  }
}

/** Steps a ledger by one event, in place. */
export const record = (ledger: Ledger, event: RunEvent): void => {
  if ("command" in event && event.command !== undefined)
    ledger.command = Math.max(ledger.command, event.command)
  ledger.limits = follow(ledger.limits, event.at, event.elapsedMs)
  step(ledger, event)
  ledger.next = event.seq + 1
  ledger.elapsedMs = Math.max(ledger.elapsedMs, event.elapsedMs)
  ledger.previous = event.type
  ledger.failed = event.type === "turn_failed" || (event.type === "turn" && event.error !== undefined)
}
