/** An agent with a contract, whose sub-agent needs approvals: two calls wait in the child, and the lead asks a person. */
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent } from "../../../src/index.ts"
import * as Scripted from "../../../src/provider/Scripted.ts"

const Pay = Tool.make("pay", {
  parameters: Schema.Struct({ cents: Schema.Int }),
  success: Schema.String,
  needsApproval: true
})
const payments = Toolkit.make(Pay)

const clerk = Agent.make("clerk", { toolkit: payments }).pipe(
  Agent.provide(
    Layer.merge(
      payments.toLayer({ pay: ({ cents }) => Effect.succeed(`paid ${cents}`) }),
      Scripted.layer(
        Scripted.make("clerk", [
          Scripted.turn(
            Scripted.call("pay", { cents: 100 }, { id: "p1" }),
            Scripted.call("pay", { cents: 200 }, { id: "p2" })
          ),
          (transcript) => Scripted.text(transcript.toolResults.join("; "))
        ])
      )
    )
  )
)

const ask = Agent.asTool(clerk, { name: "ask_clerk", description: "Pays." })

const lead = Scripted.make("lead", [
  Scripted.call("ask_clerk", { task: "Pay both." }, { id: "k1" }),
  Scripted.call("request_input", { question: "Which account?" }, { id: "q1" }),
  (transcript) => Scripted.call("submit_result", { done: transcript.lastToolResult }, { id: "s1" })
])

const agent = Agent.make("lead", {
  toolkit: Toolkit.make(ask.tool),
  output: Schema.Struct({ done: Schema.String }),
  limits: { turns: 6, time: "1 minute" }
})

export default { agent, layer: Layer.merge(ask.layer, Scripted.layer(lead)) }
