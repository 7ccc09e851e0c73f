/**
 * What a strict endpoint can read of what a model or a tool has written. A request with anything else in it is refused,
 * and so is every later one with the same transcript. The transcript itself keeps what was written.
 */
import type * as Schema from "effect/Schema"

/** A text without half characters: any tool that cuts a text may leave one, and no strict parser takes it. */
export const text = (text: string): string => (text.isWellFormed() ? text : text.toWellFormed())

const isSendable = (json: Schema.Json): boolean => {
  if (typeof json === "string") return json.isWellFormed()
  if (typeof json !== "object" || json === null) return true
  return Array.isArray(json)
    ? json.every(isSendable)
    : Object.entries(json).every(([key, value]) => key.isWellFormed() && isSendable(value))
}

/** A value with no half character in any text of it, nor in a name; the value itself where there is none. */
export const json = (value: Schema.Json): Schema.Json =>
  // JSON writes each half as an escape of its own, and a backslash that is part of a text doubled.
  isSendable(value)
    ? value
    : JSON.parse(
        JSON.stringify(value).replace(/\\(?:\\|ud[89a-f]..)/g, (one) => (one === "\\\\" ? one : "\ufffd"))
      )

const accepted = /^[\w-]{1,64}$/

/** The name of a call as the strictest endpoints take it: up to 64 letters, digits, `_` and `-`. */
export const name = (name: string): string => {
  if (accepted.test(name)) return name
  return name === "" ? "unnamed" : name.slice(0, 64).replace(/[^\w-]/g, "_")
}
