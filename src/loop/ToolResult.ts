/**
 * The event with which a call gets its result.
 */
import type { BodyOf } from "../run/RunEvent.ts"
import type { PendingCall } from "../run/RunState.ts"
import * as Words from "./Words.ts"

type Result = Omit<BodyOf<"tool_result">, "type" | "callId" | "tool">

/** What a result says: that it failed and took no time, unless it says otherwise. */
export type Fields = Pick<Result, "content" | "disposition"> & Partial<Result>

/** What the model reads of a call: whatever came of it, that an approver has changed its arguments goes before. */
const told = ({ args, edited }: PendingCall, content: string, ran: boolean): string =>
  edited === true ? `${Words.edited(JSON.stringify(args), ran)}\n${content}` : content

/** The result of a call. */
export const resultOf = (call: PendingCall, fields: Fields): BodyOf<"tool_result"> => {
  const { callId, tool } = call
  const { content, disposition, wrongArguments } = fields
  const ran = disposition === "executed" && wrongArguments !== true
  // A call that is cut off has no result yet.
  const settles = disposition !== "cancelled" && disposition !== "unknown"
  return {
    type: "tool_result",
    callId,
    tool,
    ok: false,
    ms: 0,
    ...fields,
    content: settles ? told(call, content, ran) : content
  }
}

type Resolution = Omit<BodyOf<"outcome_resolved">, "type" | "callId" | "tool">

/** What became of a call of unknown outcome: its result, unless that is still unknown. */
export const resolutionOf = (call: PendingCall, resolution: Resolution): BodyOf<"outcome_resolved"> => {
  const { callId, tool } = call
  const { content, outcome } = resolution
  return {
    type: "outcome_resolved",
    callId,
    tool,
    ...resolution,
    content: outcome === "still_unknown" ? content : told(call, content, outcome === "happened")
  }
}
