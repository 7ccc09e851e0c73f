/**
 * One tool call: claimed, executed at most as often as it may be, and answered.
 */
import type * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as RunSpans from "../observe/RunSpans.ts"
import { RecordContent } from "../observe/Spans.ts"
import { hasExpired } from "../run/Expiry.ts"
import * as Limits from "../run/Limits.ts"
import type { Ending } from "../run/NextStep.ts"
import type { Body } from "../run/RunEvent.ts"
import type { PendingCall, RunState } from "../run/RunState.ts"
import { lateFor, stoppedWith } from "../run/Waiting.ts"
import { CurrentCall } from "../tool/CurrentCall.ts"
import { Timeout } from "../tool/ToolPolicy.ts"
import * as Allowances from "./Allowances.ts"
import * as Backoff from "./Backoff.ts"
import { ChildLink, useOf } from "./ChildRun.ts"
import * as Desk from "./Desk.ts"
import * as Digest from "./Digest.ts"
import * as Drain from "./Drain.ts"
import * as EvidenceNotes from "./EvidenceNotes.ts"
import type { Job } from "./Job.ts"
import type { Journal } from "./Journal.ts"
import * as LeftUnknown from "./LeftUnknown.ts"
import * as Nesting from "./Nesting.ts"
import * as Operations from "./Operations.ts"
import * as Orphans from "./Orphans.ts"
import * as Patience from "./Patience.ts"
import * as Plan from "./Plan.ts"
import * as Policy from "./Policy.ts"
import * as PoolClaims from "./PoolClaims.ts"
import { isRefused } from "./Refused.ts"
import * as RunEnd from "./RunEnd.ts"
import * as Signature from "./Signature.ts"
import * as TimeLeft from "./TimeLeft.ts"
import * as ToolOutcome from "./ToolOutcome.ts"
import { type Fields, resultOf } from "./ToolResult.ts"
import type { Output, Ran } from "./ToolRunner.ts"
import * as ToolRunner from "./ToolRunner.ts"
import * as Words from "./Words.ts"

/** A call with its idempotency key. */
export interface Keyed {
  readonly call: PendingCall
  readonly idempotencyKey: string
}

/** A call with its key. Fails, in words for the journal, if the tool's own key function does. */
export const keyed = (job: Job, journal: Journal, call: PendingCall): Result.Result<Keyed, string> =>
  Result.mapBoth(Plan.keyOf(job, journal.runId, call), {
    onFailure: (problem) => `the tool's idempotency key could not be made: ${problem}`,
    onSuccess: (idempotencyKey) => ({ call, idempotencyKey })
  })

/** The event that claims an attempt; it is stored before the tool runs. */
export const startOf = (
  { call, idempotencyKey }: Keyed,
  hold: Allowances.Hold = {},
  attempt = call.attempts + 1
): Body => ({
  type: "tool_start",
  callId: call.callId,
  tool: call.tool,
  args: call.args,
  attempt,
  idempotencyKey,
  purpose: call.purpose,
  ...hold
})

/** The answer to a call that cannot be started. */
export const notStarted = (call: PendingCall, detail: string): Body =>
  resultOf(call, { content: Words.failed, disposition: "refused", detail })

/** How often a call is started that may be repeated, and whose process is gone each time: it may be what ends it. */
const mostLosses = 5

/**
 * The answer to a call that needs no execution: its tool does not exist, or is run by the model's provider alone, its
 * arguments cannot be read, the work that it would start goes on already, its result is known, or it ends its process.
 */
export const withoutExecution = (
  job: Job,
  state: RunState,
  desk: Desk.Desk,
  call: PendingCall
): Body | undefined => {
  const wrong = (content: string): Body => {
    const digest = Digest.ofText(content)
    const again = ToolOutcome.noteOf(job, state, call, digest, true)
    return resultOf(call, {
      content: `${content}${again}`,
      disposition: "refused",
      digest,
      wrongArguments: true
    })
  }
  const tool = Plan.toolOf(job, call.tool)
  if (tool === undefined) {
    return wrong(Words.unknownTool(call.tool, Object.keys(job.tools.tools)))
  }
  if (ToolRunner.isProviders(tool)) return wrong(Words.providersTool(call.tool))
  if (call.args === Nesting.leftOut) return wrong(Words.tooDeep(call.tool, Signature.of(tool)))
  if (typeof call.args === "string") return wrong(Words.notJson(call.tool, Signature.of(tool)))
  const content = Operations.answered(job, state, call) ?? Desk.known(job, desk, call)
  if (content !== undefined) return resultOf(call, { content, ok: true, disposition: "cached" })
  const { lost = 0 } = call
  if (lost < mostLosses) return undefined
  const why = Words.lostTooOften(call.tool, lost)
  return resultOf(call, { content: why, disposition: "refused", detail: why })
}

/** How long a call may take whatever its run has left, in milliseconds. */
const timeoutMs = (job: Job, tool: Tool.Any): number => {
  const own = Context.get(tool.annotations, Timeout) ?? job.policy.toolTimeout
  return own === undefined ? Number.POSITIVE_INFINITY : Duration.toMillis(Duration.fromInputUnsafe(own))
}

