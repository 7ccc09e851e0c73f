/**
 * The date as journals and commands have it.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/** The date, as ISO 8601. */
export const now = Effect.map(Clock.currentTimeMillis, (ms) => new Date(ms).toISOString())
