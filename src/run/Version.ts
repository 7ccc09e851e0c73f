/** The version of what is stored as JSON: what a newer build has written is refused by name, whatever else it says. */
import * as Result from "effect/Result"

/** Why something stored cannot be read. */
export interface Refusal {
  readonly kind: "corrupt" | "newer_version"
  readonly problem: string
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null

/** The object of which a text is the JSON; `undefined` if it is of none. */
export const parse = (text: string): Record<string, unknown> | undefined => {
  try {
    const json: unknown = JSON.parse(text)
    return isObject(json) ? json : undefined
  } catch {
    return undefined
  }
}

/** Why a build that reads versions up to `newest` does not read what says that it has version `v`, if it does not. */
export const refusal = (v: unknown, newest: number): Refusal | undefined => {
  if (typeof v !== "number" || !Number.isInteger(v)) return { kind: "corrupt", problem: "it has no version" }
  return v <= newest
    ? undefined
    : {
        kind: "newer_version",
        problem: `it has version ${v}, and this build reads up to ${newest}; upgrade checkrein`
      }
}

/** The object of which a text is the JSON. What does not say its version is of the first. */
export const read = (text: string, newest: number): Result.Result<Record<string, unknown>, Refusal> => {
  const json = parse(text)
  if (json === undefined) return Result.fail({ kind: "corrupt", problem: "it is not JSON" })
  const refused = refusal(json.v ?? 1, newest)
  return refused === undefined ? Result.succeed(json) : Result.fail(refused)
}