/** A sub-agent's own calls are waited for no longer than this, and it has to write down how it ended. */
const graceMs = (job: Job, journal: Journal, call: PendingCall): number =>
  call.agent === true ? Number.POSITIVE_INFINITY : Policy.graceMs(job.policy, journal.state().limits)

/** Executes a call once. Everything that a tool can do wrong becomes a value; only a Stop of the run passes through. */
const attempt = (
  job: Job,
  journal: Journal,
  onDesk: Desk.OnDesk,
  { call, idempotencyKey }: Keyed,
  tool: Tool.Any
): Effect.Effect<ToolOutcome.Outcome> => {
  const { args, callId } = call
  const { runId } = journal
  const ownMs = timeoutMs(job, tool)
  const ownLeft = Patience.countdown(journal.nowMs, ownMs)
  const runLeft = () => TimeLeft.ms(journal, call.purpose)
  const leftMs = () => Math.min(ownLeft(), runLeft())
  const startedMs = journal.nowMs()
  let limitMs = leftMs()
  let heard = true
  const publish = (label: string, of?: { readonly done: number; readonly total: number }) => {
    if (!heard) return
    journal.publish({
      type: "tool_progress",
      runId,
      callId,
      tool: call.tool,
      label,
      ...of
    })
  }
  const notes = EvidenceNotes.make()
  onDesk.evidence = notes
  const current: CurrentCall = {
    runId,
    callId,
    idempotencyKey,
    timeLeft: Effect.sync(() =>
      limitMs === Number.POSITIVE_INFINITY
        ? Option.none()
        : Option.some(Duration.millis(Math.max(0, leftMs())))
    ),
    progress: (label, of) => Effect.sync(() => publish(label, of)),
    evidence: (item) => Effect.sync(() => EvidenceNotes.add(notes, item))
  }
  const link: ChildLink = {
    allowance: Allowances.of(journal.state(), callId, leftMs, () => runLeft() <= ownLeft()),
    charge: (use) => {
      onDesk.child = use
    },
    isLate: () => onDesk.late
  }

  const preliminary = (output: Output) => publish(ToolOutcome.contentOf(output) ?? "")
  const onEnd = ({ exit, mayRun }: Patience.Ended<Ran, unknown>): ToolOutcome.Outcome => {
    heard = false
    if (mayRun) onDesk.left = true
    if (exit === undefined) return ToolOutcome.ofTimeout(call, limitMs, mayRun)
    const outcome = Exit.isSuccess(exit)
      ? ToolOutcome.ofRan(tool, call, exit.value)
      : ToolOutcome.ofCause(tool, call, exit.cause)
    onDesk.brought = outcome
    return outcome
  }
  return Patience.run(job.tools.run(tool, args, callId, preliminary), {
    name: `${call.tool} (${callId}) of run ${runId}`,
    leftMs,
    graceMs: () => graceMs(job, journal, call),
    onLate: () => {
      onDesk.late = true
      // By the calendar it had as long as it took until now, whatever there seemed to be.
      const byDate = journal.state().limits.deadline !== undefined
      if (byDate) limitMs = Math.min(ownMs, journal.nowMs() - startedMs)
    },
    onEnd
  }).pipe(
    Effect.updateContext((context: Context.Context<never>) =>
      Context.add(Context.add(context, CurrentCall, current), ChildLink, link)
    )
  )
}

/** What the end of a child run has brought, or its absence. */
const knowsChild = ({ _tag }: ToolOutcome.Outcome): boolean =>
  _tag === "Success" || _tag === "Suspended" || _tag === "ChildEnded" || _tag === "ChildLeftOff"

/**
 * The outcome of a sub-agent's call that does not come from its run: the call was late, or the run was never taken up
 * again. The run is ended if it was not, and what it has left unknown holds up the call.
 */
const withChild = Effect.fnUntraced(function* <A extends ToolOutcome.Outcome>(
  journal: Journal,
  onDesk: Desk.OnDesk,
  call: PendingCall,
  outcome: A
) {
  // A Stop that comes meanwhile finds a call that goes on when the run does.
  onDesk.brought = undefined
  const child = yield* RunEnd.abandonChild(journal, call, onDesk.late ? lateFor : stoppedWith)
  if (child === undefined) return outcome
  onDesk.child = useOf(child)
  const suspension = yield* Orphans.ifStored(LeftUnknown.suspensionOf(child))
  return suspension === undefined ? outcome : ({ _tag: "Suspended", suspension } as const)
})

const attempts = 3

/** Before the second attempt, about. */
const firstWaitMs = 200

const mayRetry = (call: PendingCall, outcome: ToolOutcome.Outcome): boolean =>
  outcome._tag === "Failed" &&
  outcome.failure.kind === "transient" &&
  (call.effect !== "write" || outcome.failure.notExecuted === true)

const mayBegin = (journal: Journal, call: PendingCall, afterMs: number): boolean => {
  const { toolCalls } = journal.state()
  const limits = TimeLeft.limits(journal)
  const used = { toolCalls, timeMs: journal.elapsedMs() + afterMs }
  return Result.isSuccess(Limits.claim(limits, used, call.purpose))
}

