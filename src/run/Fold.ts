/** How the events of a run add up to its state, so that resuming is the same code path as running. Pure. */

import { apply } from "./Apply.ts"
import { empty, snapshot } from "./Draft.ts"
import type { RunEvent } from "./RunEvent.ts"
import type { RunState } from "./RunState.ts"

/**
 * The state after these events, beginning with the empty run or with `from`. Folding a prefix and then the rest is
 * folding the whole. `undefined` without any event.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Fold, RunStore } from "checkrein"
 *
 * const atItsFirstTurn = Effect.gen(function* () {
 *   const { events } = yield* RunStore.load("night-shift")
 *   return Fold.fold(events.slice(0, events.findIndex(({ type }) => type === "turn") + 1))
 * })
 * ```
 */
export const fold = (events: Iterable<RunEvent>, from?: RunState): RunState | undefined => {
  let draft = from === undefined ? undefined : snapshot(from)
  for (const event of events) {
    draft ??= empty(event.runId)
    apply(draft, event)
  }
  return draft
}
