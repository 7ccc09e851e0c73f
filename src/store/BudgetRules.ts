/**
 * What a shared budget allows, whatever keeps it: the rules of `Limits`, applied to what was used and what is held.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { picked } from "../run/Given.ts"
import * as Limits from "../run/Limits.ts"
import { amountNames, misshapen } from "../run/LimitsInput.ts"
import * as Money from "../run/Money.ts"
import type { Amounts, CallClaim, Hold, PoolLimits, Spent, Status } from "./BudgetPool.ts"
import * as Names from "./Names.ts"

/** Nothing of anything. */
export const nothing: Amounts = { turns: 0, usd: 0, tokens: 0, toolCalls: 0 }

/** The sum of two amounts. */
export const add = (a: Amounts, b: Amounts): Amounts => ({
  turns: a.turns + b.turns,
  usd: Money.add(a.usd, b.usd),
  tokens: a.tokens + b.tokens,
  toolCalls: a.toolCalls + b.toolCalls
})

// A run has a time and a deadline of its own, and holds its own money.
const poolNames = amountNames.filter((name) => name !== "time")

/** Reads the limits of a pool, if there can be one of this name. A run's default of 20 turns is not a pool's. */
export const limitsOf = (
  pool: string,
  input: PoolLimits
): Result.Result<Limits.Limits, Limits.InvalidLimits> => {
  const problem = Names.problemOf(pool, Names.mostBytes.name)
  if (problem !== undefined)
    return Result.fail(new Limits.InvalidLimits({ problem: `the name of their pool, ${problem}` }))
  const wrong =
    misshapen(input, "limits", [...poolNames, "reserve"]) ??
    (input.reserve === undefined ? undefined : misshapen(input.reserve, "reserve", poolNames))
  if (wrong !== undefined) return Result.fail(wrong)
  return Limits.fromInput({
    turns: Number.POSITIVE_INFINITY,
    ...picked(input, [...poolNames, "reserve"])
  })
}

const isPurpose = Schema.is(Limits.Purpose)

const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 0

const invalid = (problem: string) => Result.fail(new Limits.InvalidClaim({ problem }))

const usage = (turns: number, usd: number, tokens: number): Result.Result<Amounts, Limits.InvalidClaim> => {
  if (!isCount(Money.toNanos(usd)) || usd < 0) return invalid(`${usd} USD cannot be counted`)
  if (!isCount(tokens)) return invalid(`${tokens} tokens cannot be counted`)
  return Result.succeed({ turns, usd: Money.round(usd), tokens, toolCalls: 0 })
}

/** What is claimed under a key, if it can be kept. */
const under = <A>(key: string, claimed: () => Result.Result<A, Limits.InvalidClaim>) => {
  const problem = Names.problemOf(key, Names.mostBytes.key)
  return problem === undefined ? claimed() : invalid(`its key ${problem}`)
}

const purposeOf = (purpose: Limits.Purpose): Result.Result<Limits.Purpose, Limits.InvalidClaim> =>
  isPurpose(purpose) ? Result.succeed(purpose) : invalid(`there is no purpose ${String(purpose)}`)

/** The amounts that a claim on a tool call is about. */
export const callOf = ({ key, purpose }: CallClaim): Result.Result<Amounts, Limits.InvalidClaim> =>
  under(key, () => Result.map(purposeOf(purpose), () => ({ ...nothing, toolCalls: 1 })))

/** The amounts that a hold is about. */
export const worstOf = ({ key, purpose, tokens, usd }: Hold): Result.Result<Amounts, Limits.InvalidClaim> =>
  under(key, () => Result.flatMap(purposeOf(purpose), () => usage(1, usd, tokens)))

/** The amounts that were spent. */
export const spentOf = ({
  key,
  tokens,
  turns = 1,
  usd
}: Spent): Result.Result<Amounts, Limits.InvalidClaim> =>
  under(key, () =>
    turns === 0 || turns === 1 ? usage(turns, usd, tokens) : invalid(`an attempt is no ${turns} turns`)
  )

/** Whether one more tool call may be made. */
export const claimCall = (
  limits: Limits.Limits,
  used: Amounts,
  purpose: Limits.Purpose
): Result.Result<void, Limits.ClaimRefused | Limits.InvalidClaim> =>
  Result.map(Limits.claim(limits, { toolCalls: used.toolCalls, timeMs: 0 }, purpose), () => undefined)

/** Whether a model call may be sent, given what was used and what is held for others. */
export const hold = (
  limits: Limits.Limits,
  used: Amounts,
  held: Amounts,
  worst: Amounts,
  purpose: Limits.Purpose
): Result.Result<void, Limits.ClaimRefused> => {
  const taken = { ...add(used, held), timeMs: 0 }
  const exhausted = Limits.exhausted(limits, taken, purpose)
  return exhausted === undefined
    ? Limits.hold(limits, taken, worst, purpose)
    : Result.fail(new Limits.ClaimRefused({ exhausted, purpose }))
}

/** How a pool stands. */
export const statusOf = (pool: string, limits: Limits.Limits, used: Amounts, held: Amounts): Status => {
  const taken = add(used, held)
  const left: { -readonly [K in keyof Amounts]?: number } = {}
  for (const name of ["turns", "usd", "tokens", "toolCalls"] as const) {
    const limit = limits[name]
    if (limit === undefined) continue
    const rest = name === "usd" ? Money.subtract(limit, taken.usd) : limit - taken[name]
    left[name] = Math.max(0, rest)
  }
  return { pool, limits, used, held, left }
}
