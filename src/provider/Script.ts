/**
 * The language of scripts: a model that answers as written. A script is a pure function of the turn index and the
 * transcript; the turn index is the number of replies in the conversation, so a script holds no state and a resumed run
 * continues where it was. `Scripted` plays a script in-process, `ScriptedServer` over HTTP.
 */
import type * as Duration from "effect/Duration"
import type * as Money from "../run/Money.ts"
import type * as Wire from "./Wire.ts"

/** What a reply may say about itself. */
export interface ReplyOptions {
  /** How long the model takes, on the Clock. */
  readonly latency?: Duration.Input
  /** Why the reply ends; by default `tool_calls` if it has calls, else `stop`. */
  readonly finish?: "stop" | "length" | "tool_calls" | "content_filter"
  /** The usage to report instead of counting; `omitted` reports none. */
  readonly usage?: Money.Usage | "omitted"
  /** Reasoning that comes before the text. */
  readonly reasoning?: string
  /** Breaks the connection after so many events of the streamed reply; without streaming no reply arrives. */
  readonly breakAfter?: number
}

/** One call of a reply. Without an id it gets one made of turn and position. */
export interface Call {
  readonly name: string
  /** The arguments as the model writes them: JSON text, or what should have been. */
  readonly arguments: string
  readonly id: string | undefined
}

/** A reply with text, calls or both. */
export interface Answer extends ReplyOptions {
  readonly _tag: "Answer"
  readonly text: string
  readonly calls: ReadonlyArray<Call>
}

/** An answer with an error status. */
export interface Failure {
  readonly _tag: "Failure"
  readonly status: number
  readonly message: string
  readonly code: string | undefined
  readonly retryAfter: string | undefined
  readonly latency?: Duration.Input
}

/** A connection that is lost before anything was answered. */
export interface Disconnect {
  readonly _tag: "Disconnect"
  readonly latency?: Duration.Input
}

/** What a script says in one turn: an answer, an error status, or a connection that is lost. */
export type Reply = Answer | Failure | Disconnect

/** The conversation so far, with answers to what scripts ask of it. */
export interface Transcript {
  /** The messages as they are sent. */
  readonly messages: ReadonlyArray<Wire.Message>
  /** The number of replies so far: assistant messages, those that follow one another taken as one. */
  readonly turn: number
  /** The names of the tools on offer. */
  readonly tools: ReadonlyArray<string>
  /** The text of the last user message; "" if there is none. */
  readonly task: string
  /** The contents of all tool results, oldest first. */
  readonly toolResults: ReadonlyArray<string>
  /** The content of the last tool result; "" if there is none. */
  readonly lastToolResult: string
  /** Whether a tool result contains the text. */
  readonly saw: (text: string) => boolean
}

/** A named model that answers as written. `undefined` means that the script has no reply for this turn. */
export interface Script {
  readonly name: string
  readonly reply: (turn: number, transcript: Transcript) => Reply | undefined
  /** How many turns are written, if that is known; only for messages. */
  readonly length: number | undefined
}

/** One line of a script: a reply, or a choice that depends on the transcript. */
export type Line = Reply | ((transcript: Transcript) => Reply | undefined)

/**
 * A script from its replies, the first for turn 0, or from a function.
 *
 * @example
 * ```ts
 * import { Scripted } from "checkrein/provider"
 *
 * const plan = Scripted.make("plan", [
 *   Scripted.call("list_files", {}, { id: "c1" }),
 *   Scripted.turn(
 *     Scripted.text("Both look interesting."),
 *     Scripted.call("read_file", { path: "a.log" }),
 *     Scripted.call("read_file", { path: "b.log" })
 *   ),
 *   (transcript) => Scripted.text(transcript.saw("timeout") ? "There was a timeout." : "Nothing there.")
 * ])
 *
 * const runaway = Scripted.make("runaway", (turn) => Scripted.call("list_files", {}, { id: `c${turn}` }))
 * ```
 */
export const make = (
  name: string,
  lines: ReadonlyArray<Line> | ((turn: number, transcript: Transcript) => Reply | undefined)
): Script =>
  typeof lines === "function"
    ? { name, reply: lines, length: undefined }
    : {
        name,
        reply: (turn, transcript) => {
          const line = lines[turn]
          return typeof line === "function" ? line(transcript) : line
        },
        length: lines.length
      }

/**
 * A reply of text.
 *
 * @example
 * ```ts
 * import { Scripted } from "checkrein/provider"
 *
 * const answer = Scripted.text("There was a timeout.", { latency: "2 seconds" })
 * ```
 */
export const text = (text: string, options: ReplyOptions = {}): Answer => ({
  _tag: "Answer",
  text,
  calls: [],
  ...options
})

