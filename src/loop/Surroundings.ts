/**
 * Who else has to do with a run that is driven: who watches it, and the run above it.
 */
import type * as Deferred from "effect/Deferred"
import type { Parent } from "../run/RunEvent.ts"
import type { RunState } from "../run/RunState.ts"
import type { Allowance } from "./ChildRun.ts"
import type { Watcher } from "./Journal.ts"

/** Who else has to do with a run. */
export interface Surroundings {
  /** Whether a model call that begins now is to be heard word by word. */
  readonly isStreamed: () => boolean
  readonly watcher?: Watcher | undefined
  readonly parent?: Parent | undefined
  /** What the parent lets the run use. */
  readonly allowance?: Allowance | undefined
  /** Whether a stored run is still to be taken up as it stands now that nobody else can: somebody may have stopped it. */
  readonly isWanted?: ((run: RunState) => boolean) | undefined
  /** Done when the run and those below it have to leave off; see `Drain`. One below another is told with that. */
  readonly drain?: Deferred.Deferred<void> | undefined
  /** The last Stop that the run has been sent, if that is known; see `Cancel.lastSent`. */
  readonly sent?: number | undefined
}

/** Nobody else. */
export const alone: Surroundings = { isStreamed: () => false }
