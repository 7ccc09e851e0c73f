/** An agent whose tool never ends by itself, and says so when it is made to. */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/Agent.ts"
import * as Scripted from "../../src/provider/Scripted.ts"

const Wait = Tool.make("wait", { success: Schema.String }).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Wait)
const waiting = toolkit.toLayer({
  wait: () =>
    Console.log("tool").pipe(
      Effect.andThen(Effect.never),
      Effect.onInterrupt(() => Console.log("interrupted"))
    )
})
const script = Scripted.make("waiter", [Scripted.call("wait", {}, { id: "c1" })])
const usage = { promptTokens: 10, completionTokens: 5 }

export const agent = Agent.make("waiter", { toolkit, limits: { turns: 5, time: "1 hour" } })
export const layer = Layer.merge(waiting, Scripted.layer(script, { usage }))
