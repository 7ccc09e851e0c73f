/**
 * How long to wait before a further attempt. No `Schedule` waits here: whether there is time for the wait is asked before it,
 * and the journal says what came of the attempt.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"

/**
 * The wait after the `attempt`th attempt, counted from 1, in milliseconds: `baseMs` after the first, twice as long after each
 * further one, and up to a fifth more or less, so that those who failed together do not come back together.
 */
export const waitMs = (baseMs: number, attempt: number): Effect.Effect<number> =>
  Effect.map(Random.next, (random) => Math.round(baseMs * 2 ** (attempt - 1) * (0.8 + 0.4 * random)))
