/**
 * The model that runs of the command line use: the endpoint that the environment names, or what stands in for it.
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Environment from "../provider/Environment.ts"
import * as PriceBook from "../provider/PriceBook.ts"
import * as RequestParams from "../provider/RequestParams.ts"
import * as Scripted from "../provider/Scripted.ts"
import * as BuiltInScript from "./analyst/BuiltInScript.ts"
import { CommandFailed, note, UsageError } from "./Output.ts"

/**
 * What stands in for an endpoint: the built-in script, which only knows the log analyst's tools, or `nothing` for other
 * agents. They may bring a model of their own; those that do not are refused, and told where to get one.
 */
export type StandIn = "script" | "nothing"

/** The longest reply, without which `--money hold` cannot tell the worst case of a model call. */
const longest = (maxOutputTokens: number) => Layer.succeed(RequestParams.RequestParams, { maxOutputTokens })

/** What stands in for a model, with a remark that it does. */
export const remarked = <A>(remark: string, standIn: Layer.Layer<A>): Layer.Layer<A> =>
  Layer.unwrap(Effect.as(note(remark), standIn))

const builtIn = remarked(
  "LLM_BASE_URL is not set: the built-in script answers, which only searches for a word.",
  Layer.mergeAll(
    Scripted.layer(BuiltInScript.script),
    longest(BuiltInScript.maxOutputTokens),
    PriceBook.layer({ [BuiltInScript.name]: BuiltInScript.price })
  )
)

const mostOutput: Environment.Variable<number> = {
  name: "LLM_MAX_OUTPUT_TOKENS",
  what: "the most tokens that a reply may have, a whole number of at least 1",
  schema: Schema.FiniteFromString.check(Schema.isInt(), Schema.isGreaterThan(0))
}

const cap = Effect.map(
  Environment.optional(mostOutput),
  Option.match({ onNone: () => Layer.empty, onSome: longest })
)

const endpoint = Effect.gen(function* () {
  const [chat, http] = yield* Effect.promise(() =>
    Promise.all([import("../provider/ChatCompletions.ts"), import("effect/http/FetchHttpClient")])
  )
  return Layer.mergeAll(Layer.provide(chat.layerConfig(), http.layer), PriceBook.layerConfig, yield* cap)
})

/** What the environment says of a model that an agent brings: its price, if it is `LLM_MODEL`, and its longest reply. */
const aboutOwn = Effect.gen(function* () {
  const isNamed = Option.isSome(yield* Environment.optional(Environment.model))
  const prices: Layer.Layer<never, Config.ConfigError> = isNamed ? PriceBook.layerConfig : Layer.empty
  // A module's agent has no types here: whether it brings a model is found out where it is run.
  return Layer.merge(prices, yield* cap) as Layer.Layer<LanguageModel.LanguageModel, Config.ConfigError>
})

/** The environment, with a model named on the command line in the place of `LLM_MODEL`. */
const environment = (model: string | undefined) =>
  ConfigProvider.layer(
    ConfigProvider.fromEnv(model === undefined ? {} : { env: { ...process.env, LLM_MODEL: model } })
  )

/** The model of `--model` at `LLM_BASE_URL`, or what stands in for it. */
export const endpointOr = (
  model: Option.Option<string>,
  standIn: Layer.Layer<LanguageModel.LanguageModel, Config.ConfigError>
): Layer.Layer<LanguageModel.LanguageModel, CommandFailed | UsageError> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const address = yield* Config.option(Config.String("LLM_BASE_URL"))
      if (Option.isSome(address) && address.value.trim() !== "") return yield* endpoint
      if (Option.isNone(model)) return standIn
      const message = "--model names a model of an endpoint: set LLM_BASE_URL to where it is"
      return yield* new UsageError({ message })
    })
  ).pipe(
    Layer.provide(environment(Option.getOrUndefined(model))),
    Layer.catchTag("ConfigError", (error) =>
      Layer.effect(
        LanguageModel.LanguageModel,
        Effect.fail(new CommandFailed({ message: error.cause.message }))
      )
    )
  )

/** The same with what stands in for the model of an agent. */
export const layer = (
  model: Option.Option<string>,
  standIn: StandIn
): Layer.Layer<LanguageModel.LanguageModel, CommandFailed | UsageError> =>
  endpointOr(model, standIn === "script" ? builtIn : Layer.unwrap(aboutOwn))
