/** An agent whose tool does not let itself be interrupted. */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Agent from "../../../src/Agent.ts"
import * as Scripted from "../../../src/provider/Scripted.ts"
import { CurrentCall } from "../../../src/tool/CurrentCall.ts"

const Work = Tool.make("work", { success: Schema.String })
const toolkit = Toolkit.make(Work)

// It ends by itself, if only to end with its test.
const working = Effect.gen(function* () {
  const call = yield* CurrentCall
  yield* call.progress("busy")
  return yield* Effect.uninterruptible(Effect.delay(Effect.succeed("done"), "1 minute"))
})

export const agent = Agent.make("stubborn", { toolkit, limits: { turns: 5, time: "5 minutes" } })
export const layer = Layer.merge(
  toolkit.toLayer({ work: () => working }),
  Scripted.layer(Scripted.make("stubborn", [Scripted.call("work", {}, { id: "c1" })]), {
    usage: { promptTokens: 10, completionTokens: 5 }
  })
)
