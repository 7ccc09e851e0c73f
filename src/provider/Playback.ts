/**
 * Plays a script against one request: takes its time, counts or reports usage, keeps to the output cap. What comes out is
 * in wire form, so the in-process provider and the server give the same answers and the same numbers.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Money from "../run/Money.ts"
import type * as Completion from "./Completion.ts"
import * as Script from "./Script.ts"
import * as Tokens from "./Tokens.ts"
import type * as Wire from "./Wire.ts"

/** How scripts are played. */
export interface Options {
  /** The model's name, by which prices are looked up; by default the script's. */
  readonly model?: string
  /** How long each reply takes, unless it says so itself; by default no time at all. */
  readonly latency?: Duration.Input
  /**
   * `counted` (default) counts by the rule of `Tokens`; a usage is reported as it stands, and no tokenizer is loaded;
   * `omitted` reports none. A reply's own usage wins.
   */
  readonly usage?: Money.Usage | "counted" | "omitted"
  /**
   * Replies to the first requests, whatever they ask: the state that a script has not. Each is used once, in order; then
   * the script answers. This is how a test makes "the first two attempts fail".
   */
  readonly failures?: ReadonlyArray<Script.Reply>
}

/** A request as scripts see it. */
export interface Request {
  /** The number of replies before. */
  readonly turn: number
  /** Encoded on demand: a script with given usage that looks at nothing costs no encoding. */
  readonly messages: () => ReadonlyArray<Wire.Message>
  readonly tools: () => ReadonlyArray<Wire.ToolDefinition>
  /** The model must not call tools now. */
  readonly withoutCalls: boolean
  readonly maxOutputTokens: number | undefined
}

/** A whole reply, and after how many events of its stream the connection breaks. */
export interface Played {
  readonly _tag: "Played"
  readonly completion: Completion.Completion
  readonly message: Message
  readonly breakAfter: number | undefined
}

/** The assistant message of a reply, in wire form. */
export interface Message {
  readonly content: string | null
  readonly reasoning_content?: string
  readonly tool_calls?: ReadonlyArray<Wire.ToolCall>
}

/** What comes of a request: the answer with what it used, or the way in which there is none. */
export type Outcome = Played | Script.Failure | Script.Disconnect

/** Plays one script; the failures of the options are consumed across all requests to this player. */
export interface Player {
  readonly script: Script.Script
  readonly play: (request: Request) => Effect.Effect<Outcome>
}

const exhausted = (script: Script.Script, turn: number): Script.Failure =>
  Script.fail(400, {
    code: "script_exhausted",
    message:
      `script "${script.name}" has no reply for turn ${turn}` +
      (script.length === undefined ? "" : `: it has ${script.length}, and turns count from 0`)
  })

const replyOf = (script: Script.Script, transcript: Script.Transcript): Script.Reply => {
  try {
    return script.reply(transcript.turn, transcript) ?? exhausted(script, transcript.turn)
  } catch (error) {
    return Script.fail(400, {
      code: "script_failed",
      message: `script "${script.name}" threw at turn ${transcript.turn}: ${error instanceof Error ? error.message : String(error)}`
    })
  }
}

const wireCalls = (answer: Script.Answer, turn: number): ReadonlyArray<Wire.ToolCall> =>
  answer.calls.map((call, index) => ({
    id: call.id ?? `call_${turn}_${index}`,
    type: "function",
    function: { name: call.name, arguments: call.arguments }
  }))

const messageOf = (
  content: string,
  calls: ReadonlyArray<Wire.ToolCall>,
  reasoning: string | undefined
): Message => ({
  content: content === "" && calls.length > 0 ? null : content,
  ...(reasoning === undefined ? undefined : { reasoning_content: reasoning }),
  ...(calls.length === 0 ? undefined : { tool_calls: calls })
})

/** What is left of a reply of `tokens` when only `cap` are allowed: its text, then its calls, by their share of the whole. */
const cutOff = (content: string, calls: ReadonlyArray<Wire.ToolCall>, tokens: number, cap: number) => {
  const whole = calls.reduce((sum, call) => sum + call.function.arguments.length, content.length)
  let left = Math.floor((whole * cap) / tokens)
  const text = content.slice(0, left)
  left -= text.length
  const kept: Array<Wire.ToolCall> = []
  for (const call of calls) {
    if (left <= 0) break
    kept.push({
      ...call,
      function: {
        ...call.function,
        arguments: call.function.arguments.slice(0, left)
      }
    })
    left -= call.function.arguments.length
  }
  return { text, calls: kept }
}

