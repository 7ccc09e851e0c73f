import { Agent } from "checkrein"
import { Effect } from "effect"
import { Toolkit } from "effect/ai"
import { analyst } from "./analyst.ts"

const askAnalyst = Agent.asTool(analyst, {
  name: "ask_analyst",
  description: "Has the logs read, and answers one question about them."
})

export const lead = Agent.make("lead", {
  instructions: "You lead an investigation.",
  toolkit: Toolkit.make(askAnalyst.tool),
  limits: { turns: 10, usd: 0.2 }
}).pipe(Agent.provide(askAnalyst.layer))

export const report = Agent.run(lead, "Why was the night slow?").pipe(Effect.map(({ output }) => output))