/**
 * A reply that calls a tool. The arguments are an object, or a string that is sent as it stands, JSON or not. The id may
 * be empty, as some endpoints have it.
 *
 * @example
 * ```ts
 * import { Scripted } from "checkrein/provider"
 *
 * const read = Scripted.call("read_file", { path: "a.log" }, { id: "c1" })
 * const broken = Scripted.call("read_file", '{"path": "a.l')
 * ```
 */
export const call = (
  name: string,
  args: object | string = {},
  options: ReplyOptions & { readonly id?: string } = {}
): Answer => {
  const { id, ...rest } = options
  return {
    _tag: "Answer",
    text: "",
    calls: [
      {
        name,
        arguments: typeof args === "string" ? args : JSON.stringify(args),
        id
      }
    ],
    ...rest
  }
}

/**
 * One turn made of several replies: their texts joined, all their calls; of options given twice the last wins.
 *
 * @example
 * ```ts
 * import { Scripted } from "checkrein/provider"
 *
 * const both = Scripted.turn(Scripted.text("I look."), Scripted.call("list_files"))
 * ```
 */
export const turn = (...replies: ReadonlyArray<Answer>): Answer =>
  Object.assign({}, ...replies, {
    _tag: "Answer",
    text: replies.map((reply) => reply.text).join(""),
    calls: replies.flatMap((reply) => reply.calls)
  })

/**
 * An answer with an error status: 429, 500, 401 and so on. `retryAfter` is in seconds, or the text of the header (an HTTP
 * date, say). `code` is the machine-readable code, such as `context_length_exceeded` or `insufficient_quota`.
 *
 * @example
 * ```ts
 * import { Scripted } from "checkrein/provider"
 *
 * const busy = Scripted.fail(429, { retryAfter: 2 })
 * ```
 */
export const fail = (
  status: number,
  options: {
    readonly message?: string
    readonly code?: string
    readonly retryAfter?: number | string
    readonly latency?: Duration.Input
  } = {}
): Failure => ({
  _tag: "Failure",
  status,
  message: options.message ?? `the script answers with status ${status}`,
  code: options.code,
  retryAfter: options.retryAfter === undefined ? undefined : String(options.retryAfter),
  ...(options.latency === undefined ? undefined : { latency: options.latency })
})

/**
 * A connection that is lost before anything was answered.
 *
 * @example
 * ```ts
 * import { Scripted } from "checkrein/provider"
 *
 * const lost = Scripted.disconnect({ latency: "1 second" })
 * ```
 */
export const disconnect = (options: { readonly latency?: Duration.Input } = {}): Disconnect => ({
  _tag: "Disconnect",
  ...options
})

const contentText = (content: Wire.Message["content"]): string =>
  typeof content === "string"
    ? content
    : (content ?? []).map((part) => (part.type === "text" ? part.text : "")).join("")

/**
 * How many replies there are: the turn index. Assistant messages that follow one another are one reply, for some clients
 * send its text and its calls apart.
 *
 * @example
 * ```ts
 * import { Scripted } from "checkrein/provider"
 *
 * Scripted.turnOf([{ role: "user" }, { role: "assistant" }, { role: "assistant" }, { role: "tool" }]) // => 1
 * ```
 */
export const turnOf = (messages: ReadonlyArray<{ readonly role: string }>): number => {
  let turn = 0
  let before = ""
  for (const { role } of messages) {
    if (role === "assistant" && before !== role) turn++
    before = role
  }
  return turn
}

/**
 * The transcript of a request. Messages and tools are asked for only if the script looks at them.
 *
 * @example
 * ```ts
 * import { Scripted } from "checkrein/provider"
 *
 * const asked = Scripted.transcript(0, () => [{ role: "user", content: "Anything new?" }], () => [])
 * asked.task // => "Anything new?"
 * ```
 */
export const transcript = (
  turn: number,
  messages: () => ReadonlyArray<Wire.Message>,
  tools: () => ReadonlyArray<Wire.ToolDefinition>
): Transcript => ({
  turn,
  get messages() {
    return messages()
  },
  get tools() {
    return tools().map((tool) => tool.function.name)
  },
  get task() {
    return contentText(messages().findLast((message) => message.role === "user")?.content)
  },
  get toolResults() {
    return messages()
      .filter((message) => message.role === "tool")
      .map((message) => contentText(message.content))
  },
  get lastToolResult() {
    return contentText(messages().findLast((message) => message.role === "tool")?.content)
  },
  saw: (text) =>
    messages().some((message) => message.role === "tool" && contentText(message.content).includes(text))
})
