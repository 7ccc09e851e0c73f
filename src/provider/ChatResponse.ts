/**
 * From the text that an endpoint answers to response parts: a whole JSON reply, or server-sent events that may be cut at
 * any byte. Which of the two it is, the text itself shows: some endpoints do not stream when asked to, some do nothing
 * else, and what they call it is not to be relied on. Whatever is no reply is a typed failure that says what came instead.
 */

import type * as AiError from "effect/ai/AiError"
import type * as Response from "effect/ai/Response"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Sse from "effect/encoding/Sse"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Completion from "./Completion.ts"
import * as ProviderError from "./ProviderError.ts"

const decodeCompletion = Schema.decodeUnknownResult(Completion.Completion)
const decodeChunk = Schema.decodeUnknownResult(Completion.Chunk)

const parse = (text: string): Result.Result<unknown, unknown> => Result.try((): unknown => JSON.parse(text))

const failed = (origin: ProviderError.Origin, body: string, now: number) =>
  ProviderError.fromAnswer(origin, { status: 200, headers: {}, body, now })

const completion = (
  origin: ProviderError.Origin,
  text: string,
  now: number
): Result.Result<Completion.Completion, AiError.AiError> => {
  const shown = () => ProviderError.excerpt(origin, text)
  if (text.trim() === "") return Result.fail(ProviderError.notAReply(origin, "with an empty body"))
  if (ProviderError.isHtml(text)) return Result.fail(ProviderError.notTheFormat(origin, `with ${shown()}`))
  // Trimmed also of a byte order mark.
  const json = parse(text.trim())
  if (Result.isFailure(json)) {
    return Result.fail(
      text.trimStart().startsWith("{")
        ? ProviderError.notAReply(origin, `with JSON that is damaged or breaks off: ${shown()}`)
        : ProviderError.notTheFormat(origin, `with what is not JSON: ${shown()}`)
    )
  }
  if (ProviderError.errorIn(json.success) !== undefined) return Result.fail(failed(origin, text, now))
  const decoded = decodeCompletion(json.success)
  if (Result.isFailure(decoded)) {
    return Result.fail(ProviderError.notTheFormat(origin, `with JSON of another shape: ${shown()}`))
  }
  const { choices } = decoded.success
  if (!choices)
    return Result.fail(ProviderError.notTheFormat(origin, `with JSON without choices: ${shown()}`))
  if (!Completion.theReply(choices)?.message)
    return Result.fail(ProviderError.notAReply(origin, `without a choice to take: ${shown()}`))
  return Result.succeed(decoded.success)
}

const fields = ["data", "event", "id", "retry"]

/** Whether a text that begins like this is one of server-sent events; `undefined` while either may come of it. */
const isEvents = (head: string): boolean | undefined => {
  const start = head.trimStart()
  if (fields.some((field) => start.length < field.length && field.startsWith(start))) return undefined
  return start.startsWith(":") || fields.some((field) => start.startsWith(field))
}

interface Step {
  readonly parts: Array<Response.StreamPartEncoded>
  readonly error: AiError.AiError | undefined
}

/** Reads a reply out of pieces of text, and keeps count of the events in it. */
class Reader {
  events = 0
  done = false
  /** What came before it was clear that it is events, or all of it if it is none. */
  private head = ""
  private isEvents: boolean | undefined
  /** The last event was not JSON: at the end of a stream it is one that was cut off. */
  private damaged = false
  private readonly origin: ProviderError.Origin
  private readonly assembler: Completion.Assembler
  private pending: Array<Sse.Event> = []
  private readonly parser = Sse.makeParser((event) => {
    if (event._tag === "Event") this.pending.push(event)
  })

  constructor(origin: ProviderError.Origin, options: Completion.Options) {
    this.origin = origin
    this.assembler = new Completion.Assembler(options)
  }

  read(text: string, now: number): Step {
    if (this.isEvents === true) return this.readEvents(text, now)
    this.head += text
    this.isEvents ??= isEvents(this.head)
    return this.isEvents === true ? this.readEvents(this.head, now) : { parts: [], error: undefined }
  }

