/**
 * A `LanguageModel` for any endpoint that speaks the chat-completions format of OpenAI: hosted models, gateways, vLLM,
 * Ollama, llama.cpp and the like. It runs on whatever `HttpClient` is provided.
 *
 * Whatever goes wrong is an `AiError`: see `ProviderError` for which reason stands for what. A stream that breaks delivers
 * what came and then fails, so "broke after parts" can be told from "never started". Usage that the endpoint leaves out
 * stays undefined. Arguments that are not JSON are passed on as the text that the model wrote.
 */

import type * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as OpenAiStructuredOutput from "effect/ai/OpenAiStructuredOutput"
import type * as Response from "effect/ai/Response"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import * as ChatRequest from "./ChatRequest.ts"
import * as ChatResponse from "./ChatResponse.ts"
import * as Environment from "./Environment.ts"
import * as ProviderError from "./ProviderError.ts"
import * as RequestParams from "./RequestParams.ts"

/** Where a model is, and what its endpoint is like. */
export interface Options extends ChatRequest.Dialect {
  /** The address of the API, usually ending in `/v1`. A query in it is kept. */
  readonly baseUrl: string
  /** Sent as a bearer token, and shown nowhere. */
  readonly apiKey?: Redacted.Redacted<string> | string
  /** Further headers. Redacted values, and whatever is long enough to be a key, are shown nowhere. */
  readonly headers?: {
    readonly [name: string]: Redacted.Redacted<string> | string
  }
  /** The name of the provider in traces; by default the host of the address. */
  readonly provider?: string
  /** How long to wait for a reply, or for the next piece of a stream; by default 10 minutes. */
  readonly timeout?: Duration.Input
  /**
   * Sends the model's reasoning text back with the transcript, as some models ask for in a tool loop. Off by default.
   * Reasoning that the endpoint marks for replay (`reasoning_details`) is always sent back.
   */
  readonly replayReasoning?: boolean
}

const valueOf = (secret: Redacted.Redacted<string> | string): string =>
  typeof secret === "string" ? secret : Redacted.value(secret)

interface Endpoint {
  readonly request: HttpClientRequest.HttpClientRequest
  /** The address as it may be shown. */
  readonly url: string
  readonly host: string
  readonly secrets: ReadonlyArray<string>
}

const endpointOf = (options: Options): Endpoint => {
  const parsed = URL.parse(options.baseUrl)
  const url = parsed
    ? `${parsed.origin}${parsed.pathname.replace(/\/+$/, "")}/chat/completions`
    : "an address that is not a URL"
  const secrets: Array<string> = []
  // Not a URL: the client refuses the text itself, with an error that says so.
  let request = HttpClientRequest.post(parsed ? url : options.baseUrl)
  for (const [name, value] of parsed?.searchParams ?? []) {
    request = HttpClientRequest.appendUrlParam(request, name, value)
    if (value.length >= 8) secrets.push(value)
  }
  for (const [name, value] of Object.entries(options.headers ?? {})) {
    if (typeof value !== "string" || value.length >= 16) secrets.push(valueOf(value))
    request = HttpClientRequest.setHeader(request, name, valueOf(value))
  }
  if (parsed?.username) {
    secrets.push(decodeURIComponent(parsed.password))
    request = HttpClientRequest.basicAuth(
      request,
      decodeURIComponent(parsed.username),
      decodeURIComponent(parsed.password)
    )
  }
  if (options.apiKey !== undefined && valueOf(options.apiKey) !== "") {
    secrets.push(valueOf(options.apiKey))
    request = HttpClientRequest.bearerToken(request, valueOf(options.apiKey))
  }
  return { request, url, host: parsed?.hostname ?? "", secrets }
}

/** The chain of causes of a transport error in one line: `fetch failed: connect ECONNREFUSED 127.0.0.1:1`. */
const describe = (error: HttpClientError.HttpClientError): string => {
  const said = [error.reason.description]
  for (let cause: unknown = error.reason.cause; cause instanceof Error; cause = cause.cause) {
    const code = "code" in cause ? String(cause.code) : ""
    said.push(
      cause.message === "" || cause.message.includes(code) ? cause.message : `${cause.message} (${code})`
    )
  }
  return said.filter((text) => text !== undefined && text !== "").join(": ") || "no reason given"
}

