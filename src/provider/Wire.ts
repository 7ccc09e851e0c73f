/**
 * The request side of the chat-completions format: the one encoder from `effect/ai` messages and tools to the JSON that
 * an OpenAI-compatible endpoint reads. It serves the HTTP adapter, the scripted provider and the counting of tokens, so
 * that all three see the same bytes.
 *
 * Messages and tools are immutable, so what was encoded is kept beside them: a growing transcript costs its new messages
 * and one join.
 */

import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Base64 from "effect/encoding/Base64"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as ResultText from "./ResultText.ts"

/** A tool call as an assistant message carries it; `arguments` is JSON text. */
export const ToolCall = Schema.Struct({
  id: Schema.String,
  type: Schema.Literal("function"),
  function: Schema.Struct({ name: Schema.String, arguments: Schema.String })
})
/** A tool call of an assistant message; its arguments are JSON text. */
export type ToolCall = typeof ToolCall.Type

/** One part of a user message that is more than text. */
export const ContentPart = Schema.Union([
  Schema.Struct({ type: Schema.Literal("text"), text: Schema.String }),
  Schema.Struct({
    type: Schema.Literal("image_url"),
    image_url: Schema.Struct({ url: Schema.String })
  }),
  Schema.Struct({
    type: Schema.Literal("input_audio"),
    input_audio: Schema.Struct({ data: Schema.String, format: Schema.String })
  }),
  Schema.Struct({
    type: Schema.Literal("file"),
    file: Schema.Struct({
      filename: Schema.optionalKey(Schema.String),
      file_data: Schema.optionalKey(Schema.String)
    })
  })
])
/** A text, an image, a sound or a file in a message. */
export type ContentPart = typeof ContentPart.Type

const Content = Schema.Union([Schema.String, Schema.Array(ContentPart)])

/** One message of a request. */
export const Message = Schema.Union([
  Schema.Struct({
    role: Schema.Literals(["system", "developer"]),
    content: Content
  }),
  Schema.Struct({ role: Schema.Literal("user"), content: Content }),
  Schema.Struct({
    role: Schema.Literal("assistant"),
    content: Schema.optionalKey(Schema.NullOr(Content)),
    tool_calls: Schema.optionalKey(Schema.NullOr(Schema.Array(ToolCall)))
  }),
  Schema.Struct({
    role: Schema.Literal("tool"),
    tool_call_id: Schema.String,
    name: Schema.optionalKey(Schema.String),
    content: Content
  })
])
/** A message of a request, by its role. */
export type Message = typeof Message.Type

/** One tool of a request; `parameters` is a JSON Schema. */
export const ToolDefinition = Schema.Struct({
  type: Schema.Literal("function"),
  function: Schema.Struct({
    name: Schema.String,
    description: Schema.optionalKey(Schema.String),
    parameters: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown)),
    strict: Schema.optionalKey(Schema.NullOr(Schema.Boolean))
  })
})
/** A tool as the model is told of it; its parameters are a JSON Schema. */
export type ToolDefinition = typeof ToolDefinition.Type

/**
 * The key under which response parts (`metadata`) and prompt parts (`options`) carry what this format must send back
 * unchanged: `{ replay: { field: value } }` is merged into the assistant message or the tool call it came with.
 */
const metadataKey = "chatCompletions"

/** Metadata that makes the encoder send `fields` back with the part it sits on. */
export const replay = (fields: { readonly [field: string]: Schema.Json }) => ({
  [metadataKey]: { replay: fields }
})

const replayOf = (part: { readonly options: Prompt.ProviderOptions }): object | undefined => {
  const own = part.options[metadataKey]
  return Predicate.hasProperty(own, "replay") && Predicate.isObject(own.replay) ? own.replay : undefined
}

const isJsonObject = (text: string): boolean => {
  try {
    const value: unknown = JSON.parse(text)
    return Predicate.isObject(value) && !Array.isArray(value)
  } catch {
    return false
  }
}

/**
 * The JSON text of a call's arguments. A string stands for arguments that the model wrote and that are not JSON: strict
 * endpoints refuse a transcript with such a call, so it goes back as `{"arguments": "…"}`, as does anything else that is
 * not an object. Nothing at all becomes `{}`.
 */
export const argumentsText = (params: unknown): string => {
  if (params === undefined || params === null || params === "") return "{}"
  if (typeof params === "string" && isJsonObject(params)) return params
  if (typeof params === "object" && !Array.isArray(params)) return JSON.stringify(params)
  return JSON.stringify({ arguments: params })
}

const dataUrl = (part: Prompt.FilePart): string => {
  if (part.data instanceof URL) return part.data.href
  if (part.data instanceof Uint8Array) return `data:${part.mediaType};base64,${Base64.encode(part.data)}`
  return /^(data:|https?:)/.test(part.data) ? part.data : `data:${part.mediaType};base64,${part.data}`
}

const fileContent = (part: Prompt.FilePart): ContentPart => {
  const url = dataUrl(part)
  if (part.mediaType.startsWith("image/")) return { type: "image_url", image_url: { url } }
  if (part.mediaType.startsWith("text/") && part.data instanceof Uint8Array) {
    return { type: "text", text: new TextDecoder().decode(part.data) }
  }
  if (part.mediaType.startsWith("audio/")) {
    const format =
      part.mediaType === "audio/mpeg" ? "mp3" : part.mediaType.slice("audio/".length).replace(/^x-/, "")
    return {
      type: "input_audio",
      input_audio: { data: url.slice(url.indexOf(",") + 1), format }
    }
  }
  return {
    type: "file",
    file: {
      ...(part.fileName ? { filename: part.fileName } : undefined),
      file_data: url
    }
  }
}