const wireUsage = (usage: Money.Usage): Completion.Usage => ({
  prompt_tokens: usage.promptTokens,
  completion_tokens: usage.completionTokens,
  total_tokens: usage.promptTokens + usage.completionTokens,
  ...(usage.cachedTokens === undefined && usage.cacheWriteTokens === undefined
    ? undefined
    : {
        prompt_tokens_details: {
          cached_tokens: usage.cachedTokens ?? 0,
          cache_write_tokens: usage.cacheWriteTokens ?? 0
        }
      })
})

const count = (request: Request, content: string, calls: ReadonlyArray<Wire.ToolCall>) =>
  Effect.zipWith(
    Tokens.countWireRequest(request.messages(), request.tools()),
    Tokens.countWireReply(content, calls),
    (promptTokens, completionTokens) => ({ promptTokens, completionTokens })
  )

/** Makes a player for a script. */
export const make = (script: Script.Script, options: Options = {}): Player => {
  const model = options.model ?? script.name
  const failures = [...(options.failures ?? [])]
  const play = Effect.fnUntraced(function* (request: Request) {
    const transcript = Script.transcript(request.turn, request.messages, request.tools)
    const reply = failures.shift() ?? replyOf(script, transcript)
    const latency = reply.latency ?? options.latency
    if (latency !== undefined) yield* Effect.sleep(latency)
    if (reply._tag !== "Answer") return reply

    const { turn } = request
    const calls = request.withoutCalls ? [] : wireCalls(reply, turn)
    const finish = reply.finish ?? (calls.length > 0 ? "tool_calls" : "stop")
    const wanted = reply.usage ?? options.usage ?? "counted"
    const cap = request.maxOutputTokens
    const played = (
      text: string,
      calls: ReadonlyArray<Wire.ToolCall>,
      finish: string,
      usage: Money.Usage | undefined
    ): Played => {
      const message = messageOf(text, calls, reply.reasoning)
      return {
        _tag: "Played",
        completion: {
          id: `chatcmpl-${script.name}-${turn}`,
          model,
          choices: [{ message, finish_reason: finish }],
          ...(usage === undefined || wanted === "omitted" ? undefined : { usage: wireUsage(usage) })
        },
        message,
        breakAfter: reply.breakAfter
      }
    }
    if (wanted === "omitted" && cap === undefined) return played(reply.text, calls, finish, undefined)
    const usage = typeof wanted === "string" ? yield* count(request, reply.text, calls) : wanted
    if (cap === undefined || usage.completionTokens <= cap) return played(reply.text, calls, finish, usage)
    const rest = cutOff(reply.text, calls, usage.completionTokens, cap)
    return played(rest.text, rest.calls, "length", {
      ...usage,
      completionTokens: cap
    })
  })
  return { script, play }
}

const pieces = (text: string): ReadonlyArray<string> => text.match(/\S+\s*|\s+/g) ?? []

const slices = (text: string, length: number): ReadonlyArray<string> => {
  const all: Array<string> = []
  for (let at = 0; at < text.length; at += length) all.push(text.slice(at, at + length))
  return all
}

/** The events of a streamed reply: text word by word, arguments a few characters at a time, usage in the last one. */
export const chunks = ({ completion, message }: Played): ReadonlyArray<Completion.Chunk> => {
  const deltas: Array<NonNullable<NonNullable<Completion.Chunk["choices"]>[number]["delta"]>> = []
  for (const piece of pieces(message.reasoning_content ?? "")) deltas.push({ reasoning_content: piece })
  for (const piece of pieces(message.content ?? "")) deltas.push({ content: piece })
  message.tool_calls?.forEach((call, index) => {
    deltas.push({
      tool_calls: [
        {
          index,
          id: call.id,
          function: { name: call.function.name, arguments: "" }
        }
      ]
    })
    for (const piece of slices(call.function.arguments, 12)) {
      deltas.push({ tool_calls: [{ index, function: { arguments: piece } }] })
    }
  })
  const head = { id: completion.id ?? null, model: completion.model ?? null }
  return [
    ...deltas.map((delta) => ({
      ...head,
      choices: [{ delta, finish_reason: null }]
    })),
    {
      ...head,
      choices: [
        {
          delta: {},
          finish_reason: completion.choices?.[0]?.finish_reason ?? null
        }
      ]
    },
    ...(completion.usage ? [{ ...head, choices: [], usage: completion.usage }] : [])
  ]
}

/** The error object of an answer with an error status, as endpoints send it. */
export const errorBody = (failure: Script.Failure) => ({
  error: {
    message: failure.message,
    type:
      failure.status === 429
        ? "rate_limit_error"
        : failure.status >= 500
          ? "server_error"
          : "invalid_request_error",
    param: null,
    code: failure.code ?? null
  }
})
