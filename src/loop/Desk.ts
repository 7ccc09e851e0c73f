/**
 * What one driver keeps beside the state for its tool calls. It is gone with the driver.
 */
import type { AnyPart } from "effect/ai/Response"
import { callsOf } from "../run/Message.ts"
import { live, type PendingCall, type RunState } from "../run/RunState.ts"
import type { ChildUse } from "./ChildRun.ts"
import * as Digest from "./Digest.ts"
import * as EvidenceNotes from "./EvidenceNotes.ts"
import type { Job } from "./Job.ts"
import * as Plan from "./Plan.ts"
import type { Outcome } from "./ToolOutcome.ts"

/** What is on the desk of a call that was started. */
export interface OnDesk {
  readonly call: PendingCall
  /** When its last attempt began. */
  startedMs: number
  /** What its last attempt has reported to have seen. */
  evidence: EvidenceNotes.EvidenceNotes
  /** What the child run that it is has used in all. */
  child: ChildUse | undefined
  /** What its last attempt has brought that is not written down yet: a Stop may come in between. */
  brought: Outcome | undefined
  /** Whether it did not end when it was interrupted, so that it may still be running. */
  left: boolean
  /** Whether it was cut off because its time was up. */
  late: boolean
}

/** A driver's desk. What is on it of a call stays until the call is settled. */
export interface Desk {
  /** Results that may be reused, by tool and digest of the arguments. */
  readonly reusable: Map<string, string>
  /** Whether a settled writer may still be running. Nobody hears of its end. */
  writerLeft: boolean
  /** The calls that were started, by id. */
  readonly calls: Map<string, OnDesk>
}

type Reusable = Pick<PendingCall, "tool" | "argsDigest">

const keyOf = ({ argsDigest, tool }: Reusable): string => `${tool} ${argsDigest}`

/**
 * The desk of a driver that begins here. It is empty, except that `dedupe: "all"` never forgets: then it has what the
 * drivers before it have left in the transcript. What the run was given to begin with is another run's.
 */
export const make = (job: Job, { given, messages }: Pick<RunState, "given" | "messages">): Desk => {
  const reusable = new Map<string, string>()
  if (job.policy.dedupe === "all") {
    const keys = new Map<string, string>()
    for (const message of messages.slice(given)) {
      if (message.role === "assistant") {
        for (const { id, name, params } of callsOf(message)) {
          keys.set(id, keyOf({ tool: name, argsDigest: Digest.ofArgs(params) }))
        }
      } else if (message.role === "tool" && message.ok) {
        const key = keys.get(message.callId)
        if (key !== undefined) reusable.set(key, message.content)
      }
    }
  }
  return { reusable, writerLeft: false, calls: new Map() }
}

/** Whether a call leaves the world as it was. A child run may have changed it, whatever its tool is annotated with. */
const onlyReads = (call: PendingCall): boolean => call.effect === "read" && call.agent !== true

const isLeftWriter = ({ call, left }: OnDesk): boolean => left && !onlyReads(call)

/** What is on the desk of a call; it is put there if it was not. */
export const of = (desk: Desk, call: PendingCall, nowMs: number): OnDesk => {
  const known = desk.calls.get(call.callId)
  if (known !== undefined) return known
  const evidence = EvidenceNotes.make()
  const put = {
    call,
    startedMs: nowMs,
    evidence,
    child: undefined,
    brought: undefined,
    left: false,
    late: false
  }
  desk.calls.set(call.callId, put)
  return put
}

/** Takes a call off the desk that has its result. */
export const settled = (desk: Desk, { callId }: PendingCall): void => {
  const done = desk.calls.get(callId)
  if (done !== undefined && isLeftWriter(done)) desk.writerLeft = true
  desk.calls.delete(callId)
}

/** The result that a call may reuse instead of being executed. What is said of an operation holds only when it is said. */
export const known = (job: Job, desk: Desk, call: PendingCall): string | undefined => {
  const tool = Plan.toolOf(job, call.tool)
  if (job.policy.dedupe === "off" || tool === undefined) return undefined
  if (Plan.startsOperations(tool) || Plan.observesOperations(tool)) return undefined
  return desk.reusable.get(keyOf(call))
}

/** Puts a call on the desk that starts: after a writer no earlier read may be reused. */
export const starts = (job: Job, desk: Desk, call: PendingCall, nowMs: number): OnDesk => {
  if (job.policy.dedupe === "read-only" && !onlyReads(call)) desk.reusable.clear()
  return of(desk, call, nowMs)
}

const ranByProvider = (part: AnyPart): boolean =>
  part.type === "tool-result" || (part.type === "tool-call" && part.providerExecuted)

/** Hears what a model has said, in pieces or whole: what its provider has run itself may have changed anything. */
export const hears = (job: Job, desk: Desk, parts: ReadonlyArray<AnyPart>): void => {
  if (job.policy.dedupe === "read-only" && parts.some(ranByProvider)) desk.reusable.clear()
}

/**
 * Keeps a successful result, where the policy lets it be reused. While a writer has not ended, be it an operation or a
 * call that ignored its interruption, no read is kept.
 */
export const keep = (job: Job, desk: Desk, state: RunState, call: PendingCall, content: string): void => {
  const { dedupe } = job.policy
  const isQuiet = () =>
    live(state).length === 0 && !desk.writerLeft && !Array.from(desk.calls.values()).some(isLeftWriter)
  if (dedupe === "all" || (dedupe === "read-only" && onlyReads(call) && isQuiet())) {
    desk.reusable.set(keyOf(call), content)
  }
}
