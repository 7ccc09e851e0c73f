/**
 * A scripted model as a test Layer: no network, no key, no randomness, and time only on the Clock.
 *
 * It is a `LanguageModel` like any other, and takes the way of a real one: the same encoding of the request, the same
 * decoding of the reply, the same errors. See `Script` for how scripts are written; everything of it is here too.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as LanguageModel from "effect/ai/LanguageModel"
 * import { Scripted } from "checkrein/provider"
 *
 * const hello = Scripted.make("hello", [Scripted.text("Hello!")])
 *
 * const program = LanguageModel.generateText({ prompt: "Hi" }).pipe(
 *   Effect.map((response) => response.text),
 *   Effect.provide(Scripted.layer(hello))
 * )
 * ```
 */

import type * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import type * as Response from "effect/ai/Response"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Completion from "./Completion.ts"
import * as Playback from "./Playback.ts"
import * as ProviderError from "./ProviderError.ts"
import * as RequestParams from "./RequestParams.ts"
import * as Script from "./Script.ts"
import * as Tokens from "./Tokens.ts"
import * as Wire from "./Wire.ts"

/** What a script is made of. */
export * from "./Script.ts"

const provider = "scripted"

/**
 * A `LanguageModel` that answers from a script, with its `Model.ProviderName` (`scripted`) and `Model.ModelName`.
 *
 * Fails as a real provider does, with `AiError`: what the script says (`Scripted.fail`, `Scripted.disconnect`,
 * `breakAfter`), and `InvalidRequestError` naming script and turn if the script has no reply.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent } from "checkrein"
 * import { Scripted } from "checkrein/provider"
 *
 * const Model = Scripted.layer(Scripted.make("hello", [Scripted.text("Hello.")]))
 * const greeted = Effect.provide(Agent.run(Agent.make("greeter"), "Hi."), Model)
 * ```
 */
export const layer = (
  script: Script.Script,
  options: Playback.Options = {}
): Layer.Layer<LanguageModel.LanguageModel | Model.ProviderName | Model.ModelName> => {
  const model = options.model ?? script.name
  const url = `script:${script.name}`

  const failure = (
    method: ProviderError.Origin["method"],
    outcome: Script.Failure | Script.Disconnect
  ): Effect.Effect<never, AiError.AiError> => {
    const origin: ProviderError.Origin = {
      module: "Scripted",
      method,
      url,
      model,
      secrets: []
    }
    if (outcome._tag === "Disconnect") return Effect.fail(lost(origin))
    return Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.fail(
        ProviderError.fromAnswer(origin, {
          status: outcome.status,
          headers: { "retry-after": outcome.retryAfter },
          body: JSON.stringify(Playback.errorBody(outcome)),
          now
        })
      )
    )
  }

  const lost = (origin: ProviderError.Origin) =>
    ProviderError.network(origin, "the connection was lost before an answer came")

  const broken = (method: ProviderError.Origin["method"], events: number) =>
    ProviderError.network(
      { module: "Scripted", method, url, model, secrets: [] },
      `the stream broke after ${events} events`
    )

  const service = Effect.gen(function* () {
    // Loaded before the first request: under a test clock, real time must not pass in the middle of a run.
    if (options.usage === undefined || options.usage === "counted") yield* Tokens.load
    const player = Playback.make(script, options)
    const play = (request: LanguageModel.ProviderOptions) =>
      Effect.flatMap(RequestParams.RequestParams, (params) =>
        player.play({
          turn: Script.turnOf(request.prompt.content),
          messages: () => Wire.messages(request.prompt.content),
          tools: () => Wire.tools(request.tools),
          withoutCalls: request.toolChoice === "none" && request.tools.length > 0,
          maxOutputTokens: params.maxOutputTokens
        })
      )

    return yield* LanguageModel.make({
      generateText: (request) =>
        Effect.flatMap(
          play(request),
          (outcome): Effect.Effect<Array<Response.PartEncoded>, AiError.AiError> => {
            if (outcome._tag !== "Played") return failure("generateText", outcome)
            if (outcome.breakAfter !== undefined)
              return Effect.fail(broken("generateText", outcome.breakAfter))
            return Effect.succeed(Completion.parts(outcome.completion))
          }
        ),
      streamText: (request) =>
        Stream.unwrap(
          Effect.map(play(request), (outcome): Stream.Stream<Response.StreamPartEncoded, AiError.AiError> => {
            if (outcome._tag !== "Played") return Stream.fromEffect(failure("streamText", outcome))
            const assembler = new Completion.Assembler()
            const chunks = Playback.chunks(outcome)
            if (outcome.breakAfter === undefined) {
              const parts = chunks.flatMap((chunk) => assembler.push(chunk))
              return Stream.fromIterable([...parts, ...assembler.end()])
            }
            const parts = chunks.slice(0, outcome.breakAfter).flatMap((chunk) => assembler.push(chunk))
            return Stream.concat(
              Stream.fromIterable(parts),
              Stream.fail(broken("streamText", outcome.breakAfter))
            )
          })
        )
    })
  })

  return Layer.mergeAll(
    Layer.effect(LanguageModel.LanguageModel, service),
    Layer.succeed(Model.ProviderName, provider),
    Layer.succeed(Model.ModelName, model),
    Layer.succeed(RequestParams.CapsOutput, true)
  )
}
