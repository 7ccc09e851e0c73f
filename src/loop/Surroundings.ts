/**
 * What is around a run that is driven: who else has to do with it, and what it sees of a run that it is driven in.
 */
import * as Context from "effect/Context"
import type * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { Parent } from "../run/RunEvent.ts"
import type { RunState } from "../run/RunState.ts"
import { CurrentCall } from "../tool/CurrentCall.ts"
import { type Allowance, ChildLink } from "./ChildRun.ts"
import { Drain } from "./Drain.ts"
import type { Watcher } from "./Journal.ts"
import { Spent } from "./RunEnd.ts"

/** Who else has to do with a run: who watches it, and the run above it. */
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

const withoutRun = Context.omit(CurrentCall, ChildLink, Drain, Spent)

/**
 * Drives a run with what is meant for it: one below another has that of the run above it, and any other has none of that.
 * So a plain `Agent.run` in a tool's handler, or in whatever else an author's code is asked for, is a run of its own. What
 * is there for everybody stays: the model, a shared budget, the trace, the request parameters.
 */
export const apart =
  ({ drain, parent }: Surroundings) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    parent === undefined
      ? Effect.updateContext(effect, (around: Context.Context<R>) =>
          drain === undefined ? withoutRun(around) : Context.add(withoutRun(around), Drain, drain)
        )
      : effect
