/** An agent that takes a short turn after the other, a tenth of a second each: a run in which things happen. */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Agent from "../../../src/Agent.ts"
import * as Scripted from "../../../src/provider/Scripted.ts"

const Tick = Tool.make("tick", {
  parameters: Schema.Struct({ n: Schema.Int }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Tick)

// Loading the tokenizer would take longer than the rest of the run.
const usage = { promptTokens: 10, completionTokens: 5 }

/** As many ticks as the task says. */
const script = Scripted.make("ticker", (turn, { task }) =>
  turn < Number(task) ? Scripted.call("tick", { n: turn }) : Scripted.text("It has ticked.")
)

export const agent = Agent.make("ticker", { toolkit, limits: { turns: 1000, time: "1 minute" } })
export const layer = Layer.merge(
  toolkit.toLayer({ tick: ({ n }) => Effect.delay(Effect.succeed(`tick ${n}`), "100 millis") }),
  Scripted.layer(script, { usage })
)
