/**
 * Where a run stands: nothing but the fold of its events, so that resuming is the same code path as running.
 *
 * `fold` is the pure reading. The driver keeps one `Draft` and steps it in place with `apply`, because a transcript
 * that were copied for every event would cost more with every turn.
 */
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { anchor, Exhausted, Limits, Purpose, type Used } from "./Limits.ts"
import { callsOf, Message, textOf } from "./Message.ts"
import * as Money from "./Money.ts"
import * as Repetition from "./Repetition.ts"
import {
  CallEffect,
  Contract,
  Estimate,
  Evidence,
  Handling,
  type Of,
  Parent,
  PlannedCall,
  Reason,
  type RunEvent,
  RunStatus,
  Suspension
} from "./RunEvent.ts"

/**
 * A call that has no result yet.
 *
 * `status`: `waiting` to start, `running` (started by the driver that wrote it), `suspended` with a child run, or
 * `unknown` when it was started and nobody can tell whether it happened. `approval` is what was decided about it, and
 * `args` are the arguments as they will be executed, edits by an approver included.
 */
export const PendingCall = Schema.Struct({
  ...PlannedCall.fields,
  kind: Schema.Literals(["tool", "submit", "input"]),
  purpose: Purpose,
  approval: Schema.Literals(["none", "ask", "required", "approved", "rejected"]),
  turn: Schema.Natural,
  tool: Schema.String,
  args: Schema.Json,
  edited: Schema.optionalKey(Schema.Literal(true)),
  rejection: Schema.optionalKey(Schema.String),
  problem: Schema.optionalKey(Schema.String),
  status: Schema.Literals(["waiting", "running", "suspended", "unknown"]),
  attempts: Schema.Natural,
  suspension: Schema.optionalKey(Suspension),
  evidence: Schema.optionalKey(Schema.Array(Evidence)),
  reconciled: Schema.optionalKey(Schema.Literal(true)),
  holdUsd: Schema.optionalKey(Schema.Finite),
  holdTokens: Schema.optionalKey(Schema.Natural),
  childCostUsd: Schema.optionalKey(Schema.Finite),
  childTokens: Schema.optionalKey(Schema.Natural)
})
export type PendingCall = typeof PendingCall.Type

/**
 * A call that was executed: what it brought, by digest, what its tool says that it has seen, and the cost (USD) of the
 * child run that it was, if it was one.
 */
export const Finding = Schema.Struct({
  callId: Schema.String,
  tool: Schema.String,
  args: Schema.Json,
  effect: CallEffect,
  ok: Schema.Boolean,
  digest: Schema.optionalKey(Schema.String),
  evidence: Schema.Array(Evidence),
  childCostUsd: Schema.optionalKey(Schema.Finite)
})
export type Finding = typeof Finding.Type

/** A call that the model asked for and did not get, because what the run may use was used up. */
export const Refused = Schema.Struct({
  callId: Schema.String,
  tool: Schema.String,
  args: Schema.Json
})
export type Refused = typeof Refused.Type

/** Work that a tool has started and that goes on. `handling` is what was done about it when the run last stopped. */
export const Operation = Schema.Struct({
  operationId: Schema.String,
  callId: Schema.String,
  tool: Schema.String,
  argsDigest: Schema.String,
  observe: Schema.String,
  label: Schema.String,
  handling: Schema.optionalKey(Handling),
  ended: Schema.optionalKey(
    Schema.Struct({ outcome: Schema.Literals(["succeeded", "failed", "cancelled"]), detail: Schema.String })
  )
})
export type Operation = typeof Operation.Type

const Fields = Schema.Struct({
  runId: Schema.String,
  seq: Schema.Natural,
  agent: Schema.String,
  parent: Schema.optionalKey(Parent),
  contract: Schema.optionalKey(Contract),
  status: RunStatus,
  reason: Schema.optionalKey(Reason),
  detail: Schema.optionalKey(Schema.String),
  exhausted: Schema.optionalKey(Exhausted),
  startedAt: Schema.String,
  updatedAt: Schema.String,
  messages: Schema.Array(Message),
  given: Schema.Natural,
  turns: Schema.Natural,
  toolCalls: Schema.Natural,
  usage: Money.Usage,
  childTokens: Schema.Natural,
  costUsd: Schema.Finite,
  elapsedMs: Schema.Finite,
  limits: Limits,
  phase: Purpose,
  handoffTold: Schema.optionalKey(Schema.Literal(true)),
  claim: Schema.optionalKey(
    Schema.Struct({ turn: Schema.Natural, attempt: Schema.Natural, estimate: Estimate })
  ),
  lastUsage: Money.Usage,
  pending: Schema.Array(PendingCall),
  held: Schema.Array(Message),
  answered: Schema.Boolean,
  result: Schema.optionalKey(Schema.Json),
  summary: Schema.optionalKey(Schema.String),
  refusedInTurn: Schema.optionalKey(Schema.Natural),
  refused: Schema.Array(Refused),
  findings: Schema.Array(Finding),
  operations: Schema.Array(Operation),
  repetition: Repetition.Repetition,
  inbox: Schema.Natural
})

