/**
 * A run as the stream of its events. The stream owns the run: whoever stops reading interrupts it.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import type { LiveEvent } from "../run/RunEvent.ts"
import type { Watcher } from "./Journal.ts"

/** What a run tells its watcher, up to its success; it fails as the run does, after what was told. */
export const of = <A, E, R>(
  run: (watcher: Watcher) => Effect.Effect<A, E, R>
): Stream.Stream<LiveEvent, E, R> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const queue = yield* Queue.make<LiveEvent, E | Cause.Done>()
      const owned = run((event) => void Queue.offerUnsafe(queue, event)).pipe(
        Effect.onExit((exit) =>
          Exit.isSuccess(exit) ? Queue.end(queue) : Queue.failCause(queue, exit.cause)
        ),
        Effect.forkDetach
      )
      // The reason of a Stop is an annotation of the interruption, and a child fiber would be interrupted without it.
      yield* Effect.acquireRelease(owned, (fiber, exit) =>
        Fiber.interruptAs(
          fiber,
          undefined,
          Exit.isFailure(exit) ? Cause.annotations(exit.cause) : Context.empty()
        )
      )
      return Stream.fromQueue(queue)
    })
  )
