/** An agent whose model and tool write what would take a terminal over: in an answer, a call, a result and an error. */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Agent from "../../../src/Agent.ts"
import * as Scripted from "../../../src/provider/Scripted.ts"
import { text } from "../hostile.ts"

const Look = Tool.make("look", {
  parameters: Schema.Struct({ at: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const tools = Toolkit.make(Look)

export const agent = Agent.make("hostile", { toolkit: tools, limits: { time: "1 hour" } })

export const layer = Layer.merge(
  tools.toLayer({ look: ({ at }) => (at === "" ? Effect.die(text) : Effect.succeed(text)) }),
  Scripted.layer(
    Scripted.make(text, [
      Scripted.turn(Scripted.call("look", { at: text }, { id: text }), Scripted.call("look", { at: "" })),
      Scripted.text(`${text}\n\tsecond line${text}\r\n`)
    ])
  )
)
