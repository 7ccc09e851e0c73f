/**
 * What the functions of an agent's author yield. Whoever is not held by the compiler may yield anything, and a run can be
 * read again only if nothing of that gets into its journal.
 */
import * as Result from "effect/Result"
import type { RunState } from "../run/RunState.ts"

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

type Condition = (state: RunState) => string | undefined

/** Conditions that stop a run only with a text. Of each that yields what means neither this nor going on, `tell` hears once. */
export const conditions = (
  stopWhen: ReadonlyArray<Condition>,
  tell: (problem: string) => void
): ReadonlyArray<Condition> =>
  stopWhen.map((condition) => {
    let isTold = false
    return (state) => {
      const why: unknown = condition(state)
      if (typeof why === "string") return why
      // As `state.turns > 9 && "enough"` yields.
      if (why == null || why === false || isTold) return undefined
      isTold = true
      tell(`stopWhen yields ${nameOf(why)}, and not a text, so the run goes on`)
      return undefined
    }
  })
