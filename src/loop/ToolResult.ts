/**
 * The event with which a call gets its result.
 */
import type { BodyOf } from "../run/RunEvent.ts"
import type { PendingCall } from "../run/RunState.ts"

type Result = Omit<BodyOf<"tool_result">, "type" | "callId" | "tool">

/** What a result says: that it failed and took no time, unless it says otherwise. */
export type Fields = Pick<Result, "content" | "disposition"> & Partial<Result>

/** The result of a call. */
export const resultOf = (
  { callId, tool }: Pick<PendingCall, "callId" | "tool">,
  fields: Fields
): BodyOf<"tool_result"> => ({
  type: "tool_result",
  callId,
  tool,
  ok: false,
  ms: 0,
  ...fields
})
