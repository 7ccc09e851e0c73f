/**
 * Between the transcript's own messages and those of `effect/ai`: the one place that a change there would touch.
 */
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Record from "effect/Record"
import type * as Schema from "effect/Schema"
import * as ResultText from "../provider/ResultText.ts"
import type { AssistantMessage, Message, ProviderOptions, ToolMessage } from "../run/Message.ts"
import type { Usage } from "../run/Money.ts"
import * as Nesting from "./Nesting.ts"
import * as Sendable from "./Sendable.ts"

const optionsOf = ({ options }: { readonly options?: ProviderOptions }) =>
  options === undefined ? {} : { options: Record.map(options, Sendable.json) }

/** The names that the model was given, and may be told of as they are. */
export type Names = { readonly [name: string]: unknown }

/** The name of a call as it is sent: a model may have made it up, in characters that its endpoint refuses to read back. */
const sentName = (name: string, known: Names): string =>
  Object.hasOwn(known, name) ? name : Sendable.name(name)

const assistantPart = (
  part: AssistantMessage["content"][number],
  known: Names
): Prompt.AssistantMessagePart => {
  switch (part.type) {
    case "text":
      return Prompt.makePart("text", { text: Sendable.text(part.text), ...optionsOf(part) })
    case "reasoning":
      return Prompt.makePart("reasoning", {
        text: Sendable.text(part.text),
        ...optionsOf(part)
      })
    case "tool-call": {
      const { id, name, params, providerExecuted = false } = part
      return Prompt.makePart("tool-call", {
        id,
        name: providerExecuted ? Sendable.text(name) : sentName(name, known),
        params: Sendable.json(params),
        providerExecuted,
        ...optionsOf(part)
      })
    }
    case "tool-result": {
      const { id, isFailure, name, result } = part
      return Prompt.makePart("tool-result", {
        id,
        name,
        isFailure,
        result: Sendable.json(result),
        providerExecuted: true,
        ...optionsOf(part)
      })
    }
  }
}

const userPart = (part: Exclude<Extract<Message, { role: "user" }>["content"], string>[number]) => {
  if (part.type === "text") {
    return Prompt.makePart("text", { text: Sendable.text(part.text), ...optionsOf(part) })
  }
  const { data, fileName, mediaType } = part
  const source = URL.canParse(data) ? new URL(data) : data
  return Prompt.makePart("file", {
    mediaType,
    data: source,
    fileName: fileName === undefined ? undefined : Sendable.text(fileName),
    ...optionsOf(part)
  })
}

const maybeJson = /^(?:\{.*\}|\[.*\]|null|true|false|-?\d[\d.e+-]{0,30})$/s

/**
 * A result as `effect/ai` has it, whose packages write it out as JSON: the value where the text is JSON, so that the model
 * reads that very text and not JSON in a string of JSON. What would not come out as it went in stays text.
 */
const valueOf = (content: string): Schema.Json => {
  if (!maybeJson.test(content)) return content
  try {
    const value: Schema.Json = JSON.parse(content)
    return !Nesting.isTooDeep(value) && JSON.stringify(value) === content ? value : content
  } catch {
    return content
  }
}

/** The value is worked out when it is asked for, once: who writes the text itself has no use of it. */
const toolResult = (
  { callId, content: written, ok, tool }: ToolMessage,
  known: Names
): Prompt.ToolResultPart => {
  const content = Sendable.text(written)
  let value: { readonly json: Schema.Json } | undefined
  const part = Prompt.makePart("tool-result", {
    id: callId,
    name: sentName(tool, known),
    isFailure: !ok,
    result: content,
    providerExecuted: false
  })
  const lazy = {
    ...part,
    get result() {
      value ??= { json: valueOf(content) }
      return value.json
    }
  }
  return ResultText.keep(lazy, content)
}

/** A message as `effect/ai` wants it, and as every endpoint can read it; `known` are the names that the model was given. */
export const toPrompt = (message: Message, known: Names): Prompt.Message => {
  switch (message.role) {
    case "system":
      return Prompt.makeMessage("system", {
        content: Sendable.text(message.content),
        ...optionsOf(message)
      })
    case "user": {
      const content =
        typeof message.content === "string"
          ? [Prompt.makePart("text", { text: Sendable.text(message.content) })]
          : message.content.map(userPart)
      return Prompt.makeMessage("user", { content, ...optionsOf(message) })
    }
    case "assistant":
      return Prompt.makeMessage("assistant", {
        content: message.content.map((part) => assistantPart(part, known)),
        ...optionsOf(message)
      })
    case "tool": {
      return Prompt.makeMessage("tool", { content: [toolResult(message, known)] })
    }
  }
}

/** A transcript's prompt, kept beside it: what is appended to the transcript is mapped once. */
export interface Mirror {
  readonly of: (messages: ReadonlyArray<Message>) => Prompt.Prompt
}

/** An empty mirror of one transcript, which only grows; `known` are the names that the model was given. */
export const mirror = (known: Names): Mirror => {
  const mapped: Array<Prompt.Message> = []
  return {
    of: (messages) => {
      for (const message of messages.slice(mapped.length)) mapped.push(toPrompt(message, known))
      // A copy of the pointers: what a model was given must not grow under it.
      return Prompt.fromMessages(mapped.slice())
    }
  }
}

