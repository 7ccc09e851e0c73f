/**
 * The answer of a run that has completed, read from its journal alone.
 */
import * as Effect from "effect/Effect"
import { load, RunStore } from "../store/RunStore.ts"
import { completed, type Definition } from "./Definition.ts"
import { AgentMismatch, RunNotCompleted } from "./Refused.ts"

/** Reads the answer of a completed run. What cannot be had is found out from the summary, which is small. */
export const read = Effect.fnUntraced(function* (definition: Definition, runId: string) {
  const store = yield* RunStore
  const { agent, status } = yield* store.summary(runId)
  if (agent !== definition.name) {
    return yield* new AgentMismatch({ runId, agent: definition.name, problem: `it is a run of ${agent}` })
  }
  if (status !== "completed") return yield* new RunNotCompleted({ runId, status })
  const { state } = yield* load(runId)
  return yield* completed(definition, state)
})
