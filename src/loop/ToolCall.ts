/**
 * One tool call: claimed, executed at most as often as it may be, and answered, whatever the tool does.
 */
import * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Spans from "../observe/Spans.ts"
import * as Limits from "../run/Limits.ts"
import { callsOf } from "../run/Message.ts"
import type { Ending } from "../run/NextStep.ts"
import type { Body, Suspension } from "../run/RunEvent.ts"
import type { PendingCall } from "../run/RunState.ts"
import * as RunState from "../run/RunState.ts"
import { CurrentCall } from "../tool/CurrentCall.ts"
import { recoverable, ToolFailure } from "../tool/ToolFailure.ts"
import { Timeout } from "../tool/ToolPolicy.ts"
import { ChildLink, ChildSuspended } from "./ChildRun.ts"
import * as Digest from "./Digest.ts"
import { ambient, type Job } from "./Job.ts"
import type { Journal } from "./Journal.ts"
import * as Plan from "./Plan.ts"
import { toJson } from "./Transcript.ts"
import * as Words from "./Words.ts"

/** What one driver keeps beside the state for its tool calls. */
export interface Desk {
  /** Results that may be reused, by tool and digest of the arguments. */
  readonly reusable: Map<string, string>
  /** The cost of child runs, by call. */
  readonly childCostUsd: Map<string, number>
  /** When the running calls were started, by call. */
  readonly startedMs: Map<string, number>
}

/**
 * The desk of a driver that begins here. It is empty, except that `dedupe: "all"` never forgets: then it has what the
 * drivers before it have left in the transcript.
 */
export const desk = (job: Job, { messages }: Pick<RunState.RunState, "messages">): Desk => {
  const reusable = new Map<string, string>()
  if (job.policy.dedupe === "all") {
    const keys = new Map<string, string>()
    for (const message of messages) {
      if (message.role === "assistant") {
        for (const { id, name, params } of callsOf(message)) {
          keys.set(id, reuseKey({ tool: name, argsDigest: Digest.ofArgs(params) }))
        }
      } else if (message.role === "tool" && message.ok) {
        const key = keys.get(message.callId)
        if (key !== undefined) reusable.set(key, message.content)
      }
    }
  }
  return { reusable, childCostUsd: new Map(), startedMs: new Map() }
}

/** What one execution brought. */
type Handled =
  | { readonly _tag: "Success"; readonly content: string }
  | { readonly _tag: "Failed"; readonly failure: ToolFailure }
  | { readonly _tag: "Broken"; readonly content: string; readonly detail: string }
  | { readonly _tag: "WrongArguments"; readonly content: string }
  | { readonly _tag: "Unknown"; readonly detail: string }
  | { readonly _tag: "Suspended"; readonly suspension: Suspension }

interface Output {
  readonly encodedResult: unknown
  readonly result: unknown
  readonly isFailure: boolean
  readonly failureOrigin?: Tool.FailureOrigin | undefined
  readonly preliminary: boolean
  readonly modelOutput?: ReadonlyArray<Prompt.ToolModelOutputPart> | undefined
}

const contentOf = (output: Output): string => {
  if (output.modelOutput !== undefined) {
    return output.modelOutput
      .map((part) => (part.type === "text" ? part.text : `[a file of type ${part.mediaType}]`))
      .join("\n")
  }
  return typeof output.encodedResult === "string"
    ? output.encodedResult
    : JSON.stringify(toJson(output.encodedResult))
}

const messageOf = (error: unknown): string =>
  typeof error === "string" ? error : error instanceof Error ? error.message : JSON.stringify(toJson(error))

const isDeclared = (tool: Tool.Any, error: unknown): boolean => Schema.is(tool.failureSchema)(error)

const mayHaveHappened = (call: PendingCall): string =>
  call.effect === "write" ? `${Words.failed} It may have taken effect.` : Words.failed

/** A failure that the tool raised or returned, for the model to read if the tool declared it. */
const failedWith = (tool: Tool.Any, call: PendingCall, error: unknown): Handled => {
  if (error instanceof ToolFailure) return { _tag: "Failed", failure: error }
  if (AiError.isAiError(error)) {
    const { reason } = error
    if (reason._tag === "ToolParameterValidationError") {
      return { _tag: "WrongArguments", content: Words.wrongArguments(call.tool, reason.description) }
    }
    if (reason._tag === "ToolResultEncodingError" || reason._tag === "InvalidToolResultError") {
      return { _tag: "Broken", content: Words.unencodable(call.tool), detail: error.message }
    }
    return { _tag: "Failed", failure: recoverable(error.message) }
  }
  return isDeclared(tool, error)
    ? { _tag: "Failed", failure: recoverable(messageOf(error)) }
    : { _tag: "Broken", content: mayHaveHappened(call), detail: `undeclared failure: ${messageOf(error)}` }
}