/** What a model or its provider has written, with words in its place if it is nested too deep to be walked through. */
const bounded = (value: unknown, otherwise: Schema.Json): Schema.Json => {
  try {
    const json: Schema.Json = JSON.parse(JSON.stringify(value))
    return Nesting.isTooDeep(json) ? Nesting.leftOut : json
  } catch (error) {
    // To write it as JSON is the first walk through it.
    return error instanceof RangeError ? Nesting.leftOut : otherwise
  }
}

/** A model's reply, in the transcript's terms. `usage` is absent where the provider left it out. */
export interface Reply {
  readonly content: AssistantMessage["content"]
  readonly finish: Response.FinishReason
  readonly usage: Usage | undefined
  readonly model: string | undefined
}

type AnyPart = Response.AnyPart

/** More than any request has, and so few that nothing which is summed up from it is too large to be a whole number. */
const mostTokens = 1_000_000_000

/** A count that can be: what a provider reports beside it is as good as not reported. */
const isCount = (tokens: number | undefined): tokens is number =>
  tokens !== undefined && Number.isInteger(tokens) && tokens >= 0 && tokens <= mostTokens

/** A usage as it was reported; `undefined` if it is not whole. */
export const usageOf = (
  promptTokens: number | undefined,
  completionTokens: number | undefined,
  cachedTokens?: number,
  cacheWriteTokens?: number
): Usage | undefined =>
  isCount(promptTokens) && isCount(completionTokens)
    ? {
        promptTokens,
        completionTokens,
        ...(isCount(cachedTokens) && cachedTokens > 0 ? { cachedTokens } : undefined),
        ...(isCount(cacheWriteTokens) && cacheWriteTokens > 0 ? { cacheWriteTokens } : undefined)
      }
    : undefined

const metadataOf = (metadata: ProviderOptions) =>
  Object.keys(metadata).length === 0 ? {} : { options: metadata }

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/**
 * Reads the parts of a reply, whole or streamed. Text and reasoning that arrive in pieces are put together; a call
 * whose arguments were cut off is not among the calls. A result in it is the provider's, whatever the package says of it:
 * some leave out that it was. It may be that of a call in an earlier reply, after which the model has paused.
 */
export const readReply = (parts: ReadonlyArray<AnyPart>): Reply => {
  const content: Array<Mutable<AssistantMessage["content"][number]>> = []
  const open = new Map<string, { text: string; options?: ProviderOptions }>()
  const ours = new Set<string>()
  const theirs = new Set<string>()
  const reply: Mutable<Omit<Reply, "content">> = {
    finish: "unknown",
    usage: undefined,
    model: undefined
  }
  for (const part of parts) {
    switch (part.type) {
      case "text":
      case "reasoning": {
        content.push({
          type: part.type,
          text: part.text,
          ...metadataOf(part.metadata)
        })
        break
      }
      case "text-start":
      case "reasoning-start": {
        const type = part.type === "text-start" ? "text" : "reasoning"
        const piece = { type, text: "", ...metadataOf(part.metadata) } as const
        const kept: Mutable<typeof piece> & {
          text: string
          options?: ProviderOptions
        } = { ...piece }
        content.push(kept)
        open.set(`${type} ${part.id}`, kept)
        break
      }
      case "text-delta":
      case "reasoning-delta":
      case "text-end":
      case "reasoning-end": {
        const piece = open.get(`${part.type.slice(0, part.type.indexOf("-"))} ${part.id}`)
        if (piece === undefined) break
        if ("delta" in part) piece.text += part.delta
        if (Object.keys(part.metadata).length > 0) piece.options = { ...piece.options, ...part.metadata }
        break
      }
      case "tool-call": {
        const { id, metadata, name, params, providerExecuted } = part
        const executed = providerExecuted ? { providerExecuted } : {}
        ;(providerExecuted ? theirs : ours).add(id)
        content.push({
          type: "tool-call",
          id,
          name,
          params: bounded(params ?? {}, {}),
          ...executed,
          ...metadataOf(metadata)
        })
        break
      }
      case "tool-result": {
        if (part.preliminary || (ours.has(part.id) && !theirs.has(part.id))) break
        const { encodedResult, id, isFailure, metadata, name } = part
        const result = bounded(encodedResult ?? null, null)
        content.push({
          type: "tool-result",
          id,
          name,
          isFailure,
          result,
          ...metadataOf(metadata)
        })
        break
      }
      case "response-metadata": {
        if (part.modelId !== undefined) reply.model = part.modelId
        break
      }
      case "finish": {
        reply.finish = part.reason
        const { inputTokens, outputTokens } = part.usage
        reply.usage = usageOf(
          inputTokens.total,
          outputTokens.total,
          inputTokens.cacheRead,
          inputTokens.cacheWrite
        )
        break
      }
      default:
    }
  }
  return {
    ...reply,
    content: content.filter((part) => part.type !== "text" || part.text !== "")
  }
}
