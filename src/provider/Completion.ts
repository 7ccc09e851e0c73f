/**
 * The response side of the chat-completions format: what a reply and a piece of a streamed reply look like, and how they
 * become the response parts of `effect/ai`. Endpoints differ, so decoding asks for little and ignores what it does not know.
 */
import type * as Response from "effect/ai/Response"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { StreamedCalls } from "./StreamedCalls.ts"
import * as Wire from "./Wire.ts"

const optional = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

const Usage = Schema.Struct({
  prompt_tokens: optional(Schema.Finite),
  completion_tokens: optional(Schema.Finite),
  total_tokens: optional(Schema.Finite),
  prompt_tokens_details: optional(
    Schema.Struct({
      cached_tokens: optional(Schema.Finite),
      cache_write_tokens: optional(Schema.Finite)
    })
  ),
  prompt_cache_hit_tokens: optional(Schema.Finite),
  completion_tokens_details: optional(Schema.Struct({ reasoning_tokens: optional(Schema.Finite) }))
})
/** Token usage as endpoints report it. */
export type Usage = typeof Usage.Type

// Usage of another shape is as good as none, and no reason to give up a reply that was paid for.
const UsageAsTold = Schema.optionalKey(Schema.Unknown)
const decodeUsage = Schema.decodeUnknownOption(Usage)

const Called = Schema.Struct({
  name: optional(Schema.String),
  arguments: Schema.optionalKey(Schema.Unknown)
})

const CallDelta = Schema.Struct({
  index: optional(Schema.Finite),
  id: optional(Schema.String),
  function: optional(Called),
  extra_content: Schema.optionalKey(Schema.Json)
})
type CallDelta = typeof CallDelta.Type

const Delta = Schema.Struct({
  content: optional(
    Schema.Union([
      Schema.String,
      Schema.Array(Schema.Union([Schema.String, Schema.Struct({ text: optional(Schema.String) })]))
    ])
  ),
  refusal: optional(Schema.String),
  reasoning_content: optional(Schema.String),
  reasoning: optional(Schema.String),
  reasoning_details: optional(Schema.Array(Schema.Json)),
  tool_calls: optional(Schema.Array(CallDelta)),
  // What calls were before there could be several; some gateways still answer with it.
  function_call: optional(Called)
})
type Delta = typeof Delta.Type

/** A whole reply, as the endpoint answers without streaming. */
export const Completion = Schema.Struct({
  id: optional(Schema.String),
  model: optional(Schema.String),
  choices: optional(
    Schema.Array(
      Schema.Struct({
        index: optional(Schema.Finite),
        message: optional(Delta),
        finish_reason: optional(Schema.String)
      })
    )
  ),
  usage: UsageAsTold
})
/** A whole reply as it was read: what an endpoint leaves out is absent or null. */
export type Completion = typeof Completion.Type

/** One event of a streamed reply. */
export const Chunk = Schema.Struct({
  id: optional(Schema.String),
  model: optional(Schema.String),
  choices: optional(
    Schema.Array(
      Schema.Struct({
        index: optional(Schema.Finite),
        delta: optional(Delta),
        finish_reason: optional(Schema.String)
      })
    )
  ),
  usage: UsageAsTold
})
/** A piece of a streamed reply as it was read: what an endpoint leaves out is absent or null. */
export type Chunk = typeof Chunk.Type

const tokens = (value: number | null | undefined): number | undefined =>
  Predicate.isNumber(value) && Number.isSafeInteger(value) && value >= 0 ? value : undefined

const usageOf = (usage: Usage | null | undefined): Response.FinishPartEncoded["usage"] => {
  const total = tokens(usage?.prompt_tokens)
  const cacheRead = tokens(usage?.prompt_tokens_details?.cached_tokens ?? usage?.prompt_cache_hit_tokens)
  const cacheWrite = tokens(usage?.prompt_tokens_details?.cache_write_tokens)
  const output = tokens(usage?.completion_tokens)
  const reasoning = tokens(usage?.completion_tokens_details?.reasoning_tokens)
  return {
    inputTokens: {
      uncached: total === undefined ? undefined : Math.max(0, total - (cacheRead ?? 0) - (cacheWrite ?? 0)),
      total,
      cacheRead,
      cacheWrite
    },
    outputTokens: {
      total: output,
      text: output === undefined || reasoning === undefined ? undefined : Math.max(0, output - reasoning),
      reasoning
    }
  }
}

