/**
 * The time that a run has left at this moment. With a deadline that is up to the calendar, which may have been set, or have
 * gone on while the machine slept, since the last event was written down.
 */
import * as Deadline from "../run/Deadline.ts"
import * as Limits from "../run/Limits.ts"
import type { RunState } from "../run/RunState.ts"
import type { Journal } from "./Journal.ts"

/** The limits of a run as an event would find them that came now. */
export const limits = (journal: Journal): Limits.Limits => {
  const { limits } = journal.state()
  return limits.deadline === undefined ? limits : Deadline.follow(limits, journal.date(), journal.elapsedMs())
}

/** The state of a run, with these limits. */
export const state = (journal: Journal): RunState => {
  const before = journal.state()
  const now = limits(journal)
  return now === before.limits ? before : { ...before, limits: now }
}

/** How long work of this purpose may still take, in milliseconds; `Infinity` without a limit. */
export const ms = (journal: Journal, purpose: Limits.Purpose): number => {
  const now = limits(journal)
  // Most runs have no limit, and need no clock for that.
  return now.timeMs === undefined
    ? Number.POSITIVE_INFINITY
    : Limits.timeLeftMs(now, journal.elapsedMs(), purpose)
}
