/**
 * Until when an approval counts.
 */
import type { Command } from "./Command.ts"
import { continues } from "./PendingCalls.ts"
import type { PendingCall } from "./RunState.ts"

/**
 * Whether what counts until a date counts no longer at another (both ISO 8601): from that very moment on. Of what is no
 * date nobody can say that it is still to come.
 */
export const isOver = (until: string | undefined, at: string): boolean =>
  until !== undefined && !(Date.parse(at) < Date.parse(until))

/** Whether what somebody has said to a run counts no longer at this moment (ISO 8601). */
export const isVoid = (command: Command, at: string): boolean =>
  command.type === "decide" && command.decision === "approved" && isOver(command.expires, at)

/**
 * Whether a call may not be started at this moment (ISO 8601) although it was approved, because its approval has expired.
 * A child run that was started in time goes on.
 */
export const hasExpired = (call: PendingCall, at: string): boolean =>
  call.approval === "approved" &&
  call.status === "waiting" &&
  !continues(call) &&
  isOver(call.expires?.at, at)

/** Whose approval of a call has expired, and when, in words for whoever is asked again. */
export const words = (
  { attempts }: Pick<PendingCall, "attempts">,
  { at, by }: NonNullable<PendingCall["expires"]>
): string => {
  const expired = `the approval${by === undefined ? "" : ` by ${by}`} expired at ${at}`
  return attempts === 0 ? expired : `${expired}, and the call was started before that and cut off`
}
