/**
 * How time passes for a run that is tested: on a clock of its own that moves when the run has nothing else to do, or for
 * real.
 */
import * as EffectClock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"

/**
 * `test` takes no real time, however long tools and waits take; `live` is for tools and stores that wait for something
 * real, such as a database or a server.
 */
export type Clock = "test" | "live"

/** Runs something on a new clock, or on the one that is there. */
export const on =
  (clock: Clock) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    clock === "live"
      ? effect
      : Effect.provide(effect, TestClock.layer({ warningDelay: "1 minute" }), { local: true })

/** Waits in real time, whatever the clock: for what another process has to do. */
export const really = (clock: Clock, duration: Duration.Input): Effect.Effect<void> =>
  clock === "live" ? Effect.sleep(duration) : TestClock.withLive(Effect.sleep(duration))

/** Sets the test clock to this date (ISO 8601), unless it is later there already: time does not go back. */
export const notBefore = (clock: Clock, date: string): Effect.Effect<void> =>
  clock === "live"
    ? Effect.void
    : Effect.flatMap(EffectClock.currentTimeMillis, (now) =>
        TestClock.setTime(Math.max(now, Date.parse(date)))
      )

// Whatever can go on without time has gone on after so many turns of the event loop.
const turns = 32

const steps: ReadonlyArray<readonly [times: number, step: Duration.Input]> = [
  [60, "1 second"],
  [120, "1 minute"],
  [48, "1 hour"]
]

/**
 * Waits until a fiber is done, and lets time pass for it, in longer and longer steps. Yields whether it is done; on the
 * test clock it may not be, for days.
 */
export const awaitEnd = (fiber: Fiber.Fiber<unknown, unknown>, clock: Clock): Effect.Effect<boolean> =>
  clock === "live"
    ? Effect.as(Fiber.await(fiber), true)
    : Effect.gen(function* () {
        for (const [times, step] of steps) {
          for (let time = 0; time < times; time++) {
            for (let turn = 0; turn < turns; turn++) {
              if (fiber.pollUnsafe() !== undefined) return true
              yield* Effect.yieldNow
            }
            yield* TestClock.adjust(step)
          }
        }
        return false
      })
