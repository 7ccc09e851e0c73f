/**
 * How the events of a run add up to its state, so that resuming is the same code path as running.
 *
 * `fold` is the pure reading. The driver keeps one `Draft` and steps it in place with `apply`, because a transcript
 * that were copied for every event would cost more with every turn.
 */
import { anchor } from "./Deadline.ts"
import { callsOf, type Message, textOf } from "./Message.ts"
import * as Money from "./Money.ts"
import * as Repetition from "./Repetition.ts"
import type { Of, RunEvent } from "./RunEvent.ts"
import { continues, type Finding, isAtLimit, type PendingCall, type RunState, totals } from "./RunState.ts"

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** A state under construction: the transcript, the pending calls and the findings are appended to in place. */
export interface Draft extends Mutable<Omit<RunState, "messages" | "pending" | "findings">> {
  messages: Array<Message>
  pending: Array<PendingCall>
  findings: Array<Finding>
}

const empty = (runId: string): Draft => ({
  runId,
  seq: 0,
  agent: "",
  status: "running",
  startedAt: "",
  updatedAt: "",
  messages: [],
  given: 0,
  turns: 0,
  toolCalls: 0,
  usage: Money.noUsage,
  childTokens: 0,
  costUsd: 0,
  elapsedMs: 0,
  limits: {},
  phase: "investigate",
  lastUsage: Money.noUsage,
  pending: [],
  held: [],
  answered: false,
  refused: [],
  findings: [],
  operations: [],
  repetition: Repetition.none(),
  inbox: 0
})

/**
 * A copy that later events do not touch.
 *
 * @example
 * ```ts
 * import { Fold, type RunEvent, type RunState } from "checkrein"
 *
 * declare const state: RunState.RunState
 * declare const event: RunEvent.RunEvent
 *
 * const next = Fold.snapshot(state)
 * Fold.apply(next, event) // `state` stays as it was
 * ```
 */
export const snapshot = (draft: RunState): Draft => ({
  ...draft,
  messages: draft.messages.slice(),
  pending: draft.pending.slice(),
  findings: draft.findings.slice(),
  repetition: { ...draft.repetition, seen: { ...draft.repetition.seen } }
})

/**
 * The state after these events, beginning with the empty run or with `from`. Folding a prefix and then the rest is
 * folding the whole. `undefined` without any event.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Fold, RunStore } from "checkrein"
 *
 * const atItsFirstTurn = Effect.gen(function* () {
 *   const { events } = yield* RunStore.load("night-shift")
 *   return Fold.fold(events.slice(0, events.findIndex(({ type }) => type === "turn") + 1))
 * })
 * ```
 */
export const fold = (events: Iterable<RunEvent>, from?: RunState): Draft | undefined => {
  let draft = from === undefined ? undefined : snapshot(from)
  for (const event of events) {
    draft ??= empty(event.runId)
    apply(draft, event)
  }
  return draft
}

/**
 * The state of a run whose first event this is.
 *
 * @example
 * ```ts
 * import { Fold, type RunEvent } from "checkrein"
 *
 * declare const started: RunEvent.Of<"run_started">
 *
 * Fold.begin(started).status // => "running"
 * ```
 */
export const begin = (event: RunEvent): Draft => {
  const draft = empty(event.runId)
  apply(draft, event)
  return draft
}

const replace = (draft: Draft, callId: string, change: (call: PendingCall) => PendingCall): void => {
  const index = draft.pending.findIndex((call) => call.callId === callId)
  const call = draft.pending[index]
  if (call !== undefined) draft.pending[index] = change(call)
}

const without = <T extends object, K extends keyof T>(value: T, key: K): Omit<T, K> => {
  const { [key]: _, ...rest } = value
  return rest
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
  replace(draft, callId, (pending) => ({ ...pending, childCostUsd, childTokens }))
}

