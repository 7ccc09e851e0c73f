/**
 * What an execution of a tool has brought, whatever the tool did, and what is made of it: the words for the model, the
 * detail for the journal, and whether the run ends with it.
 */
import type * as Tool from "effect/ai/Tool"
import * as Cause from "effect/Cause"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Ending } from "../run/NextStep.ts"
import * as Repetition from "../run/Repetition.ts"
import type { Body, BodyOf } from "../run/RunEvent.ts"
import type { PendingCall, RunState } from "../run/RunState.ts"
import type * as Operation from "../tool/Operation.ts"
import { recoverable, ToolFailure } from "../tool/ToolFailure.ts"
import * as Author from "./Author.ts"
import { type ChildOutcome, ChildSignal } from "./ChildRun.ts"
import type { OnDesk } from "./Desk.ts"
import * as Digest from "./Digest.ts"
import * as EvidenceNotes from "./EvidenceNotes.ts"
import type { Job } from "./Job.ts"
import type { Journal } from "./Journal.ts"
import * as Json from "./Json.ts"
import * as Operations from "./Operations.ts"
import * as Signature from "./Signature.ts"
import { type Fields, resultOf } from "./ToolResult.ts"
import type { Output, Ran } from "./ToolRunner.ts"
import * as Words from "./Words.ts"

/**
 * What one execution brought. `Broken` is whatever the tool did not word for the model itself, `Unknown` a call that
 * may or may not have happened.
 */
export type Outcome =
  | { readonly _tag: "Success"; readonly content: string; readonly report?: Operation.Report }
  | { readonly _tag: "Failed"; readonly failure: ToolFailure }
  | {
      readonly _tag: "Broken"
      readonly content: string
      readonly detail: string
      /** It did what its tool has not declared: somebody should mend the tool. */
      readonly bug?: true
    }
  | { readonly _tag: "WrongArguments"; readonly content: string }
  | { readonly _tag: "Unknown"; readonly detail: string; readonly mayRun?: boolean }
  | ChildOutcome

/** An output as the model sees it: a string as it stands, anything else as JSON; `undefined` if JSON cannot carry it. */
export const contentOf = ({ encodedResult, modelOutput }: Output): string | undefined => {
  if (modelOutput !== undefined) {
    return modelOutput
      .map((part) => (part.type === "text" ? part.text : `[a file of type ${part.mediaType}]`))
      .join("\n")
  }
  if (typeof encodedResult === "string") return encodedResult
  const json = Json.kept(encodedResult, null)
  return json === undefined ? undefined : JSON.stringify(json)
}

const inJson = (value: unknown): string => {
  const json = Json.kept(value, null)
  return json === undefined ? "a value that JSON cannot carry" : JSON.stringify(json)
}

const messageOf = (error: unknown): string => {
  if (typeof error === "string") return error
  if (error instanceof Error && error.message !== "") return error.message
  return inJson(error instanceof Error ? { ...error } : error)
}

const isDeclared = (tool: Tool.Any, error: unknown): boolean => Schema.is(tool.failureSchema)(error)

const inGeneral = (call: PendingCall): string =>
  call.effect === "write" ? `${Words.failed} ${Words.mayHaveHappened}` : Words.failed

const broken = (call: PendingCall, detail: string): Outcome => ({
  _tag: "Broken",
  content: inGeneral(call),
  detail,
  bug: true
})

/** A failure of the handler; the model reads it if the tool has declared it. */
const failedWith = (tool: Tool.Any, call: PendingCall, error: unknown): Outcome => {
  if (error instanceof ToolFailure) return { _tag: "Failed", failure: error }
  return isDeclared(tool, error)
    ? { _tag: "Failed", failure: recoverable(messageOf(error)) }
    : broken(call, `undeclared failure: ${messageOf(error)}`)
}

const unencodable = ({ tool }: PendingCall, detail: string): Outcome => ({
  _tag: "Broken",
  content: Words.unencodable(tool),
  detail,
  bug: true
})

