/**
 * A moment by which a run has to end, as the time that it may still be driven.
 */
import type { Limits } from "./Limits.ts"

/**
 * The limits of a run that is taken up at this moment (ISO 8601), after having been driven for so long (milliseconds): a
 * deadline becomes the time that is left until then.
 */
export const anchor = (limits: Limits, at: string, elapsedMs: number): Limits =>
  limits.deadline === undefined
    ? limits
    : { ...limits, timeMs: elapsedMs + Math.max(0, Date.parse(limits.deadline) - Date.parse(at)) }
