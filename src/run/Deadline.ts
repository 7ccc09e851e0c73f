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

// Less than this is the difference of two clocks' readings, and not time that was slept or a clock that was set.
const toleranceMs = 1_000

/**
 * The same as the run goes on: a machine that sleeps, or whose clock is set, has more or less time left than it had. Once
 * the deadline has passed, what goes on beyond it does not move it.
 */
export const follow = (limits: Limits, at: string, elapsedMs: number): Limits => {
  if (limits.deadline === undefined) return limits
  const anchored = anchor(limits, at, elapsedMs)
  if (anchored.timeMs === elapsedMs && (limits.timeMs ?? elapsedMs) <= elapsedMs) return limits
  return Math.abs((anchored.timeMs ?? 0) - (limits.timeMs ?? 0)) < toleranceMs ? limits : anchored
}
