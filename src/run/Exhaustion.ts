/**
 * When a limit is reached, and what follows from that: whether a part of it was kept for the handoff, and how the run ends.
 */
import * as Struct from "effect/Struct"
import type { Exhausted, Limits, Purpose, Resource, Used } from "./Limits.ts"
import * as Money from "./Money.ts"
import type { Ending } from "./NextStep.ts"
import type { RunState } from "./RunState.ts"

/** Under which name an amount of each resource is kept. */
export const amounts = {
  turns: "turns",
  usd: "usd",
  tokens: "tokens",
  time: "timeMs",
  tool_calls: "toolCalls"
} as const satisfies Record<Resource, keyof Used>

const resources = Struct.keys(amounts)

/** How much of an amount is kept from work of this purpose. */
export const keptFrom = ({ reserve }: Limits, name: keyof Used, purpose: Purpose): number =>
  purpose === "investigate" ? (reserve?.[name] ?? 0) : 0

/** Whether a part of a resource is kept for the handoff. */
export const keeps = (limits: Limits, resource: Resource): boolean =>
  keptFrom(limits, amounts[resource], "investigate") > 0

/** What a limit is without what is kept of it. Money in whole nano-dollars: 0.8 - 0.1 is not 0.7 in floating point. */
const less = (name: keyof Used, limit: number, kept: number): number =>
  name === "usd" ? Money.subtract(limit, kept) : limit - kept

/** The first limit, among the resources that count, that leaves no room for more work of this purpose. */
export const reached = (
  limits: Limits,
  used: Used,
  purpose: Purpose,
  counts: (resource: Resource) => boolean
): Exhausted | undefined => {
  for (const resource of resources) {
    const name = amounts[resource]
    const limit = limits[name]
    if (limit === undefined || !counts(resource)) continue
    if (used[name] >= less(name, limit, keptFrom(limits, name, purpose)))
      return { resource, used: used[name], limit }
  }
  return undefined
}

/**
 * The limit of money or tokens of which something is kept, and into which a turn like this one would reach if the run
 * investigated once more. Where the worst case is held before each turn, that is what counts.
 */
export const shortForTurn = (
  limits: Limits,
  used: Used,
  last: Pick<Used, "usd" | "tokens">
): Exhausted | undefined => {
  if (limits.money === "hold") return undefined
  const after = { ...used, usd: Money.add(used.usd, last.usd), tokens: used.tokens + last.tokens }
  for (const name of ["usd", "tokens"] as const) {
    const limit = limits[name]
    const kept = keptFrom(limits, name, "investigate")
    if (limit === undefined || kept === 0) continue
    if (after[name] > less(name, limit, kept)) return { resource: name, used: used[name], limit }
  }
  return undefined
}

/** The limit that leaves no room for one more tool call of this purpose: of time, or of tool calls. */
export const shortForCall = (
  limits: Limits,
  used: Pick<Used, "toolCalls" | "timeMs">,
  purpose: Purpose
): Exhausted | undefined =>
  reached(
    limits,
    { turns: 0, usd: 0, tokens: 0, ...used },
    purpose,
    (resource) => resource === "tool_calls" || resource === "time"
  )

/**
 * The limit that a run has reached first, or `now` if it has reached none before: with what has been used of it by now,
 * unless it is that of a pool. The time until a deadline may have become another one meanwhile.
 */
export const reachedFirst = (
  { exhausted, limits }: Pick<RunState, "exhausted" | "limits">,
  used: Used,
  now: Exhausted
): Exhausted => {
  if (exhausted === undefined) return now
  if (exhausted.pool !== undefined) return exhausted
  const name = amounts[exhausted.resource]
  return { ...exhausted, used: used[name], limit: limits[name] ?? exhausted.limit }
}

const unit: Record<Resource, (amount: number) => string> = {
  turns: (n) => `${n} turns`,
  usd: (n) => `$${n}`,
  tokens: (n) => `${n} tokens`,
  time: (n) => `${Math.round(n)} ms`,
  tool_calls: (n) => `${n} tool calls`
}

const ending = (exhausted: Exhausted, limits: Limits, before = false): Ending => {
  const { limit, pool, resource, used } = exhausted
  const amount = unit[resource]
  const whose = pool === undefined ? "" : `the budget pool ${pool} ${before ? "had" : "has"} `
  const kept = pool === undefined && used < limit && keeps(limits, resource)
  const rest = kept ? ", and the rest was kept for its handoff" : ""
  const when = before ? " when the handoff of this run began" : ""
  const detail = `${whose}used ${amount(used)} of a limit of ${amount(limit)}${rest}${when}`
  return resource === "turns"
    ? { status: "max_turns_exceeded", reason: "max_turns", detail, exhausted }
    : { status: "budget_exceeded", reason: "max_budget", detail, exhausted }
}

/** How a run of these limits ends that has run out of something. */
export const outOf = (exhausted: Exhausted, limits: Limits = {}): Ending => ending(exhausted, limits)

/**
 * How a run ends that has run out of something now: with the limit that it has reached first. What the handoff, and other
 * runs, have used meanwhile of a shared budget is not in the run: that is said as of when it was asked.
 */
export const endingAt = (state: Pick<RunState, "exhausted" | "limits">, used: Used, now: Exhausted): Ending =>
  ending(reachedFirst(state, used, now), state.limits, state.exhausted?.pool !== undefined)
