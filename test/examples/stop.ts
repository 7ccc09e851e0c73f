import { Agent } from "checkrein"
import { Context, Effect, Fiber } from "effect"
import { analyst } from "./analyst.ts"

export const stopAfterASecond = Effect.gen(function* () {
  const run = Agent.run(analyst, "Which file mentions a timeout?", { runId: "night-shift" })
  const fiber = yield* Effect.forkChild(run)
  yield* Effect.sleep("1 second")
  yield* Fiber.interruptAs(fiber, undefined, Context.make(Agent.CancelReason, "user pressed Stop"))
})

// In this process or in the next one: the journal says where the run was, and nothing is done again.
export const goOn = Agent.resume(analyst, "night-shift").pipe(
  Effect.catchTag("MaxTurnsExceeded", ({ run }) =>
    Agent.resume(analyst, run.runId, { limits: { turns: 40 } })
  )
)
