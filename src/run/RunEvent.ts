/**
 * The one vocabulary of a run: its journal, its trace and its stream are made of these events.
 *
 * `RunEvent` is what is stored; `LiveEvent` adds what only a watcher sees while it happens.
 */
import * as Schema from "effect/Schema"
import { Disposition, PlannedCall, Suspension } from "./Call.ts"
import { Exhausted, Limits, Purpose, Resource } from "./Limits.ts"
import { AssistantMessage, Message } from "./Message.ts"
import { Usage } from "./Money.ts"
import { Reason, Stopped } from "./RunStatus.ts"

/** What the events say of a call. */
export { CallEffect, Disposition, PlannedCall, Question, Suspension, WaitingCall } from "./Call.ts"
/** What they say of the run. */
export { Reason, RunStatus } from "./RunStatus.ts"

/** The newest schema version that this build writes. An older one is read, a newer one is refused by name. */
export const version = 3

/** The run and the call from which a child run was started. */
export const Parent = Schema.Struct({
  runId: Schema.String,
  callId: Schema.String
})
/** Where a child run comes from: the run above it, and its call. */
export type Parent = typeof Parent.Type

/**
 * What a run has to come to if text does not complete it: the tool with which the result is submitted, and what that
 * takes, as a JSON Schema. A long one is left out.
 */
export const Contract = Schema.Struct({
  tool: Schema.String,
  schema: Schema.optionalKey(Schema.Json)
})
/** The tool that takes the result of a run, and what that has to be. */
export type Contract = typeof Contract.Type

/**
 * What a tool has seen, for whoever takes the work over: a `source` (the root or revision that was looked at), a `file`
 * that was read, a `command` that came to its end, or an `observation`. `digest` tells one content from another;
 * `outcome` says how a command ended, and of a file which part was read, if not all of it.
 */
export const Evidence = Schema.Struct({
  kind: Schema.Literals(["source", "file", "command", "observation"]),
  name: Schema.String,
  digest: Schema.optionalKey(Schema.String),
  outcome: Schema.optionalKey(Schema.String)
})
/** One thing that a tool has seen. */
export type Evidence = typeof Evidence.Type

/**
 * What was done at the end of a run about an operation that still goes on: it was left alone (`detached`), it still ran
 * when its grace was over (`still_running`), or it could not be cancelled (`cancel_failed`).
 */
export const Handling = Schema.Literals(["detached", "still_running", "cancel_failed"])
/** What a run that stopped has done about work that goes on. */
export type Handling = typeof Handling.Type

/** How an operation has come to its end. */
export const OperationOutcome = Schema.Literals(["succeeded", "failed", "cancelled"])
/** How work that a tool had started ended. */
export type OperationOutcome = typeof OperationOutcome.Type

/** What a model call is expected to use: what it counts as if it never comes back. Money in USD. */
export const Estimate = Schema.Struct({ usage: Usage, costUsd: Schema.Finite })
/** What a model call counts as if it never comes back. Money in USD. */
export type Estimate = typeof Estimate.Type

const event = <const Type extends string, const Fields extends Schema.Struct.Fields>(
  type: Type,
  fields: Fields
) =>
  Schema.Struct({
    v: Schema.Int,
    runId: Schema.String,
    seq: Schema.Natural,
    at: Schema.String,
    elapsedMs: Schema.Finite,
    type: Schema.Literal(type),
    ...fields
  })

const RunStarted = event("run_started", {
  agent: Schema.String,
  messages: Schema.Array(Message),
  limits: Limits,
  contract: Schema.optionalKey(Contract),
  parent: Schema.optionalKey(Parent),
  after: Schema.optionalKey(Schema.String),
  pool: Schema.optionalKey(Schema.String),
  tags: Schema.optionalKey(Schema.Array(Schema.String))
})

const RunResumed = event("run_resumed", {
  inbox: Schema.Natural,
  queued: Schema.optionalKey(Schema.Literal(true)),
  revoked: Schema.optionalKey(Schema.Natural),
  messages: Schema.Array(Message)
})

