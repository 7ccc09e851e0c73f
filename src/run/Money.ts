/**
 * Exact money for runs.
 *
 * A price is stated in USD per million tokens. The cost of a turn is computed exactly and rounded once, half to even,
 * to a whole nano-dollar; sums are made on whole nano-dollars, so a total carries no floating-point dust. Outside this
 * module an amount is a plain number of USD that lies on the nano-dollar grid, ready to be printed or compared.
 */
import * as Schema from "effect/Schema"

/**
 * What a model's tokens cost, in USD per million tokens. `cachedInput` and `cacheWrite` default to `input`.
 *
 * @example
 * ```ts
 * import { Money } from "checkrein"
 *
 * const price: Money.Price = { input: 2, cachedInput: 0.2, output: 12 }
 * ```
 */
export const Price = Schema.Struct({
  input: Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)),
  cachedInput: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))),
  cacheWrite: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))),
  output: Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))
})
/** A price in USD per million tokens. */
export type Price = typeof Price.Type

/**
 * The tokens of one turn or of a whole run. `promptTokens` includes the cached and the cache-writing ones.
 */
export const Usage = Schema.Struct({
  promptTokens: Schema.Natural,
  completionTokens: Schema.Natural,
  cachedTokens: Schema.optionalKey(Schema.Natural),
  cacheWriteTokens: Schema.optionalKey(Schema.Natural)
})
/** Tokens used; those of the prompt include the cached ones. */
export type Usage = typeof Usage.Type

/** A usage of nothing. */
export const noUsage: Usage = { promptTokens: 0, completionTokens: 0 }

/**
 * The tokens of a usage, prompt and completion together.
 *
 * @example
 * ```ts
 * import { Money } from "checkrein"
 *
 * Money.tokensOf({ promptTokens: 204, completionTokens: 23 }) // => 227
 * ```
 */
export const tokensOf = ({ completionTokens, promptTokens }: Usage): number => promptTokens + completionTokens

/**
 * The sum of two usages.
 *
 * @example
 * ```ts
 * import { Money } from "checkrein"
 *
 * Money.addUsage({ promptTokens: 204, completionTokens: 23 }, Money.noUsage) // => { promptTokens: 204, completionTokens: 23 }
 * ```
 */
export const addUsage = (a: Usage, b: Usage): Usage => {
  const cached = (a.cachedTokens ?? 0) + (b.cachedTokens ?? 0)
  const written = (a.cacheWriteTokens ?? 0) + (b.cacheWriteTokens ?? 0)
  return {
    promptTokens: a.promptTokens + b.promptTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    ...(cached > 0 ? { cachedTokens: cached } : undefined),
    ...(written > 0 ? { cacheWriteTokens: written } : undefined)
  }
}

const nanosPerUsd = 1_000_000_000

/**
 * An amount in USD as a number of nano-dollars, for whoever has to store it exactly.
 *
 * @example
 * ```ts
 * import { Money } from "checkrein"
 *
 * Money.toNanos(0.000684) // => 684000
 * ```
 */
export const toNanos = (usd: number): number => Math.round(usd * nanosPerUsd)

/**
 * A number of nano-dollars as an amount in USD.
 *
 * @example
 * ```ts
 * import { Money } from "checkrein"
 *
 * Money.fromNanos(684_000) // => 0.000684
 * ```
 */
export const fromNanos = (nanos: number): number => nanos / nanosPerUsd

/**
 * `usd` on the nano-dollar grid: the nearest amount that this module can represent.
 *
 * @example
 * ```ts
 * import { Money } from "checkrein"
 *
 * Money.round(0.1 + 0.2) // => 0.3
 * ```
 */
export const round = (usd: number): number => fromNanos(toNanos(usd))

/**
 * The exact sum of two amounts in USD.
 *
 * @example
 * ```ts
 * import { Money } from "checkrein"
 *
 * Money.add(0.1, 0.2) // => 0.3
 * ```
 */
export const add = (a: number, b: number): number => fromNanos(toNanos(a) + toNanos(b))

/**
 * The exact difference of two amounts in USD.
 *
 * @example
 * ```ts
 * import { Money } from "checkrein"
 *
 * Money.subtract(0.8, 0.1) // => 0.7
 * ```
 */
export const subtract = (a: number, b: number): number => fromNanos(toNanos(a) - toNanos(b))

const million = 1_000_000n

/**
 * The cost in USD of one turn: exact, rounded once, half to even, to a nano-dollar.
 *
 * @example
 * ```ts
 * import { Money } from "checkrein"
 *
 * Money.costOf({ input: 2, output: 12 }, { promptTokens: 204, completionTokens: 23 }) // => 0.000684
 * ```
 */
export const costOf = (price: Price, usage: Usage): number => {
  const written = usage.cacheWriteTokens ?? 0
  const cached = usage.cachedTokens ?? 0
  const plain = Math.max(0, usage.promptTokens - cached - written)
  const part = (tokens: number, usdPerMillion: number) => BigInt(tokens) * BigInt(toNanos(usdPerMillion))
  const exact =
    part(plain, price.input) +
    part(cached, price.cachedInput ?? price.input) +
    part(written, price.cacheWrite ?? price.input) +
    part(usage.completionTokens, price.output)
  const whole = exact / million
  const rest = exact % million
  const half = million / 2n
  const up = rest > half || (rest === half && whole % 2n === 1n)
  return fromNanos(Number(up ? whole + 1n : whole))
}

/**
 * The most that a turn of these tokens can cost in USD, whatever part of its prompt is read from or written to a cache.
 *
 * @example
 * ```ts
 * import { Money } from "checkrein"
 *
 * Money.worstCostOf({ input: 2, cacheWrite: 3, output: 12 }, { promptTokens: 1000, completionTokens: 100 }) // => 0.0042
 * ```
 */
export const worstCostOf = (price: Price, usage: Usage): number =>
  costOf(
    {
      input: Math.max(price.input, price.cachedInput ?? 0, price.cacheWrite ?? 0),
      output: price.output
    },
    { promptTokens: usage.promptTokens, completionTokens: usage.completionTokens }
  )
