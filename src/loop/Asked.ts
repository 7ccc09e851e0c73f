/**
 * What people say to a run: what it is asked, as the messages that it begins with, and single texts.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { callsOf, Message } from "../run/Message.ts"
import { RunStoreError } from "../store/RunStore.ts"
import * as Json from "./Json.ts"
import * as Nesting from "./Nesting.ts"

/** Fails if what has to be a text is none: not everybody is held by the compiler, and what is kept is read again. */
const text = (what: string) => (runId: string, given: unknown) =>
  typeof given === "string"
    ? Effect.void
    : Effect.fail(new RunStoreError({ runId, kind: "invalid", problem: `${what} has to be a text` }))

/** Fails if the reason of a Stop is no text. */
export const reason = text("the reason of a Stop")

/** Fails if what a run is told when it goes on is no text. */
export const message = text("the message of a resume")

const decode = Schema.decodeUnknownResult(Schema.Array(Message))

/** Where a conversation is one that no model would take: each call needs its result, right after it, and each result its call. */
const brokenAt = (messages: ReadonlyArray<Message>): string | undefined => {
  const open = new Set<string>()
  const unanswered = () => `call ${[...open].join(", ")} has no result`
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") {
      if (open.delete(message.callId)) continue
      return `message ${index} is the result of a call that does not stand before it: ${message.callId}`
    }
    if (open.size > 0) return unanswered()
    if (message.role === "assistant") for (const { id } of callsOf(message)) open.add(id)
  }
  return open.size > 0 ? unanswered() : undefined
}

/** The messages of an input, as every store keeps them; fails if no run could go on from them. */
export const messages = (
  runId: string,
  input: string | ReadonlyArray<Message>
): Effect.Effect<ReadonlyArray<Message>, RunStoreError> => {
  if (typeof input === "string") return Effect.succeed([{ role: "user", content: input }])
  const refused = (why: string) =>
    Effect.fail(
      new RunStoreError({ runId, kind: "invalid", problem: `what the run is asked is refused: ${why}` })
    )
  const json = Json.kept(input)
  if (json === undefined) return refused("JSON cannot carry it")
  if (Nesting.isTooDeep(json)) return refused(`it is ${Nesting.tooDeep}`)
  const read = decode(json)
  if (Result.isFailure(read)) {
    const where = read.failure.message.trim().replace(/\s*\n\s*/g, " ")
    return refused(`it is neither a text nor a list of messages (${where})`)
  }
  if (read.success.length === 0) return refused("it has no messages")
  const problem = brokenAt(read.success)
  return problem === undefined ? Effect.succeed(read.success) : refused(problem)
}
