/**
 * The transcript's own vocabulary.
 *
 * Stored runs must outlive a change in the model library, so a transcript is made of these messages and not of the
 * library's. Every message is plain JSON: what is written is what is read.
 */
import * as Schema from "effect/Schema"

/** Options that only one provider understands, keyed by provider, replayed to it unchanged. */
export const ProviderOptions = Schema.Record(Schema.String, Schema.Json)
/** Options by the provider that understands them. */
export type ProviderOptions = typeof ProviderOptions.Type

const options = { options: Schema.optionalKey(ProviderOptions) }

/** A stretch of text. */
export const TextPart = Schema.Struct({
  type: Schema.Literal("text"),
  text: Schema.String,
  ...options
})
/** A stretch of text in a message. */
export type TextPart = typeof TextPart.Type

/** A file that a person attached: `data` is a URL or base64. */
export const FilePart = Schema.Struct({
  type: Schema.Literal("file"),
  mediaType: Schema.String,
  data: Schema.String,
  fileName: Schema.optionalKey(Schema.String),
  ...options
})
/** A file in a message of a person. */
export type FilePart = typeof FilePart.Type

/** What the model thought before it answered. */
export const ReasoningPart = Schema.Struct({
  type: Schema.Literal("reasoning"),
  text: Schema.String,
  ...options
})
/** A thought of the model in its reply. */
export type ReasoningPart = typeof ReasoningPart.Type

/**
 * A tool call that the model asked for. `params` is the arguments as JSON; a string means that the arguments which the
 * model sent were not valid JSON, and is what it sent.
 */
export const ToolCallPart = Schema.Struct({
  type: Schema.Literal("tool-call"),
  id: Schema.String,
  name: Schema.String,
  params: Schema.Json,
  providerExecuted: Schema.optionalKey(Schema.Boolean),
  ...options
})
/** A call in a reply; `params` is a string where the model sent no valid JSON. */
export type ToolCallPart = typeof ToolCallPart.Type

/** The result of a tool that the provider executed itself. */
export const ProviderResultPart = Schema.Struct({
  type: Schema.Literal("tool-result"),
  id: Schema.String,
  name: Schema.String,
  isFailure: Schema.Boolean,
  result: Schema.Json,
  ...options
})
/** What a tool of the provider has brought, in the reply that called it. */
export type ProviderResultPart = typeof ProviderResultPart.Type

/** Instructions to the model. */
export const SystemMessage = Schema.Struct({
  role: Schema.Literal("system"),
  content: Schema.String,
  ...options
})
/** Instructions to the model, as a message. */
export type SystemMessage = typeof SystemMessage.Type

/** What a person, or the harness in a person's place, said. */
export const UserMessage = Schema.Struct({
  role: Schema.Literal("user"),
  content: Schema.Union([Schema.String, Schema.Array(Schema.Union([TextPart, FilePart]))]),
  ...options
})
/** A message of a person, or of the harness in their place. */
export type UserMessage = typeof UserMessage.Type

/** One reply of the model. */
export const AssistantMessage = Schema.Struct({
  role: Schema.Literal("assistant"),
  content: Schema.Array(Schema.Union([TextPart, ReasoningPart, ToolCallPart, ProviderResultPart])),
  ...options
})
/** A reply of the model: texts, thoughts, and calls. */
export type AssistantMessage = typeof AssistantMessage.Type

/** The result of one tool call, in the words that the model sees. */
export const ToolMessage = Schema.Struct({
  role: Schema.Literal("tool"),
  callId: Schema.String,
  tool: Schema.String,
  ok: Schema.Boolean,
  content: Schema.String
})
/** The result of a call, as the model sees it. */
export type ToolMessage = typeof ToolMessage.Type

/**
 * One message of a transcript.
 *
 * @example
 * ```ts
 * import { Message } from "checkrein"
 *
 * const question: Message.Message = { role: "user", content: "Which log file mentions a timeout?" }
 * ```
 */
export const Message = Schema.Union([SystemMessage, UserMessage, AssistantMessage, ToolMessage])
/** A message of a transcript, by its role. */
export type Message = typeof Message.Type

/**
 * The text of an assistant message, its text parts joined.
 *
 * @example
 * ```ts
 * import { Message } from "checkrein"
 *
 * const message: Message.AssistantMessage = {
 *   role: "assistant",
 *   content: [
 *     { type: "text", text: "I look." },
 *     { type: "tool-call", id: "c1", name: "list_files", params: {} }
 *   ]
 * }
 * Message.textOf(message) // => "I look."
 * ```
 */
export const textOf = (message: AssistantMessage): string => {
  let text = ""
  for (const part of message.content) if (part.type === "text") text += part.text
  return text
}

/**
 * The tool calls of an assistant message which the harness has to execute, in the model's order.
 *
 * @example
 * ```ts
 * import { Message } from "checkrein"
 *
 * const message: Message.AssistantMessage = {
 *   role: "assistant",
 *   content: [
 *     { type: "text", text: "I look." },
 *     { type: "tool-call", id: "c1", name: "list_files", params: {} }
 *   ]
 * }
 * Message.callsOf(message).map(({ name }) => name) // => ["list_files"]
 * ```
 */
export const callsOf = (message: AssistantMessage): ReadonlyArray<ToolCallPart> =>
  message.content.filter(
    (part): part is ToolCallPart => part.type === "tool-call" && part.providerExecuted !== true
  )
