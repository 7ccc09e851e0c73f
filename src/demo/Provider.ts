/**
 * A scenario's model: its script in this process, or behind an endpoint on loopback that is started for it.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Model from "effect/ai/Model"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as HttpServerError from "effect/http/HttpServerError"
import * as Layer from "effect/Layer"
import type * as Script from "../provider/Script.ts"
import * as Scripted from "../provider/Scripted.ts"

/** Where the model is, and how long it takes to reply. */
export interface Options {
  readonly provider: "in-process" | "http"
  readonly latency?: Duration.Input | undefined
}

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

/** The model that answers from a script. Fails if no port can be opened. */
export const layer = (
  script: Script.Script,
  { latency, provider }: Options
): Layer.Layer<Services, HttpServerError.ServeError> => {
  const delay = latency === undefined ? {} : { latency }
  return provider === "http" ? overHttp(script, delay) : Scripted.layer(script, delay)
}