/** How the run ends with a call, and what is to be stored of the call then. */
export interface Last {
  readonly ending: Ending
  readonly bodies: ReadonlyArray<Body>
}

/**
 * Executes a call whose `tool_start` is stored, and stores what came of it. If the run ends with this call, nothing is
 * stored yet: the result and the end go into one append, so that no crash can leave the one without the other. Yields why
 * a child run that has begun is refused now. Fails only if the store does, or a child run cannot be driven.
 */
export const execute = Effect.fnUntraced(function* (job: Job, journal: Journal, desk: Desk.Desk, one: Keyed) {
  const { call } = one
  const { callId } = call
  const tool = Plan.toolOf(job, call.tool)
  if (tool === undefined) return undefined
  const recordContent = yield* RecordContent
  const onDesk = Desk.starts(job, desk, call, journal.nowMs())
  return yield* RunSpans.tool({ tool: call.tool, callId, args: call.args }, (span) =>
    Effect.gen(function* () {
      for (let tries = 1; ; tries++) {
        onDesk.startedMs = journal.nowMs()
        onDesk.brought = undefined
        yield* journal.lease.check
        const came = yield* attempt(job, journal, onDesk, one, tool)
        if (came._tag === "ChildStuck") {
          // Its siblings come to their end first: cut off each time that this is tried, they would be paid for and get nowhere.
          return isRefused(came.error) ? came.error : yield* Effect.fail(came.error)
        }
        const outcome =
          call.agent === true && !knowsChild(came) ? yield* withChild(journal, onDesk, call, came) : came
        if (outcome._tag === "Broken" && outcome.bug === true) {
          const warning = `${call.tool} (${callId}) of run ${journal.runId} is broken: ${outcome.detail}`
          yield* RunSpans.beside(Effect.logWarning(warning))
        }
        const { before = [], body, ending, problem } = ToolOutcome.judge(job, journal, onDesk, call, outcome)
        if (problem !== undefined) yield* RunSpans.beside(Effect.logWarning(problem))
        if (body.type === "tool_result" && tries < attempts && mayRetry(call, outcome)) {
          const waitMs = yield* Backoff.waitMs(firstWaitMs, tries)
          if (mayBegin(journal, call, waitMs)) {
            const { content, ms } = body
            yield* journal.commit(resultOf(call, { content, ms, disposition: "cancelled", mayRepeat: true }))
            const waitLeft = Patience.countdown(journal.nowMs, waitMs)
            yield* Drain.waitOut(() => Math.min(waitLeft(), TimeLeft.ms(journal, call.purpose)))
            if (Drain.isRequested(yield* Drain.Drain)) return undefined
            // Asked again, for others may have used up what there was; from here to the claim nothing can come between.
            const next = call.attempts + tries + 1
            const short = yield* PoolClaims.call(job, journal.state(), call, next)
            const at = journal.date()
            if (short === undefined && mayBegin(journal, call, 0) && !hasExpired(call, at)) {
              journal.stage({ ...startOf(one, {}, next), at })
              yield* journal.commit()
              continue
            }
          }
        }
        if (body.type === "tool_result") RunSpans.toolEnded(span, body, recordContent)
        if (outcome._tag === "Success" && outcome.report === undefined) {
          Desk.keep(job, desk, journal.state(), call, outcome.content)
        }
        const bodies = [...before, body]
        if (ending !== undefined) return { ending, bodies } satisfies Last
        onDesk.brought = undefined
        // Judged and staged at once: what is judged of an operation holds only until another call says something of it.
        journal.stage(...bodies)
        yield* journal.commit()
        return undefined
      }
    })
  )
})

/** What an attempt that was back just before comes to; `undefined` if that cannot be said. Never throws: the run ends. */
const broughtBack = (
  job: Job,
  journal: Journal,
  onDesk: Desk.OnDesk,
  call: PendingCall
): ReadonlyArray<Body> | undefined => {
  const { brought } = onDesk
  if (brought === undefined || brought._tag === "ChildStuck") return undefined
  try {
    const { before = [], body } = ToolOutcome.judge(job, journal, onDesk, call, brought)
    return [...before, body]
  } catch {
    return undefined
  }
}

/** What is written down about a running call that a Stop has cut off, or that was back just before. */
export const cutOff = (
  job: Job,
  journal: Journal,
  desk: Desk.Desk,
  call: PendingCall
): ReadonlyArray<Body> => {
  const { effect, tool } = call
  const onDesk = Desk.of(desk, call, journal.nowMs())
  const { evidence, left } = onDesk
  const back = broughtBack(job, journal, onDesk, call)
  if (back !== undefined) return back
  const fields: Fields =
    effect === "write"
      ? {
          content: Words.outcomeUnknown(tool, left),
          disposition: "unknown",
          ...EvidenceNotes.asResult(evidence)
        }
      : // What runs again tells again what it has seen.
        { content: Words.cancelled(tool, left), disposition: "cancelled" }
  return [ToolOutcome.answer(journal, onDesk, call, fields)]
}
