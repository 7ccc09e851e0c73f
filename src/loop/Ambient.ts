/**
 * Services that are there without being in a type.
 */
import type * as Effect from "effect/Effect"

/**
 * An effect of an erased tool or toolkit. What it needs is in the context of the fiber although not in its type: `Agent`
 * has put the tools' requirements into its own type, so whoever runs an agent has provided them.
 */
export const ambient = <A, E>(effect: Effect.Effect<A, E, unknown>): Effect.Effect<A, E> =>
  effect as Effect.Effect<A, E>
