/**
 * What a command does, loaded when it is called: neither `--help` nor any other command waits for it.
 */
import * as Effect from "effect/Effect"

/** A handler of a module that is not loaded yet. */
export const loaded =
  <Module, Input, A, E, R>(
    load: () => Promise<Module>,
    handler: (module: Module) => (input: Input) => Effect.Effect<A, E, R>
  ) =>
  (input: Input): Effect.Effect<A, E, R> =>
    Effect.flatMap(Effect.promise(load), (module) => handler(module)(input))
