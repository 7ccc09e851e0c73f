/**
 * Which runs are driven that nobody asks for at that moment, and whether that still counts when a run's turn comes: others may
 * have driven it on since, or stopped it.
 */
import type { RunSummary } from "../store/RunStore.ts"

/** How far a run has come. */
type Standing = Pick<RunSummary, "seq" | "updatedAt">

/** Whether a run has come no further than it had. Another run of its id may have come to the same number. */
export const standsAs = (then: Standing, now: Standing): boolean =>
  now.seq === then.seq && now.updatedAt === then.updatedAt

/** What is wanted of a run: that one which has not stopped is driven. */
export interface Drive {
  /** How it stood when all was said that it waited for, if that is why: where it has stopped since, it is left so. */
  readonly answered?: Standing
  /** Whether this has waited already for somebody else who had the run. */
  readonly hasWaited?: true
}

/** Drives a run only as far as nobody has stopped it. */
export const onlyUnstopped: Drive = {}

/** Has a run driven on that nobody asks for: one that has not stopped, or that has been answered as it stands. */
export const recovering = (run: RunSummary): Drive =>
  run.status === "running" ? onlyUnstopped : { answered: run }

/** Whether a run that stands like this is to be driven. */
export const isWanted = ({ answered }: Drive, run: Standing & Pick<RunSummary, "status">): boolean =>
  run.status === "running" || (answered !== undefined && standsAs(answered, run))
