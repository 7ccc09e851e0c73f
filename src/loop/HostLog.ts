/**
 * What the log of a host says of its runs: which have failed, which it could not drive on, and what became of them all when
 * it has closed. Of what goes as it should it says nothing.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as RunSpans from "../observe/RunSpans.ts"
import type { Of } from "../run/RunEvent.ts"
import { isRunExit } from "../run/RunExit.ts"
import { RunStore } from "../store/RunStore.ts"

/** Says that a run has failed, and why. */
export const failed = ({ detail, reason, runId }: Of<"run_stopped">, agent: string): Effect.Effect<void> =>
  RunSpans.beside(Effect.logWarning(`run ${runId} of ${agent} has failed (${reason}): ${detail}`))

/** Says how a run stands whose driver is done with it, unless it has only stopped. */
export const undriven = (runId: string) => (cause: Cause.Cause<unknown>) =>
  Effect.gen(function* () {
    const failure = Cause.findErrorOption(cause)
    if (Cause.hasInterruptsOnly(cause) || (Option.isSome(failure) && isRunExit(failure.value))) {
      return yield* Effect.logDebug(`run ${runId} has stopped`, cause)
    }
    const store = yield* RunStore
    const summary = Option.getOrUndefined(yield* Effect.option(store.summary(runId)))
    const stands =
      summary === undefined
        ? "how it stands cannot be read"
        : summary.status === "running"
          ? "it has not stopped: `recover` has it driven"
          : `it stays as it has stopped: ${summary.status} (${summary.reason})`
    yield* Effect.logError(`run ${runId} is not driven on, and ${stands}`, cause)
  })

/** How many runs of a host were what when it closed. */
export interface Closed {
  /** Their turns and tools came to an end. */
  readonly finished: number
  readonly interrupted: number
  /** They have not stopped, or were answered: `recover` has them driven. */
  readonly left: number
}

/** Says what became of the runs of a host that has closed. */
export const closed = ({ finished, interrupted, left }: Closed): Effect.Effect<void> =>
  finished + interrupted + left === 0
    ? Effect.void
    : Effect.logInfo(
        `a host has closed: ${finished === 1 ? "1 run" : `${finished} runs`} let finish, ${interrupted} interrupted, ${left} left for \`recover\``
      )
