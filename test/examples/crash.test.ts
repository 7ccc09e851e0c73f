import { assert, it } from "@effect/vitest"
import { Agent } from "checkrein"
import { Scripted } from "checkrein/provider"
import { CrashKit } from "checkrein/testing"
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"

const id = Schema.Struct({ id: Schema.String })
const Refund = Tool.make("refund", { parameters: id, success: Schema.String })
const tools = Toolkit.make(Refund)
const clerk = Agent.make("clerk", { toolkit: tools, limits: { turns: 5 } })
const script = Scripted.make("clerk", [Scripted.call("refund", { id: "7" }), Scripted.text("Done.")])
const layer = Layer.merge(
  tools.toLayer({ refund: ({ id }) => Effect.as(CrashKit.happened(`refunded ${id}`), "done") }),
  Scripted.layer(script)
)

const refundsOnce = Effect.gen(function* () {
  const { broken } = yield* CrashKit.check({ agent: clerk, input: "Refund order 7.", layer })
  assert.deepStrictEqual(broken, [])
})

it.effect("refunds once, wherever it is stopped", () => refundsOnce, 30_000)
