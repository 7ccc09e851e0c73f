/**
 * What a journal shows of a run that did not stop where it had to: calls over a limit, actions after the end, and tools
 * that ran without permission. It is counted with the ledger of an audit, and not with the counters of the run.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Digest from "../../loop/Digest.ts"
import * as Limits from "../../run/Limits.ts"
import { toInput } from "../../run/LimitsInput.ts"
import type { Of, RunEvent } from "../../run/RunEvent.ts"
import * as Ledger from "../audit/Ledger.ts"
import * as Room from "../audit/Room.ts"

/** What should be 0 in any run that is governed. */
export const Fault = Schema.Literals([
  "callsOverLimit",
  "actionsAfterEnd",
  "permissionsOverstepped",
  "wrongClaims"
])
export type Fault = typeof Fault.Type

/** One thing that should not have happened: the event that shows it, if one does, and what is wrong, in a sentence. */
export const Problem = Schema.Struct({
  fault: Fault,
  runId: Schema.String,
  seq: Schema.optionalKey(Schema.Natural),
  problem: Schema.String
})
export type Problem = typeof Problem.Type

/** What a run is allowed, whatever its own journal says of it. */
export interface Rules {
  /** The tools that may run. */
  readonly permitted: ReadonlyArray<string>
  /** Those of them that may run only after a person has approved the call; others may ask for approval themselves. */
  readonly needsApproval?: ReadonlyArray<string> | undefined
  /** Limits that replace those of the journal. */
  readonly limits?: Limits.LimitsInput | undefined
}

/** An event that begins something may be dated so much later than it was decided on. */
const graceMs = 100

const room = Room.check(graceMs)

const ruled = (event: RunEvent, { limits }: Rules): RunEvent => {
  if (event.type !== "run_started" || limits === undefined) return event
  const replaced = Limits.fromInput(Limits.override(toInput(event.limits), limits))
  return Result.isSuccess(replaced) ? { ...event, limits: replaced.success } : event
}

const overLimit = (before: Ledger.Ledger, event: RunEvent): string | undefined => {
  if (event.type !== "turn_started" && event.type !== "tool_start") return undefined
  const [first] = room(before, event)
  return first?.problem
}

const afterEnd = ({ stopped }: Ledger.Ledger, { type }: RunEvent): string | undefined => {
  if (stopped === undefined || (type === "run_resumed" && stopped.status !== "completed")) return undefined
  return `${type} comes after the run has stopped as ${stopped.status}`
}

/** Whether somebody had to approve a call, and nobody has, or has approved other arguments. */
const unapproved = (call: Ledger.Call | undefined, event: Of<"tool_start">, must: boolean): boolean => {
  if (call === undefined) return must
  const decision = call.decision?.decision
  const asks = call.asked || (call.planned.approval ?? "none") !== "none"
  if (!must && (!asks || (decision === "not_required" && !call.asked))) return false
  if (Ledger.hasExpired(call.decision, event.at) && !Ledger.continues(call)) return true
  return decision !== "approved" || Digest.ofArgs(event.args) !== Ledger.executable(call).argsDigest
}

const overstepped = (
  before: Ledger.Ledger,
  event: RunEvent,
  { needsApproval = [], permitted }: Rules
): string | undefined => {
  if (event.type !== "tool_start") return undefined
  const { callId, tool } = event
  if (!permitted.includes(tool)) return `call ${callId} runs ${tool}, which is not permitted`
  return unapproved(before.calls.get(callId), event, needsApproval.includes(tool))
    ? `call ${callId} runs ${tool} with arguments that nobody has approved`
    : undefined
}

/** Everything in a journal that should not have happened, in order, and how the run has ended at last. */
export const watch = (
  events: ReadonlyArray<RunEvent>,
  rules: Rules
): { readonly problems: ReadonlyArray<Problem>; readonly stopped: Of<"run_stopped"> | undefined } => {
  const problems: Array<Problem> = []
  const ledger = Ledger.empty(events[0]?.runId ?? "")
  for (const event of events) {
    const { runId, seq } = event
    const found = [
      ["callsOverLimit", overLimit(ledger, event)],
      ["actionsAfterEnd", afterEnd(ledger, event)],
      ["permissionsOverstepped", overstepped(ledger, event, rules)]
    ] as const
    for (const [fault, problem] of found) {
      if (problem !== undefined) problems.push({ fault, runId, seq, problem })
    }
    Ledger.record(ledger, ruled(event, rules))
  }
  return { problems, stopped: ledger.stopped }
}
