/**
 * Waiting for what may never answer. Whoever waits for a database, or for what may wait for one, does so by the clock of the
 * world: how fast it answers is no matter of the clock that a program, or a test, sets itself.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"

const world = Context.get(Context.empty(), Clock.Clock)

/** The clock of the world. A test whose database is its own, and hangs, may take that of the test for it. */
export const World = Context.Reference<Clock.Clock>("checkrein/World", { defaultValue: () => world })

/** Runs an effect by the clock of the world. */
export const inWorldTime = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(World, (clock) => Effect.provideService(effect, Clock.Clock, clock))

/** Milliseconds of the world's monotonic clock, from an unknown beginning on. */
export const worldMs = (): number => Number(world.monotonicTimeNanosUnsafe() / 1_000n) / 1_000

/** Runs an effect and waits for it as `wait` says. What still runs after that is interrupted but not waited for. */
const leaving = <A, E, R, B, E2, R2>(
  effect: Effect.Effect<A, E, R>,
  wait: (fiber: Fiber.Fiber<A, E>) => Effect.Effect<A | B, E | E2, R2>
): Effect.Effect<A | B, E | E2, R | R2> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(
      Effect.forkDetach(effect, { startImmediately: true }),
      (fiber): Effect.Effect<A | B, E | E2, R2> =>
        fiber.pollUnsafe() ??
        Effect.ensuring(
          restore(wait(fiber)),
          Effect.sync(() => fiber.interruptUnsafe())
        )
    )
  )

/**
 * Runs an effect, and does not wait for its cleaning up when it is interrupted: who has hung may hang in that as well.
 */
export const unattended = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  leaving(effect, Fiber.join)

/**
 * What an effect yields, or `orElse` when it takes longer than `duration` of the world's time. What still runs then is
 * interrupted but not waited for, unlike with `Effect.timeoutOrElse`.
 */
export const atMost =
  <B, E2, R2>(duration: Duration.Input, orElse: () => Effect.Effect<B, E2, R2>) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A | B, E | E2, R | R2> =>
    leaving(effect, (fiber) =>
      Effect.raceFirst(Fiber.join(fiber), Effect.flatMap(inWorldTime(Effect.sleep(duration)), orElse))
    )
