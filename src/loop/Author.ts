/**
 * What the functions of an agent's author yield. Whoever is not held by the compiler may yield anything, and a run can be
 * read again only if nothing of that gets into its journal.
 */
import * as Result from "effect/Result"

const nameOf = (value: unknown): string => {
  if (typeof value === "string") return "a text"
  const isObject = typeof value === "function" || (typeof value === "object" && value !== null)
  return isObject ? Object.prototype.toString.call(value) : String(value)
}

/** What was asked for, by what the log calls it, and what it has to be. */
export interface Asked<A> {
  readonly name: string
  readonly what: string
  readonly is: (value: unknown) => value is A
}

/** What a function yields, if it is what was asked for; else the words for what it did instead. Never throws. */
export const yields = <A>({ is, name, what }: Asked<A>, ask: () => unknown): Result.Result<A, string> => {
  try {
    const value = ask()
    return is(value) ? Result.succeed(value) : Result.fail(`${name} yields ${nameOf(value)}, and not ${what}`)
  } catch (error) {
    return Result.fail(`${name} fails: ${String(error)}`)
  }
}
