/**
 * What a run may use, and the rule by which it may use it.
 *
 * A limit is a ceiling; a reserve is the part under the ceiling that investigation may not touch, kept for a handoff.
 * The rule is pure: it looks at what was used and says whether the next thing may begin.
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Money from "./Money.ts"

/** What a tool call or a model call is for. Only handoff work may use a reserve. */
export const Purpose = Schema.Literals(["investigate", "handoff"])
export type Purpose = typeof Purpose.Type

/** The resources that a run can run out of. */
export const Resource = Schema.Literals(["turns", "usd", "tokens", "time", "tool_calls"])
export type Resource = typeof Resource.Type

const amounts = {
  turns: Schema.optionalKey(Schema.Natural),
  usd: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))),
  tokens: Schema.optionalKey(Schema.Natural),
  toolCalls: Schema.optionalKey(Schema.Natural),
  timeMs: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)))
}

/**
 * How spend is held to its limits of money and tokens: what a model call costs is known when it is over, so that its
 * worst case is either held before it is sent (`hold`), or the last one may pass the limit (absent).
 */
export const MoneyMode = Schema.Literals(["over-by-one-turn", "hold"])
export type MoneyMode = typeof MoneyMode.Type

const isMoneyMode = Schema.is(MoneyMode)

/**
 * Limits as they are stored with a run: an absent one is no limit. Money in USD, time in milliseconds, the deadline as
 * ISO 8601. With a deadline, `timeMs` is worked out from it each time the run is taken up.
 */
export const Limits = Schema.Struct({
  ...amounts,
  deadline: Schema.optionalKey(Schema.String),
  money: Schema.optionalKey(Schema.Literal("hold")),
  reserve: Schema.optionalKey(Schema.Struct(amounts))
})
export type Limits = typeof Limits.Type

type Amounts = Pick<Limits, keyof typeof amounts>

/** How much of each resource, as a user writes it. */
export interface AmountsInput {
  /** Model calls that came back. `Infinity` for no limit. */
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
  /** A moment by which the run has to end, whoever drives it and however long it sleeps; instead of `time`. */
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

const amountNames = ["turns", "usd", "tokens", "toolCalls", "time"]
const names: Readonly<Record<"limits" | "reserve", ReadonlySet<string>>> = {
  limits: new Set([...amountNames, "deadline", "money", "reserve"]),
  reserve: new Set(amountNames)
}

const shown = (value: unknown): string =>
  typeof value === "string"
    ? JSON.stringify(value)
    : Array.isArray(value)
      ? "a list"
      : typeof value === "object" && value !== null
        ? "an object"
        : String(value)

const isRecord = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Why this is nothing to read limits from, where the compiler was not asked: no object, or with a name that is none. */
const misshapen = (input: unknown, what: keyof typeof names): InvalidLimits | undefined => {
  if (!isRecord(input)) {
    return new InvalidLimits({ problem: `${what} is ${shown(input)}, and must be an object` })
  }
  for (const name in input) {
    if (names[what].has(name)) continue
    const known = [...names[what]].join(", ")
    return new InvalidLimits({
      problem: `there is no ${what === "reserve" ? "reserve of" : "limit"} ${shown(name)}: there are ${known}`
    })
  }
  return undefined
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
    const duration = Number.isNaN(input.time) ? Option.none() : Duration.fromInput(input.time)
    const ms = Option.isSome(duration) ? Duration.toMillis(duration.value) : Number.NaN
    if (Number.isNaN(ms) || ms < 0 || (ms === Number.POSITIVE_INFINITY && where !== "")) {
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
  const date = new Date(typeof deadline === "string" || deadline instanceof Date ? deadline : Number.NaN)
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
    const { money, turns = defaultTurns } = input
    if (money !== undefined && !isMoneyMode(money)) {
      const problem = `money is ${shown(money)}, and must be "over-by-one-turn" or "hold"`
      return yield* Result.fail(new InvalidLimits({ problem }))
    }
    const deadline = yield* deadlineOf(input)
    const limits: Limits = {
      ...(yield* amountsOf({ ...input, turns }, "")),
      ...(deadline === undefined ? undefined : { deadline }),
      ...(money === "hold" ? { money: "hold" as const } : undefined)
    }
    if (input.reserve === undefined) return limits
    const wrongReserve = misshapen(input.reserve, "reserve")
    if (wrongReserve !== undefined) return yield* Result.fail(wrongReserve)
    const reserve = yield* amountsOf(input.reserve, "reserve.")
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

const named = (input: LimitsInput): LimitsInput =>
  Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined))

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
  // What is no limits at all is for `fromInput` to refuse.
  for (const given of [under, over]) if (!isRecord(given)) return given
  for (const given of [over, under]) {
    if (given.reserve !== undefined && !isRecord(given.reserve)) return given
  }
  const lifted = Object.entries(over).flatMap(([name, value]) =>
    value === Number.POSITIVE_INFINITY ? [[name, 0]] : []
  )
  const reserves = [under.reserve, over.reserve].some((reserve) => reserve !== undefined)
  // A run ends by its time or by a date: naming one replaces the other.
  const { deadline, time, ...rest } = under
  const byTime = over.time !== undefined || over.deadline !== undefined ? {} : named({ time, deadline })
  return {
    ...rest,
    ...byTime,
    ...named(over),
    ...(reserves
      ? { reserve: { ...under.reserve, ...Object.fromEntries(lifted), ...named(over.reserve ?? {}) } }
      : undefined)
  }
}

