/**
 * One field of an event, altered, and what an alteration is made of.
 */
import type { Limits, Purpose } from "../../../src/run/Limits.ts"
import type { Usage } from "../../../src/run/Money.ts"
import type { RunEvent } from "../../../src/run/RunEvent.ts"
import type { Place, Verdict } from "./places.ts"

/** An event as it was altered. */
export interface Alteration {
  readonly field: string
  readonly verdict: Verdict
  readonly event: RunEvent
}

const nano = 1e-9

/** A nano-dollar more. */
export const more = (usd: number): number => Math.round((usd + nano) * 1e9) / 1e9

/** A million tokens more. */
export const moreTokens = (usage: Usage): Usage => ({
  ...usage,
  promptTokens: usage.promptTokens + 1_000_000
})

export const otherDigest = "another digest"

export const otherArgs = { path: "another" }

export const otherPurpose = (purpose: Purpose): Purpose =>
  purpose === "investigate" ? "handoff" : "investigate"

const limitsIn = (events: ReadonlyArray<RunEvent>): ReadonlyArray<Limits> =>
  events.flatMap((event) =>
    event.type === "run_started" || event.type === "limits_changed" ? [event.limits] : []
  )

/** The limits that are in force at an event. */
export const limitsAt = ({ before }: Place): Limits => limitsIn(before).at(-1) ?? {}

/** How many tokens were used matters where they are limited, and where the run says at its end how many there were. */
export const ofTokens = ({ events, rest }: Place): Verdict => {
  if (rest.some((event) => event.type === "run_stopped" && event.tokens !== undefined)) return "breaks"
  return limitsIn(events).some(({ tokens }) => tokens !== undefined) ? "open" : "harmless"
}

/** A command from outside that was taken in before, if there is one and this event has one too. */
export function* command(event: RunEvent, { before }: Place): Generator<Alteration> {
  if (!("command" in event) || event.command === undefined) return
  const taken = before.flatMap((one) => ("command" in one && one.command !== undefined ? [one.command] : []))
  const last = taken.at(-1)
  if (last !== undefined) {
    yield { field: "command", verdict: "breaks", event: { ...event, command: last } }
  }
}