const LimitsChanged = event("limits_changed", { limits: Limits })

const TurnStarted = event("turn_started", {
  turn: Schema.Natural,
  attempt: Schema.Natural,
  purpose: Purpose,
  estimate: Estimate,
  pool: Schema.optionalKey(Schema.String),
  key: Schema.optionalKey(Schema.String),
  note: Schema.optionalKey(Schema.String)
})

const Turn = event("turn", {
  turn: Schema.Natural,
  message: AssistantMessage,
  calls: Schema.Array(PlannedCall),
  usage: Usage,
  counted: Schema.optionalKey(Schema.Literal(true)),
  overHold: Schema.optionalKey(Schema.Literal(true)),
  costUsd: Schema.Finite,
  totalUsd: Schema.Finite,
  unpriced: Schema.optionalKey(Schema.Literal(true)),
  model: Schema.optionalKey(Schema.String),
  finish: Schema.String,
  ms: Schema.Finite,
  answers: Schema.Boolean,
  cutOff: Schema.optionalKey(Schema.Literal(true)),
  error: Schema.optionalKey(Schema.Struct({ reason: Schema.String, detail: Schema.String })),
  note: Schema.optionalKey(Schema.String)
})

const TurnFailed = event("turn_failed", {
  turn: Schema.Natural,
  attempt: Schema.Natural,
  reason: Schema.String,
  detail: Schema.String,
  retryInMs: Schema.optionalKey(Schema.Finite),
  usage: Schema.optionalKey(Usage),
  costUsd: Schema.Finite,
  unpriced: Schema.optionalKey(Schema.Literal(true))
})

const ToolStart = event("tool_start", {
  callId: Schema.String,
  tool: Schema.String,
  args: Schema.Json,
  attempt: Schema.Natural,
  idempotencyKey: Schema.String,
  purpose: Purpose,
  holdUsd: Schema.optionalKey(Schema.Finite),
  holdTokens: Schema.optionalKey(Schema.Natural)
})

const ToolResult = event("tool_result", {
  callId: Schema.String,
  tool: Schema.String,
  content: Schema.String,
  ok: Schema.Boolean,
  ms: Schema.Finite,
  disposition: Disposition,
  digest: Schema.optionalKey(Schema.String),
  wrongArguments: Schema.optionalKey(Schema.Literal(true)),
  mayRepeat: Schema.optionalKey(Schema.Literal(true)),
  short: Schema.optionalKey(Resource),
  pool: Schema.optionalKey(Schema.String),
  detail: Schema.optionalKey(Schema.String),
  evidence: Schema.optionalKey(Schema.Array(Evidence)),
  childCostUsd: Schema.optionalKey(Schema.Finite),
  childTokens: Schema.optionalKey(Schema.Natural),
  childUnpriced: Schema.optionalKey(Schema.Literal(true))
})

const ApprovalRequired = event("approval_required", {
  callId: Schema.String,
  tool: Schema.String,
  args: Schema.Json,
  argsDigest: Schema.String,
  problem: Schema.optionalKey(Schema.String),
  command: Schema.optionalKey(Schema.Natural)
})

const ApprovalResolved = event("approval_resolved", {
  callId: Schema.String,
  decision: Schema.Literals(["approved", "rejected", "not_required"]),
  argsDigest: Schema.String,
  args: Schema.optionalKey(Schema.Json),
  expires: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(Schema.String),
  by: Schema.optionalKey(Schema.String),
  command: Schema.optionalKey(Schema.Natural)
})

const InputRequired = event("input_required", {
  callId: Schema.String,
  question: Schema.String
})

const InputGiven = event("input_given", {
  callId: Schema.String,
  answer: Schema.String,
  by: Schema.optionalKey(Schema.String),
  command: Schema.optionalKey(Schema.Natural)
})

const ChildSuspended = event("child_suspended", {
  callId: Schema.String,
  suspension: Suspension,
  childCostUsd: Schema.Finite,
  childTokens: Schema.optionalKey(Schema.Natural),
  childUnpriced: Schema.optionalKey(Schema.Literal(true))
})