/**
 * The same limits, none of them above `most`; a reserve never exceeds its limit.
 *
 * @example
 * ```ts
 * import { Limits } from "checkrein"
 *
 * Limits.lower({ turns: 20, usd: 0.05 }, { usd: 0.01 }) // => { turns: 20, usd: 0.01 }
 * ```
 */
export const lower = (limits: Limits, most: { readonly usd?: number; readonly tokens?: number }): Limits => {
  const least = (a: number | undefined, b: number | undefined) =>
    a === undefined ? b : b === undefined ? a : Math.min(a, b)
  const lowered: { -readonly [K in keyof Limits]: Limits[K] } = { ...limits }
  const reserve: { -readonly [K in keyof Amounts]: Amounts[K] } = { ...limits.reserve }
  for (const name of ["usd", "tokens"] as const) {
    const limit = least(limits[name], most[name])
    if (limit !== undefined) lowered[name] = limit
    const kept = least(reserve[name], limit)
    if (kept !== undefined && reserve[name] !== undefined) reserve[name] = kept
  }
  return limits.reserve === undefined ? lowered : { ...lowered, reserve }
}

/**
 * Stored limits in the form in which a user writes them.
 *
 * @example
 * ```ts
 * import { Limits } from "checkrein"
 *
 * Limits.toInput({ turns: 20, timeMs: 600_000 }) // => { turns: 20, time: 600000 }
 * ```
 */
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

/**
 * The limits of a run that is taken up at this moment (ISO 8601), after having been driven for so long (milliseconds): a
 * deadline becomes the time that is left until then.
 *
 * @example
 * ```ts
 * import { Limits } from "checkrein"
 *
 * const limits = Limits.anchor({ deadline: "2026-01-01T12:00:00.000Z" }, "2026-01-01T11:59:00.000Z", 5_000)
 * limits.timeMs // => 65000
 * ```
 */
export const anchor = (limits: Limits, at: string, elapsedMs: number): Limits =>
  limits.deadline === undefined
    ? limits
    : { ...limits, timeMs: elapsedMs + Math.max(0, Date.parse(limits.deadline) - Date.parse(at)) }

/** What a run has used so far. Money in USD, time in milliseconds. */
export interface Used {
  readonly turns: number
  readonly usd: number
  readonly tokens: number
  readonly toolCalls: number
  readonly timeMs: number
}

