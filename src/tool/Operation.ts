/**
 * Work that goes on after the call that has started it: a test, a build, an export.
 *
 * The tool that starts it returns `started`, which names the tool that looks at it; that one returns `running` or
 * `ended`. These are plain values with a schema, so a run holds on to its operations across processes. What the model
 * reads of them is worded by the loop: that work still goes on is no success and no failure.
 *
 * @example
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { Operation } from "checkrein/tool"
 *
 * const StartTest = Tool.make("start_test", {
 *   parameters: Schema.Struct({ name: Schema.String }),
 *   success: Operation.Started
 * })
 * const ObserveTest = Tool.make("observe_test", {
 *   parameters: Schema.Struct({ id: Schema.String }),
 *   success: Operation.Observed
 * }).annotate(Tool.Readonly, true)
 *
 * const handlers = Toolkit.make(StartTest, ObserveTest).toLayer({
 *   start_test: ({ name }) =>
 *     Effect.succeed(Operation.started({ id: "t1", observe: "observe_test", label: `test ${name}` })),
 *   observe_test: ({ id }) =>
 *     Effect.succeed(Operation.ended({ id, outcome: "failed", detail: "1 of 9: the last row is missing" }))
 * })
 * ```
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { OperationOutcome } from "../run/RunEvent.ts"

export { OperationOutcome as Outcome }

/**
 * Work was started and goes on. A tool with this among its successes is never run twice at once, and a second call with
 * the same arguments is answered with the first one's operation until that has ended.
 *
 * `id` names it for whoever looks at it and is new in the run, also where the same work is started again after its end;
 * `observe` is the tool with which the model looks at it; `label` says in a few words what it is.
 */
export const Started = Schema.TaggedStruct("checkrein/OperationStarted", {
  id: Schema.NonEmptyString,
  observe: Schema.NonEmptyString,
  label: Schema.optionalKey(Schema.NonEmptyString)
}).annotate({ identifier: "checkrein/OperationStarted" })
export type Started = typeof Started.Type

/** Work still goes on. `label` says how far it has come. */
export const Running = Schema.TaggedStruct("checkrein/OperationRunning", {
  id: Schema.NonEmptyString,
  label: Schema.optionalKey(Schema.NonEmptyString)
}).annotate({ identifier: "checkrein/OperationRunning" })
export type Running = typeof Running.Type

/** Work has come to its end. `detail` says how, worded for the model. */
export const Ended = Schema.TaggedStruct("checkrein/OperationEnded", {
  id: Schema.NonEmptyString,
  outcome: OperationOutcome,
  detail: Schema.String
}).annotate({ identifier: "checkrein/OperationEnded" })
export type Ended = typeof Ended.Type

/**
 * What a look at work has shown. A tool with this as its success may use a reserve, and asking it again and again is no
 * repetition. Annotate it with effect's `Tool.Readonly`, so that a look that was cut off is simply taken again.
 */
export const Observed = Schema.Union([Running, Ended])
export type Observed = typeof Observed.Type

/** Everything that a tool can say of an operation. */
export const Report = Schema.Union([Started, Running, Ended])
export type Report = typeof Report.Type

/**
 * Says that work was started and goes on.
 *
 * @example
 * ```ts
 * import { Operation } from "checkrein/tool"
 *
 * const begun = Operation.started({ id: "t1", observe: "observe_test", label: "the export test" })
 * ```
 */
export const started = (fields: Omit<Started, "_tag">): Started => Started.make(fields)

/**
 * Says that work still goes on.
 *
 * @example
 * ```ts
 * import { Operation } from "checkrein/tool"
 *
 * const still = Operation.running({ id: "t1", label: "4 of 9" })
 * ```
 */
export const running = (fields: Omit<Running, "_tag">): Running => Running.make(fields)

/**
 * Says that work has come to its end.
 *
 * @example
 * ```ts
 * import { Operation } from "checkrein/tool"
 *
 * const over = Operation.ended({ id: "t1", outcome: "succeeded", detail: "9 of 9" })
 * ```
 */
export const ended = (fields: Omit<Ended, "_tag">): Ended => Ended.make(fields)

/** An operation that goes on, for the harness's own look at it: by which call of which run it was started. */
export interface Live {
  readonly id: string
  readonly label: string
  readonly runId: string
  readonly callId: string
  readonly tool: string
}

/** How the harness itself deals with an operation, without the model. */
export interface Control {
  /** Looks at it; must change nothing. A look that fails tells nothing. */
  readonly observe?: (operation: Live) => Effect.Effect<Observed, unknown>
  /** Ends it. Succeeds once it is ended, or, together with `observe`, once it was told to. */
  readonly cancel?: (operation: Live) => Effect.Effect<unknown, unknown>
}

/**
 * Annotates a tool that starts operations with how the harness itself looks at them and ends them, which is what an
 * agent's policy asks for when a run stops at a limit (`operations: "cancel"`, or with a grace). Nothing by default.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { Tool } from "effect/ai"
 * import { Operation } from "checkrein/tool"
 *
 * declare const kill: (id: string) => Effect.Effect<void>
 * declare const exitCode: (id: string) => Effect.Effect<number | undefined>
 *
 * const StartTest = Tool.make("start_test", { success: Operation.Started }).annotate(Operation.Control, {
 *   cancel: ({ id }) => kill(id),
 *   observe: ({ id }) =>
 *     Effect.map(exitCode(id), (code) =>
 *       code === undefined
 *         ? Operation.running({ id })
 *         : Operation.ended({ id, outcome: code === 0 ? "succeeded" : "failed", detail: `exit code ${code}` })
 *     )
 * })
 * ```
 */
export const Control: Context.Reference<Control> = Context.Reference("checkrein/Operation/Control", {
  defaultValue: (): Control => ({})
})
