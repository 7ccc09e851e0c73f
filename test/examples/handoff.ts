import { Agent, Handoff } from "checkrein"
import { Effect } from "effect"
import { analyst } from "./analyst.ts"

export const inFiveTurns = Agent.run(analyst, "Why was the night slow?", {
  limits: { turns: 5, toolCalls: 12, reserve: { turns: 1, toolCalls: 2 } }
}).pipe(
  Effect.map(({ output }) => output),
  Effect.catchTag(["MaxTurnsExceeded", "BudgetExceeded"], ({ handoff }) =>
    Effect.succeed(Handoff.toMarkdown(handoff))
  )
)
