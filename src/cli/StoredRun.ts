/**
 * A stored run as the commands about runs look at it.
 */
import * as Effect from "effect/Effect"
import type { RunEvent } from "../run/RunEvent.ts"
import * as RunState from "../run/RunState.ts"
import { RunNotFound, RunStore } from "../store/RunStore.ts"

/** The run at the top of a tree of runs: what is resumed when something below it was decided. */
export const rootOf = Effect.fnUntraced(function* (runId: string) {
  const store = yield* RunStore
  let summary = yield* store.summary(runId)
  while (summary.parent !== undefined) summary = yield* store.summary(summary.parent.runId)
  return summary
})

/** A run with its whole journal. */
export interface Loaded {
  readonly events: ReadonlyArray<RunEvent>
  readonly state: RunState.RunState
}

/** Reads a run. */
export const load = Effect.fnUntraced(function* (runId: string) {
  const store = yield* RunStore
  const events = yield* store.read(runId)
  const state = RunState.fold(events)
  if (state === undefined) return yield* new RunNotFound({ runId })
  const loaded: Loaded = { events, state }
  return loaded
})
