/**
 * What a tool's author tells the loop about a tool, as annotations beside effect's own `Tool.Readonly` and
 * `Tool.Idempotent`.
 *
 * @example
 * ```ts
 * import { Schema } from "effect"
 * import { Tool } from "effect/ai"
 * import { ToolPolicy } from "checkrein/tool"
 *
 * const Charge = Tool.make("charge", { parameters: Schema.Struct({ orderId: Schema.String }) })
 *   .annotate(ToolPolicy.Timeout, "20 seconds")
 *   .annotate(ToolPolicy.IdempotencyKey, () => "order-7")
 * ```
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { Purpose as PurposeOf } from "../run/Limits.ts"

/** A call as its policies see it: `args` are the encoded arguments, as they are or were executed. */
export interface Call {
  readonly runId: string
  readonly callId: string
  readonly tool: string
  readonly args: Schema.Json
  readonly idempotencyKey: string
}

/**
 * What a tool is for. Only `handoff` tools may use a reserve. Default `investigate`.
 *
 * @example
 * ```ts
 * import { Tool } from "effect/ai"
 * import { ToolPolicy } from "checkrein/tool"
 *
 * const SaveNotes = Tool.make("save_notes").annotate(ToolPolicy.Purpose, "handoff")
 * ```
 */
export const Purpose: Context.Reference<PurposeOf> = Context.Reference("checkrein/ToolPolicy/Purpose", {
  defaultValue: (): PurposeOf => "investigate"
})

/**
 * How long one call may take. Default: no limit but the run's own. An agent with what is no duration here is not run.
 *
 * @example
 * ```ts
 * import { Tool } from "effect/ai"
 * import { ToolPolicy } from "checkrein/tool"
 *
 * const Charge = Tool.make("charge").annotate(ToolPolicy.Timeout, "20 seconds")
 * ```
 */
export const Timeout = Context.Reference<Duration.Input | undefined>("checkrein/ToolPolicy/Timeout", {
  defaultValue: () => undefined
})

/**
 * The tool's own idempotency key for a call; default: a digest of run, turn, call and arguments. A function that throws or
 * yields no text keeps the call from starting.
 *
 * @example
 * ```ts
 * import { Tool } from "effect/ai"
 * import { ToolPolicy } from "checkrein/tool"
 *
 * const Charge = Tool.make("charge").annotate(ToolPolicy.IdempotencyKey, ({ runId }) => `charge of ${runId}`)
 * ```
 */
export const IdempotencyKey = Context.Reference<((call: Omit<Call, "idempotencyKey">) => string) | undefined>(
  "checkrein/ToolPolicy/IdempotencyKey",
  { defaultValue: () => undefined }
)

/** What looking a lost call up has brought: it happened with this result, it did not, or it cannot be told. */
export type Outcome =
  | { readonly _tag: "Happened"; readonly result: Schema.Json }
  | { readonly _tag: "DidNotHappen" }
  | { readonly _tag: "Unknown" }

/**
 * It happened, with this (encoded) result.
 *
 * @example
 * ```ts
 * import { ToolPolicy } from "checkrein/tool"
 *
 * const found = ToolPolicy.happened("receipt 7")
 * ```
 */
export const happened = (result: Schema.Json): Outcome => ({
  _tag: "Happened",
  result
})

/**
 * It did not happen.
 *
 * @example
 * ```ts
 * import { ToolPolicy } from "checkrein/tool"
 *
 * const lookUp = (found: boolean) => (found ? ToolPolicy.happened("paid") : ToolPolicy.didNotHappen)
 * ```
 */
export const didNotHappen: Outcome = { _tag: "DidNotHappen" }

/**
 * It cannot be told.
 *
 * @example
 * ```ts
 * import { ToolPolicy } from "checkrein/tool"
 *
 * const lookUp = (isReachable: boolean) => (isReachable ? ToolPolicy.didNotHappen : ToolPolicy.unknown)
 * ```
 */
export const unknown: Outcome = { _tag: "Unknown" }

/**
 * Looks up what became of a call that was started and never answered, usually by its idempotency key. Without one, if
 * it fails, yields no outcome or takes longer than 30 seconds, a person has to resolve the call. A Stop leaves such calls too, even where the handler protects its write
 * with `Effect.uninterruptible`: the write happens, but an interrupted fiber has no result to tell.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { Tool } from "effect/ai"
 * import { ToolPolicy } from "checkrein/tool"
 *
 * declare const receiptOf: (key: string) => Effect.Effect<string | undefined>
 *
 * const Charge = Tool.make("charge").annotate(ToolPolicy.Reconcile, ({ idempotencyKey }) =>
 *   Effect.map(receiptOf(idempotencyKey), (receipt) =>
 *     receipt === undefined ? ToolPolicy.didNotHappen : ToolPolicy.happened(receipt)
 *   )
 * )
 * ```
 */
export const Reconcile = Context.Reference<((call: Call) => Effect.Effect<Outcome, unknown>) | undefined>(
  "checkrein/ToolPolicy/Reconcile",
  { defaultValue: () => undefined }
)
