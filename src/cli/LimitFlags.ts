/**
 * The flags that limit a run.
 */
import * as Flag from "effect/cli/Flag"
import * as Option from "effect/Option"
import type { LimitsInput } from "../run/Limits.ts"

const count = (name: string, what: string): Flag.Flag<Option.Option<number>> =>
  Flag.Int(name).pipe(
    Flag.filter(
      (value) => value >= 0,
      (value) => `Expected a whole number of at least 0, got ${value}`
    ),
    Flag.withMetavar("N"),
    Flag.withDescription(what),
    Flag.optional
  )

const unitsMs = [
  [/^(?:ms|millis|milliseconds?)$/, 1],
  [/^(?:s|sec|seconds?)$/, 1000],
  [/^(?:m|min|minutes?)$/, 60_000],
  [/^(?:h|hours?)$/, 3_600_000]
] as const

/** A duration as people write it, in milliseconds: `90s`, `10m`, `1.5h`, `"10 minutes"`. */
export const durationMs = (text: string): Option.Option<number> => {
  const [, amount, unit] = /^(\d+(?:\.\d+)?) ?([a-z]+)$/i.exec(text.trim()) ?? []
  const known = unitsMs.find(([names]) => unit !== undefined && names.test(unit.toLowerCase()))
  return known === undefined ? Option.none() : Option.some(Number(amount) * known[1])
}

/** The flags; each that is given replaces the agent's own limit. */
export const flags = {
  maxTurns: count("max-turns", "The most model calls"),
  maxUsd: Flag.Finite("max-usd").pipe(
    Flag.filter(
      (value) => value >= 0,
      (value) => `Expected an amount of at least 0, got ${value}`
    ),
    Flag.withMetavar("X"),
    Flag.withDescription("The most money, in USD; passed by less than one turn. The model needs a price"),
    Flag.optional
  ),
  maxTime: Flag.String("max-time").pipe(
    Flag.filterMap(durationMs, (text) => `Expected a duration such as 90s, 10m or "2 hours", got ${text}`),
    Flag.withMetavar("D"),
    Flag.withDescription('The most time, such as 90s, 10m or "2 hours"'),
    Flag.optional
  ),
  maxTokens: count("max-tokens", "The most tokens, in and out together"),
  maxToolCalls: count("max-tool-calls", "The most tool calls")
}

/** What the flags say. */
export interface Values {
  readonly maxTurns: Option.Option<number>
  readonly maxUsd: Option.Option<number>
  readonly maxTime: Option.Option<number>
  readonly maxTokens: Option.Option<number>
  readonly maxToolCalls: Option.Option<number>
}

/** The limits that were named. One that was not is absent: it must not replace the agent's own by nothing. */
export const toLimits = (values: Values): LimitsInput => {
  const limits: {
    -readonly [K in "turns" | "usd" | "time" | "tokens" | "toolCalls"]?: number
  } = {}
  const all = [
    ["turns", values.maxTurns],
    ["usd", values.maxUsd],
    ["time", values.maxTime],
    ["tokens", values.maxTokens],
    ["toolCalls", values.maxToolCalls]
  ] as const
  for (const [name, value] of all) if (Option.isSome(value)) limits[name] = value.value
  return limits
}
