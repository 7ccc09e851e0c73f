/**
 * What others give as it is once a store has kept it, which is as JSON.
 */
import type * as Schema from "effect/Schema"

/** A value as it is read again after it was written as JSON; `undefined` if JSON cannot carry it. Never throws. */
export const kept = (value: unknown): Schema.Json | undefined => {
  try {
    const text: string | undefined = JSON.stringify(value)
    return text === undefined ? undefined : JSON.parse(text)
  } catch {
    return undefined
  }
}
