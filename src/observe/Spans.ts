/**
 * What the spans of a run may carry. They are made by whoever drives it: `invoke_agent {agent}` around a run and
 * `execute_tool {tool}` around a call, beside effect's own of a model call.
 */
import * as Context from "effect/Context"

/**
 * Whether tool spans carry arguments and results, in full. Off by default: they hold whatever the model and the tools
 * were told, and spans are sent to other machines.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Spans } from "checkrein"
 *
 * declare const program: Effect.Effect<string>
 *
 * const inDevelopment = program.pipe(Effect.provideService(Spans.RecordContent, true))
 * ```
 */
export const RecordContent = Context.Reference<boolean>("checkrein/observe/RecordContent", {
  defaultValue: () => false
})
