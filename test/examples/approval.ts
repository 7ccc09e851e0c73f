import { Agent } from "checkrein"
import { Effect } from "effect"
import { analyst } from "./analyst.ts"

export const cleanUp = (decision: Agent.Decision) =>
  Agent.run(analyst, "Free some space.").pipe(
    Effect.catchTag("ApprovalRequired", ({ calls, run }) =>
      Effect.forEach(calls, (call) => Agent.decide(call, decision, { by: "ann" })).pipe(
        Effect.andThen(Agent.resume(analyst, run.runId))
      )
    )
  )
