/**
 * The flags that limit a run: what it may use, what of that is kept for a handoff, and how spend is held to it.
 */
import type * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Option from "effect/Option"
import type { LimitsInput } from "../run/Limits.ts"
import { count, type Kind, money, optional, time } from "./Amount.ts"

const orNone = ({ expected, metavar, parse }: Kind): Kind => ({
  metavar: `${metavar}|none`,
  expected: `${expected}, or none`,
  parse: (text) => (text === "none" ? Option.some(Number.POSITIVE_INFINITY) : parse(text))
})

/** The flags; each that is given replaces the agent's own limit, and `none` lifts it. */
export const flags = {
  maxTurns: optional("max-turns", orNone(count), "The most model calls"),
  maxCalls: optional("max-calls", orNone(count), "The most tool calls, failed attempts included"),
  maxUsd: optional("max-usd", orNone(money), "The most money, in USD; the model needs a price"),
  maxTokens: optional("max-tokens", orNone(count), "The most tokens, in and out together"),
  maxTime: optional("max-time", orNone(time), 'The most time, such as 90s, 10m or "2 hours"'),
  reserveTurns: optional("reserve-turns", count, "How many of the turns are kept for a handoff"),
  reserveCalls: optional("reserve-calls", count, "How many of the tool calls are kept for a handoff"),
  reserveUsd: optional("reserve-usd", money, "How much of the money is kept for a handoff"),
  reserveTokens: optional("reserve-tokens", count, "How many of the tokens are kept for a handoff"),
  reserveTime: optional("reserve-time", time, "How much of the time is kept for a handoff"),
  money: Flag.Literals("money", ["hold", "over-by-one-turn"]).pipe(
    Flag.withDescription(
      "Whether a model call is sent only if its worst case fits the limits of money and tokens, or the last one may pass them (default)"
    ),
    Flag.optional
  )
}

/** What the flags say. */
export interface Values extends Command.Command.Config.Infer<typeof flags> {}

const names = ["turns", "toolCalls", "usd", "tokens", "time"] as const

type Name = (typeof names)[number]

/** The amounts that were named. One that was not is absent: it must not replace the agent's own by nothing. */
const named = (given: { readonly [name in Name]: Option.Option<number> }) => {
  const amounts: { [name in Name]?: number } = {}
  for (const name of names) {
    const value = given[name]
    if (Option.isSome(value)) amounts[name] = value.value
  }
  return amounts
}

/** The limits that a stored run is to go on with: none named is no change, which an empty object would be written down as. */
export const given = (values: Values): LimitsInput | undefined => {
  const limits = toLimits(values)
  return Object.keys(limits).length === 0 ? undefined : limits
}

/** The limits that were named; empty if none was. */
export const toLimits = (values: Values): LimitsInput => {
  const reserve = named({
    turns: values.reserveTurns,
    toolCalls: values.reserveCalls,
    usd: values.reserveUsd,
    tokens: values.reserveTokens,
    time: values.reserveTime
  })
  return {
    ...named({
      turns: values.maxTurns,
      toolCalls: values.maxCalls,
      usd: values.maxUsd,
      tokens: values.maxTokens,
      time: values.maxTime
    }),
    ...(Option.isSome(values.money) ? { money: values.money.value } : undefined),
    ...(Object.keys(reserve).length === 0 ? undefined : { reserve })
  }
}
