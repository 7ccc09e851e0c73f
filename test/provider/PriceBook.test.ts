import { expect, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as PriceBook from "../../src/provider/PriceBook.ts"

const small = { input: 1, output: 2 }
const large = { input: 2, cachedInput: 0.2, output: 12 }
const env = (values: Record<string, string>) =>
  PriceBook.layerConfig.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(values))))

it.effect("knows no price by default", () =>
  Effect.gen(function* () {
    expect(yield* PriceBook.priceOf("large")).toEqual(Option.none())
  })
)

it.effect("adds to what is there, the later price winning", () =>
  Effect.gen(function* () {
    expect(yield* PriceBook.priceOf("large")).toEqual(Option.some(large))
    expect(yield* PriceBook.priceOf("small")).toEqual(Option.some(small))
  }).pipe(
    Effect.provide(PriceBook.layer({ large }).pipe(Layer.provide(PriceBook.layer({ small, large: small }))))
  )
)

it.effect("reads the price of LLM_MODEL from the environment", () =>
  Effect.gen(function* () {
    expect(yield* PriceBook.priceOf("m")).toEqual(Option.some({ input: 2, cachedInput: 0.2, output: 12 }))
  }).pipe(
    Effect.provide(
      env({ LLM_MODEL: "m", LLM_PRICE_INPUT: "2", LLM_PRICE_CACHED_INPUT: "0.2", LLM_PRICE_OUTPUT: "12" })
    )
  )
)

it.effect("adds nothing from an environment without prices", () =>
  Effect.gen(function* () {
    expect((yield* PriceBook.PriceBook).size).toBe(0)
  }).pipe(Effect.provide(env({ LLM_MODEL: "m" })))
)

it.effect.each([
  { LLM_MODEL: "m", LLM_PRICE_INPUT: "2" },
  { LLM_PRICE_INPUT: "2", LLM_PRICE_OUTPUT: "12" },
  { LLM_MODEL: "m", LLM_PRICE_INPUT: "two", LLM_PRICE_OUTPUT: "12" },
  { LLM_MODEL: "m", LLM_PRICE_INPUT: "-2", LLM_PRICE_OUTPUT: "12" }
])("refuses half a price and what is no number: %j", (values) =>
  Effect.gen(function* () {
    const error = yield* Effect.flip(Effect.provide(PriceBook.priceOf("m"), env(values)))
    expect(error._tag).toBe("ConfigError")
  })
)

it.effect.each<readonly [unknown, string]>([
  [{ input: -5, output: 12 }, "the price of m.input is -5, and must be a number of at least 0"],
  [{ input: 2, output: Number.NaN }, "the price of m.output is NaN"],
  [{ input: 2, output: Number.POSITIVE_INFINITY }, "the price of m.output is Infinity"],
  [{ input: "2", output: 12 }, 'the price of m.input is "2"'],
  [{ input: 2 }, "the price of m.output is undefined"],
  [{ input: 2, cachedInput: -1, output: 12 }, "the price of m.cachedInput is -1"],
  [
    { input: 2, cached_input: 1, output: 12 },
    'the price of m has no "cached_input": there are input, cachedInput'
  ],
  [2, "the price of m is 2, and must be an object"]
])("refuses a price that cannot be counted with: %j", ([price, problem]) =>
  Effect.gen(function* () {
    const prices = PriceBook.layer({ small, m: price as typeof small })
    const exit = yield* Effect.exit(Effect.provide(PriceBook.priceOf("m"), prices))
    expect(Exit.isFailure(exit) && String(Cause.squash(exit.cause))).toContain(`TypeError: ${problem}`)
  })
)
