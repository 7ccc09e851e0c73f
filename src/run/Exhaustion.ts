/**
 * What follows from a limit that was reached: whether a part of it was kept for the handoff, and how the run ends.
 */
import type { Exhausted, Limits, Resource, Used } from "./Limits.ts"
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

/** Whether a part of a resource is kept for the handoff. */
export const keeps = ({ reserve }: Limits, resource: Resource): boolean =>
  (reserve?.[amounts[resource]] ?? 0) > 0

/**
 * The limit that a run has reached first, or `now` if it has reached none before: with what has been used of it by now,
 * unless it is that of a pool. The time until a deadline may have become another one meanwhile.
 */
export const firstOf = (
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

/** How a run of these limits ends that has run out of something. */
export const outOf = (exhausted: Exhausted, limits: Limits = {}): Ending => {
  const { limit, pool, resource, used } = exhausted
  const amount = unit[resource]
  const whose = pool === undefined ? "" : `the budget pool ${pool} has `
  const kept = pool === undefined && used < limit && keeps(limits, resource)
  const rest = kept ? ", and the rest was kept for its handoff" : ""
  const detail = `${whose}used ${amount(used)} of a limit of ${amount(limit)}${rest}`
  return resource === "turns"
    ? { status: "max_turns_exceeded", reason: "max_turns", detail, exhausted }
    : { status: "budget_exceeded", reason: "max_budget", detail, exhausted }
}
