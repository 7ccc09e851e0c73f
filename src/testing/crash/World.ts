/**
 * A world for the tools of a test: what takes place in it is counted, and it outlives whatever stops the run.
 */
import * as Effect from "effect/Effect"
import { CurrentCall } from "../../tool/CurrentCall.ts"
import * as Witness from "./Witness.ts"

const underKey = (witness: Witness.Witness, key: string): boolean =>
  witness.read().some((entry) => entry._tag === "Happened" && entry.key === key)

/**
 * Says that something took place in the world, once for each time that it did: a charge, a mail, a row; reading is
 * nothing that takes place. Stands where the effect stands in a fake of a service, or in a handler; in a tool that never
 * says it, and is not read-only, the kit sees nothing, and reports that as `observed`. Outside of the crash kit it does
 * nothing.
 *
 * @example
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { CrashKit } from "checkrein/testing"
 *
 * const Mail = Tool.make("send_mail", { parameters: Schema.Struct({ to: Schema.String }), success: Schema.String })
 * const handlers = Toolkit.make(Mail).toLayer({
 *   send_mail: ({ to }) => Effect.as(CrashKit.happened(`mail to ${to}`), "sent")
 * })
 * ```
 */
export const happened = (effect: string): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { callId, runId } = yield* CurrentCall
    const witness = yield* Witness.Current
    witness.write({ _tag: "Happened", runId, callId, effect })
  })

/**
 * The same in a world that takes idempotency keys: under a key something takes place once. Yields whether it did now.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { CurrentCall } from "checkrein/tool"
 * import { CrashKit } from "checkrein/testing"
 *
 * const pay = Effect.gen(function* () {
 *   const { idempotencyKey } = yield* CurrentCall.CurrentCall
 *   return (yield* CrashKit.happenedOnce(idempotencyKey, "a payment")) ? "paid" : "was paid"
 * })
 * ```
 */
export const happenedOnce = (key: string, effect: string): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    const { callId, runId } = yield* CurrentCall
    const witness = yield* Witness.Current
    if (underKey(witness, key)) return false
    witness.write({ _tag: "Happened", runId, callId, effect, key })
    return true
  })

/**
 * Whether something took place under a key: what a tool's `ToolPolicy.Reconcile` asks the world.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { ToolPolicy } from "checkrein/tool"
 * import { CrashKit } from "checkrein/testing"
 *
 * const lookUp = ({ idempotencyKey }: ToolPolicy.Call) =>
 *   Effect.map(CrashKit.hasHappened(idempotencyKey), (has) =>
 *     has ? ToolPolicy.happened("paid") : ToolPolicy.didNotHappen
 *   )
 * ```
 */
export const hasHappened = (key: string): Effect.Effect<boolean> =>
  Effect.map(Witness.Current, (witness) => underKey(witness, key))
