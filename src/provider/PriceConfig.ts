/**
 * The price of the model `LLM_MODEL`, read from the environment. In a module of its own because reading configuration
 * takes longer to load than everything else on the way of an import of the library.
 */
import type * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Money from "../run/Money.ts"
import * as Environment from "./Environment.ts"

const input = Environment.price("LLM_PRICE_INPUT")
const cachedInput = Environment.price("LLM_PRICE_CACHED_INPUT")
const cacheWrite = Environment.price("LLM_PRICE_CACHE_WRITE")
const output = Environment.price("LLM_PRICE_OUTPUT")

/** The prices by model name; none if none of the variables is set, and `ConfigError` if only a part of them is. */
export const prices: Effect.Effect<{ readonly [model: string]: Money.Price }, Config.ConfigError> =
  Effect.gen(function* () {
    const set = yield* Effect.forEach([input, cachedInput, cacheWrite, output], Environment.optional)
    if (set.every(Option.isNone)) return {}
    const cached = yield* Environment.optional(cachedInput)
    const write = yield* Environment.optional(cacheWrite)
    return {
      [yield* Environment.required(Environment.model)]: {
        input: yield* Environment.required(input),
        ...(Option.isSome(cached) ? { cachedInput: cached.value } : undefined),
        ...(Option.isSome(write) ? { cacheWrite: write.value } : undefined),
        output: yield* Environment.required(output)
      }
    }
  })