/** What an execution means that came to its end. */
export const ofRan = (tool: Tool.Any, call: PendingCall, ran: Ran): Outcome => {
  switch (ran._tag) {
    case "WrongArguments":
      return {
        _tag: "WrongArguments",
        content: Words.wrongArguments(call.tool, ran.problem, Signature.of(tool))
      }
    case "Unencodable":
      return unencodable(call, ran.problem)
    case "Output": {
      const report = Operations.reportOf(ran.output.encodedResult)
      // What a report says is worded where the run's operations are known; what the tool itself words goes before.
      if (report !== undefined) {
        const own = ran.output.modelOutput === undefined ? undefined : contentOf(ran.output)
        return { _tag: "Success", content: own ?? "", report }
      }
      const content = contentOf(ran.output)
      return content === undefined
        ? unencodable(call, "JSON cannot carry its result")
        : { _tag: "Success", content }
    }
  }
}

/** What an execution means that ended with a failure, a defect or an interruption from inside. */
export const ofCause = (tool: Tool.Any, call: PendingCall, cause: Cause.Cause<unknown>): Outcome => {
  for (const reason of cause.reasons) {
    if (Cause.isDieReason(reason) && reason.defect instanceof ChildSignal) return reason.defect.outcome
  }
  const failure = Cause.findErrorOption(cause)
  if (Option.isSome(failure)) {
    return failedWith(tool, call, failure.value)
  }
  if (!Cause.hasInterruptsOnly(cause)) return broken(call, Cause.pretty(cause))
  const detail = "the tool was interrupted from inside"
  return call.effect === "write"
    ? { _tag: "Unknown", detail }
    : { _tag: "Broken", content: Words.selfInterrupted(call.tool), detail }
}

/** What an execution means that was interrupted at its time limit. `mayRun` says that it has not ended since. */
export const ofTimeout = (call: PendingCall, limitMs: number, mayRun: boolean): Outcome => {
  const detail = `interrupted after ${Math.round(limitMs)} ms`
  return call.effect === "write"
    ? { _tag: "Unknown", detail, mayRun }
    : { _tag: "Broken", content: Words.timedOut(call.tool, limitMs, mayRun), detail }
}

/** The words of a failure, and what was wrong with the function that was to choose them. */
interface Worded {
  readonly words: string
  readonly problem?: string
}

const toolErrorsOf = (ask: () => unknown) =>
  Author.yields({ name: "the policy's toolErrors", what: "a text", is: Predicate.isString }, ask)

/** A failure in the words that the policy chooses. A policy that fails itself says no more than the generic one. */
const worded = (job: Job, call: PendingCall, failure: ToolFailure): Worded => {
  const { toolErrors } = job.policy
  if (toolErrors === "generic") return { words: Words.failed }
  if (typeof toolErrors !== "function") return { words: `Error: ${failure.message}` }
  const own = toolErrorsOf(() => toolErrors(failure, call.tool))
  return Result.isSuccess(own)
    ? { words: own.success }
    : { words: Words.failed, problem: `${own.failure}, so the model is told of no reason` }
}

/** What is added to the result of a call, by the digest of the result, if it has brought that too often. */
export const noteOf = (
  { policy: { repetition } }: Job,
  state: RunState,
  call: PendingCall,
  digest: string,
  wrongArguments?: true
): string => {
  if (repetition === undefined) return ""
  const count = Repetition.repeats(state.repetition, call, digest, wrongArguments)
  return count >= repetition.nameAt ? Words.repeated(count) : ""
}

/** What is written down, with what goes before it in the same breath, and how the run ends if it ends with it. */
export interface Verdict {
  readonly before?: ReadonlyArray<Body>
  readonly body: Body
  readonly ending?: Ending
  /** What was wrong with the author's part in it, for the log. */
  readonly problem?: string
}

