/** What a case expects, and how it says so: with what was expected and what came, each once. */
import { isDeepStrictEqual } from "node:util"
import * as Arbitrary from "effect/Arbitrary"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"

const shortest = 300

/** A value as text in a sentence. */
export const shown = (value: unknown): string => {
  if (value instanceof Error) return String(value)
  const text = JSON.stringify(value) ?? (value === undefined ? "nothing" : String(value))
  return text.length <= shortest ? text : `${text.slice(0, shortest)} …`
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null

const fieldOf = (value: object, key: string): unknown => Reflect.get(value, key)

/** The first place where two values differ, from the outside in. */
const difference = (actual: unknown, expected: unknown, path = ""): readonly [string, unknown, unknown] => {
  const isBranch = isObject(actual) && isObject(expected) && Array.isArray(actual) === Array.isArray(expected)
  if (!isBranch || actual instanceof Set) return [path, actual, expected]
  for (const key of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
    const [is, was] = [fieldOf(actual, key), fieldOf(expected, key)]
    if (!isDeepStrictEqual(is, was)) {
      const step = Array.isArray(expected) ? `[${key}]` : path === "" ? key : `.${key}`
      return difference(is, was, `${path}${step}`)
    }
  }
  return [path, actual, expected]
}

interface Compared {
  readonly actual: unknown
  readonly expected: unknown
  /** Who was called by a case to compare the two: where that stands is where the error comes from. */
  readonly by?: typeof same
}

/** What a case has found. A test runner that knows `actual` and `expected` shows where they differ. */
class Unexpected extends Error {
  override readonly name = "Unexpected"
  readonly actual: unknown
  readonly expected: unknown
  constructor(message: string, { actual, by, expected }: Compared) {
    super(message)
    this.actual = actual
    this.expected = expected
    if (by === undefined) this.stack = `${this.name}: ${message}`
    else Error.captureStackTrace(this, by)
  }
}

const compare = (actual: unknown, expected: unknown, by: typeof same): void => {
  if (isDeepStrictEqual(actual, expected)) return
  const values = [actual, expected].map((value) => (value instanceof Set ? [...value] : value))
  const isShort = values.every((value) => shown(value).length <= shortest)
  const [path, is, was] = isShort ? ["", ...values] : difference(actual, expected)
  const where = path === "" ? "" : `at ${path}: `
  const message = `${where}expected ${shown(was)}, and ${shown(is)} came`
  throw new Unexpected(message, { actual, expected, by })
}

/** Fails unless the two are equal, whatever they are. */
export const same = (actual: unknown, expected: unknown): void => compare(actual, expected, same)

const asJson = (value: unknown): unknown => (value === undefined ? value : JSON.parse(JSON.stringify(value)))

/** Fails unless the two are the same JSON, in whatever order their fields are. */
export const sameJson = (actual: unknown, expected: unknown): void =>
  compare(asJson(actual), asJson(expected), sameJson)

/** How something fails that must not succeed. */
export const failureOf = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  expected: string
): Effect.Effect<E, never, R> =>
  Effect.matchEffect(effect, {
    onFailure: (error) => Effect.succeed(error),
    onSuccess: (value) => {
      const message = `expected ${expected}, and it succeeded with ${shown(value)}`
      return Effect.die(new Unexpected(message, { actual: value, expected }))
    }
  })

/** Fails with the smallest input for which something does not hold. */
export const forAll = <A, E, R>(
  inputs: Arbitrary.Arbitrary<A>,
  holds: (input: A) => Effect.Effect<void, E, R>
): Effect.Effect<void, never, R> =>
  Effect.gen(function* () {
    // What dies is not made smaller, and an expectation that is not met dies.
    const result = yield* Arbitrary.checkEffect(inputs, (input) =>
      Effect.catchCause(Effect.as(holds(input), true), (cause) => Effect.fail(problemOf(cause)))
    )
    if (result._tag === "Passed") return
    const isFalsified = result._tag === "Falsified" && result.failure._tag === "PropertyError"
    const message = isFalsified
      ? `${result.failure.error}; with the input ${shown(result.shrunkInput)}`
      : (Arbitrary.formatCheckFailure(result) ?? "")
    return yield* Effect.die(new Unexpected(message, { actual: undefined, expected: undefined }))
  })

const isElsewhere = /[/\\]node_modules[/\\]effect[/\\]|\(node:/

/** Where an error comes from, if that is of use: a case, or a store. */
const placeOf = ({ stack = "" }: Error): string => {
  const line = stack.split("\n").find((line) => /^\s+at .*:\d+:\d+\)?$/.test(line) && !isElsewhere.test(line))
  return line === undefined ? "" : ` (${line.trim()})`
}

/** What went wrong in a case, in a sentence. */
export const problemOf = (cause: Cause.Cause<unknown>): string => {
  const [reason] = cause.reasons
  if (reason === undefined || Cause.isInterruptReason(reason)) return "it was interrupted"
  if (Cause.isFailReason(reason)) return `expected no failure, and it failed with ${shown(reason.error)}`
  const { defect } = reason
  if (defect instanceof Unexpected) return `${defect.message}${placeOf(defect)}`
  return `expected no failure, and it broke down: ${shown(defect)}${defect instanceof Error ? placeOf(defect) : ""}`
}
