/**
 * Where a run stands, and what can be read off that. It is nothing but the fold of the run's events: see `Fold`.
 */
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { Fruitless } from "./Answer.ts"
import { CallEffect, PlannedCall, Suspension } from "./Call.ts"
import { Exhausted, Limits, Purpose, type Used } from "./Limits.ts"
import { Message } from "./Message.ts"
import * as Money from "./Money.ts"
import * as Repetition from "./Repetition.ts"
import { Contract, Estimate, Evidence, Handling, OperationOutcome, Parent } from "./RunEvent.ts"
import { Reason, RunStatus } from "./RunStatus.ts"

/**
 * A call that has no result yet.
 *
 * `status`: `waiting` to start, `running` (started by the driver that wrote it), `suspended` with a child run, or
 * `unknown` when it was started and nobody can tell whether it happened. `approval` is what was decided about it, and
 * `args` are the arguments as they will be executed, edits by an approver included. With `expires`, the approval counts
 * until then (ISO 8601), and says whose it was.
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
  expires: Schema.optionalKey(Schema.Struct({ at: Schema.String, by: Schema.optionalKey(Schema.String) })),
  rejection: Schema.optionalKey(Schema.String),
  problem: Schema.optionalKey(Schema.String),
  status: Schema.Literals(["waiting", "running", "suspended", "unknown"]),
  attempts: Schema.Natural,
  lost: Schema.optionalKey(Schema.Natural),
  suspension: Schema.optionalKey(Suspension),
  evidence: Schema.optionalKey(Schema.Array(Evidence)),
  reconciled: Schema.optionalKey(Schema.Literal(true)),
  holdUsd: Schema.optionalKey(Schema.Finite),
  holdTokens: Schema.optionalKey(Schema.Natural),
  childCostUsd: Schema.optionalKey(Schema.Finite),
  childTokens: Schema.optionalKey(Schema.Natural),
  childUnpriced: Schema.optionalKey(Schema.Literal(true))
})
/** A call without a result, and how far it has come; `lost` is how often its driver was gone before it came back. */
export type PendingCall = typeof PendingCall.Type

/**
 * A call that was executed: what it brought, by digest, what its tool says that it has seen, and the cost (USD) of the
 * child run that it was, if it was one; `childUnpriced` if some of that has no known price.
 */
export const Finding = Schema.Struct({
  callId: Schema.String,
  tool: Schema.String,
  args: Schema.Json,
  effect: CallEffect,
  ok: Schema.Boolean,
  digest: Schema.optionalKey(Schema.String),
  evidence: Schema.Array(Evidence),
  childCostUsd: Schema.optionalKey(Schema.Finite),
  childUnpriced: Schema.optionalKey(Schema.Literal(true))
})
/** A call that ran, and what it brought. */
export type Finding = typeof Finding.Type

/** A call that the model asked for and did not get, because what the run may use was used up. */
export const RefusedCall = Schema.Struct({
  callId: Schema.String,
  tool: Schema.String,
  args: Schema.Json
})
/** A call for which nothing was left. */
export type RefusedCall = typeof RefusedCall.Type

/** Work that a tool has started and that goes on. `handling` is what was done about it when the run last stopped. */
export const Operation = Schema.Struct({
  operationId: Schema.String,
  callId: Schema.String,
  tool: Schema.String,
  argsDigest: Schema.String,
  observe: Schema.String,
  label: Schema.String,
  handling: Schema.optionalKey(Handling),
  ended: Schema.optionalKey(Schema.Struct({ outcome: OperationOutcome, detail: Schema.String }))
})
/** Work that a tool has started, and what is known of it. */
export type Operation = typeof Operation.Type

const Fields = Schema.Struct({
  runId: Schema.String,
  seq: Schema.Natural,
  agent: Schema.String,
  parent: Schema.optionalKey(Parent),
  tags: Schema.optionalKey(Schema.Array(Schema.String)),
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
  unpriced: Schema.optionalKey(Schema.Literal(true)),
  elapsedMs: Schema.Finite,
  limits: Limits,
  phase: Purpose,
  handoffTold: Schema.optionalKey(Schema.Literal(true)),
  claim: Schema.optionalKey(Schema.Struct({ seq: Schema.Natural, turn: Schema.Natural, estimate: Estimate })),
  lastUsage: Money.Usage,
  lastCostUsd: Schema.optionalKey(Schema.Finite),
  pending: Schema.Array(PendingCall),
  held: Schema.Array(Message),
  answered: Schema.Boolean,
  unfinished: Schema.optionalKey(Schema.String),
  fruitless: Schema.optionalKey(Fruitless),
  result: Schema.optionalKey(Schema.Json),
  summary: Schema.optionalKey(Schema.String),
  refusedInTurn: Schema.optionalKey(Schema.Natural),
  strayedInTurn: Schema.optionalKey(Schema.Natural),
  refused: Schema.Array(RefusedCall),
  findings: Schema.Array(Finding),
  operations: Schema.Array(Operation),
  repetition: Repetition.Repetition,
  inbox: Schema.Natural,
  revoked: Schema.optionalKey(Schema.Natural)
})

