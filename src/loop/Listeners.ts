/**
 * Whoever has to hear of a run's events, whoever writes them.
 */
import * as Effect from "effect/Effect"
import * as Metrics from "../observe/Metrics.ts"
import * as RunTrace from "../observe/RunTrace.ts"
import type { LiveEvent } from "../run/RunEvent.ts"

/** The trace, the metrics and whoever watches. */
export const of = Effect.fnUntraced(function* (
  agent: string,
  watcher: ((event: LiveEvent) => void) | undefined
) {
  const trace = yield* RunTrace.RunTrace
  const context = yield* Effect.context<never>()
  const listeners = [(event: LiveEvent) => Metrics.record(event, agent, context)]
  if (trace !== RunTrace.none) listeners.push((event) => trace.write(event))
  if (watcher !== undefined) listeners.push(watcher)
  return listeners
})