const make = Effect.fnUntraced(function* (options: Options) {
  const client = yield* HttpClient.HttpClient
  const endpoint = endpointOf(options)
  const timeout = Duration.fromInputUnsafe(options.timeout ?? "10 minutes")

  const originOf = (method: ProviderError.Origin["method"]): ProviderError.Origin => ({
    module: "ChatCompletions",
    method,
    url: endpoint.url,
    model: options.model,
    secrets: endpoint.secrets
  })

  const transport =
    (origin: ProviderError.Origin, when: string) => (error: HttpClientError.HttpClientError) =>
      error.reason._tag === "InvalidUrlError" || error.reason._tag === "EncodeError"
        ? ProviderError.badRequest(
            origin,
            `The request cannot be sent: check the base URL. ${describe(error)}`
          )
        : ProviderError.network(origin, `${when}: ${describe(error)}`)

  const tooSlow = (origin: ProviderError.Origin, what: string) =>
    ProviderError.network(origin, `${what} for ${Duration.format(timeout)}`)

  /** Sends the request; succeeds with the response if its status says that a reply follows. */
  const send = Effect.fnUntraced(function* (
    origin: ProviderError.Origin,
    request: LanguageModel.ProviderOptions,
    stream: boolean
  ) {
    const params = yield* RequestParams.RequestParams
    const body = yield* ChatRequest.body(origin, options, endpoint.host, request, params, stream)
    const response = yield* endpoint.request.pipe(
      HttpClientRequest.setHeader("accept", stream ? "text/event-stream" : "application/json"),
      HttpClientRequest.bodyText(body, "application/json"),
      client.execute,
      // A span of its own shows little that the model's does not, but costs 0.1 to 0.2 ms, and has the query with its keys.
      Effect.provideService(HttpClient.TracerDisabledWhen, () => true),
      Effect.mapError(transport(origin, "the request did not get through"))
    )
    if (response.status >= 200 && response.status < 300) return response
    const answer = yield* textOf(origin, response)
    const now = yield* Clock.currentTimeMillis
    return yield* Effect.fail(
      ProviderError.fromAnswer(origin, {
        status: response.status,
        headers: response.headers,
        body: answer,
        now
      })
    )
  })

  const textOf = (origin: ProviderError.Origin, response: HttpClientResponse.HttpClientResponse) =>
    Effect.mapError(response.text, transport(origin, "the answer broke off"))

  const generateText = (
    request: LanguageModel.ProviderOptions
  ): Effect.Effect<Array<Response.PartEncoded>, AiError.AiError> => {
    const origin = originOf("generateText")
    return send(origin, request, false).pipe(
      Effect.flatMap((response) => textOf(origin, response)),
      Effect.flatMap((text) => ChatResponse.parts(origin, text, options)),
      Effect.timeoutOrElse({
        duration: timeout,
        orElse: () => Effect.fail(tooSlow(origin, "no answer came"))
      })
    )
  }

  const streamText = (
    request: LanguageModel.ProviderOptions
  ): Stream.Stream<Response.StreamPartEncoded, AiError.AiError> => {
    const origin = originOf("streamText")
    return send(origin, request, true).pipe(
      Effect.timeoutOrElse({
        duration: timeout,
        orElse: () => Effect.fail(tooSlow(origin, "no answer came"))
      }),
      Effect.map((response) =>
        ChatResponse.stream(origin, options, (events) =>
          response.stream.pipe(
            Stream.mapError((error) => transport(origin, `the stream broke after ${events()} events`)(error)),
            Stream.timeoutOrElse({
              duration: timeout,
              orElse: () => Stream.fail(tooSlow(origin, `after ${events()} events nothing came`))
            })
          )
        )
      ),
      Stream.unwrap
    )
  }

  return yield* LanguageModel.make({
    generateText,
    streamText,
    codecTransformer: OpenAiStructuredOutput.toCodecOpenAI
  })
})

/**
 * The model at an endpoint, with its `Model.ProviderName` and `Model.ModelName`.
 *
 * @example
 * ```ts
 * import * as Layer from "effect/Layer"
 * import * as FetchHttpClient from "effect/http/FetchHttpClient"
 * import { ChatCompletions } from "checkrein/provider"
 *
 * const Model = ChatCompletions.layer({ baseUrl: "http://localhost:11434/v1", model: "qwen3" }).pipe(
 *   Layer.provide(FetchHttpClient.layer)
 * )
 * ```
 */
export const layer = (
  options: Options
): Layer.Layer<
  LanguageModel.LanguageModel | Model.ProviderName | Model.ModelName,
  never,
  HttpClient.HttpClient
> => {
  const host = URL.parse(options.baseUrl)?.hostname ?? "unknown"
  return Layer.mergeAll(
    Layer.effect(LanguageModel.LanguageModel, make(options)),
    Layer.succeed(Model.ProviderName, options.provider ?? (host === "api.openai.com" ? "openai" : host)),
    Layer.succeed(Model.ModelName, options.model),
    Layer.succeed(RequestParams.CapsOutput, true)
  )
}

/**
 * The model that the environment names: `LLM_BASE_URL`, `LLM_MODEL` and, if it needs one, `LLM_API_KEY`. Options given here
 * complete what the environment says. Fails with a `ConfigError` that names the
 * variable if an address or a model is missing, or the address is none.
 *
 * @example
 * ```ts
 * import * as Layer from "effect/Layer"
 * import * as FetchHttpClient from "effect/http/FetchHttpClient"
 * import { ChatCompletions } from "checkrein/provider"
 *
 * const Model = ChatCompletions.layerConfig().pipe(Layer.provide(FetchHttpClient.layer))
 * ```
 */
export const layerConfig = (
  options: Omit<Options, "baseUrl" | "model" | "apiKey"> = {}
): Layer.Layer<
  LanguageModel.LanguageModel | Model.ProviderName | Model.ModelName,
  Config.ConfigError,
  HttpClient.HttpClient
> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const baseUrl = yield* Environment.required(Environment.baseUrl)
      const model = yield* Environment.required(Environment.model)
      const apiKey = yield* Config.option(Config.Redacted("LLM_API_KEY"))
      return layer({
        ...options,
        baseUrl,
        model,
        ...(Option.isSome(apiKey) ? { apiKey: apiKey.value } : undefined)
      })
    })
  )
