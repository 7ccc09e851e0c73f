/**
 * Leaving off in good order: whoever drives runs and has to go asks them to begin nothing more.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Patience from "./Patience.ts"

/**
 * Set around a run. Once it is done, the run begins no further turn and no further call, and lets those that it has begun
 * come to their end. It does not stop: nobody drives it then, as if its process had died between two calls.
 */
export const Drain = Context.Reference<Deferred.Deferred<void> | undefined>("checkrein/loop/Drain", {
  defaultValue: () => undefined
})

/** Waits until nothing of this time is left, in milliseconds, but not after the runs under this have to leave off. */
export const waitOut = (leftMs: () => number): Effect.Effect<void> =>
  Effect.flatMap(Drain, (drain) => {
    const waiting = Patience.waitOut(leftMs)
    return drain === undefined ? waiting : Effect.raceFirst(waiting, Deferred.await(drain))
  })

/** Whether the runs under this have to leave off. */
export const isRequested = (drain: Deferred.Deferred<void> | undefined): boolean =>
  drain !== undefined && Deferred.isDoneUnsafe(drain)
