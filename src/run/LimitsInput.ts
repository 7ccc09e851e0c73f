/**
 * Limits as a user writes them: read, checked, laid over one another, and written back.
 *
 * What is written wrongly is refused with a sentence, for a limit that is misspelt would be no limit.
 */
import type * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isRecord, millisOf, misspelt, momentOf, picked, shown } from "./Given.ts"
import type { Limits } from "./Limits.ts"

/**
 * How spend is held to its limits of money and tokens: what a model call costs is known when it is over, so that its
 * worst case is either held before it is sent (`hold`), or the last one may pass the limit (absent).
 */
export const MoneyMode = Schema.Literals(["over-by-one-turn", "hold"])
/** Whether the last model call may pass a limit of money, or its worst case is held before. */
export type MoneyMode = typeof MoneyMode.Type

const isMoneyMode = Schema.is(MoneyMode)

/** How much of each resource, as a user writes it. */
export interface AmountsInput {
  /**
   * Model calls that came back, and those that were cut off with their process, for they may have been answered and paid
   * for. `Infinity` for no limit.
   */
  readonly turns?: number | undefined
  /**
   * Money, in USD. Spend may pass it by less than the cost of one turn for each model call that runs at the same time;
   * never with `money: "hold"`. What sub-agents spend counts, and they get no more than what is left.
   */
  readonly usd?: number | undefined
  /** Prompt and completion tokens together, those of sub-agents included. May be passed as money may. */
  readonly tokens?: number | undefined
  /** Tool calls that were started, failed attempts included. Never passed. */
  readonly toolCalls?: number | undefined
  /** Time that the run was driven, e.g. `"10 minutes"`; time while nobody drives it does not count. */
  readonly time?: Duration.Input | undefined
}

/**
 * Limits as a user writes them.
 *
 * @example
 * ```ts
 * import type { Limits } from "checkrein"
 *
 * const limits: Limits.LimitsInput = { turns: 20, usd: 0.05, time: "10 minutes", reserve: { turns: 1 } }
 * ```
 */
export interface LimitsInput extends AmountsInput {
  /**
   * A moment by which the run has to end, whoever drives it and however long it sleeps; instead of `time`. As text it is ISO
   * 8601 with its zone; a date alone begins in UTC.
   */
  readonly deadline?: Date | string | undefined
  /**
   * `over-by-one-turn` (default): a model call is sent while anything is left, so that the last one may pass the limits
   * of money and tokens. `hold`: its worst case is held before it is sent, and it is sent only if that fits. The worst
   * case is the prompt by our tokeniser and the output that `RequestParams.maxOutputTokens` allows, so that `hold` is
   * refused without it, or with a provider that does not enforce it. What another tokeniser counts beyond it is recorded.
   */
  readonly money?: MoneyMode | undefined
  /** The part of each limit that only a handoff may use. */
  readonly reserve?: AmountsInput | undefined
}

/**
 * Limits that were written wrongly: a name that is none, what is not a number, negative, or a fraction where only whole
 * numbers make sense.
 */
export class InvalidLimits extends Schema.TaggedError<InvalidLimits>()("InvalidLimits", {
  problem: Schema.String
}) {
  override get message(): string {
    return `these limits cannot be used: ${this.problem}`
  }
}

/** The turn limit of an agent that names none. */
export const defaultTurns = 20

type Amounts = NonNullable<Limits["reserve"]>

/** The resources that a limit may be of. */
export const amountNames = ["turns", "usd", "tokens", "toolCalls", "time"] as const
const limitNames = [...amountNames, "deadline", "money", "reserve"] as const
const names = { limits: limitNames, reserve: amountNames }

/** Why this is nothing to read limits from, where the compiler was not asked: no object, or with a name that is none. */
export const misshapen = (
  input: unknown,
  what: keyof typeof names,
  known: ReadonlyArray<string> = names[what]
): InvalidLimits | undefined => {
  if (!isRecord(input)) {
    return new InvalidLimits({ problem: `${what} is ${shown(input)}, and must be an object` })
  }
  const name = misspelt(input, known)
  return name === undefined
    ? undefined
    : new InvalidLimits({
        problem: `there is no ${what === "reserve" ? "reserve of" : "limit"} ${shown(name)}: there are ${known.join(", ")}`
      })
}

const amountsOf = (input: AmountsInput, where: string): Result.Result<Amounts, InvalidLimits> => {
  const out: { -readonly [K in keyof Amounts]: Amounts[K] } = {}
  for (const name of ["turns", "tokens", "toolCalls", "usd"] as const) {
    const value = input[name]
    if (value === undefined || (value === Number.POSITIVE_INFINITY && where === "")) continue
    if (!Number.isFinite(value) || value < 0 || (name !== "usd" && !Number.isSafeInteger(value))) {
      const kind = name === "usd" ? "a number of USD" : "a whole number"
      return Result.fail(
        new InvalidLimits({
          problem: `${where}${name} is ${shown(value)}, and must be ${kind} of at least 0`
        })
      )
    }
    // Without the sign of a negative zero, which JSON has no word for.
    out[name] = value + 0
  }
  if (input.time !== undefined) {
    const ms = millisOf(input.time)
    if (ms === undefined || (ms === Number.POSITIVE_INFINITY && where !== "")) {
      return Result.fail(
        new InvalidLimits({
          problem: `${where}time is ${shown(input.time)}, and must be a duration`
        })
      )
    }
    if (ms !== Number.POSITIVE_INFINITY) out.timeMs = ms
  }
  return Result.succeed(out)
}

