/**
 * What models cost: a price per model name, in USD per million tokens.
 *
 * Checkrein ships no list of prices: such a list is stale the day a provider changes one, and a money limit that counts
 * with stale prices is worse than none. State the prices of the models you use, in code or in the environment.
 */
import type * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Given from "../run/Given.ts"
import type * as Money from "../run/Money.ts"

/** Prices by model name. */
export type PriceBook = ReadonlyMap<string, Money.Price>

/** The prices in force; by default none is known. */
export const PriceBook = Context.Reference<PriceBook>("checkrein/PriceBook", {
  defaultValue: (): PriceBook => new Map()
})

const amount = Given.upTo(Number.POSITIVE_INFINITY)
const kinds: Given.Kinds<Money.Price> = {
  input: amount,
  cachedInput: amount,
  cacheWrite: amount,
  output: amount
}

/** What is wrong with the first price that cannot be counted with: less than nothing would lift every money limit. */
const problemOf = (prices: { readonly [model: string]: Money.Price }): string | undefined =>
  Object.entries(prices)
    .map(([model, price]) => Given.problemOf(price, `the price of ${model}`, kinds, ["input", "output"]))
    .find((problem) => problem !== undefined)

/**
 * Adds prices (USD per million tokens) to those that the layers below it know; a model named again is replaced. A price that
 * is no number of at least 0 is a defect when the layer is built.
 *
 * @example
 * ```ts
 * import { PriceBook } from "checkrein/provider"
 *
 * const Prices = PriceBook.layer({
 *   "large-model": { input: 2, cachedInput: 0.2, output: 12 },
 *   "small-model": { input: 0.1, output: 0.4 }
 * })
 * ```
 */
export const layer = (prices: { readonly [model: string]: Money.Price }): Layer.Layer<never> =>
  Layer.effect(
    PriceBook,
    Effect.flatMap(PriceBook, (book) => {
      const problem = problemOf(prices)
      return problem === undefined
        ? Effect.succeed(new Map([...book, ...Object.entries(prices)]))
        : Effect.die(new TypeError(problem))
    })
  )

/**
 * Adds the price of the model `LLM_MODEL` from `LLM_PRICE_INPUT`, `LLM_PRICE_OUTPUT` and, if wanted,
 * `LLM_PRICE_CACHED_INPUT` and `LLM_PRICE_CACHE_WRITE` (USD per million tokens). Without any of them it adds nothing.
 *
 * Fails with `ConfigError` if a price is not a number of zero or more, or if only a part of what is needed is set.
 *
 * @example
 * ```ts
 * import * as Layer from "effect/Layer"
 * import { ChatCompletions, PriceBook } from "checkrein/provider"
 *
 * const Model = Layer.merge(ChatCompletions.layerConfig(), PriceBook.layerConfig)
 * ```
 */
export const layerConfig: Layer.Layer<never, Config.ConfigError> = Layer.unwrap(
  Effect.promise(() => import("./PriceConfig.ts")).pipe(
    Effect.flatMap(({ prices }) => prices),
    Effect.map(layer)
  )
)

/**
 * The price of a model, if it is known.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { PriceBook } from "checkrein/provider"
 *
 * const price = Effect.provide(PriceBook.priceOf("large"), PriceBook.layer({ large: { input: 2, output: 12 } }))
 * ```
 */
export const priceOf = (model: string): Effect.Effect<Option.Option<Money.Price>> =>
  Effect.map(PriceBook, (book) => Option.fromUndefinedOr(book.get(model)))
