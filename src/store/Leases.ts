/**
 * The right to drive a run, within one process: one holder for each run and store.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { RunBusy } from "./RunStore.ts"

/** Takes the right to drive a run until the scope closes; `RunBusy` while somebody else has it. */
export type Lease = (runId: string) => Effect.Effect<void, RunBusy, Scope.Scope>

/** No run is driven yet. */
export const make = (): Lease => {
  const held = new Set<string>()
  return (runId) =>
    Effect.acquireRelease(
      Effect.suspend(() => {
        if (held.has(runId)) return Effect.fail(new RunBusy({ runId }))
        held.add(runId)
        return Effect.void
      }),
      () => Effect.sync(() => held.delete(runId))
    )
}
