/** The runs below a run, which its calls have started. */
import * as Effect from "effect/Effect"
import type { RunEvent } from "../run/RunEvent.ts"
import { childId } from "../run/RunState.ts"
import { RunStore, type RunStoreError } from "../store/RunStore.ts"

type Journal = ReadonlyArray<RunEvent>

/** The ids of the runs that the calls of a run may have started. */
export const idsIn = (events: Journal): ReadonlySet<string> => {
  const ids = new Set<string>()
  for (const event of events) {
    if (event.type === "turn") {
      for (const { agent, callId } of event.calls) if (agent === true) ids.add(childId(event.runId, callId))
    } else if (event.type === "child_suspended") ids.add(event.suspension.runId)
    else if (event.type === "tool_result" && event.childCostUsd !== undefined) {
      ids.add(childId(event.runId, event.callId))
    }
  }
  return ids
}

/** The journals of the runs that a run has started, and of those that they have started. */
export const read = (events: Journal): Effect.Effect<ReadonlyArray<Journal>, RunStoreError, RunStore> =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const found: Array<Journal> = []
    // What is added while it is gone through is gone through as well.
    const ids = new Set(idsIn(events))
    for (const id of ids) {
      // A call may have been refused, or stopped before the run in it had begun.
      const child = yield* Effect.catchTag(store.read(id), "RunNotFound", () => Effect.succeed([]))
      if (child.length === 0) continue
      found.push(child)
      for (const below of idsIn(child)) ids.add(below)
    }
    return found
  })