/** The result of an attempt that ends now, with the use of its child run, and with a word of what may still be running. */
export const answer = (
  journal: Journal,
  { child, left, startedMs }: OnDesk,
  call: PendingCall,
  fields: Fields
): BodyOf<"tool_result"> => {
  const ms = Math.round(journal.nowMs() - startedMs)
  const result = resultOf(call, { ...fields, ms, ...child })
  if (!left) return result
  const before = fields.detail === undefined ? "" : `${fields.detail}; `
  return { ...result, detail: `${before}it had not ended when the run went on, and may still be running` }
}

/** Judges the outcome of an attempt that ends now. */
export const judge = (
  job: Job,
  journal: Journal,
  onDesk: OnDesk,
  call: PendingCall,
  outcome: Exclude<Outcome, { _tag: "ChildStuck" }>
): Verdict => {
  const { callId, tool } = call
  const { permanent, toolErrors } = job.policy
  const told = EvidenceNotes.asResult(onDesk.evidence)

  const result = (
    raw: string,
    ok: boolean,
    more: { readonly detail?: string; readonly wrongArguments?: true } = {}
  ): Body => {
    const digest = Digest.ofText(raw)
    const again = noteOf(job, journal.state(), call, digest, more.wrongArguments)
    const content = `${raw}${again}`
    return answer(journal, onDesk, call, { content, ok, disposition: "executed", digest, ...more, ...told })
  }
  const fatal = (detail: string): { readonly ending?: Ending } =>
    toolErrors === "fatal"
      ? {
          ending: {
            status: "failed",
            reason: "tool_fatal",
            detail: `${tool} failed: ${detail}`
          }
        }
      : {}

  switch (outcome._tag) {
    case "Success": {
      const { content, report } = outcome
      if (report === undefined) return { body: result(content, true) }
      const { before, detail, words } = Operations.note(job, journal.state(), call, report)
      const said = content === "" ? words : `${content}\n${words}`
      return { before, body: result(said, true, detail === undefined ? {} : { detail }) }
    }
    case "WrongArguments":
      return { body: result(outcome.content, false, { wrongArguments: true }) }
    case "ChildEnded":
      return { body: result(outcome.content, false, { detail: outcome.detail }) }
    case "ChildLeftOff": {
      const content = Words.cancelled(tool)
      return { body: answer(journal, onDesk, call, { content, disposition: "cancelled", mayRepeat: true }) }
    }
    case "ChildRefused": {
      const detail = `${tool} cannot be run: ${outcome.problem}`
      return {
        body: result(Words.failed, false, { detail }),
        ending: { status: "failed", reason: "tool_fatal", detail }
      }
    }
    case "Broken":
      return {
        body: result(outcome.content, false, { detail: outcome.detail }),
        ...fatal(outcome.detail)
      }
    case "Unknown": {
      const { detail } = outcome
      const content = Words.outcomeUnknown(tool, outcome.mayRun)
      return { body: answer(journal, onDesk, call, { content, disposition: "unknown", detail, ...told }) }
    }
    case "Suspended": {
      const { suspension } = outcome
      return { body: { type: "child_suspended", callId, suspension, childCostUsd: 0, ...onDesk.child } }
    }
    case "Failed": {
      const { failure } = outcome
      const { words, ...wrong } = worded(job, call, failure)
      const unsure = failure.kind === "transient" && call.effect === "write" && failure.notExecuted !== true
      const said = unsure ? `${words} ${Words.notTriedAgain}` : words
      const silent = words.includes(failure.message) ? failure.detail : (failure.detail ?? failure.message)
      const body = result(said, false, silent === undefined ? {} : { detail: silent })
      if (failure.kind === "permanent" && permanent === "stop") {
        const detail = `${tool} failed for good: ${failure.message}`
        return {
          ...wrong,
          body,
          ending: { status: "failed", reason: "tool_permanent", detail }
        }
      }
      return { ...wrong, body, ...fatal(failure.message) }
    }
  }
}
