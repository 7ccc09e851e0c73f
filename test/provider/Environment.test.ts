import { expect, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import { ChatCompletions, PriceBook } from "../../src/provider/index.ts"

const address = { LLM_BASE_URL: "http://127.0.0.1:8080/v1" }
const complete = { ...address, LLM_MODEL: "m", LLM_PRICE_INPUT: "2", LLM_PRICE_OUTPUT: "12" }

/** Builds what the environment says about the model. */
const built = (env: Record<string, string>) =>
  Layer.build(
    Layer.provide(
      Layer.merge(ChatCompletions.layerConfig(), PriceBook.layerConfig),
      Layer.merge(FetchHttpClient.layer, ConfigProvider.layer(ConfigProvider.fromEnv({ env })))
    )
  ).pipe(Effect.scoped)

it.effect("a model whose variables are set, and one without a price", () =>
  Effect.gen(function* () {
    yield* built(complete)
    yield* built({ ...address, LLM_MODEL: "m" })
  })
)

const money = "set it to a price of at least 0, in USD per million tokens"
const where = "set it to the address of the API, such as https://host/v1"

it.effect.each([
  [{}, `LLM_BASE_URL is not set: ${where}`],
  [{ ...complete, LLM_BASE_URL: "host/v1" }, `LLM_BASE_URL cannot be used: ${where}`],
  [{ ...complete, LLM_BASE_URL: "localhost:8080/v1" }, `LLM_BASE_URL cannot be used: ${where}`],
  [{ ...complete, LLM_MODEL: " " }, "LLM_MODEL is not set: set it to the name of the model at LLM_BASE_URL"],
  [{ ...complete, LLM_PRICE_INPUT: "two" }, `LLM_PRICE_INPUT cannot be used: ${money}`],
  [{ ...complete, LLM_PRICE_CACHED_INPUT: "-1" }, `LLM_PRICE_CACHED_INPUT cannot be used: ${money}`],
  [{ ...complete, LLM_PRICE_OUTPUT: "" }, `LLM_PRICE_OUTPUT is not set: ${money}`]
] as const)("what is wrong is named, with what to set it to: %j", ([env, sentence]) =>
  Effect.gen(function* () {
    const { cause } = yield* Effect.flip(built(env))
    expect(cause.message).toBe(sentence)
  })
)