/** A resource that has run out: how much of it was used, and the limit. `pool` names the shared budget whose limit it is. */
export const Exhausted = Schema.Struct({
  resource: Resource,
  used: Schema.Finite,
  limit: Schema.Finite,
  pool: Schema.optionalKey(Schema.String)
})
export type Exhausted = typeof Exhausted.Type

const rows = [
  ["turns", "turns"],
  ["usd", "usd"],
  ["tokens", "tokens"],
  ["time", "timeMs"],
  ["tool_calls", "toolCalls"]
] as const

const reached = (
  limits: Limits,
  used: Used,
  purpose: Purpose,
  counts: (resource: Resource) => boolean
): Exhausted | undefined => {
  for (const [resource, name] of rows) {
    const limit = limits[name]
    if (limit === undefined || !counts(resource)) continue
    const kept = purpose === "investigate" ? (limits.reserve?.[name] ?? 0) : 0
    // In whole nano-dollars: 0.8 - 0.1 is not 0.7 in floating point.
    const room = name === "usd" ? Money.subtract(limit, kept) : limit - kept
    if (used[name] >= room) return { resource, used: used[name], limit }
  }
  return undefined
}

/**
 * The first limit, in the order turns, usd, tokens, time, tool calls, that leaves no room for another turn of this
 * purpose; `undefined` while there is room. The number of tool calls counts only where it has a reserve: without one a
 * model that has used up its calls may still answer.
 *
 * @example
 * ```ts
 * import { Limits } from "checkrein"
 *
 * const used: Limits.Used = { turns: 3, usd: 0.01, tokens: 900, toolCalls: 2, timeMs: 4000 }
 * Limits.exhausted({ turns: 3 }, used, "investigate") // => { resource: "turns", used: 3, limit: 3 }
 * ```
 */
export const exhausted = (limits: Limits, used: Used, purpose: Purpose): Exhausted | undefined =>
  reached(
    limits,
    used,
    purpose,
    (resource) => resource !== "tool_calls" || limits.reserve?.toolCalls !== undefined
  )

/**
 * Holds the worst case of a model call against the limits of money and tokens: succeeds if it fits, `ClaimRefused` if it
 * may not be sent. `used` is what is spent and held already.
 *
 * @example
 * ```ts
 * import * as Result from "effect/Result"
 * import { Limits } from "checkrein"
 *
 * const used: Limits.Used = { turns: 3, usd: 0.01, tokens: 900, toolCalls: 2, timeMs: 4000 }
 * Result.isFailure(Limits.hold({ usd: 0.02 }, used, { usd: 0.015, tokens: 500 }, "investigate")) // => true
 * ```
 */
export const hold = (
  limits: Limits,
  used: Used,
  worst: { readonly usd: number; readonly tokens: number },
  purpose: Purpose
): Result.Result<void, ClaimRefused> => {
  for (const [resource, name] of [
    ["usd", "usd"],
    ["tokens", "tokens"]
  ] as const) {
    const limit = limits[name]
    if (limit === undefined) continue
    const kept = purpose === "investigate" ? (limits.reserve?.[name] ?? 0) : 0
    const add = name === "usd" ? Money.add : (a: number, b: number) => a + b
    if (add(add(used[name], worst[name]), kept) > limit) {
      return Result.fail(new ClaimRefused({ exhausted: { resource, used: used[name], limit }, purpose }))
    }
  }
  return Result.succeed(undefined)
}

/**
 * How long work of this purpose may still take, in milliseconds; `Infinity` without a limit.
 *
 * @example
 * ```ts
 * import { Limits } from "checkrein"
 *
 * Limits.timeLeftMs({ timeMs: 60_000, reserve: { timeMs: 10_000 } }, 20_000, "investigate") // => 30000
 * ```
 */
export const timeLeftMs = ({ reserve, timeMs }: Limits, elapsedMs: number, purpose: Purpose): number => {
  if (timeMs === undefined) return Number.POSITIVE_INFINITY
  const kept = purpose === "investigate" ? (reserve?.timeMs ?? 0) : 0
  return Math.max(0, timeMs - kept - elapsedMs)
}

