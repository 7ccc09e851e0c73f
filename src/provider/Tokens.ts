/**
 * Counting tokens with `o200k_base`, for replies whose usage a provider left out and for the scripted provider.
 *
 * The rule: `prompt_tokens` are the tokens of `JSON.stringify(messages)` plus those of `JSON.stringify(tools)`;
 * `completion_tokens` are the tokens of the text plus those of `JSON.stringify(tool_calls)`, in the wire form of `Wire`.
 *
 * The tokenizer takes about a second and 160 MB to load, so nothing loads it before the first count.
 *
 * A growing transcript is not tokenized anew. The JSON text is cut after the `{"` that opens each message, which changes
 * no count: the tokenizer takes `{"` with the symbols before it as the end of one word, because a letter follows it. What a
 * message costs therefore depends on the message alone, and on whether another one follows.
 */

import type * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Wire from "./Wire.ts"

/** A loaded tokenizer. Its counts are pure; it keeps what it has counted before. */
export interface Tokenizer {
  /** The tokens of a text. */
  readonly text: (text: string) => number
  /** The prompt tokens of a request in wire form. */
  readonly request: (
    messages: ReadonlyArray<Wire.Message>,
    tools: ReadonlyArray<Wire.ToolDefinition>
  ) => number
  /** The completion tokens of a reply in wire form. */
  readonly reply: (content: string | null | undefined, calls: ReadonlyArray<Wire.ToolCall>) => number
}

const longestRun = 256

const endless = new RegExp(
  `[\\p{L}\\p{M}]{${longestRun}}|[^\\s\\p{L}\\p{N}]{${longestRun}}|\\s{${longestRun}}`,
  "gu"
)

/**
 * The tokenizer takes time with the square of an unbroken run of letters, symbols or blanks: 8,000 of one letter take four
 * seconds. Longer runs than any word or rule of dashes are therefore counted in pieces, which may add a token for each cut.
 */
const bounded =
  (count: (text: string) => number) =>
  (text: string): number => {
    if (text.length <= longestRun) return count(text)
    let total = 0
    let from = 0
    for (const match of text.matchAll(endless)) {
      const to = match.index + match[0].length
      total += count(text.slice(from, to))
      from = to
    }
    return total + count(text.slice(from))
  }

const cacheLimit = 4 * 1024 * 1024

/** Keeps counts of texts seen lately: the endpoint gets every message as new text with every request. */
const remembering = (count: (text: string) => number) => {
  let recent = new Map<string, number>()
  let older = new Map<string, number>()
  let size = 0
  return (text: string): number => {
    let tokens = recent.get(text)
    if (tokens !== undefined) return tokens
    tokens = older.get(text) ?? count(text)
    recent.set(text, tokens)
    size += text.length
    if (size > cacheLimit) {
      older = recent
      recent = new Map()
      size = 0
    }
    return tokens
  }
}

/** The symbols that end a message's JSON, when a letter or a digit comes before them: a safe place for a cut. */
const closing = /(?<=[\p{L}\p{N}])[^\s\p{L}\p{N}\p{M}]+$/u

const make = (encode: (text: string) => number): Tokenizer => {
  const text = bounded(encode)
  const remembered = remembering(text)
  const perMessage = new WeakMap<Wire.Message, { readonly followed: number; readonly last: number }>()
  const message = (wire: Wire.Message) => {
    let counts = perMessage.get(wire)
    if (counts === undefined) {
      const rest = Wire.jsonOf(wire).slice(2)
      const cut = rest.slice(-longestRun).search(closing)
      const split = cut === -1 ? 0 : Math.max(0, rest.length - longestRun) + cut
      const head = split === 0 ? 0 : remembered(rest.slice(0, split))
      const tail = rest.slice(split)
      counts = {
        followed: head + remembered(`${tail},{"`),
        last: head + remembered(`${tail}]`)
      }
      perMessage.set(wire, counts)
    }
    return counts
  }
  return {
    text,
    request: (messages, tools) => {
      let total = remembered(Wire.listJson(tools))
      if (messages.length === 0) return total + remembered("[]")
      total += remembered('[{"')
      const final = messages.length - 1
      for (let i = 0; i < final; i++) total += message(messages[i]!).followed
      return total + message(messages[final]!).last
    },
    reply: (content, calls) => remembered(content ?? "") + remembered(JSON.stringify(calls))
  }
}

let loaded: Tokenizer | undefined
let loading: Promise<Tokenizer> | undefined

/** A load that failed may be tried again. */
const forget = (error: unknown): never => {
  loading = undefined
  throw error
}

const load = async (): Promise<Tokenizer> => {
  const [{ Tiktoken }, { default: ranks }] = await Promise.all([
    import("js-tiktoken/lite"),
    import("js-tiktoken/ranks/o200k_base")
  ])
  const bpe = new Tiktoken(ranks)
  loaded = make((text) => bpe.encode(text, [], []).length)
  return loaded
}

/**
 * The tokenizer of this process; the first use loads it.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Tokens } from "checkrein/provider"
 *
 * const count = Effect.map(Tokens.tokenizer, (tokens) => tokens.text("What is in the log?"))
 * ```
 */
export const tokenizer: Effect.Effect<Tokenizer> = Effect.suspend(() =>
  loaded === undefined ? Effect.promise(() => (loading ??= load().catch(forget))) : Effect.succeed(loaded)
)

/**
 * The tokens of a text.
 *
 * @example
 * ```ts
 * import { Tokens } from "checkrein/provider"
 *
 * const tokens = Tokens.countText("What is in the log?")
 * ```
 */
export const countText = (text: string): Effect.Effect<number> =>
  Effect.map(tokenizer, (tokens) => tokens.text(text))

/**
 * The prompt tokens of a request, by the rule above.
 *
 * @example
 * ```ts
 * import * as Prompt from "effect/ai/Prompt"
 * import { Tokens } from "checkrein/provider"
 *
 * const tokens = Tokens.countRequest(Prompt.make("What is in the log?").content, [])
 * ```
 */
export const countRequest = (
  messages: ReadonlyArray<Prompt.Message>,
  tools: ReadonlyArray<Tool.Any>
): Effect.Effect<number> =>
  Effect.map(tokenizer, (tokens) => tokens.request(Wire.messages(messages), Wire.tools(tools)))

/** A call as it is counted. `params` is an object, or the text that the model wrote if that was not JSON. */
export interface CountedCall {
  readonly id: string
  readonly name: string
  readonly params: unknown
}

/**
 * The completion tokens of a reply, by the rule above.
 *
 * @example
 * ```ts
 * import { Tokens } from "checkrein/provider"
 *
 * const tokens = Tokens.countReply("", [{ id: "c1", name: "read_file", params: { path: "a.log" } }])
 * ```
 */
export const countReply = (text: string, calls: ReadonlyArray<CountedCall>): Effect.Effect<number> =>
  Effect.map(tokenizer, (tokens) =>
    tokens.reply(
      text,
      calls.map(({ id, name, params }) => ({
        id,
        type: "function",
        function: {
          name,
          arguments: typeof params === "string" ? params : Wire.argumentsText(params)
        }
      }))
    )
  )
