import { expect, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
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