/**
 * The state of a run; plain JSON. Its fields in words:
 *
 * - `status`, `reason`, `detail`: where it stands, and why it stopped
 * - `messages`: the transcript, of which the run began with the first `given`
 * - `turns`, `toolCalls`, `usage`, `costUsd` (USD), `elapsedMs`: what it has used
 * - `pending`: the calls without a result, with what was decided about each; `held`: what was said meanwhile
 * - `phase`: `handoff` once only the reserve is left, and `summary` what the model said then
 * - `result`: the answer as JSON, once there is one; `contract`: what it has to be submitted as, if it has to
 * - `refused`: the calls that were asked for in vain since the run was last taken up
 * - `findings`: what the calls that ran have brought, by digest; `operations`: work that they started and that may go on
 * - `childTokens`: the tokens of sub-agents, which are not in `usage`; their cost is in `costUsd`
 * - `claim`: the model call that is on its way; `inbox`: the last command from outside that was taken in
 */
export interface RunState extends Schema.Schema.Type<typeof Fields> {}

const looksLikeState = (u: unknown): u is RunState =>
  typeof u === "object" && u !== null && "runId" in u && "messages" in u && "pending" in u

/**
 * The schema of a state. An exit carries a whole state and must cost nothing to build, so a state in memory is taken at
 * its word; its JSON is validated field by field.
 */
export const RunState: Schema.declare<RunState> = Schema.declare(looksLikeState, {
  identifier: "RunState",
  toCodecJson: () => Schema.link<RunState>()(Fields, SchemaTransformation.passthrough())
})

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

/** What a run has used, for the rules of `Limits`. `elapsedMs` is the time driven up to now. */
export const used = (state: RunState, elapsedMs: number = state.elapsedMs): Used => ({
  turns: state.turns,
  usd: state.costUsd,
  tokens: state.usage.promptTokens + state.usage.completionTokens + state.childTokens,
  toolCalls: state.toolCalls,
  timeMs: elapsedMs
})

/** The turns and the cost (USD) of a run that stops now: a model call on its way counts at its estimate. */
export const totals = ({
  claim,
  costUsd,
  turns
}: RunState): { readonly turns: number; readonly costUsd: number } =>
  claim === undefined
    ? { turns, costUsd }
    : { turns: turns + 1, costUsd: Money.add(costUsd, claim.estimate.costUsd) }

/** The operations that go on, as far as the run knows. */
export const live = (state: RunState): ReadonlyArray<Operation> =>
  state.operations.filter(({ ended }) => ended === undefined)

/** The calls that wait for a person's decision. */
export const undecided = (state: RunState): ReadonlyArray<PendingCall> =>
  state.pending.filter((call) => call.approval === "required" && call.status === "waiting")

/** The calls that were started and of which nobody can tell whether they happened. */
export const unknownOutcomes = (state: RunState): ReadonlyArray<PendingCall> =>
  state.pending.filter((call) => call.status === "unknown")

/** Whether starting a call takes up what it has started before: a child run, which is no new call. */
export const continues = (call: PendingCall): boolean => call.agent === true && call.attempts > 0

/** A copy that later events do not touch. */
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
 */
export const fold = (events: Iterable<RunEvent>, from?: RunState): Draft | undefined => {
  let draft = from === undefined ? undefined : snapshot(from)
  for (const event of events) {
    draft ??= empty(event.runId)
    apply(draft, event)
  }
  return draft
}

/** The state of a run whose first event this is. */
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
  { callId, childCostUsd, childTokens = 0 }: Of<"tool_result"> | Of<"child_suspended">
): void => {
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

/** Steps a draft by one event, in place. */
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
      return
    }
    case "run_resumed": {
      settleLostClaim(draft)
      if (draft.status !== "running") draft.refused = []
      // Another driver goes on as if it had been there all the time. What a model was told of repetition and of a reserve
      // counts no more where the run had stopped for just that, or a person has said something.
      const spoken = event.messages.length > 0
      if (spoken || draft.reason === "stalled") draft.repetition = Repetition.none()
      if (spoken || draft.reason === "max_turns" || draft.reason === "max_budget") delete draft.handoffTold
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
      delete draft.handoffTold
      return
    }
    case "turn_started": {
      const { attempt, estimate, turn } = event
      draft.claim = { turn, attempt, estimate }
      if (event.purpose === "handoff") draft.handoffTold = true
      if (event.note !== undefined) draft.messages.push({ role: "user", content: event.note })
      return
    }
    case "turn": {
      delete draft.claim
      draft.turns++
      charge(draft, event.usage, event.costUsd)
      draft.lastUsage = event.usage
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
      if (event.answers && draft.phase === "handoff") draft.summary = textOf(event.message)
      else if (event.answers) draft.result = textOf(event.message)
      return
    }
    case "turn_failed": {
      delete draft.claim
      charge(draft, event.usage ?? Money.noUsage, event.costUsd)
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
          ...(event.evidence === undefined ? undefined : { evidence: event.evidence })
        }))
        return
      }
      draft.repetition = Repetition.observe(draft.repetition, call, event)
      if (call.kind === "submit" && event.ok) draft.result = call.args
      if (event.short === "tool_calls") draft.refusedInTurn = call.turn
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
