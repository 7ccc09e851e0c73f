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

/** Reads these runs and all those below them, each once: `read` gives the journal of one, which is empty if there is none. */
export const walk = <E, R>(
  ids: Iterable<string>,
  read: (id: string) => Effect.Effect<Journal, E, R>
): Effect.Effect<void, E, R> =>
  Effect.gen(function* () {
    // What is added while it is gone through is gone through as well.
    const all = new Set(ids)
    for (const id of all) for (const below of idsIn(yield* read(id))) all.add(below)
  })

/** The journals of the runs that a run has started, and of those that they have started. */
export const read = (events: Journal): Effect.Effect<ReadonlyArray<Journal>, RunStoreError, RunStore> =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const found: Array<Journal> = []
    yield* walk(idsIn(events), (id) =>
      // A call may have been refused, or stopped before the run in it had begun.
      Effect.catchTag(store.read(id), "RunNotFound", () => Effect.succeed([])).pipe(
        Effect.map((child) => {
          if (child.length > 0) found.push(child)
          return child
        })
      )
    )
    return found
  })
