/**
 * What is asked for of a run that a host drives, and whether that still counts when its turn comes: others may have driven the
 * run on since, or stopped it.
 */
import type { RunSummary } from "../store/RunStore.ts"
import * as Cancel from "./Cancel.ts"
import type { ResumeOptions } from "./RunOptions.ts"

/** What is asked for of a run. */
export interface Drive {
  readonly options: ResumeOptions
  /** How many events the run had when it was asked for to drive it although it has stopped, if that was asked for. */
  readonly again: number | undefined
  /** The last Stop that it had been sent then. */
  readonly sent: number
  /** How it stood when all was said that it waited for, if that is why: where it has stopped since, it is left so. */
  readonly answered?: Pick<RunSummary, "seq" | "updatedAt">
  /** Whether this has waited already for somebody else who had the run. */
  readonly hasWaited?: true
}

/** Drives a run only as far as nobody has stopped it: whatever Stop it was sent counts. */
export const onlyUnstopped: Drive = { options: {}, again: undefined, sent: 0 }

/** Has a run driven on that nobody asks for: one that has not stopped, or that has been answered as it stands. */
export const recovering = (run: RunSummary): Drive =>
  run.status === "running" ? onlyUnstopped : { ...onlyUnstopped, answered: run }

/** Whether a run that stands like this is to be driven: whoever was the last to stop it or to have it go on counts. */
export const isWanted = (
  { again, answered }: Drive,
  run: Pick<RunSummary, "reason" | "seq" | "status" | "updatedAt">
): boolean =>
  run.status === "running" ||
  // Another run of its id may have come to the same number.
  (run.seq === answered?.seq && run.updatedAt === answered.updatedAt) ||
  (again !== undefined && !Cancel.stoppedSince(run, again))
