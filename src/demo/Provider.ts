/**
 * A scenario's model: its script in this process, or behind an endpoint on loopback that is started for it.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Model from "effect/ai/Model"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as HttpServerError from "effect/http/HttpServerError"
import * as Layer from "effect/Layer"
import * as RequestParams from "../provider/RequestParams.ts"
import type * as Script from "../provider/Script.ts"
import * as Scripted from "../provider/Scripted.ts"

/** Where the model is, and how long it takes to reply. */
export interface Options {
  readonly provider: "in-process" | "http"
  readonly latency?: Duration.Input | undefined
}

/**
 * More than any reply of a script has. With it the worst case of a model call is known, and can be held
 * (`money: "hold"`).
 */
const cap = Layer.succeed(RequestParams.RequestParams, { maxOutputTokens: 500 })

type Services = LanguageModel.LanguageModel | Model.ProviderName | Model.ModelName

// Loaded when asked for: most demos need no server.
const overHttp = (script: Script.Script, latency: { readonly latency?: Duration.Input }) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const [ScriptedServer, ChatCompletions, FetchHttpClient] = yield* Effect.promise(() =>
        Promise.all([
          import("../provider/ScriptedServer.ts"),
          import("../provider/ChatCompletions.ts"),
          import("effect/http/FetchHttpClient")
        ])
      )
      const { baseUrl } = yield* ScriptedServer.start({
        scripts: [script],
        ...latency
      })
      return ChatCompletions.layer({ baseUrl, model: script.name }).pipe(Layer.provide(FetchHttpClient.layer))
    })
  )

const delayed = (latency: Duration.Input | undefined) => (latency === undefined ? {} : { latency })

/** The model that answers from a script, in this process. */
export const inProcess = (script: Script.Script, latency?: Duration.Input): Layer.Layer<Services> =>
  Layer.merge(Scripted.layer(script, delayed(latency)), cap)

/** The model that answers from a script. Fails if no port can be opened. */
export const layer = (
  script: Script.Script,
  { latency, provider }: Options
): Layer.Layer<Services, HttpServerError.ServeError> =>
  provider === "http" ? Layer.merge(overHttp(script, delayed(latency)), cap) : inProcess(script, latency)
