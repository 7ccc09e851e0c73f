/**
 * Where a test may stand between a run and what it reaches: its model and its tools, whoever has provided them, and those
 * of its child runs. This is how the crash kit gets there.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Tools } from "./ToolRunner.ts"

/** What stands between. */
export interface Probe {
  /** Stands around one attempt of a model call. */
  readonly model: <A, E, R>(runId: string, request: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Stands in for the tools of an agent that is made ready to run. */
  readonly tools: (tools: Tools) => Tools
}

/** Nothing stands between. */
const none: Probe = { model: (_, request) => request, tools: (tools) => tools }

/** What stands between a run and what it reaches; default nothing. */
export const Probe: Context.Reference<Probe> = Context.Reference("checkrein/loop/Probe", {
  defaultValue: () => none
})
