/**
 * How a tool says that it failed, in a way that the loop can act on.
 */
import * as Schema from "effect/Schema"

/**
 * A tool's declared failure. `kind` decides what follows:
 *
 * - `recoverable`: the model reads the message and may do something else
 * - `transient`: tried again, if the tool may be repeated or `notExecuted` vouches that nothing happened: at most three
 *   attempts in all, about 200 and 400 milliseconds apart, each of which counts as a tool call
 * - `permanent`: denied for good; the run stops as `failed`
 *
 * `message` is worded for the model. `detail` is for the trace and never reaches the model.
 *
 * @example
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Tool } from "effect/ai"
 * import { ToolFailure } from "checkrein/tool"
 *
 * const ReadFile = Tool.make("read_file", {
 *   parameters: Schema.Struct({ path: Schema.String }),
 *   success: Schema.String,
 *   failure: ToolFailure.ToolFailure
 * })
 * const handler = ({ path }: { path: string }) =>
 *   Effect.fail(ToolFailure.recoverable(`no such file: ${path}. Call list_files to see what exists.`))
 * ```
 */
export class ToolFailure extends Schema.TaggedError<ToolFailure>()("ToolFailure", {
  kind: Schema.Literals(["recoverable", "transient", "permanent"]),
  message: Schema.String,
  notExecuted: Schema.optionalKey(Schema.Boolean),
  detail: Schema.optionalKey(Schema.String)
}) {}

/** What a failure may carry besides its message. */
export interface Options {
  /** For the trace alone. */
  readonly detail?: string
}

/**
 * A failure that the model can do something about.
 *
 * @example
 * ```ts
 * import { ToolFailure } from "checkrein/tool"
 *
 * const gone = ToolFailure.recoverable("no such file: a.log. Call list_files to see what exists.")
 * ```
 */
export const recoverable = (message: string, options: Options = {}): ToolFailure =>
  new ToolFailure({ kind: "recoverable", message, ...options })

/**
 * A failure that may pass. The call is tried again about 200 milliseconds later, and about 400 after that; the third failure
 * is the model's to read. A tool that changes the world is tried again only if it says `notExecuted: true`, which vouches that
 * the attempt has changed nothing.
 *
 * @example
 * ```ts
 * import { ToolFailure } from "checkrein/tool"
 *
 * const busy = ToolFailure.transient("the bank is busy", { notExecuted: true })
 * ```
 */
export const transient = (
  message: string,
  options: Options & { readonly notExecuted?: boolean } = {}
): ToolFailure => new ToolFailure({ kind: "transient", message, ...options })

/**
 * A failure that no further attempt will change, such as a permission that is denied.
 *
 * @example
 * ```ts
 * import { ToolFailure } from "checkrein/tool"
 *
 * const denied = ToolFailure.permanent("this account is closed", { detail: "HTTP 403" })
 * ```
 */
export const permanent = (message: string, options: Options = {}): ToolFailure =>
  new ToolFailure({ kind: "permanent", message, ...options })
