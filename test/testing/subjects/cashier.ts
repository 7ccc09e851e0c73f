/** Reads an order, charges it once a person has approved, and sends a receipt, which it does not matter to send twice. */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent, CurrentCall, PriceBook, ToolPolicy } from "../../../src/index.ts"
import { Scripted } from "../../../src/provider/index.ts"
import { CrashKit } from "../../../src/testing/index.ts"

const order = { parameters: Schema.Struct({ order: Schema.String }), success: Schema.String }

const ReadOrder = Tool.make("read_order", order).annotate(Tool.Readonly, true)
const Charge = Tool.make("charge", { ...order, needsApproval: true })
const Refund = Tool.make("refund", order).annotate(ToolPolicy.Reconcile, ({ idempotencyKey }) =>
  Effect.map(CrashKit.hasHappened(idempotencyKey), (did) =>
    did ? ToolPolicy.happened("refunded") : ToolPolicy.didNotHappen
  )
)
const SendReceipt = Tool.make("send_receipt", order).annotate(Tool.Idempotent, true)

const tools = Toolkit.make(ReadOrder, Charge, Refund, SendReceipt)

const under = (effect: string) =>
  Effect.flatMap(CurrentCall.CurrentCall, ({ idempotencyKey }) =>
    CrashKit.happenedOnce(idempotencyKey, effect)
  )

const handlers = tools.toLayer({
  read_order: ({ order }) => Effect.as(Effect.sleep("20 millis"), `order ${order}: 20 dollars`),
  charge: ({ order }) =>
    Effect.gen(function* () {
      yield* Effect.sleep("20 millis")
      yield* CrashKit.happened(`charged ${order}`)
      yield* Effect.sleep("20 millis")
      return `charged ${order}`
    }),
  refund: ({ order }) => Effect.as(under(`refunded ${order}`), "refunded"),
  send_receipt: ({ order }) => Effect.as(under(`receipt for ${order}`), "sent")
})

const call = (name: string) => Scripted.call(name, { order: "o-7" })

const script = Scripted.make("cashier", [
  call("read_order"),
  Scripted.turn(call("charge"), call("send_receipt")),
  call("refund"),
  Scripted.text("Charged, and refunded.")
])

export default CrashKit.subject({
  agent: Agent.make("cashier", { toolkit: tools, limits: { turns: 9, usd: 1 } }),
  input: "Charge order o-7, and think better of it.",
  layer: Layer.mergeAll(
    handlers,
    Scripted.layer(script, { usage: { promptTokens: 100, completionTokens: 10 } }),
    PriceBook.layer({ cashier: { input: 2, output: 12 } })
  )
})