const finishReason = (
  reason: string | null | undefined,
  calls: boolean,
  refused: boolean
): Response.FinishReason => {
  if (refused) return "content-filter"
  switch (reason) {
    case "length":
    case "content_filter":
    case "error":
      return reason === "content_filter" ? "content-filter" : reason
    case "tool_calls":
    case "function_call":
    case "stop":
    case null:
    case undefined:
      // Several endpoints answer "stop", or nothing, to a reply that consists of calls.
      return calls ? "tool-calls" : reason === "tool_calls" || reason === "function_call" ? "other" : "stop"
    default:
      return "other"
  }
}

/** The arguments of a call: parsed if they are JSON, the model's own text if they are not, `{}` if there are none. */
const paramsOf = (text: string): unknown => {
  if (text.trim() === "") return {}
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const textOf = (content: Delta["content"]): string =>
  typeof content === "string"
    ? content
    : (content ?? []).map((part) => (typeof part === "string" ? part : (part.text ?? ""))).join("")

const argumentsOf = (value: unknown): string =>
  typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value)

const callsOf = ({ function_call, tool_calls }: Delta): ReadonlyArray<CallDelta> => {
  if (tool_calls && tool_calls.length > 0) return tool_calls
  return function_call ? [{ index: 0, function: function_call }] : []
}

/**
 * The choice that is the reply: the one with index 0. The others are alternatives to it, and neither their text nor their
 * calls belong to it. Without an index it is the place in the list that counts.
 */
export const theReply = <C extends { readonly index?: number | null }>(
  choices: ReadonlyArray<C> | null | undefined
): C | undefined => choices?.find(({ index }, place) => (index ?? place) === 0)

/** How reasoning is treated: sent back with the transcript (some models demand it in a tool loop) or only shown. */
export interface Options {
  readonly replayReasoning?: boolean | undefined
}

/** Puts a streamed reply together. `push` gives the parts that an event completes; `end` gives those left at the end. */
export class Assembler {
  private readonly options: Options
  private readonly calls = new StreamedCalls()
  private reasoning = ""
  private details: Array<Schema.Json> = []
  private detailsShown = 0
  private open: "text" | "reasoning" | undefined
  private segments = 0
  private started = false
  private replied = false
  private refused = false
  private reason: string | undefined
  private usage: Usage | undefined

  constructor(options: Options = {}) {
    this.options = options
  }

  /** Whether anything has come of the reply itself. */
  get begun(): boolean {
    return this.replied
  }

  /** Whether the endpoint has said why the reply ends. */
  get finished(): boolean {
    return this.reason !== undefined
  }

  push(chunk: Chunk): Array<Response.StreamPartEncoded> {
    const parts: Array<Response.StreamPartEncoded> = []
    if (!this.started) {
      this.started = true
      parts.push({
        type: "response-metadata",
        id: chunk.id ?? undefined,
        modelId: chunk.model ?? undefined
      })
    }
    if (chunk.usage) this.usage = Option.getOrElse(decodeUsage(chunk.usage), () => this.usage)
    const choice = theReply(chunk.choices)
    if (choice === undefined) return parts
    this.replied = true
    if (choice.delta) this.pushDelta(choice.delta, parts)
    if (choice.finish_reason) this.reason = choice.finish_reason
    return parts
  }

  end(): Array<Response.StreamPartEncoded> {
    const parts: Array<Response.StreamPartEncoded> = []
    if (this.details.length > this.detailsShown) this.begin("reasoning", parts)
    this.close(parts)
    for (const call of this.calls.inOrder()) {
      parts.push({ type: "tool-params-end", id: call.partId })
      parts.push({
        type: "tool-call",
        id: call.id,
        name: call.name,
        params: paramsOf(call.arguments),
        ...(call.extra === undefined ? undefined : { metadata: Wire.replay({ extra_content: call.extra }) })
      })
    }
    parts.push({
      type: "finish",
      reason: finishReason(this.reason, this.calls.size > 0, this.refused),
      usage: usageOf(this.usage)
    })
    return parts
  }

