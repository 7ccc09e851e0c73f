/**
 * The price of the model `LLM_MODEL`, read from the environment. In a module of its own because reading configuration
 * takes longer to load than everything else on the way of an import of the library.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Money from "../run/Money.ts"

const amount = (name: string) =>
  Config.schema(Schema.FiniteFromString.check(Schema.isGreaterThanOrEqualTo(0)), name)

const names = {
  input: "LLM_PRICE_INPUT",
  cachedInput: "LLM_PRICE_CACHED_INPUT",
  cacheWrite: "LLM_PRICE_CACHE_WRITE",
  output: "LLM_PRICE_OUTPUT"
}

/** The prices by model name; none if none of the variables is set, and `ConfigError` if only a part of them is. */
export const prices: Effect.Effect<{ readonly [model: string]: Money.Price }, Config.ConfigError> =
  Effect.gen(function* () {
    const set = yield* Config.all([
      Config.option(Config.String(names.input)),
      Config.option(Config.String(names.cachedInput)),
      Config.option(Config.String(names.cacheWrite)),
      Config.option(Config.String(names.output))
    ])
    if (set.every(Option.isNone)) return {}
    const model = yield* Config.String("LLM_MODEL")
    const input = yield* amount(names.input)
    const cachedInput = yield* Config.option(amount(names.cachedInput))
    const cacheWrite = yield* Config.option(amount(names.cacheWrite))
    const output = yield* amount(names.output)
    return {
      [model]: {
        input,
        ...(Option.isSome(cachedInput) ? { cachedInput: cachedInput.value } : undefined),
        ...(Option.isSome(cacheWrite) ? { cacheWrite: cacheWrite.value } : undefined),
        output
      }
    }
  })
