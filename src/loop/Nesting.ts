/**
 * How deep arguments may be nested. A model can write any depth, and what walks through a value, here or in a user's
 * schema, does it by recursion: past some thousand levels the stack ends, and with it the run.
 */
import type * as Schema from "effect/Schema"

/** The levels of arrays and objects that arguments may have. */
export const deepest = 256

/** Whether a value is nested deeper than that. No more levels than these are looked at. */
export const isTooDeep = (json: Schema.Json, levels: number = deepest): boolean => {
  if (typeof json !== "object" || json === null) return false
  if (levels === 0) return true
  for (const item of Array.isArray(json) ? json : Object.values(json)) {
    if (isTooDeep(item, levels - 1)) return true
  }
  return false
}

/** What is to be said of a value that is. */
export const tooDeep = `nested more than ${deepest} levels deep`

/** What stands in a transcript for arguments or a result that are nested too deep. */
export const leftOut = `[left out: ${tooDeep}]`
