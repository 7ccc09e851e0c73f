/**
 * What others give as it is once a store has kept it, which is as JSON.
 */
import type * as Schema from "effect/Schema"

/**
 * A value as it is read again after it was written as JSON; `undefined` if JSON cannot carry it, as with a cycle or a
 * bigint. What JSON leaves out, such as a function, is `absent`. Never throws.
 */
export const kept = (value: unknown, absent?: Schema.Json): Schema.Json | undefined => {
  try {
    const text: string | undefined = JSON.stringify(value)
    return text === undefined ? absent : JSON.parse(text)
  } catch {
    return undefined
  }
}