/**
 * Whether a part of a resource is kept for the handoff.
 *
 * @example
 * ```ts
 * import { Limits } from "checkrein"
 *
 * Limits.keeps({ turns: 20, reserve: { turns: 1 } }, "turns") // => true
 * ```
 */
export const keeps = ({ reserve }: Limits, resource: Resource): boolean => {
  const name = rows.find(([each]) => each === resource)?.[1]
  return name !== undefined && (reserve?.[name] ?? 0) > 0
}

/**
 * The same limit with what has been used of it by now, unless it is that of a pool; `undefined` stays what it is.
 *
 * @example
 * ```ts
 * import { Limits } from "checkrein"
 *
 * const used: Limits.Used = { turns: 3, usd: 0.01, tokens: 900, toolCalls: 2, timeMs: 4000 }
 * Limits.refresh({ resource: "turns", used: 2, limit: 3 }, used) // => { resource: "turns", used: 3, limit: 3 }
 * ```
 */
export const refresh = (exhausted: Exhausted | undefined, used: Used): Exhausted | undefined => {
  const name = rows.find(([resource]) => resource === exhausted?.resource)?.[1]
  if (exhausted === undefined || name === undefined) return undefined
  return exhausted.pool === undefined ? { ...exhausted, used: used[name] } : exhausted
}

/** A claim that was refused, and the resource that was short. */
export class ClaimRefused extends Schema.TaggedError<ClaimRefused>()("ClaimRefused", {
  exhausted: Exhausted,
  purpose: Purpose
}) {
  override get message(): string {
    const { limit, resource, used } = this.exhausted
    return `no ${resource} left to ${this.purpose}: ${used} of ${limit} used`
  }
}

/** A claim that makes no sense: a count or a reading that cannot be, or a purpose that does not exist. */
export class InvalidClaim extends Schema.TaggedError<InvalidClaim>()("InvalidClaim", {
  problem: Schema.String
}) {
  override get message(): string {
    return `this claim cannot be judged: ${this.problem}`
  }
}

const isPurpose = Schema.is(Purpose)

/**
 * Claims one tool call: what the count of tool calls becomes, or why it may not begin. Only tool calls and time are
 * looked at, for these are what a tool call uses. Fails with `InvalidClaim` for a count that is no whole number of at
 * least 0, a reading that is not finite, or an unknown purpose.
 *
 * @example
 * ```ts
 * import { Limits } from "checkrein"
 *
 * const limits = { toolCalls: 12, timeMs: 600_000, reserve: { toolCalls: 2, timeMs: 30_000 } }
 * Limits.claim(limits, { toolCalls: 9, timeMs: 100_000 }, "investigate") // => a success of 10
 * Limits.claim(limits, { toolCalls: 10, timeMs: 100_000 }, "investigate") // => a failure, ClaimRefused
 * ```
 */
export const claim = (
  limits: Limits,
  used: Pick<Used, "toolCalls" | "timeMs">,
  purpose: Purpose
): Result.Result<number, ClaimRefused | InvalidClaim> => {
  const { timeMs, toolCalls } = used
  if (!Number.isSafeInteger(toolCalls) || toolCalls < 0) {
    return Result.fail(
      new InvalidClaim({
        problem: `${toolCalls} tool calls cannot have been used`
      })
    )
  }
  if (!Number.isFinite(timeMs))
    return Result.fail(new InvalidClaim({ problem: `${timeMs} ms cannot have passed` }))
  if (!isPurpose(purpose))
    return Result.fail(new InvalidClaim({ problem: `there is no purpose ${String(purpose)}` }))
  const all = { turns: 0, usd: 0, tokens: 0, ...used }
  const short = reached(limits, all, purpose, (resource) => resource === "tool_calls" || resource === "time")
  return short === undefined
    ? Result.succeed(used.toolCalls + 1)
    : Result.fail(new ClaimRefused({ exhausted: short, purpose }))
}
