import { Agent } from "checkrein"
import { Effect } from "effect"
import { analyst } from "./analyst.ts"

// In this process or in the next one: the journal says where the run was, and nothing that is done is done again.
export const goOn = Agent.resume(analyst, "night-shift").pipe(
  Effect.catchTag("MaxTurnsExceeded", ({ run }) =>
    Agent.resume(analyst, run.runId, { limits: { turns: 40 } })
  )
)