const brokenOff = (tool: Tool.Any, call: PendingCall, cause: Cause.Cause<unknown>): Handled => {
  for (const reason of cause.reasons) {
    if (Cause.isDieReason(reason) && reason.defect instanceof ChildSuspended) {
      return { _tag: "Suspended", suspension: reason.defect.suspension }
    }
  }
  const failure = Cause.findErrorOption(cause)
  if (Option.isSome(failure)) {
    const origin = Context.get(Cause.annotations(cause), Toolkit.FailureOrigin)
    const handled = failedWith(tool, call, failure.value)
    // A handler that itself raises a parameter error has run: only effect's own check comes before the handler.
    return handled._tag === "WrongArguments" && origin !== "parameters"
      ? { _tag: "Failed", failure: recoverable(messageOf(failure.value)) }
      : handled
  }
  if (Cause.hasInterruptsOnly(cause)) {
    return call.effect === "write"
      ? { _tag: "Unknown", detail: "the tool was interrupted from inside" }
      : {
          _tag: "Broken",
          content: Words.selfInterrupted(call.tool),
          detail: "the tool was interrupted from inside"
        }
  }
  return { _tag: "Broken", content: mayHaveHappened(call), detail: Cause.pretty(cause) }
}

const timeLeftMs = (job: Job, journal: Journal, tool: Tool.Any): number => {
  const { timeMs } = journal.state().limits
  const own = Context.get(tool.annotations, Timeout) ?? job.policy.toolTimeout
  const left = timeMs === undefined ? Number.POSITIVE_INFINITY : Math.max(0, timeMs - journal.elapsedMs())
  return own === undefined ? left : Math.min(left, Duration.toMillis(Duration.fromInputUnsafe(own)))
}

/** Executes a call once. Everything that a tool can do wrong becomes a value; only a Stop of the run passes through. */
const handle = Effect.fnUntraced(function* (
  job: Job,
  journal: Journal,
  desk: Desk,
  call: PendingCall,
  tool: Tool.Any,
  idempotencyKey: string
) {
  const { args, callId } = call
  const { runId } = journal
  const limitMs = timeLeftMs(job, journal, tool)
  const deadline = journal.nowMs() + limitMs
  const publish = (label: string, of?: { readonly done: number; readonly total: number }) =>
    journal.publish({ type: "tool_progress", runId, callId, tool: call.tool, label, ...of })
  const current: CurrentCall = {
    runId,
    callId,
    idempotencyKey,
    timeLeft: Effect.sync(() =>
      limitMs === Number.POSITIVE_INFINITY
        ? Option.none()
        : Option.some(Duration.millis(Math.max(0, deadline - journal.nowMs())))
    ),
    progress: (label, of) => Effect.sync(() => publish(label, of))
  }
  const link: ChildLink = { charge: (totalUsd) => void desk.childCostUsd.set(callId, totalUsd) }

  let last: Output | undefined
  const execution = ambient(job.toolkit.handle(call.tool, args, callId)).pipe(
    Effect.flatMap((outputs) =>
      Stream.runForEach(ambientStream(outputs), (output: Output) =>
        Effect.sync(() => {
          if (output.preliminary) publish(contentOf(output))
          else last = output
        })
      )
    ),
    Effect.matchCause({
      onFailure: (cause): Handled => brokenOff(tool, call, cause),
      onSuccess: (): Handled => {
        if (last === undefined)
          return { _tag: "Broken", content: mayHaveHappened(call), detail: "no result came" }
        return last.isFailure
          ? failedWith(tool, call, last.result)
          : { _tag: "Success", content: contentOf(last) }
      }
    }),
    Effect.updateContext((context: Context.Context<never>) =>
      Context.add(Context.add(context, CurrentCall, current), ChildLink, link)
    )
  )
  if (limitMs === Number.POSITIVE_INFINITY) return yield* execution
  const inTime = yield* Effect.timeoutOption(execution, limitMs)
  if (Option.isSome(inTime)) return inTime.value
  const detail = `stopped after ${Math.round(limitMs)} ms`
  return (
    call.effect === "write"
      ? { _tag: "Unknown", detail }
      : { _tag: "Broken", content: Words.timedOut(call.tool, limitMs), detail }
  ) satisfies Handled
})

