/**
 * What a run lets its sub-agents use: a part of what it has left, held until the child has ended, so that several
 * children at a time cannot spend the same money.
 */
import * as Deadline from "../run/Deadline.ts"
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

/** How long before its call is over a child ends by itself, in milliseconds: so that it says what it has found. */
const marginMs = (leftMs: number): number => Math.min(1_000, leftMs / 10)

/**
 * What the child of this call may use. What it has used and its parent has not heard of comes out of what is held for it:
 * that is what the parent has left by its own books. `leftMs` is the time that the call has left, and `byRun` says whether
 * that is all that its run has, and not the call's own limit.
 */
export const of = (
  { limits, pending }: RunState,
  callId: string,
  leftMs: () => number,
  byRun: () => boolean
): Allowance => {
  const hold = limits.money === "hold"
  const timeLeftMs = () => {
    const left = Math.max(0, leftMs())
    return left === Number.POSITIVE_INFINITY ? left : Math.floor(left - marginMs(left))
  }
  const untilDate = () => limits.deadline !== undefined && byRun()
  const call = pending.find((each) => each.callId === callId)
  if (call === undefined) return { hold, timeLeftMs, untilDate }
  const { childCostUsd = 0, childTokens = 0, holdTokens, holdUsd } = call
  return {
    usd: holdUsd === undefined ? undefined : Money.add(childCostUsd, holdUsd),
    tokens: holdTokens === undefined ? undefined : childTokens + holdTokens,
    hold,
    timeLeftMs,
    untilDate
  }
}

/**
 * The limits of a child that is taken up again at this moment (ISO 8601). Money, tokens and time are allowed anew: what the
 * parent has left may be more or less by now than when the child was started.
 */
export const renew = (child: RunState, own: Limits, allowance: Allowance, at: string): Limits => {
  const {
    deadline: _deadline,
    money: _money,
    timeMs: _time,
    tokens: _tokens,
    usd: _usd,
    ...rest
  } = child.limits
  const { deadline, money, timeMs, tokens, usd } = own
  const limits = {
    ...rest,
    ...(usd === undefined ? undefined : { usd }),
    ...(tokens === undefined ? undefined : { tokens }),
    ...(money === undefined ? undefined : { money }),
    ...(timeMs === undefined ? undefined : { timeMs }),
    ...(deadline === undefined ? undefined : { deadline })
  }
  return within(limits, allowance, at, child.elapsedMs)
}

type Most = { readonly [Name in "usd" | "tokens" | "timeMs"]?: number }

/** The same limits, none of them above `most`; a reserve never exceeds its limit. */
const lower = (limits: Limits, most: Most): Limits => {
  const least = (a: number | undefined, b: number | undefined) =>
    a === undefined ? b : b === undefined ? a : Math.min(a, b)
  const lowered: { -readonly [K in keyof Limits]: Limits[K] } = { ...limits }
  const reserve: { -readonly [K in keyof Reserve]: Reserve[K] } = { ...limits.reserve }
  for (const name of ["usd", "tokens", "timeMs"] as const) {
    const limit = least(limits[name], most[name])
    if (limit !== undefined) lowered[name] = limit
    const kept = least(reserve[name], limit)
    if (kept !== undefined && reserve[name] !== undefined) reserve[name] = kept
  }
  return limits.reserve === undefined ? lowered : { ...lowered, reserve }
}

/**
 * Limits of a child's agent, and within them what its parent allows at this moment (ISO 8601), after the child has been
 * driven for so long (milliseconds). Of a date and a time the one that is over first counts: the other is left out.
 */
export const within = (
  limits: Limits,
  { hold, timeLeftMs, tokens, untilDate, usd }: Allowance,
  at: string,
  elapsedMs = 0
): Limits => {
  const leftMs = timeLeftMs()
  const most = {
    ...(usd === undefined ? undefined : { usd }),
    ...(tokens === undefined ? undefined : { tokens }),
    ...(leftMs === Number.POSITIVE_INFINITY ? undefined : { timeMs: elapsedMs + leftMs })
  }
  const own = Deadline.anchor(limits, at, elapsedMs)
  const { deadline: date, ...lowered } = lower(own, most)
  const ofParent = () => (untilDate() ? new Date(Date.parse(at) + leftMs).toISOString() : undefined)
  const deadline = lowered.timeMs === own.timeMs ? date : ofParent()
  return {
    ...lowered,
    ...(deadline === undefined ? undefined : { deadline }),
    ...(hold ? { money: "hold" } : undefined)
  }
}
