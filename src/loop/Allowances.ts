/**
 * What a run lets its sub-agents use: a part of what it has left, held until the child has ended, so that several
 * children at a time cannot spend the same money.
 */
import type { Limits } from "../run/Limits.ts"
import * as Money from "../run/Money.ts"
import type { PendingCall, RunState } from "../run/RunState.ts"
import * as State from "../run/RunState.ts"
import type { Allowance } from "./ChildRun.ts"

type Reserve = NonNullable<Limits["reserve"]>

/** What is held for a child, as it is written down with its start. */
export interface Hold {
  readonly holdUsd?: number
  readonly holdTokens?: number
}

/** The largest amount in USD that can be given to each of `count`. */
const share = (usd: number, count: number): number => Money.fromNanos(Math.floor(Money.toNanos(usd) / count))

/** The next of `waiting` children gets an equal part of what this purpose may still use and nobody holds yet. */
export const hold = (state: RunState, { purpose }: PendingCall, waiting: number): Hold => {
  const { limits, pending } = state
  const { tokens, usd } = State.used(state)
  const kept = purpose === "investigate" ? limits.reserve : undefined
  const held = pending.filter(({ status }) => status === "running")
  const usdLeft = () =>
    [kept?.usd, usd, ...held.map(({ holdUsd }) => holdUsd)].reduce<number>(
      (left, amount) => Money.subtract(left, amount ?? 0),
      limits.usd ?? 0
    )
  const tokensLeft = () =>
    [kept?.tokens, tokens, ...held.map(({ holdTokens }) => holdTokens)].reduce<number>(
      (left, amount) => left - (amount ?? 0),
      limits.tokens ?? 0
    )
  return {
    ...(limits.usd === undefined ? undefined : { holdUsd: share(Math.max(0, usdLeft()), waiting) }),
    ...(limits.tokens === undefined
      ? undefined
      : { holdTokens: Math.floor(Math.max(0, tokensLeft()) / waiting) })
  }
}

/**
 * What the child of this call may use in all. What it has used and its parent has not heard of comes out of what is held
 * for it: that is what the parent has left by its own books.
 */
export const of = ({ limits, pending }: RunState, callId: string): Allowance => {
  const hold = limits.money === "hold"
  const call = pending.find((each) => each.callId === callId)
  if (call === undefined) return { hold }
  const { childCostUsd = 0, childTokens = 0, holdTokens, holdUsd } = call
  return {
    usd: holdUsd === undefined ? undefined : Money.add(childCostUsd, holdUsd),
    tokens: holdTokens === undefined ? undefined : childTokens + holdTokens,
    hold
  }
}

/**
 * The limits of a child that is taken up again. Money and tokens are allowed anew: what the parent has left may be more or
 * less by now than when the child was started.
 */
export const renew = (child: RunState, own: Limits, allowance: Allowance): Limits => {
  const { money: _money, tokens: _tokens, usd: _usd, ...rest } = child.limits
  const { money, tokens, usd } = own
  const limits = {
    ...rest,
    ...(usd === undefined ? undefined : { usd }),
    ...(tokens === undefined ? undefined : { tokens }),
    ...(money === undefined ? undefined : { money })
  }
  return within(limits, allowance)
}

/** The same limits, none of them above `most`; a reserve never exceeds its limit. */
const lower = (limits: Limits, most: { readonly usd?: number; readonly tokens?: number }): Limits => {
  const least = (a: number | undefined, b: number | undefined) =>
    a === undefined ? b : b === undefined ? a : Math.min(a, b)
  const lowered: { -readonly [K in keyof Limits]: Limits[K] } = { ...limits }
  const reserve: { -readonly [K in keyof Reserve]: Reserve[K] } = { ...limits.reserve }
  for (const name of ["usd", "tokens"] as const) {
    const limit = least(limits[name], most[name])
    if (limit !== undefined) lowered[name] = limit
    const kept = least(reserve[name], limit)
    if (kept !== undefined && reserve[name] !== undefined) reserve[name] = kept
  }
  return limits.reserve === undefined ? lowered : { ...lowered, reserve }
}

/** Limits of a child's agent, and within them what its parent allows. */
export const within = (limits: Limits, { hold, tokens, usd }: Allowance): Limits => {
  const most = {
    ...(usd === undefined ? undefined : { usd }),
    ...(tokens === undefined ? undefined : { tokens })
  }
  return { ...lower(limits, most), ...(hold ? { money: "hold" } : undefined) }
}