/** Messages from outside wait until every call has its result: nothing may stand between the two. */
const say = (draft: Draft, messages: ReadonlyArray<Message>): void => {
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

const charge = (draft: Draft, usage: Money.Usage, costUsd: number): void => {
  draft.usage = Money.addUsage(draft.usage, usage)
  draft.costUsd = Money.add(draft.costUsd, costUsd)
}

/** A model call whose answer never came back counts as a turn and, at its estimate, as spent. */
const settleLostClaim = (draft: Draft): void => {
  if (draft.claim === undefined) return
  const { costUsd, turns } = totals(draft)
  draft.turns = turns
  draft.usage = Money.addUsage(draft.usage, draft.claim.estimate.usage)
  draft.costUsd = costUsd
  delete draft.claim
}

/**
 * Whoever wrote `tool_start` is gone, or has let go of the call. What may be repeated waits to be started again; of
 * anything else nobody can tell whether it happened.
 */
const letGo = (call: PendingCall): PendingCall =>
  call.status === "running" ? { ...call, status: call.effect === "write" ? "unknown" : "waiting" } : call

const found = (
  { args, callId, effect, tool }: PendingCall,
  brought: Pick<Finding, "ok" | "digest" | "evidence" | "childCostUsd">
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
  const childCostUsd = event.childCostUsd ?? call.childCostUsd
  draft.findings.push(
    found(call, {
      ok,
      evidence,
      ...(digest === undefined ? undefined : { digest }),
      ...(childCostUsd === undefined ? undefined : { childCostUsd })
    })
  )
}

/** The model is told anew that only the reserve is left. */
const untold = (draft: Draft): void => {
  delete draft.handoffTold
  delete draft.strayedInTurn
}

/** Whether a call investigates although the model was told that only the reserve is left. */
const strays = (draft: Draft, { purpose }: PendingCall, event: Of<"tool_result">): boolean =>
  draft.phase === "handoff" &&
  draft.handoffTold === true &&
  purpose === "investigate" &&
  event.disposition === "refused" &&
  event.wrongArguments !== true

/**
 * Steps a draft by one event, in place.
 *
 * @example
 * ```ts
 * import { Fold, type RunEvent } from "checkrein"
 *
 * declare const started: RunEvent.Of<"run_started">
 * declare const later: ReadonlyArray<RunEvent.RunEvent>
 *
 * const draft = Fold.begin(started)
 * for (const event of later) Fold.apply(draft, event)
 * ```
 */
export const apply = (draft: Draft, event: RunEvent): void => {
  draft.seq = event.seq + 1
  draft.updatedAt = event.at
  draft.elapsedMs = event.elapsedMs
  switch (event.type) {
    case "run_started": {
      draft.agent = event.agent
      draft.startedAt = event.at
      draft.messages.push(...event.messages)
      draft.given = event.messages.length
      draft.limits = anchor(event.limits, event.at, event.elapsedMs)
      if (event.contract !== undefined) draft.contract = event.contract
      if (event.parent !== undefined) draft.parent = event.parent
      if (event.tags !== undefined) draft.tags = event.tags
      return
    }
    case "run_resumed": {
      settleLostClaim(draft)
      if (draft.status !== "running") draft.refused = []
      // Another driver goes on as if it had been there all the time. What a model was told of repetition and of a reserve
      // counts no more where the run had stopped for just that, or a person has said something.
      const spoken = event.messages.length > 0
      if (spoken || draft.reason === "stalled") draft.repetition = Repetition.none()
      if (spoken || isAtLimit(draft)) untold(draft)
      draft.status = "running"
      draft.limits = anchor(draft.limits, event.at, event.elapsedMs)
      delete draft.reason
      delete draft.detail
      delete draft.exhausted
      delete draft.refusedInTurn
      // The answer in a handoff was its summary; any other was the answer, even if its driver died before it said so.
      if (draft.phase === "handoff" || event.messages.length > 0) draft.answered = false
      draft.phase = "investigate"
      draft.pending = draft.pending.map((call) => {
        const free = without(letGo(call), "reconciled")
        return free.status === "suspended" ? { ...without(free, "suspension"), status: "waiting" } : free
      })
      draft.operations = draft.operations.map((operation) => without(operation, "handling"))
      draft.inbox = Math.max(draft.inbox, event.inbox)
      say(draft, event.messages)
      return
    }
    case "limits_changed": {
      draft.limits = anchor(event.limits, event.at, event.elapsedMs)
      untold(draft)
      return
    }
    case "turn_started": {
      const { estimate, seq, turn } = event
      draft.claim = { seq, turn, estimate }
      if (event.purpose === "handoff") draft.handoffTold = true
      if (event.note !== undefined) draft.messages.push({ role: "user", content: event.note })
      return
    }
    case "turn": {
      delete draft.claim
      draft.turns++
      charge(draft, event.usage, event.costUsd)
      draft.lastUsage = event.usage
      if (event.unpriced === true) draft.unpriced = true
      draft.answered = event.answers
      if (event.message.content.length > 0) draft.messages.push(event.message)
      if (event.note !== undefined) draft.messages.push({ role: "user", content: event.note })
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
      if (event.answers) {
        const text = textOf(event.message)
        if (draft.phase === "investigate") draft.result = text
        else if (text.trim() !== "") draft.summary = text
      }
      return
    }
    case "turn_failed": {
      delete draft.claim
      charge(draft, event.usage ?? Money.noUsage, event.costUsd)
      if (event.unpriced === true) draft.unpriced = true
      return
    }
    case "tool_start": {
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
      return
    }
    case "tool_result": {
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
      return
    }
    case "approval_required": {
      const { problem } = event
      draft.inbox = Math.max(draft.inbox, event.command ?? 0)
      replace(draft, event.callId, (call) => ({
        ...call,
        approval: "required",
        ...(problem === undefined ? undefined : { problem })
      }))
      return
    }
    case "approval_resolved": {
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
        return event.args === undefined
          ? { ...call, approval: "approved" }
          : {
              ...call,
              approval: "approved",
              args: event.args,
              argsDigest: event.argsDigest,
              edited: true
            }
      })
      return
    }
    case "input_given": {
      draft.inbox = Math.max(draft.inbox, event.command ?? 0)
      const call = draft.pending.find((pending) => pending.callId === event.callId)
      if (call !== undefined) settle(draft, event.callId, call.tool, true, event.answer)
      return
    }
    case "child_suspended": {
      chargeChild(draft, event)
      const { suspension } = event
      replace(draft, event.callId, (call) => ({
        ...call,
        status: "suspended",
        suspension
      }))
      return
    }
    case "outcome_resolved": {
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
      return
    }
    case "handoff": {
      settleLostClaim(draft)
      draft.phase = "handoff"
      draft.exhausted = event.exhausted
      return
    }
    case "run_stopped": {
      settleLostClaim(draft)
      draft.status = event.status
      draft.reason = event.reason
      draft.detail = event.detail
      if (event.exhausted !== undefined) draft.exhausted = event.exhausted
      draft.pending = draft.pending.map(letGo)
      if (event.operations !== undefined) {
        const handled = new Map(event.operations.map(({ handling, operationId }) => [operationId, handling]))
        draft.operations = draft.operations.map((operation) => {
          const handling = handled.get(operation.operationId)
          return handling === undefined ? operation : { ...operation, handling }
        })
      }
      return
    }
    case "operation_started": {
      const { argsDigest, callId, label, observe, operationId, tool } = event
      draft.operations = [...draft.operations, { operationId, callId, tool, argsDigest, observe, label }]
      return
    }
    case "operation_ended": {
      const { detail, operationId, outcome } = event
      draft.operations = draft.operations.map((operation) =>
        operation.operationId === operationId
          ? { ...without(operation, "handling"), ended: { outcome, detail } }
          : operation
      )
      return
    }
    case "input_required":
      return
  }
}
