/**
 * What a model says over several replies: an answer that was cut off goes on in the next one, and replies that bring
 * nothing at all come to an end.
 */
import * as Schema from "effect/Schema"
import type { Draft } from "./Draft.ts"
import { textOf } from "./Message.ts"
import type { Of } from "./RunEvent.ts"
import type { RunState } from "./RunState.ts"

/** How many replies in a row have brought nothing, and how many of them the provider's content filter has stopped. */
export const Fruitless = Schema.Struct({ replies: Schema.Natural, filtered: Schema.Natural })
/** How many replies in a row have brought nothing, and how many of them a content filter has stopped. */
export type Fruitless = typeof Fruitless.Type

/** A run asks no more after so many replies in a row that bring nothing. */
export const mostFruitless = 3

/** Whether a reply has stopped the work where it was: neither text to go on with, nor a call. */
const isFruitless = ({ calls, finish, message, note }: Of<"turn">): boolean =>
  finish === "content_filter" || (note !== undefined && calls.length === 0 && textOf(message).trim() === "")

/** Whether a provider that paused has the model go on, in the middle of an answer. */
const pauses = (draft: Draft, { calls, finish }: Of<"turn">): boolean =>
  finish === "pause" && calls.length === 0 && draft.unfinished !== undefined

/** A reply goes on with the text that was cut off before it, is itself cut off, brings nothing, or begins anew. */
export const hear = (draft: Draft, event: Of<"turn">): void => {
  const filtered = event.finish === "content_filter"
  const fruitless = isFruitless(event)
  if (fruitless) {
    const { filtered: before, replies } = draft.fruitless ?? { filtered: 0, replies: 0 }
    draft.fruitless = { replies: replies + 1, filtered: before + (filtered ? 1 : 0) }
  } else delete draft.fruitless
  const goesOn = event.cutOff === true || pauses(draft, event)
  if (event.answers || goesOn) {
    const text = `${draft.unfinished ?? ""}${textOf(event.message)}`
    if (goesOn) {
      draft.unfinished = text
      return
    }
    if (draft.phase === "investigate") draft.result = text
    else if (text.trim() !== "") draft.summary = text
  }
  if (!fruitless || filtered) delete draft.unfinished
}

/** The model is told something new: what it says next is no more of the same. */
export const turnTo = (draft: Draft): void => {
  delete draft.unfinished
  delete draft.fruitless
}

/**
 * What the model has said last of all: what it had written of an answer that was cut off, or else the text of its last
 * reply that has any; empty if there is none.
 */
export const lastWords = ({
  given,
  messages,
  unfinished
}: Pick<RunState, "given" | "messages" | "unfinished">): string => {
  if (unfinished !== undefined) return unfinished.trim()
  for (let index = messages.length - 1; index >= given; index--) {
    const message = messages[index]
    const text = message?.role === "assistant" ? textOf(message).trim() : ""
    if (text !== "") return text
  }
  return ""
}