  private pushDelta(delta: Delta, parts: Array<Response.StreamPartEncoded>) {
    const thought = delta.reasoning_content || delta.reasoning || ""
    if (delta.reasoning_details) this.details.push(...delta.reasoning_details)
    if (thought !== "") {
      this.begin("reasoning", parts)
      this.reasoning += thought
      parts.push({
        type: "reasoning-delta",
        id: `reasoning-${this.segments}`,
        delta: thought
      })
    }
    if (delta.refusal) this.refused = true
    const text = textOf(delta.content) + (delta.refusal ?? "")
    if (text !== "") {
      this.begin("text", parts)
      parts.push({
        type: "text-delta",
        id: `text-${this.segments}`,
        delta: text
      })
    }
    for (const piece of callsOf(delta)) {
      const known = this.calls.size
      const call = this.calls.callFor({
        index: piece.index ?? undefined,
        id: piece.id ?? "",
        name: piece.function?.name ?? ""
      })
      if (this.calls.size > known) {
        this.close(parts)
        parts.push({
          type: "tool-params-start",
          id: call.partId,
          name: call.name
        })
      }
      const text = argumentsOf(piece.function?.arguments)
      call.arguments += text
      if (piece.extra_content !== undefined) call.extra = piece.extra_content
      if (text !== "") parts.push({ type: "tool-params-delta", id: call.partId, delta: text })
    }
  }

  private begin(kind: "text" | "reasoning", parts: Array<Response.StreamPartEncoded>) {
    if (this.open === kind) return
    this.close(parts)
    this.open = kind
    this.segments += 1
    const id = `${kind}-${this.segments}`
    parts.push(kind === "text" ? { type: "text-start", id } : { type: "reasoning-start", id })
  }

  private close(parts: Array<Response.StreamPartEncoded>) {
    const id = `${this.open}-${this.segments}`
    if (this.open === "text") parts.push({ type: "text-end", id })
    if (this.open === "reasoning") {
      const metadata = this.replayed()
      parts.push({
        type: "reasoning-end",
        id,
        ...(metadata === undefined ? undefined : { metadata })
      })
    }
    this.open = undefined
  }

  private replayed() {
    this.detailsShown = this.details.length
    if (this.details.length > 0) return Wire.replay({ reasoning_details: this.details })
    return this.options.replayReasoning === true && this.reasoning !== ""
      ? Wire.replay({ reasoning_content: this.reasoning })
      : undefined
  }
}

/** A whole reply as one event of a stream. */
export const asChunk = (completion: Completion): Chunk => ({
  ...completion,
  choices: (completion.choices ?? []).map(({ message, ...choice }) => ({
    ...choice,
    delta: {
      ...message,
      // Without streaming the position is the identity of a call, whatever ids the endpoint gave.
      tool_calls: message?.tool_calls?.map((call, index) => ({ ...call, index })) ?? null
    }
  }))
})

/** The parts of a streamed reply as those of one that came in whole. */
export const whole = (streamed: ReadonlyArray<Response.StreamPartEncoded>): Array<Response.PartEncoded> => {
  const all: Array<Response.PartEncoded> = []
  let text = ""
  for (const part of streamed) {
    switch (part.type) {
      case "text-start":
      case "reasoning-start":
        text = ""
        break
      case "text-delta":
      case "reasoning-delta":
        text += part.delta
        break
      case "text-end":
        all.push({ type: "text", text })
        break
      case "reasoning-end":
        all.push({
          type: "reasoning",
          text,
          ...(part.metadata ? { metadata: part.metadata } : undefined)
        })
        break
      case "response-metadata":
      case "tool-call":
      case "finish":
        all.push(part)
        break
    }
  }
  return all
}

/** The parts of a whole reply. */
export const parts = (completion: Completion, options: Options = {}): Array<Response.PartEncoded> => {
  const assembler = new Assembler(options)
  return whole([...assembler.push(asChunk(completion)), ...assembler.end()])
}
