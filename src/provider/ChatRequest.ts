/**
 * The body of a chat-completions request as JSON text. Messages and tools come from the cached texts of `Wire`; all else
 * follows them.
 */

import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as OpenAiStructuredOutput from "effect/ai/OpenAiStructuredOutput"
import * as Effect from "effect/Effect"
import * as ProviderError from "./ProviderError.ts"
import type * as RequestParams from "./RequestParams.ts"
import * as Wire from "./Wire.ts"

/** In what endpoints differ. */
export interface Dialect {
  /** The model's name at the endpoint. */
  readonly model: string
  /**
   * The field that carries the output cap. OpenAI's reasoning models take only `max_completion_tokens`, which is the default
   * for OpenAI's own address; many other endpoints know only `max_tokens`.
   */
  readonly maxTokensField?: "max_tokens" | "max_completion_tokens"
  /** Asks for usage in streams (`stream_options`). On by default; switch it off for an endpoint that refuses the field. */
  readonly streamUsage?: boolean
}

const toolChoice = (choice: LanguageModel.ProviderOptions["toolChoice"]): unknown => {
  if (typeof choice === "string") return choice === "auto" ? undefined : choice
  if ("tool" in choice) return { type: "function", function: { name: choice.tool } }
  // The tools have been narrowed to those allowed; what is left to say is whether one of them must be called.
  return choice.mode === "required" ? "required" : undefined
}

const responseFormat = (
  origin: ProviderError.Origin,
  format: LanguageModel.ProviderOptions["responseFormat"]
): Effect.Effect<unknown, AiError.AiError> =>
  format.type === "text"
    ? Effect.undefined
    : Effect.try({
        try: () => ({
          type: "json_schema",
          json_schema: {
            name: format.objectName,
            schema: OpenAiStructuredOutput.toCodecOpenAI(format.schema).jsonSchema,
            strict: true
          }
        }),
        catch: (error) =>
          AiError.make({
            module: origin.module,
            method: origin.method,
            reason: new AiError.UnsupportedSchemaError({
              description: error instanceof Error ? error.message : String(error)
            })
          })
      })

const isOpenAi = (host: string) => host === "api.openai.com" || host.endsWith(".openai.azure.com")

/** The body of a request, or why it cannot be written. */
export const body = (
  origin: ProviderError.Origin,
  dialect: Dialect,
  host: string,
  request: LanguageModel.ProviderOptions,
  params: RequestParams.RequestParams,
  stream: boolean
): Effect.Effect<string, AiError.AiError> => {
  const foreign = request.tools.find((tool) => !Wire.isSupported(tool))
  if (foreign !== undefined) {
    return Effect.fail(
      ProviderError.badRequest(
        origin,
        `Tool "${foreign.name}" is run by another provider and cannot be sent in the chat-completions format`
      )
    )
  }
  return Effect.map(responseFormat(origin, request.responseFormat), (format) => {
    const tools = Wire.tools(request.tools)
    const maxTokensField = dialect.maxTokensField ?? (isOpenAi(host) ? "max_completion_tokens" : "max_tokens")
    const rest = JSON.stringify({
      tool_choice: tools.length === 0 ? undefined : toolChoice(request.toolChoice),
      parallel_tool_calls: tools.length === 0 ? undefined : params.parallelToolCalls,
      response_format: format,
      temperature: params.temperature,
      top_p: params.topP,
      [maxTokensField]: params.maxOutputTokens,
      stop: params.stop,
      seed: params.seed,
      reasoning_effort: params.reasoningEffort,
      ...(stream ? { stream: true } : undefined),
      ...(stream && dialect.streamUsage !== false ? { stream_options: { include_usage: true } } : undefined),
      ...params.extra
    })
    const messages = Wire.listJson(Wire.messages(request.prompt.content))
    return (
      `{"model":${JSON.stringify(dialect.model)},"messages":${messages}` +
      (tools.length === 0 ? "" : `,"tools":${Wire.listJson(tools)}`) +
      (rest === "{}" ? "}" : `,${rest.slice(1)}`)
    )
  })
}
