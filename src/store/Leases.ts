/**
 * The right to drive a run, within one process: one holder for each run and store. Nothing can take it away.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { type Lease, RunBusy } from "./RunStore.ts"

const lease: Lease = { check: Effect.void, lost: Effect.never }

/** No run is driven yet. */
export const make = () => {
  const held = new Set<string>()
  return {
    /** Whether somebody drives this run. */
    isHeld: (runId: string): boolean => held.has(runId),
    /** Takes the right until the scope closes; `RunBusy` while somebody else has it. */
    take: (runId: string): Effect.Effect<Lease, RunBusy, Scope.Scope> =>
      Effect.acquireRelease(
        Effect.suspend(() => {
          if (held.has(runId)) return Effect.fail(new RunBusy({ runId }))
          held.add(runId)
          return Effect.succeed(lease)
        }),
        () => Effect.sync(() => held.delete(runId))
      )
  }
}
