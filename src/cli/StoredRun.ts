/**
 * A stored run as the commands about runs look at it.
 */
import * as Effect from "effect/Effect"
import { RunStore } from "../store/RunStore.ts"

/** The run at the top of a tree of runs: what is resumed when something below it was decided. */
export const rootOf = Effect.fnUntraced(function* (runId: string) {
  const store = yield* RunStore
  let summary = yield* store.summary(runId)
  while (summary.parent !== undefined) summary = yield* store.summary(summary.parent.runId)
  return summary
})
