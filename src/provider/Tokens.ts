/**
 * Counting tokens with `o200k_base`, for replies whose usage a provider left out and for the scripted provider.
 *
 * The rule: `prompt_tokens` are the tokens of `JSON.stringify(messages)` plus those of `JSON.stringify(tools)`;
 * `completion_tokens` are the tokens of the text plus those of `JSON.stringify(tool_calls)`, in the wire form of `Wire`.
 *
 * The vocabulary takes a good part of a second to load, so nothing loads it before the first count.
 *
 * A long text is counted chunk by chunk, and other fibers go on in between. What was counted before is kept for a while.
 * An unbroken run of letters, symbols or blanks that is longer than 768 bytes is counted in pieces: a token or two too
 * many or too few for each, which is a percent or two at most.
 *
 * A growing transcript is not tokenized anew. The JSON text is cut after the `{"` that opens each message, which changes
 * no count: the tokenizer takes `{"` with the symbols before it as the end of one word, because a letter follows it. What a
 * message costs therefore depends on the message alone, and on whether another one follows.
 */

import type * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as BytePairs from "./BytePairs.ts"
import * as Wire from "./Wire.ts"

/** Counting, step by step: what counts a long text says so after each chunk, so that others may go on in between. */
type Counting = Generator<void, number>

interface Counts {
  /** The tokens of a text. */
  readonly text: (text: string) => Counting
  /** The prompt tokens of a request in wire form. */
  readonly request: (
    messages: ReadonlyArray<Wire.Message>,
    tools: ReadonlyArray<Wire.ToolDefinition>
  ) => Counting
  /** The completion tokens of a reply in wire form. */
  readonly reply: (content: string | null | undefined, calls: ReadonlyArray<Wire.ToolCall>) => Counting
}

const cacheLimit = 4 * 1024 * 1024

/** Keeps counts of texts seen lately: the endpoint gets every message as new text with every request. */
const remembering = (count: (text: string) => Counting) => {
  let recent = new Map<string, number>()
  let older = new Map<string, number>()
  let size = 0
  return function* (text: string): Counting {
    let tokens = recent.get(text)
    if (tokens !== undefined) return tokens
    tokens = older.get(text) ?? (yield* count(text))
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

/** As much of a message's end as is searched for them. */
const searched = 256

const make = (count: (chunk: string) => number): Counts => {
  let sincePause = 0
  const text = function* (text: string): Counting {
    let total = 0
    for (const chunk of BytePairs.chunks(text)) {
      total += count(chunk)
      sincePause += chunk.length
      if (sincePause < BytePairs.longestChunk) continue
      sincePause = 0
      yield
    }
    return total
  }
  const remembered = remembering(text)
  const perMessage = new WeakMap<Wire.Message, { readonly followed: number; readonly last: number }>()
  const message = function* (wire: Wire.Message) {
    let counts = perMessage.get(wire)
    if (counts === undefined) {
      const rest = Wire.jsonOf(wire).slice(2)
      const cut = rest.slice(-searched).search(closing)
      const split = cut === -1 ? 0 : Math.max(0, rest.length - searched) + cut
      const head = split === 0 ? 0 : yield* remembered(rest.slice(0, split))
      const tail = rest.slice(split)
      counts = {
        followed: head + (yield* remembered(`${tail},{"`)),
        last: head + (yield* remembered(`${tail}]`))
      }
      perMessage.set(wire, counts)
    }
    return counts
  }
  return {
    text,
    request: function* (messages, tools) {
      let total = yield* remembered(Wire.listJson(tools))
      const last = messages.at(-1)
      if (last === undefined) return total + (yield* remembered("[]"))
      total += yield* remembered('[{"')
      for (const wire of messages) {
        // Each is followed by another one but for the last; a message that is known needs no generator.
        total += (perMessage.get(wire) ?? (yield* message(wire))).followed
      }
      const { followed, last: ended } = yield* message(last)
      return total - followed + ended
    },
    reply: function* (content, calls) {
      return (yield* remembered(content ?? "")) + (yield* remembered(JSON.stringify(calls)))
    }
  }
}

const letOthersGoOn = Effect.fnUntraced(function* (counting: Counting) {
  let step = counting.next()
  while (step.done !== true) {
    yield* Effect.yieldNow
    step = counting.next()
  }
  return step.value
})

let loaded: Counts | undefined
let loading: Promise<Counts> | undefined

/** A load that failed may be tried again. */
const forget = (error: unknown): never => {
  loading = undefined
  throw error
}

const loadVocabulary = async (): Promise<Counts> => {
  const { default: vocabulary } = await import("js-tiktoken/ranks/o200k_base")
  loaded = make(BytePairs.counter(vocabulary))
  return loaded
}

const current: Effect.Effect<Counts> = Effect.suspend(() =>
  loaded === undefined
    ? Effect.promise(() => (loading ??= loadVocabulary().catch(forget)))
    : Effect.succeed(loaded)
)

const counted = (of: (counts: Counts) => Counting): Effect.Effect<number> =>
  Effect.flatMap(current, (counts) => letOthersGoOn(of(counts)))

/**
 * Loads the vocabulary, once in a process: for whoever cannot wait for it at the first count, such as a test with a
 * `TestClock`, under which a run must not wait for what takes real time.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Tokens } from "checkrein/provider"
 *
 * const count = Effect.andThen(Tokens.load, Tokens.countText("What is in the log?"))
 * ```
 */
export const load: Effect.Effect<void> = Effect.asVoid(current)

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
export const countText = (text: string): Effect.Effect<number> => counted((counts) => counts.text(text))

/**
 * The prompt tokens of a request that is in wire form already.
 *
 * @example
 * ```ts
 * import { Tokens } from "checkrein/provider"
 *
 * const tokens = Tokens.countWireRequest([{ role: "user", content: "What is in the log?" }], [])
 * ```
 */
export const countWireRequest = (
  messages: ReadonlyArray<Wire.Message>,
  tools: ReadonlyArray<Wire.ToolDefinition>
): Effect.Effect<number> => counted((counts) => counts.request(messages, tools))

/**
 * The completion tokens of a reply that is in wire form already.
 *
 * @example
 * ```ts
 * import { Tokens } from "checkrein/provider"
 *
 * const tokens = Tokens.countWireReply("Nothing is in the log.", [])
 * ```
 */
export const countWireReply = (
  content: string | null | undefined,
  calls: ReadonlyArray<Wire.ToolCall>
): Effect.Effect<number> => counted((counts) => counts.reply(content, calls))

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
): Effect.Effect<number> => countWireRequest(Wire.messages(messages), Wire.tools(tools))

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
  countWireReply(
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
