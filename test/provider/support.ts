import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import type * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"

export const ListFiles = Tool.make("list_files", {
  description: "Lists the files.",
  success: Schema.Array(Schema.String)
})
export const ReadFile = Tool.make("read_file", {
  description: "Reads a file.",
  parameters: Schema.Struct({ path: Schema.String }),
  success: Schema.String
})
export const Files = Toolkit.make(ListFiles, ReadFile)

export const user = (text: string) =>
  Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text })] })

export const toolResult = (id: string, name: string, result: unknown) =>
  Prompt.makeMessage("tool", {
    content: [Prompt.makePart("tool-result", { id, name, result, isFailure: false, providerExecuted: false })]
  })

export const generate = (messages: ReadonlyArray<Prompt.Message>) =>
  LanguageModel.generateText({
    prompt: Prompt.fromMessages(messages),
    toolkit: Files,
    disableToolCallResolution: true,
    toolCallValidation: "deferred"
  })

/** What a stream delivered, and the error it ended with. */
export const collect = (messages: ReadonlyArray<Prompt.Message>) =>
  Effect.gen(function* () {
    const parts: Array<Response.AnyPart> = []
    const error = yield* LanguageModel.streamText({
      prompt: Prompt.fromMessages(messages),
      toolkit: Files,
      disableToolCallResolution: true,
      toolCallValidation: "deferred"
    }).pipe(
      Stream.runForEach((part) =>
        Effect.sync(() => {
          parts.push(part)
        })
      ),
      Effect.match({ onFailure: (error) => error, onSuccess: () => undefined })
    )
    return { parts, error }
  })

export const textOf = (parts: ReadonlyArray<Response.AnyPart>) =>
  parts.map((part) => (part.type === "text-delta" ? part.delta : "")).join("")

export const callsOf = (parts: ReadonlyArray<Response.AnyPart>) =>
  parts.flatMap((part) =>
    part.type === "tool-call" ? [{ id: part.id, name: part.name, params: part.params }] : []
  )

export const finishOf = (parts: ReadonlyArray<Response.AnyPart>) =>
  parts.flatMap((part) => (part.type === "finish" ? [part] : [])).at(-1)

/** The error of an effect that must fail with an `AiError`. */
export const errorOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.flip(effect), (error) =>
    AiError.isAiError(error) ? Effect.succeed(error) : Effect.die(error)
  )

export type Handler = (
  request: HttpClientRequest.HttpClientRequest,
  body: string
) => Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>

/** An `HttpClient` that answers from a function instead of the network. */
export const fakeHttp = (handler: Handler) =>
  Layer.succeed(
    HttpClient.HttpClient,
    HttpClient.make((request) =>
      handler(request, request.body._tag === "Uint8Array" ? new TextDecoder().decode(request.body.body) : "")
    )
  )

/** A client that gives the same answer to every request. */
export const answering = (
  body: string | ReadableStream<Uint8Array>,
  options: { readonly status?: number; readonly headers?: Record<string, string> } = {}
) =>
  fakeHttp((request) =>
    Effect.sync(() =>
      HttpClientResponse.fromWeb(
        request,
        new globalThis.Response(body, {
          status: options.status ?? 200,
          headers: { "content-type": "application/json", ...options.headers }
        })
      )
    )
  )

/** A body that arrives in the given pieces and then ends, or breaks. */
export const bytes = (pieces: ReadonlyArray<Uint8Array>, breaks = false) => {
  let next = 0
  return new ReadableStream<Uint8Array>({
    pull(controller) {
      const piece = pieces[next++]
      if (piece !== undefined) controller.enqueue(piece)
      else if (breaks) controller.error(new Error("socket hang up"))
      else controller.close()
    }
  })
}
