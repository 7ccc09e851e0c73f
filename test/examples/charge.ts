import { CurrentCall, ToolFailure, ToolPolicy } from "checkrein/tool"
import { Context, Effect, Layer, Option, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"

/** Stands for a payment service that takes idempotency keys and can be asked about them. */
export class Payments extends Context.Service<Payments, Map<string, string>>()("Payments") {}

const Charge = Tool.make("charge", {
  description: "Charges the customer of an order.",
  parameters: Schema.Struct({ orderId: Schema.String, cents: Schema.Int }),
  success: Schema.String,
  failure: ToolFailure.ToolFailure,
  needsApproval: ({ cents }) => cents > 10_000
})
  .annotate(ToolPolicy.Timeout, "20 seconds")
  .annotate(ToolPolicy.Reconcile, ({ idempotencyKey }) =>
    // Whoever drives the run on may have no payments to ask: then nobody knows.
    Effect.map(Effect.serviceOption(Payments), (payments) => {
      if (Option.isNone(payments)) return ToolPolicy.unknown
      const receipt = payments.value.get(idempotencyKey)
      return receipt === undefined ? ToolPolicy.didNotHappen : ToolPolicy.happened(receipt)
    })
  )

export const Billing = Toolkit.make(Charge)

export const BillingLive = Billing.toLayer(
  Effect.map(Payments, (payments) => ({
    charge: ({ cents, orderId }) =>
      Effect.gen(function* () {
        const call = yield* CurrentCall.CurrentCall
        if (cents <= 0) return yield* ToolFailure.recoverable(`cents is ${cents}, and must be more than 0`)
        if (orderId === "closed") return yield* ToolFailure.permanent("this account is closed")
        if (orderId === "busy") return yield* ToolFailure.transient("the bank is busy", { notExecuted: true })
        yield* call.progress(`charging order ${orderId}`)
        payments.set(call.idempotencyKey, `receipt for ${cents} cents`)
        if (orderId === "slow") yield* Effect.sleep("1 minute")
        return `receipt for ${cents} cents`
      })
  }))
).pipe(Layer.provideMerge(Layer.sync(Payments, () => new Map())))
