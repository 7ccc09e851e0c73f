/**
 * One budget that many runs share, in one process or in many.
 *
 * Whatever a run wants to use it claims here first. A tool call is counted when it is claimed, for good. What a model
 * call costs is known when it is over: its worst case is held before it is sent, and settled by what was really spent.
 * Every claim has a key, one for each attempt; the same key again is the same claim. So a claim whose answer was lost
 * is simply made again.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Limits from "../run/Limits.ts"

/** How much there is of each resource, as a user writes it; an absent one has no limit. Money in USD. */
export interface AmountsInput extends Omit<Limits.AmountsInput, "time"> {
  /** Time is each run's own. */
  readonly time?: never
}

/**
 * The limits of a pool, as a user writes them. None has a default.
 *
 * @example
 * ```ts
 * import type { BudgetPool } from "checkrein/store"
 *
 * const limits: BudgetPool.PoolLimits = { toolCalls: 1000, usd: 1, reserve: { usd: 0.05 } }
 * ```
 */
export interface PoolLimits extends AmountsInput {
  /** A deadline is each run's own. */
  readonly deadline?: never
  /** The part of each limit that only handoffs may use. */
  readonly reserve?: AmountsInput | undefined
}

/**
 * The database of a pool could not do what it was asked. Nothing was granted, unless the failure came while the answer
 * was on its way: make the claim again with the same key.
 */
export class BudgetPoolError extends Schema.TaggedError<BudgetPoolError>()("BudgetPoolError", {
  pool: Schema.String,
  kind: Schema.Literals([
    "unavailable",
    "full",
    "read_only",
    "corrupt",
    "newer_version",
    "inside_transaction",
    "timed_out"
  ]),
  problem: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {
  override get message(): string {
    return `the budget pool ${this.pool} failed: ${this.problem}`
  }
}

/** A pool cannot be removed while model calls that are under way hold something of it. */
export class PoolBusy extends Schema.TaggedError<PoolBusy>()("PoolBusy", {
  pool: Schema.String,
  /** How many model calls hold something of it. */
  holds: Schema.Natural
}) {
  override get message(): string {
    return `the budget pool ${this.pool} is in use: ${this.holds} model ${this.holds === 1 ? "call holds" : "calls hold"} something of it`
  }
}

/** A claim on one tool call. */
export interface CallClaim {
  /** Names this attempt among all of the pool, for example by run, call and attempt. */
  readonly key: string
  /** Only `handoff` may use the reserve. */
  readonly purpose: Limits.Purpose
}

/** A claim on one turn, and on the money (USD) and the tokens that its model call may use at most. */
export interface Hold {
  /** Names this attempt among all of the pool, for example by run, turn and attempt. */
  readonly key: string
  /** Only `handoff` may use the reserve. */
  readonly purpose: Limits.Purpose
  /** 0 to send the call while any money is left: then each one that runs may pass the limit, by less than it costs. */
  readonly usd: number
  /** 0 to send the call while any tokens are left. */
  readonly tokens: number
}

/** What an attempt has really used: money in USD, prompt and completion tokens together. */
export interface Spent {
  /** The key under which it was held. */
  readonly key: string
  readonly usd: number
  readonly tokens: number
  /** 0 for an attempt that failed and is no turn. Default 1. */
  readonly turns?: 0 | 1 | undefined
}

/** An amount of each resource. Money in USD. */
export interface Amounts {
  readonly turns: number
  readonly usd: number
  readonly tokens: number
  readonly toolCalls: number
}

/**
 * How a pool stands: its limits, what was used, what is held beside that, and what is left of each limit, the reserve
 * included. More may have been used than there was; then nothing is left.
 */
export interface Status {
  readonly pool: string
  readonly limits: Limits.Limits
  readonly used: Amounts
  readonly held: Amounts
  readonly left: Partial<Amounts>
}

/**
 * The budget that is shared.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { BudgetPool, MemoryBudgetPool } from "checkrein/store"
 *
 * const program = Effect.gen(function* () {
 *   const pool = yield* BudgetPool.BudgetPool
 *   yield* pool.claimCall({ key: "run-1/call-1/1", purpose: "investigate" })
 *   yield* pool.hold({ key: "run-1/turn-2/1", purpose: "investigate", usd: 0.01, tokens: 5000 })
 *   yield* pool.settle({ key: "run-1/turn-2/1", usd: 0.0021, tokens: 815 })
 *   return yield* pool.status
 * }).pipe(Effect.scoped, Effect.provide(MemoryBudgetPool.layer("team-a", { toolCalls: 1000, usd: 1 })))
 * ```
 */
export class BudgetPool extends Context.Service<
  BudgetPool,
  {
    /** The name of the pool. */
    readonly pool: string
    /**
     * Claims one tool call, for good. Fails with `ClaimRefused` when none is left for this purpose. The same key again
     * succeeds and counts nothing, even when none is left by now.
     */
    readonly claimCall: (
      claim: CallClaim
    ) => Effect.Effect<void, Limits.ClaimRefused | Limits.InvalidClaim | BudgetPoolError>
    /**
     * Holds one turn and the worst case of its model call, until it is settled or the scope closes. Fails with
     * `ClaimRefused` when it does not fit into what is neither used nor held, or when any limit has been reached.
     *
     * The same key again is the same hold, for as much as at first; it then belongs to whoever asked last. A key that
     * was settled holds nothing any more.
     *
     * A hold in a database outlives a process that dies by no more than its lease.
     */
    readonly hold: (
      hold: Hold
    ) => Effect.Effect<void, Limits.ClaimRefused | Limits.InvalidClaim | BudgetPoolError, Scope.Scope>
    /**
     * Counts what a model call has really used, in place of what was held for it. It counts in any case: if it is more,
     * if it passes a limit, and if nothing is held any more. The same key again counts nothing.
     */
    readonly settle: (spent: Spent) => Effect.Effect<void, Limits.InvalidClaim | BudgetPoolError>
    /** How the pool stands. */
    readonly status: Effect.Effect<Status, BudgetPoolError>
  }
>()("checkrein/BudgetPool") {}