const deadlineOf = ({ deadline, time }: LimitsInput): Result.Result<string | undefined, InvalidLimits> => {
  if (deadline === undefined) return Result.succeed(undefined)
  const date = deadline instanceof Date ? deadline : new Date(momentOf(deadline) ?? Number.NaN)
  if (Number.isNaN(date.getTime())) {
    const problem = `deadline is ${deadline instanceof Date ? String(deadline) : shown(deadline)}, and must be a date, as in 2030-01-31T12:00:00Z`
    return Result.fail(new InvalidLimits({ problem }))
  }
  if (time !== undefined && time !== Number.POSITIVE_INFINITY) {
    return Result.fail(
      new InvalidLimits({ problem: "time and deadline are both set, and only one can count" })
    )
  }
  return Result.succeed(date.toISOString())
}

/**
 * Reads limits as a user writes them. The turn limit defaults to 20; `Infinity` lifts a limit. A reserve larger than
 * its limit, or without one, is refused, and so is a name that is none: a limit that is misspelt would be no limit.
 *
 * @example
 * ```ts
 * import * as Result from "effect/Result"
 * import { Limits } from "checkrein"
 *
 * const limits = Result.getOrThrow(Limits.fromInput({ usd: 0.05, time: "10 minutes" }))
 * limits.turns // => 20
 * limits.timeMs // => 600000
 * ```
 */
export const fromInput = (input: LimitsInput = {}): Result.Result<Limits, InvalidLimits> =>
  Result.gen(function* () {
    const wrong = misshapen(input, "limits")
    if (wrong !== undefined) return yield* Result.fail(wrong)
    const given = picked(input, limitNames)
    const { money, turns = defaultTurns } = given
    if (money !== undefined && !isMoneyMode(money)) {
      const problem = `money is ${shown(money)}, and must be "over-by-one-turn" or "hold"`
      return yield* Result.fail(new InvalidLimits({ problem }))
    }
    const deadline = yield* deadlineOf(given)
    const limits: Limits = {
      ...(yield* amountsOf({ ...given, turns }, "")),
      ...(deadline === undefined ? undefined : { deadline }),
      ...(money === "hold" ? { money: "hold" as const } : undefined)
    }
    if (given.reserve === undefined) return limits
    const wrongReserve = misshapen(given.reserve, "reserve")
    if (wrongReserve !== undefined) return yield* Result.fail(wrongReserve)
    const reserve = yield* amountsOf(given.reserve, "reserve.")
    for (const name of ["turns", "usd", "tokens", "toolCalls", "timeMs"] as const) {
      const kept = reserve[name]
      if (kept === undefined || kept === 0) continue
      if (name === "timeMs" && deadline !== undefined) continue
      const limit = limits[name]
      if (limit === undefined || kept > limit) {
        const problem = `reserve.${name} is ${kept}, more than the limit of ${limit ?? "none at all"}`
        return yield* Result.fail(new InvalidLimits({ problem }))
      }
    }
    return { ...limits, reserve }
  })

/**
 * `over` on top of `under`: each limit that `over` names replaces the one below it. With a limit that is lifted goes its
 * reserve.
 *
 * @example
 * ```ts
 * import { Limits } from "checkrein"
 *
 * Limits.override({ turns: 20, usd: 0.05 }, { turns: 40 }) // => { turns: 40, usd: 0.05 }
 * ```
 */
export const override = (under: LimitsInput, over: LimitsInput): LimitsInput => {
  // What is no limits, or has a name that is none, is for `fromInput` to refuse.
  for (const given of [under, over]) if (misshapen(given, "limits") !== undefined) return given
  for (const given of [over, under]) {
    if (given.reserve !== undefined && misshapen(given.reserve, "reserve") !== undefined) return given
  }
  const { reserve: reserveBelow, ...below } = picked(under, limitNames)
  const { reserve: reserveAbove, ...above } = picked(over, limitNames)
  const lifted = amountNames.flatMap((name) => (above[name] === Number.POSITIVE_INFINITY ? [[name, 0]] : []))
  // A run ends by its time or by a date: naming one replaces the other.
  const { deadline, time, ...rest } = below
  const isTimed = above.time !== undefined || above.deadline !== undefined
  return {
    ...(isTimed ? rest : below),
    ...above,
    ...(reserveBelow === undefined && reserveAbove === undefined
      ? undefined
      : {
          reserve: {
            ...picked(reserveBelow ?? {}, amountNames),
            ...Object.fromEntries(lifted),
            ...picked(reserveAbove ?? {}, amountNames)
          }
        })
  }
}

/** Stored limits in the form in which a user writes them. */
export const toInput = (limits: Limits): LimitsInput => {
  const amounts = ({ timeMs, ...rest }: Amounts): AmountsInput => ({
    ...rest,
    ...(timeMs === undefined ? undefined : { time: timeMs })
  })
  const { deadline, reserve, money, timeMs, ...top } = limits
  return {
    ...top,
    ...(deadline !== undefined ? { deadline } : timeMs === undefined ? undefined : { time: timeMs }),
    ...(money === undefined ? undefined : { money }),
    turns: limits.turns ?? Number.POSITIVE_INFINITY,
    ...(reserve === undefined ? undefined : { reserve: amounts(reserve) })
  }
}
