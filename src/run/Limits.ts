/**
 * What a run may use, and the rule by which it may use it.
 *
 * A limit is a ceiling; a reserve is the part under the ceiling that investigation may not touch, kept for a handoff.
 * The rule is pure: it looks at what was used and says whether the next thing may begin.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { keptFrom, reached, shortForCall } from "./Exhaustion.ts"
import * as Money from "./Money.ts"

/** Limits as a user writes them. */
export {
  type AmountsInput,
  defaultTurns,
  fromInput,
  InvalidLimits,
  type LimitsInput,
  MoneyMode,
  override
} from "./LimitsInput.ts"

/** What a tool call or a model call is for. Only handoff work may use a reserve. */
export const Purpose = Schema.Literals(["investigate", "handoff"])
/** What a call is for: the task itself, or handing it over. */
export type Purpose = typeof Purpose.Type

/** The resources that a run can run out of. */
export const Resource = Schema.Literals(["turns", "usd", "tokens", "time", "tool_calls"])
/** Something that a run can run out of. */
export type Resource = typeof Resource.Type

const amounts = {
  turns: Schema.optionalKey(Schema.Natural),
  usd: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))),
  tokens: Schema.optionalKey(Schema.Natural),
  toolCalls: Schema.optionalKey(Schema.Natural),
  timeMs: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)))
}

/**
 * Limits as they are stored with a run: an absent one is no limit. Money in USD, time in milliseconds, the deadline as
 * ISO 8601. With a deadline, `timeMs` is worked out from it, and follows the calendar.
 */
export const Limits = Schema.Struct({
  ...amounts,
  deadline: Schema.optionalKey(Schema.String),
  money: Schema.optionalKey(Schema.Literal("hold")),
  reserve: Schema.optionalKey(Schema.Struct(amounts))
})
/** The limits of a run, in USD and milliseconds; an absent one is no limit. */
export type Limits = typeof Limits.Type

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
/** A resource that has run out, with what was used of it and the limit. */
export type Exhausted = typeof Exhausted.Type

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
  for (const resource of ["usd", "tokens"] as const) {
    const limit = limits[resource]
    if (limit === undefined) continue
    const add = resource === "usd" ? Money.add : (a: number, b: number) => a + b
    if (add(add(used[resource], worst[resource]), keptFrom(limits, resource, purpose)) > limit) {
      return Result.fail(new ClaimRefused({ exhausted: { resource, used: used[resource], limit }, purpose }))
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
export const timeLeftMs = (limits: Limits, elapsedMs: number, purpose: Purpose): number => {
  const { timeMs } = limits
  if (timeMs === undefined) return Number.POSITIVE_INFINITY
  return Math.max(0, timeMs - keptFrom(limits, "timeMs", purpose) - elapsedMs)
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
 * Claims one tool call: what the count of tool calls becomes, or why it may not begin. Only time and tool calls are looked
 * at, for these are what a tool call uses. Fails with `InvalidClaim` for a count that is no whole number of at least 0, a
 * reading that is not finite, or an unknown purpose.
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
  const short = shortForCall(limits, used, purpose)
  return short === undefined
    ? Result.succeed(used.toolCalls + 1)
    : Result.fail(new ClaimRefused({ exhausted: short, purpose }))
}