/**
 * The state of a run; plain JSON. Its fields in words:
 *
 * - `status`, `reason`, `detail`: where it stands, and why it stopped
 * - `messages`: the transcript, of which the run began with the first `given`
 * - `turns`, `toolCalls`, `usage`, `costUsd` (USD), `elapsedMs`: what it has used
 * - `unpriced`: some turn's model, or a sub-agent's, has no known price, so that it counts as free in `costUsd`
 * - `pending`: the calls without a result, with what was decided about each; `held`: what was said meanwhile
 * - `phase`: `handoff` once only the reserve is left, and `summary` what the model said then
 * - `unfinished`: what the model has written of an answer that was cut off; `fruitless`: its last replies, if they have
 *   brought nothing
 * - `result`: the answer as JSON, once there is one; `contract`: what it has to be submitted as, if it has to
 * - `refused`: the calls that were asked for in vain since the run was last taken up
 * - `findings`: what the calls that ran have brought, by digest; `operations`: work that they started and that may go on
 * - `childTokens`: the tokens of sub-agents, which are not in `usage`; their cost is in `costUsd`
 * - `claim`: the model call that is on its way, claimed by event `seq`
 * - `inbox`: the last command from outside that was taken in; `revoked`: the last one that counts no more if it is a Stop,
 *   because somebody has had the run go on since
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

/**
 * What a run has used, for the rules of `Limits`. `elapsedMs` is the time driven up to now.
 *
 * @example
 * ```ts
 * import { RunState } from "checkrein"
 *
 * declare const run: RunState.RunState
 *
 * const { tokens, usd } = RunState.used(run)
 * ```
 */
export const used = (state: RunState, elapsedMs: number = state.elapsedMs): Used => ({
  turns: state.turns,
  usd: state.costUsd,
  tokens: Money.tokensOf(state.usage) + state.childTokens,
  toolCalls: state.toolCalls,
  timeMs: elapsedMs
})

/**
 * The turns, the cost (USD) and the tokens of a run that stops now, its sub-agents' included: a model call on its way
 * counts at its estimate.
 *
 * @example
 * ```ts
 * import { RunState } from "checkrein"
 *
 * declare const run: RunState.RunState
 *
 * const { costUsd, tokens, turns } = RunState.totals(run)
 * ```
 */
export const totals = (
  state: RunState
): { readonly turns: number; readonly costUsd: number; readonly tokens: number } => {
  const { claim, costUsd, turns } = state
  const { tokens } = used(state)
  if (claim === undefined) return { turns, costUsd, tokens }
  const { estimate } = claim
  return {
    turns: turns + 1,
    costUsd: Money.add(costUsd, estimate.costUsd),
    tokens: tokens + Money.tokensOf(estimate.usage)
  }
}

/**
 * Whether a run has stopped at a limit: one of its own, or that of a budget that it shares.
 *
 * @example
 * ```ts
 * import { RunState } from "checkrein"
 *
 * RunState.isAtLimit({ reason: "max_turns" }) // => true
 * ```
 */
export const isAtLimit = ({ reason }: { readonly reason?: Reason }): boolean =>
  reason === "max_turns" || reason === "max_budget"

/**
 * The operations that go on, as far as the run knows.
 *
 * @example
 * ```ts
 * import { RunState } from "checkrein"
 *
 * declare const run: RunState.RunState
 *
 * const running = RunState.live(run).map(({ label }) => label)
 * ```
 */
export const live = (state: RunState): ReadonlyArray<Operation> =>
  state.operations.filter(({ ended }) => ended === undefined)

/**
 * The calls that wait for a person's decision.
 *
 * @example
 * ```ts
 * import { RunState } from "checkrein"
 *
 * declare const run: RunState.RunState
 *
 * const asked = RunState.undecided(run).map(({ tool }) => tool)
 * ```
 */
export const undecided = (state: RunState): ReadonlyArray<PendingCall> =>
  state.pending.filter((call) => call.approval === "required" && call.status === "waiting")

/**
 * The calls that were started and of which nobody can tell whether they happened.
 *
 * @example
 * ```ts
 * import { RunState } from "checkrein"
 *
 * declare const run: RunState.RunState
 *
 * const lost = RunState.unknownOutcomes(run).map(({ callId }) => callId)
 * ```
 */
export const unknownOutcomes = (state: RunState): ReadonlyArray<PendingCall> =>
  state.pending.filter((call) => call.status === "unknown")

/**
 * The id of the run that a call of a sub-agent starts.
 *
 * @example
 * ```ts
 * import { RunState } from "checkrein"
 *
 * RunState.childId("night-shift", "c3") // => "night-shift/c3"
 * ```
 */
export const childId = (runId: string, callId: string): string => `${runId}/${callId}`
