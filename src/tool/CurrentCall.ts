/**
 * What a tool's handler can know of the call that it serves.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { Evidence } from "../run/RunEvent.ts"

/** The call that is being executed. */
export interface CurrentCall {
  readonly runId: string
  readonly callId: string
  /** The same across retries, resumes and machines; another one for other arguments. */
  readonly idempotencyKey: string
  /** How long the call may still take; `None` without a limit. */
  readonly timeLeft: Effect.Effect<Option.Option<Duration.Duration>>
  /** Tells whoever watches how far the work has come. Never stored. */
  readonly progress: (
    label: string,
    of?: { readonly done: number; readonly total: number }
  ) => Effect.Effect<void>
  /**
   * Tells what the tool has seen or done, for whoever takes the run over: it is stored with the result of the call,
   * also of one that fails, and is what a `Handoff` lists. Up to 64 items a call are kept, of up to 300 characters
   * each; what an attempt has told that is tried again does not count.
   */
  readonly evidence: (item: Evidence) => Effect.Effect<void>
}

/**
 * The call that is being executed. Outside a run it has the id `none`, no time limit, and progress and evidence go
 * nowhere, so a handler can be tested alone.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { CurrentCall } from "checkrein/tool"
 *
 * const scan = Effect.gen(function* () {
 *   const call = yield* CurrentCall.CurrentCall
 *   yield* call.progress("scanned 200 of 1200 files", { done: 200, total: 1200 })
 *   return call.idempotencyKey
 * })
 *
 * const readSource = (path: string, content: string, sha256: string) =>
 *   Effect.gen(function* () {
 *     const call = yield* CurrentCall.CurrentCall
 *     yield* call.evidence({ kind: "source", name: "git", digest: "3e4412b" })
 *     yield* call.evidence({ kind: "file", name: path, digest: `sha256:${sha256}` })
 *     return content
 *   })
 *
 * const runTests = (exitCode: number) =>
 *   Effect.gen(function* () {
 *     const call = yield* CurrentCall.CurrentCall
 *     yield* call.evidence({ kind: "command", name: "npm test", outcome: `exit code ${exitCode}` })
 *     return exitCode === 0
 *   })
 * ```
 */
export const CurrentCall: Context.Reference<CurrentCall> = Context.Reference("checkrein/CurrentCall", {
  defaultValue: (): CurrentCall => ({
    runId: "none",
    callId: "none",
    idempotencyKey: "none",
    timeLeft: Effect.succeedNone,
    progress: () => Effect.void,
    evidence: () => Effect.void
  })
})