const OutcomeResolved = event("outcome_resolved", {
  callId: Schema.String,
  tool: Schema.String,
  outcome: Schema.Literals(["happened", "did_not_happen", "still_unknown"]),
  content: Schema.String,
  by: Schema.optionalKey(Schema.String),
  command: Schema.optionalKey(Schema.Natural)
})

const OperationStarted = event("operation_started", {
  operationId: Schema.String,
  callId: Schema.String,
  tool: Schema.String,
  argsDigest: Schema.String,
  observe: Schema.String,
  label: Schema.String
})

const OperationEnded = event("operation_ended", {
  operationId: Schema.String,
  outcome: OperationOutcome,
  detail: Schema.String,
  by: Schema.Literals(["observed", "grace", "cancel"])
})

const Handoff = event("handoff", { exhausted: Exhausted })

const RunStopped = event("run_stopped", {
  status: Stopped,
  reason: Reason,
  detail: Schema.String,
  exhausted: Schema.optionalKey(Exhausted),
  operations: Schema.optionalKey(
    Schema.Array(Schema.Struct({ operationId: Schema.String, handling: Handling }))
  ),
  turns: Schema.Natural,
  costUsd: Schema.Finite,
  tokens: Schema.optionalKey(Schema.Natural),
  unpriced: Schema.optionalKey(Schema.Literal(true))
})

/** A stored event. `at` is ISO 8601, `elapsedMs` the time that the run was driven so far, money in USD. */
export const RunEvent = Schema.Union([
  RunStarted,
  RunResumed,
  LimitsChanged,
  TurnStarted,
  Turn,
  TurnFailed,
  ToolStart,
  ToolResult,
  ApprovalRequired,
  ApprovalResolved,
  InputRequired,
  InputGiven,
  ChildSuspended,
  OutcomeResolved,
  OperationStarted,
  OperationEnded,
  Handoff,
  RunStopped
]).pipe(Schema.toTaggedUnion("type"))
/** A stored event, told from the others by its `type`. */
export type RunEvent = typeof RunEvent.Type

/** The stored event of one type. */
export type Of<Type extends RunEvent["type"]> = Extract<RunEvent, { readonly type: Type }>

type Envelope = "v" | "runId" | "seq" | "at" | "elapsedMs"
type Unsent<E> = E extends RunEvent ? Omit<E, Envelope> : never

/** An event before the driver numbers and dates it. */
export type Body = Unsent<RunEvent>

/** Such an event of one type. */
export type BodyOf<Type extends RunEvent["type"]> = Extract<Body, { readonly type: Type }>

/**
 * The version that an event is written with: the first that knows what it says. A build that would take an approval
 * which expires for one that does not, or obey a Stop that counts no more, refuses the run, and reads every other.
 */
export const versionOf = (body: Body): number => {
  if (body.type === "run_resumed" && body.revoked !== undefined) return 3
  return body.type === "approval_resolved" && body.expires !== undefined ? 2 : 1
}

/** What is not stored: progress of a running tool, and text as the model writes it, with the attempt it belongs to. */
export const Ephemeral = Schema.Union([
  Schema.Struct({
    type: Schema.Literal("tool_progress"),
    runId: Schema.String,
    callId: Schema.String,
    tool: Schema.String,
    label: Schema.String,
    done: Schema.optionalKey(Schema.Finite),
    total: Schema.optionalKey(Schema.Finite)
  }),
  Schema.Struct({
    type: Schema.Literal("text_delta"),
    runId: Schema.String,
    turn: Schema.Natural,
    attempt: Schema.Natural,
    delta: Schema.String
  })
])
/** An event that only a watcher sees: progress of a tool, or a piece of text. */
export type Ephemeral = typeof Ephemeral.Type

/** Everything that a watcher of a live run sees. */
export const LiveEvent = Schema.Union([RunEvent, Ephemeral])
/** An event as a watcher sees it, stored or not. */
export type LiveEvent = typeof LiveEvent.Type