const ambientStream = <A, E>(stream: Stream.Stream<A, E, unknown>): Stream.Stream<A, E> =>
  stream as Stream.Stream<A, E>

/** A failure in the words that the policy chooses; `undefined` where the policy ends the run. */
const worded = (job: Job, call: PendingCall, failure: ToolFailure): string | undefined => {
  const { toolErrors } = job.policy
  if (toolErrors === "fatal") return undefined
  if (toolErrors === "generic") return Words.failed
  return typeof toolErrors === "function" ? toolErrors(failure, call.tool) : `Error: ${failure.message}`
}

type Verdict = { readonly body: Body; readonly ending?: Ending }

/** What is written down about an execution, and whether the run ends with it. */
const judge = (
  job: Job,
  journal: Journal,
  desk: Desk,
  call: PendingCall,
  handled: Handled,
  ms: number
): Verdict => {
  const { callId, tool } = call
  const childCostUsd = desk.childCostUsd.get(callId)
  const child = childCostUsd === undefined ? undefined : { childCostUsd }
  const result = (
    raw: string,
    ok: boolean,
    more?: { readonly detail?: string; readonly wrongArguments?: true; readonly after?: string }
  ): Body => {
    const { after = "", ...rest } = more ?? {}
    const digest = Digest.ofText(raw)
    const count =
      job.policy.repetition === undefined
        ? 0
        : RunState.repeats(journal.state(), call, digest, rest.wrongArguments)
    const again = count > 0 && count >= (job.policy.repetition?.nameAt ?? 0) ? Words.repeated(count) : ""
    const before = call.edited === true ? `${Words.edited(JSON.stringify(call.args))}\n` : ""
    const content = `${before}${raw}${after}${again}`
    return {
      type: "tool_result",
      callId,
      tool,
      content,
      ok,
      ms,
      disposition: "executed",
      digest,
      ...rest,
      ...child
    }
  }
  const fatal = (detail: string): { readonly ending?: Ending } =>
    job.policy.toolErrors === "fatal"
      ? { ending: { status: "failed", reason: "tool_fatal", detail: `${tool} failed: ${detail}` } }
      : {}
  switch (handled._tag) {
    case "Success":
      return { body: result(handled.content, true) }
    case "WrongArguments":
      return { body: result(handled.content, false, { wrongArguments: true }) }
    case "Broken":
      return { body: result(handled.content, false, { detail: handled.detail }), ...fatal(handled.detail) }
    case "Unknown":
      return {
        body: {
          type: "tool_result",
          callId,
          tool,
          content: Words.outcomeUnknown(tool),
          ok: false,
          ms,
          disposition: "unknown",
          detail: handled.detail,
          ...child
        }
      }
    case "Suspended":
      return {
        body: {
          type: "child_suspended",
          callId,
          suspension: handled.suspension,
          childCostUsd: childCostUsd ?? 0
        }
      }
    case "Failed": {
      const { failure } = handled
      const detail = failure.detail === undefined ? undefined : { detail: failure.detail }
      const words = worded(job, call, failure)
      if (failure.kind === "permanent" && job.policy.permanent === "stop") {
        const why = `${tool} failed for good: ${failure.message}`
        const body = result(words ?? Words.failed, false, detail)
        return { body, ending: { status: "failed", reason: "tool_permanent", detail: why } }
      }
      const unsure = failure.kind === "transient" && call.effect === "write" && failure.notExecuted !== true
      const after = unsure ? { after: ` ${Words.mayHaveHappened}` } : undefined
      return {
        body: result(words ?? Words.failed, false, { ...detail, ...after }),
        ...fatal(failure.message)
      }
    }
  }
}

const attempts = 3

const mayRetry = (call: PendingCall, handled: Handled): boolean =>
  handled._tag === "Failed" &&
  handled.failure.kind === "transient" &&
  (call.effect !== "write" || handled.failure.notExecuted === true)

const keyFor = (job: Job, journal: Journal, call: PendingCall): string =>
  Plan.keyOf(Plan.toolOf(job, call.tool), { ...call, runId: journal.runId })

