/**
 * Amounts as people write them, and the flags that take one.
 */
import * as Flag from "effect/cli/Flag"
import * as Option from "effect/Option"

/** An amount as people write it: how it is read, and what is said of one that cannot be. */
export interface Kind {
  readonly metavar: string
  readonly expected: string
  readonly parse: (text: string) => Option.Option<number>
}

const unitsMs = [
  [/^(?:ms|millis|milliseconds?)$/, 1],
  [/^(?:s|sec|seconds?)$/, 1000],
  [/^(?:m|min|minutes?)$/, 60_000],
  [/^(?:h|hours?)$/, 3_600_000],
  [/^(?:d|days?)$/, 86_400_000],
  [/^(?:w|weeks?)$/, 604_800_000]
] as const

/** A duration as people write it, in milliseconds: `90s`, `10m`, `1.5h`, `30d`, `"10 minutes"`. */
export const durationMs = (text: string): Option.Option<number> => {
  const [, amount, unit] = /^(\d+(?:\.\d+)?) ?([a-z]+)$/i.exec(text.trim()) ?? []
  const known = unitsMs.find(([names]) => unit !== undefined && names.test(unit.toLowerCase()))
  return known === undefined ? Option.none() : Option.some(Number(amount) * known[1])
}

const numberIf =
  (written: RegExp, holds: (value: number) => boolean) =>
  (text: string): Option.Option<number> =>
    written.test(text) && holds(Number(text)) ? Option.some(Number(text)) : Option.none()

/** A number of things, of which there may be none. */
export const count: Kind = {
  metavar: "N",
  expected: "a whole number of at least 0",
  parse: numberIf(/^\d+$/, Number.isSafeInteger)
}

/** At least one. */
export const positive: Kind = {
  metavar: "N",
  expected: "a whole number of at least 1",
  parse: numberIf(/^\d+$/, (value) => value > 0 && Number.isSafeInteger(value))
}

/** USD. */
export const money: Kind = {
  metavar: "X",
  expected: "an amount of at least 0",
  parse: numberIf(/^(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i, Number.isFinite)
}

/** Milliseconds. */
export const time: Kind = {
  metavar: "D",
  expected: 'a duration such as 90s, 10m or "2 hours"',
  parse: durationMs
}

/** A flag that takes an amount. */
export const flag = (name: string, { expected, metavar, parse }: Kind, what: string): Flag.Flag<number> =>
  Flag.String(name).pipe(
    Flag.filterMap(parse, (text) => `Expected ${expected}, got ${text}`),
    Flag.withMetavar(metavar),
    Flag.withDescription(what)
  )

/** The same for one that need not be given. */
export const optional = (name: string, kind: Kind, what: string): Flag.Flag<Option.Option<number>> =>
  Flag.optional(flag(name, kind, what))