  private readEvents(text: string, now: number): Step {
    const tooLarge = this.parser.feed(text)
    const parts: Array<Response.StreamPartEncoded> = []
    const arrived = this.pending
    this.pending = []
    for (const event of arrived) {
      if (this.done) break
      // Some keep the connection alive with events that are empty.
      if (event.data.trim() === "") continue
      if (event.data.trim() === "[DONE]") {
        this.done = true
        break
      }
      const chunk = this.chunk(event, now)
      if (Result.isFailure(chunk)) return { parts, error: chunk.failure }
      this.events++
      for (const part of this.assembler.push(chunk.success)) parts.push(part)
    }
    const error =
      tooLarge &&
      ProviderError.notTheFormat(this.origin, `with an event that never ends: ${tooLarge.message}`)
    return { parts, error }
  }

  /** What is left when no more text comes. */
  end(now: number): Step {
    if (this.isEvents !== true) {
      return Result.match(completion(this.origin, this.head, now), {
        onFailure: (error) => ({ parts: [], error }),
        onSuccess: (reply) => ({
          parts: [...this.assembler.push(Completion.asChunk(reply)), ...this.assembler.end()],
          error: undefined
        })
      })
    }
    // Some endpoints leave out the blank line after the last event.
    const last = this.done ? { parts: [], error: undefined } : this.readEvents("\n\n", now)
    if (last.error !== undefined && !this.damaged) return last
    if (!this.assembler.begun) {
      return {
        parts: [],
        error: last.error ?? ProviderError.notAReply(this.origin, "with a stream without a reply")
      }
    }
    if (this.done || this.assembler.finished)
      return {
        parts: [...last.parts, ...this.assembler.end()],
        error: undefined
      }
    return {
      parts: last.parts,
      error: ProviderError.network(
        this.origin,
        `the stream ended after ${this.events} events without saying that the reply is complete`
      )
    }
  }

  private chunk(event: Sse.Event, now: number): Result.Result<Completion.Chunk, AiError.AiError> {
    const json = parse(event.data)
    const where = `after ${this.events} events with`
    const shown = () => ProviderError.excerpt(this.origin, event.data)
    if (Result.isFailure(json)) {
      this.damaged = true
      return Result.fail(ProviderError.notAReply(this.origin, `${where} a damaged event: ${shown()}`))
    }
    if (event.event === "error" || ProviderError.errorIn(json.success) !== undefined)
      return Result.fail(failed(this.origin, event.data, now))
    return Result.mapError(decodeChunk(json.success), () =>
      ProviderError.notTheFormat(this.origin, `${where} an event of another shape: ${shown()}`)
    )
  }
}

/** The parts of a reply that has come in whole. */
export const parts = (
  origin: ProviderError.Origin,
  text: string,
  options: Completion.Options
): Effect.Effect<Array<Response.PartEncoded>, AiError.AiError> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const reader = new Reader(origin, options)
    const first = reader.read(text, now)
    const last = first.error === undefined ? reader.end(now) : first
    return last.error === undefined
      ? Effect.succeed(Completion.whole([...first.parts, ...last.parts]))
      : Effect.fail(last.error)
  })

const emit = ({ parts, error }: Step): Stream.Stream<Response.StreamPartEncoded, AiError.AiError> =>
  error === undefined
    ? Stream.fromIterable(parts)
    : Stream.concat(Stream.fromIterable(parts), Stream.fail(error))

/**
 * The parts of a streamed reply. `bytes` makes the stream of bytes; it is given the number of events so far, for its own
 * failures. Parts that came before a failure are delivered before it.
 */
export const stream = (
  origin: ProviderError.Origin,
  options: Completion.Options,
  bytes: (events: () => number) => Stream.Stream<Uint8Array, AiError.AiError>
): Stream.Stream<Response.StreamPartEncoded, AiError.AiError> =>
  Stream.unwrap(
    Effect.sync(() => {
      const reader = new Reader(origin, options)
      return bytes(() => reader.events).pipe(
        Stream.decodeText(),
        Stream.mapEffect((text) => Effect.map(Clock.currentTimeMillis, (now) => reader.read(text, now))),
        Stream.takeUntil((step) => reader.done || step.error !== undefined),
        Stream.flatMap(emit),
        Stream.concat(Stream.unwrap(Effect.map(Clock.currentTimeMillis, (now) => emit(reader.end(now)))))
      )
    })
  )