/** The event that claims a call; it is stored before the tool runs. */
export const startOf = (
  job: Job,
  journal: Journal,
  call: PendingCall,
  attempt = call.attempts + 1
): Body => ({
  type: "tool_start",
  callId: call.callId,
  tool: call.tool,
  args: call.args,
  attempt,
  idempotencyKey: keyFor(job, journal, call),
  purpose: call.purpose
})

const reuseKey = (call: Pick<PendingCall, "tool" | "argsDigest">): string => `${call.tool} ${call.argsDigest}`

/**
 * The answer to a call that needs no execution: its tool does not exist, its arguments cannot be read, or its result is
 * known already.
 */
export const withoutExecution = (job: Job, desk: Desk, call: PendingCall): Body | undefined => {
  const { callId, tool } = call
  const answer = { type: "tool_result", callId, tool, ms: 0 } as const
  const wrong = (content: string): Body => {
    const digest = Digest.ofText(content)
    return { ...answer, content, ok: false, disposition: "refused", digest, wrongArguments: true }
  }
  if (Plan.toolOf(job, tool) === undefined)
    return wrong(Words.unknownTool(tool, Object.keys(job.toolkit.tools)))
  if (typeof call.args === "string") return wrong(Words.notJson(tool))
  const known = job.policy.dedupe === "off" ? undefined : desk.reusable.get(reuseKey(call))
  return known === undefined ? undefined : { ...answer, content: known, ok: true, disposition: "cached" }
}

const remember = (job: Job, desk: Desk, call: PendingCall, body: Body): void => {
  const { dedupe } = job.policy
  if (body.type !== "tool_result" || !body.ok || dedupe === "off") return
  if (dedupe === "all" || call.effect === "read") desk.reusable.set(reuseKey(call), body.content)
}

/**
 * Executes a call whose `tool_start` is stored, and stores what came of it. Yields how the run ends if it ends with
 * this call.
 */
export const execute = Effect.fnUntraced(function* (
  job: Job,
  journal: Journal,
  desk: Desk,
  call: PendingCall
) {
  const tool = Plan.toolOf(job, call.tool)
  if (tool === undefined) return undefined
  const recordContent = yield* Spans.RecordContent
  const idempotencyKey = keyFor(job, journal, call)
  if (job.policy.dedupe === "read-only" && call.effect !== "read") desk.reusable.clear()
  return yield* Spans.tool({ tool: call.tool, callId: call.callId, args: call.args }, (span) =>
    Effect.gen(function* () {
      for (let attempt = call.attempts + 1, tries = 1; ; attempt++, tries++) {
        const startedMs = journal.nowMs()
        desk.startedMs.set(call.callId, startedMs)
        const handled = yield* handle(job, journal, desk, call, tool, idempotencyKey)
        const ms = Math.round(journal.nowMs() - startedMs)
        if (tries < attempts && mayRetry(call, handled)) {
          const waitMs = Math.round(200 * 2 ** (tries - 1) * (0.8 + 0.4 * (yield* Random.next)))
          const { limits, toolCalls } = journal.state()
          const used = { toolCalls, timeMs: journal.elapsedMs() + waitMs }
          if (Result.isSuccess(Limits.claim(limits, used, call.purpose))) {
            yield* Effect.sleep(waitMs)
            yield* journal.commit(startOf(job, journal, call, attempt + 1))
            continue
          }
        }
        const { body, ending } = judge(job, journal, desk, call, handled, ms)
        if (body.type === "tool_result") Spans.toolEnded(span, body, recordContent)
        remember(job, desk, call, body)
        yield* journal.commit(body)
        return ending
      }
    })
  )
})

/** What is written down about a call that a Stop has cut off. */
export const cutOff = (journal: Journal, desk: Desk, call: PendingCall): Body => {
  const { callId, tool } = call
  const lost = call.effect === "write"
  const ms = Math.round(journal.nowMs() - (desk.startedMs.get(callId) ?? journal.nowMs()))
  const childCostUsd = desk.childCostUsd.get(callId)
  return {
    type: "tool_result",
    callId,
    tool,
    content: lost ? Words.outcomeUnknown(tool) : Words.cancelled(tool),
    ok: false,
    ms,
    disposition: lost ? "unknown" : "cancelled",
    ...(childCostUsd === undefined ? undefined : { childCostUsd })
  }
}