const textOf = (parts: ReadonlyArray<Prompt.Part>): string => {
  let text = ""
  for (const part of parts) if (part.type === "text") text += part.text
  return text
}

const userMessage = (message: Prompt.UserMessage): Message =>
  message.content.some((part) => part.type === "file")
    ? {
        role: "user",
        content: message.content.map((part) =>
          part.type === "text" ? { type: "text", text: part.text } : fileContent(part)
        )
      }
    : { role: "user", content: textOf(message.content) }

/** A reply in which there is nothing that this format sends back is left out: strict endpoints refuse an empty message. */
const assistantMessages = (message: Prompt.AssistantMessage): ReadonlyArray<Message> => {
  const calls: Array<ToolCall> = []
  let replayed: object | undefined
  for (const part of message.content) {
    if (part.type === "tool-call" && !part.providerExecuted) {
      calls.push({
        id: part.id,
        type: "function",
        function: { name: part.name, arguments: argumentsText(part.params) },
        ...replayOf(part)
      })
    } else if (part.type === "reasoning") {
      const fields = replayOf(part)
      if (fields !== undefined) replayed = { ...replayed, ...fields }
    }
  }
  const text = textOf(message.content)
  if (calls.length > 0) {
    return [{ role: "assistant", content: text === "" ? null : text, tool_calls: calls, ...replayed }]
  }
  return text === "" && replayed === undefined ? [] : [{ role: "assistant", content: text, ...replayed }]
}

const resultText = (result: unknown): string =>
  typeof result === "string" ? result : (JSON.stringify(result) ?? "")

const toolMessages = (message: Prompt.ToolMessage): ReadonlyArray<Message> => {
  const messages: Array<Message> = []
  for (const part of message.content) {
    if (part.type !== "tool-result" || part.providerExecuted) continue
    messages.push({
      role: "tool",
      tool_call_id: part.id,
      name: part.name,
      content:
        part.modelOutput === undefined
          ? (ResultText.of(part) ?? resultText(part.result))
          : part.modelOutput.every((output) => output.type === "text")
            ? part.modelOutput.map((output) => (output.type === "text" ? output.text : "")).join("\n")
            : part.modelOutput.map((output) =>
                output.type === "text" ? { type: "text", text: output.text } : fileContent(output)
              )
    })
  }
  return messages
}

const encodeMessage = (message: Prompt.Message): ReadonlyArray<Message> => {
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content }]
    case "user":
      return [userMessage(message)]
    case "assistant":
      return assistantMessages(message)
    case "tool":
      return toolMessages(message)
  }
}

const encodedMessages = new WeakMap<Prompt.Message, ReadonlyArray<Message>>()

/**
 * The wire messages of a prompt; a tool message becomes one wire message for each of its results, and a reply without
 * text, calls and what has to be replayed none.
 */
export const messages = (prompt: ReadonlyArray<Prompt.Message>): ReadonlyArray<Message> => {
  const all: Array<Message> = []
  for (const message of prompt) {
    let encoded = encodedMessages.get(message)
    if (encoded === undefined) {
      encoded = encodeMessage(message)
      encodedMessages.set(message, encoded)
    }
    for (const one of encoded) all.push(one)
  }
  return all
}

const encodedTools = new WeakMap<Tool.Any, ToolDefinition>()

/** The wire form of tools. Tools that only their own provider can run are left out; see `isSupported`. */
export const tools = (tools: ReadonlyArray<Tool.Any>): ReadonlyArray<ToolDefinition> => {
  const all: Array<ToolDefinition> = []
  for (const tool of tools) {
    if (!isSupported(tool)) continue
    let encoded = encodedTools.get(tool)
    if (encoded === undefined) {
      const description = Tool.getDescription(tool)
      const strict = Context.get(tool.annotations, Tool.Strict)
      encoded = {
        type: "function",
        function: {
          name: tool.name,
          ...(description === undefined ? undefined : { description }),
          parameters: Tool.getJsonSchema(tool),
          ...(strict === undefined ? undefined : { strict })
        }
      }
      encodedTools.set(tool, encoded)
    }
    all.push(encoded)
  }
  return all
}

/** Whether this format can describe the tool: it cannot if a provider both defines and runs it. */
export const isSupported = (tool: Tool.Any): boolean => !Tool.isProviderDefined(tool)

const jsonTexts = new WeakMap<object, string>()

/** `JSON.stringify` of one wire message or tool, computed once. */
export const jsonOf = (value: Message | ToolDefinition): string => {
  let text = jsonTexts.get(value)
  if (text === undefined) {
    text = JSON.stringify(value)
    jsonTexts.set(value, text)
  }
  return text
}

/** `JSON.stringify` of a list of wire messages or tools, from the cached texts of its members. */
export const listJson = (values: ReadonlyArray<Message | ToolDefinition>): string => {
  let text = ""
  for (const value of values) text += (text === "" ? "" : ",") + jsonOf(value)
  return `[${text}]`
}
