/**
 * What was given by whoever the compiler did not hold, or as a number that is none (`Number(undefined)`), looked at before
 * it is used: an option that is misspelt would be no option, and a wait of `NaN` is one of 0.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"

/** A value as a sentence has it. */
export const shown = (value: unknown): string => {
  if (typeof value === "string") return JSON.stringify(value)
  if (Array.isArray(value)) return "a list"
  if (typeof value === "function") return "a function"
  return typeof value === "object" && value !== null ? "an object" : String(value)
}

/** Whether there are names to be read in it. */
export const isRecord = (value: unknown): value is { readonly [name: string]: unknown } =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The first name that is none of those that there are. */
export const misspelt = (given: object, known: ReadonlyArray<string>): string | undefined => {
  for (const name in given) {
    // The methods of a class are no names, and those of effect's classes are found here.
    const isMethod = !Object.hasOwn(given, name) && typeof Reflect.get(given, name) === "function"
    if (!known.includes(name) && !isMethod) return name
  }
  return undefined
}

/**
 * What an object says under these names, in an object that can be spread; what is undefined is left out. An instance of a
 * class may have what it says above it, where no spread finds it.
 */
export const picked = <A extends object>(given: A, names: ReadonlyArray<keyof A>): Partial<A> => {
  const out: Partial<A> = {}
  for (const name of names) if (given[name] !== undefined) out[name] = given[name]
  return out
}

const isAmount = (value: unknown): boolean => typeof value === "number" && !Number.isNaN(value)

const units: ReadonlyArray<string> = [
  "weeks",
  "days",
  "hours",
  "minutes",
  "seconds",
  "milliseconds",
  "microseconds",
  "nanoseconds"
]

// The rest `Duration.fromInput` would read as 0.
const isWritten = (value: unknown): value is Duration.Input => {
  if (Duration.isDuration(value) || typeof value === "string" || typeof value === "bigint") return true
  if (Array.isArray(value)) return value.length === 2 && value.every(isAmount)
  if (!isRecord(value)) return isAmount(value)
  const amounts = units.map((unit) => value[unit]).filter((amount) => amount !== undefined)
  return amounts.length > 0 && amounts.every(isAmount) && misspelt(value, units) === undefined
}

/** How long a duration is, in milliseconds; `undefined` for what is none, or shorter than none. */
export const millisOf = (value: unknown): number | undefined => {
  const duration = isWritten(value) ? Duration.fromInput(value) : Option.none()
  const ms = Option.isSome(duration) ? Duration.toMillis(duration.value) : Number.NaN
  return ms >= 0 ? ms : undefined
}

// A time without its zone would be another one wherever this runs; a date alone begins in UTC.
const isDate =
  /^(?:\d{4}|[+-]\d{6})(?:-\d\d(?:-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))?)?)?$/

/** The moment that a date names, as the journal writes it; `undefined` for what is none. */
export const momentOf = (value: unknown): string | undefined => {
  if (typeof value !== "string" || !isDate.test(value)) return undefined
  const [day = ""] = value.replace(/^\+00/, "").split("T")
  const [moment, midnight] = [new Date(value), new Date(day)]
  if (Number.isNaN(moment.getTime()) || Number.isNaN(midnight.getTime())) return undefined
  // The 30th of February would be a day of March.
  return midnight.toISOString().startsWith(day) ? moment.toISOString() : undefined
}

/** What a value has to be. */
export interface Kind {
  readonly what: string
  readonly is: (value: unknown) => boolean
}

/** A duration; `Infinity` is one. */
export const duration: Kind = {
  what: "a duration of at least 0",
  is: (value) => millisOf(value) !== undefined
}

/** A date, in ISO 8601, that is compared as a text: after the year 9999 it would come before all others. */
export const date: Kind = {
  what: "a date up to the year 9999, as in 2030-01-31T12:00:00Z",
  is: (value) => momentOf(value)?.startsWith("+") === false
}

/** A text. */
export const text: Kind = { what: "a text", is: (value) => typeof value === "string" }

/** What is looked at where it is used. */
export const anything: Kind = { what: "anything", is: () => true }

/** A number of things, at least so many. */
export const whole = (least: number): Kind => ({
  what: `a whole number of at least ${least}`,
  is: (value) => typeof value === "number" && Number.isSafeInteger(value) && value >= least
})

/** The same, or `Infinity`. */
export const wholeOrAll = (least: number): Kind => ({
  what: `a whole number of at least ${least}, or Infinity`,
  is: (value) => value === Number.POSITIVE_INFINITY || whole(least).is(value)
})

/** A number from 0 to so much. */
export const upTo = (most: number): Kind => ({
  what: most === Number.POSITIVE_INFINITY ? "a number of at least 0" : `a number from 0 to ${most}`,
  is: (value) => typeof value === "number" && Number.isFinite(value) && value >= 0 && value <= most
})

/** One of these texts. */
export const oneOf = (...texts: ReadonlyArray<string>): Kind => ({
  what: texts.map((text) => JSON.stringify(text)).join(" or "),
  is: (value) => texts.some((text) => text === value)
})

/** Options whose names are known, by what each has to be. */
export type Kinds<Options> = { readonly [Name in keyof Required<Options>]: Kind }

/** The names of options. */
export const namesOf = <Options>(kinds: Kinds<Options>): ReadonlyArray<keyof Options> => {
  const names: Array<keyof Options> = []
  for (const name in kinds) names.push(name)
  return names
}

/**
 * What is wrong with options, as a sentence in which they are called `name`; `undefined` if nothing is. One that is left out
 * is looked at only if it is needed.
 */
export const problemOf = <Options>(
  given: unknown,
  name: string,
  kinds: Kinds<Options>,
  needed: ReadonlyArray<keyof Options> = []
): string | undefined => {
  if (!isRecord(given)) return `${name} is ${shown(given)}, and must be an object`
  const known = Object.keys(kinds)
  const none = misspelt(given, known)
  if (none !== undefined) return `${name} has no ${shown(none)}: there are ${known.join(", ")}`
  for (const [option, { is, what }] of Object.entries<Kind>(kinds)) {
    const value = given[option]
    if (value === undefined && !needed.some((each) => each === option)) continue
    if (!is(value)) return `${name}.${option} is ${shown(value)}, and must be ${what}`
  }
  return undefined
}
