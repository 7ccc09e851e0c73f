/** A browser tab, whichever process its server is: approves whatever waits, under its own name, and has it go on. */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { Agent, RunStore } from "../../src/index.ts"
import type { Planner } from "./plans.ts"

/** A driver that has died keeps its run until its lease ends, and one that has stopped for a moment. */
export const untilFree = {
  while: (error: { readonly _tag: string }) => error._tag === "RunBusy",
  schedule: Schedule.spaced("20 millis")
}

/**
 * Approves what waits in these runs, one after the other, with its name in the arguments, and resumes each. Tells of each
 * approval that succeeded.
 */
export const answerAll = Effect.fnUntraced(function* (
  agent: Planner,
  name: string,
  runIds: ReadonlyArray<string>,
  tell: (success: string) => void
) {
  const store = yield* RunStore.RunStore
  for (const runId of runIds) {
    for (const call of (yield* store.summary(runId)).approvals) {
      const decision = Agent.approve({ args: { q: `${runId} by ${name}` } })
      yield* Agent.decide(call, decision, { by: name }).pipe(
        Effect.andThen(Effect.sync(() => tell(`said ${runId} by ${name}`))),
        Effect.catchTag("CallNotPending", () => Effect.void)
      )
    }
    yield* Agent.outcome(Agent.resume(agent, runId)).pipe(Effect.retry(untilFree))
  }
})
