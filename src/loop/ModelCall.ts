/**
 * One turn's model call: claimed before it is sent, tried again where that helps, and read into the transcript.
 */
import type * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import { CurrentSpanTransformer } from "effect/ai/Telemetry"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import { keeps, outOf, reachedFirst } from "../run/Exhaustion.ts"
import * as Limits from "../run/Limits.ts"
import type { Message } from "../run/Message.ts"
import * as Money from "../run/Money.ts"
import type { Ending } from "../run/NextStep.ts"
import * as RunState from "../run/RunState.ts"
import * as Backoff from "./Backoff.ts"
import * as Desk from "./Desk.ts"
import * as Drain from "./Drain.ts"
import type { Job } from "./Job.ts"
import type { Journal } from "./Journal.ts"
import * as Patience from "./Patience.ts"
import * as Plan from "./Plan.ts"
import * as Policy from "./Policy.ts"
import * as PoolClaims from "./PoolClaims.ts"
import * as ReplyTurn from "./ReplyTurn.ts"
import * as Request from "./Request.ts"
import * as TimeLeft from "./TimeLeft.ts"
import type { AnyToolkit } from "./ToolRunner.ts"
import { type Mirror, mirror, toPrompt, usageOf } from "./Transcript.ts"
import * as TurnClaim from "./TurnClaim.ts"
import * as Words from "./Words.ts"

/** What one driver keeps beside the state for its model calls. */
export interface Conversation {
  /** How many replies in a row an error has cut off, where the run could not simply go on from what had come. */
  broken: number
  readonly mirror: Mirror
  readonly ids: Plan.Ids
  /** The tools as the model is told of them; the loop runs them itself. */
  readonly toolkit: AnyToolkit
  readonly desk: Desk.Desk
}

/** A driver's conversation with the model, from this transcript on. */
export const converse = (job: Job, desk: Desk.Desk, messages: ReadonlyArray<Message>): Conversation => ({
  broken: 0,
  desk,
  mirror: mirror(job.tools.tools),
  ids: Plan.ids(messages),
  toolkit: {
    tools: job.tools.tools,
    handle: (name) => Effect.die(new Error(`${name} is not run by the model's client`))
  }
})

/** One attempt at a turn, as it is claimed. */
interface Claimed extends PoolClaims.Claim {
  readonly turn: number
  readonly attempt: number
  readonly purpose: Limits.Purpose
  /** What the model is told with it, if anything. */
  readonly note: string | undefined
}

/** Whether a part is something that the model has said, so that the attempt counts as a turn. */
const isContent = ({ type }: Response.AnyPart): boolean =>
  type !== "response-metadata" && type !== "finish" && type !== "error"

const toolChoiceFor = (job: Job, purpose: Limits.Purpose) => {
  if (purpose === "investigate") return "auto" as const
  const oneOf = Object.values(job.tools.tools)
    .filter((tool) => Plan.purposeOf(tool) === "handoff")
    .map((tool) => tool.name)
  return oneOf.length === 0 ? ("none" as const) : { mode: "auto" as const, oneOf }
}

/** A provider that asks for more patience than this is away: the run stops, and may be resumed when it is back. */
const longestWaitMs = 120_000

/** Before the second attempt, about. */
const firstWaitMs = 500

const refusedForGood: ReadonlySet<string> = new Set([
  "InvalidRequestError",
  "ContentPolicyError",
  "UnsupportedSchemaError",
  "InvalidUserInputError",
  "ToolConfigurationError",
  "ToolkitRequiredError"
])

/** Whether a turn of a run has ever come back: one that was lost says nothing of its key. */
const wasAnswered = ({ lastCostUsd }: RunState.RunState): boolean => lastCostUsd !== undefined

/** What a model call's last failure means for the run. A key that was rotated must not destroy a long run. */
const endingOf = (error: AiError.AiError, state: RunState.RunState): Ending => {
  const tag = error.reason._tag
  const refused = refusedForGood.has(tag) || (tag === "AuthenticationError" && !wasAnswered(state))
  return refused
    ? { status: "failed", reason: "provider_refused", detail: error.message }
    : { status: "interrupted", reason: "provider", detail: error.message }
}

const usageOfError = (error: AiError.AiError): Money.Usage | undefined => {
  const usage = "usage" in error.reason ? error.reason.usage : undefined
  return usageOf(usage?.promptTokens, usage?.completionTokens ?? 0)
}

/** What became of an attempt: how the run ends with it, or when there is another. */
interface Came {
  readonly ending?: Ending | undefined
  readonly againInMs?: number
  /** It was a turn, so that the limits are asked before there is another. */
  readonly isTurn?: boolean
}

/** It is over, and what comes next is asked of the limits. */
const over: Came = {}

/** How long to wait after the `times`th failure, in milliseconds; `undefined` if trying again does not help, or no more. */
const patience = Effect.fnUntraced(function* (
  job: Job,
  error: AiError.AiError,
  times: number,
  timeLeft: () => number
) {
  if (!error.isRetryable || times > job.policy.modelRetries) return undefined
  const asked = error.retryAfter === undefined ? undefined : Duration.toMillis(error.retryAfter)
  const waitMs = asked ?? (yield* Backoff.waitMs(firstWaitMs, times))
  return waitMs >= timeLeft() || waitMs > longestWaitMs ? undefined : waitMs
})

/** What follows from an error that has cut off a reply, beside the turn that the reply has become. */
const afterBroken = Effect.fnUntraced(function* (
  job: Job,
  journal: Journal,
  conversation: Conversation,
  error: AiError.AiError,
  purpose: Limits.Purpose,
  timeLeft: () => number
) {
  const againInMs = yield* patience(job, error, ++conversation.broken, timeLeft)
  const state = journal.state()
  if (againInMs === undefined) {
    const came: Came = { ending: endingOf(error, state) }
    return came
  }
  const used = RunState.used(state, journal.elapsedMs())
  if (Limits.exhausted(TimeLeft.limits(journal), used, purpose) !== undefined) return over
  yield* journal.commit()
  const came: Came = { againInMs, isTurn: true }
  return came
})

/** Sends a claimed attempt, and writes down what came of it. */
const send = Effect.fnUntraced(function* (
  job: Job,
  journal: Journal,
  conversation: Conversation,
  { attempt, purpose, turn }: Claimed
) {
  const prompt = conversation.mirror.of(journal.state().messages)
  const startedMs = journal.nowMs()
  const options: Request.Options = {
    prompt,
    toolkit: conversation.toolkit,
    disableToolCallResolution: true,
    toolCallValidation: "deferred",
    toolChoice: toolChoiceFor(job, purpose)
  }
  const arrived: Array<Response.AnyPart> = []
  let heard = true
  const unprobed = job.isStreamed()
    ? Request.streamed(options, arrived, (delta) => {
        if (!heard) return
        journal.publish({
          type: "text_delta",
          runId: journal.runId,
          turn,
          attempt,
          delta
        })
      })
    : Request.whole(options)
  // Around this alone: a model that a tool calls, and that of a sub-agent, are other ones.
  const described = Effect.provideService(unprobed, CurrentSpanTransformer, job.chatSpan)
  const request = job.probe.model(journal.runId, described)
  const timeLeft = () => TimeLeft.ms(journal, purpose)
  const exit = yield* Patience.run(request, {
    name: `model call ${turn} of run ${journal.runId}`,
    leftMs: timeLeft,
    graceMs: () => Policy.graceMs(job.policy, journal.state().limits),
    onEnd: (ended) => {
      heard = !ended.mayRun
      return ended.exit
    }
  })
  Desk.hears(job, conversation.desk, exit !== undefined && Exit.isSuccess(exit) ? exit.value.parts : arrived)
  // Its time was up. The claim stays open, and is counted as lost by what comes next.
  if (exit === undefined) return over
  const ms = Math.round(journal.nowMs() - startedMs)
  const { error, parts } = yield* Request.attemptOf(exit, arrived)
  if (error === undefined || parts.some(isContent)) {
    const goesOn = yield* ReplyTurn.take(job, journal, conversation.ids, { parts, error }, prompt, ms)
    // A connection that broke in the middle of an answer is no reason to wait: the next one goes on with the answer.
    if (error !== undefined && !(goesOn && error.isRetryable && error.reason._tag === "NetworkError")) {
      return yield* afterBroken(job, journal, conversation, error, purpose, timeLeft)
    }
    conversation.broken = 0
    return over
  }

  const usage = usageOfError(error)
  const failed = {
    type: "turn_failed",
    turn,
    attempt,
    reason: error.reason._tag,
    detail: error.message,
    costUsd: 0,
    ...(usage === undefined ? undefined : { usage, ...ReplyTurn.costOf(job, job.model, usage) })
  } as const
  const tokens = Money.tokensOf(usage ?? Money.noUsage)
  const retryInMs = yield* patience(job, error, attempt, timeLeft)
  if (retryInMs === undefined) {
    journal.stage(failed)
    const came: Came = { ending: endingOf(error, journal.state()) }
    return came
  }
  const limits = TimeLeft.limits(journal)
  const used = RunState.used(journal.state(), journal.elapsedMs())
  const after = { ...used, usd: Money.add(used.usd, failed.costUsd), tokens: used.tokens + tokens }
  if (Limits.exhausted(limits, after, purpose) !== undefined) {
    // It was paid for, and used up what was left: what comes next is asked of the limits.
    yield* journal.commit(failed)
    return over
  }
  yield* journal.commit({ ...failed, retryInMs })
  const came: Came = { againInMs: retryInMs }
  return came
})

/** Claims an attempt in the store, and sends it. */
const claimAndSend = Effect.fnUntraced(function* (
  job: Job,
  journal: Journal,
  conversation: Conversation,
  one: Claimed
) {
  const { attempt, estimate, key, note, purpose, turn } = one
  yield* journal.commit({
    type: "turn_started",
    turn,
    attempt,
    purpose,
    estimate,
    ...(job.pool === undefined ? undefined : { pool: job.pool.pool, key }),
    ...(note === undefined ? undefined : { note })
  })
  return yield* send(job, journal, conversation, one)
})

/**
 * Makes an attempt that is claimed from a shared budget first, and settled there by what it has used. What the budget
 * refuses begins the handoff, if it keeps anything for that, or ends the run.
 */
const fromPool = Effect.fnUntraced(function* (
  job: Job,
  journal: Journal,
  one: Claimed,
  attempt: ReturnType<typeof claimAndSend>
) {
  // A pool may take its time, or never answer: what the run knows by now is stored before it is asked for anything.
  yield* journal.commit()
  const { seq } = journal.state()
  const before = RunState.totals(journal.state())
  const short = yield* PoolClaims.turn(job, journal.state(), one, one.purpose)
  if (short !== undefined) {
    const handsOff = one.purpose === "investigate" && (yield* PoolClaims.keeps(job, one.runId, short))
    if (handsOff) yield* journal.commit({ type: "handoff", exhausted: short })
    const refused: Came = { ending: handsOff ? undefined : outOf(short) }
    return refused
  }
  // The budget is told what the run has stored, whatever the attempt came to: whoever takes the run up after a crash in
  // between reads there what is still to be told. If its store has failed, nobody knows what the run counts, and it waits
  // until then, too.
  const tell = Effect.andThen(
    journal.commit(),
    Effect.suspend(() => {
      const { costUsd, tokens, turns } = RunState.totals(journal.state())
      return PoolClaims.settle(job, one, {
        usd: Money.subtract(costUsd, before.costUsd),
        tokens: tokens - before.tokens,
        turns: turns > before.turns ? 1 : 0
      })
    })
  )
  return yield* Effect.uninterruptibleMask((restore) =>
    restore(attempt).pipe(
      Effect.onErrorIf(
        (cause) => !Cause.hasFails(cause) && journal.state().seq > seq,
        () => Effect.ignore(tell, { log: "Warn" })
      ),
      Effect.tap(() => tell)
    )
  )
}, Effect.scoped)

/**
 * Asks the model for one turn. Each attempt is claimed in the store before it is sent; a failed one is a `turn_failed`,
 * and only the reply is a turn. Yields how the run ends if the model cannot go on, else `undefined`.
 */
export const ask = Effect.fnUntraced(function* (
  job: Job,
  journal: Journal,
  conversation: Conversation,
  purpose: Limits.Purpose
) {
  const timeLeft = () => TimeLeft.ms(journal, purpose)
  for (let attempt = 1; ; attempt++) {
    const before = journal.state()
    if (before.claim !== undefined) {
      // The time of an attempt was up, and the calendar has been set back since. What is counted by the end of the run, or
      // its handoff, is not begun anew: it waits until then.
      yield* Drain.waitOut(timeLeft)
      return undefined
    }
    const announce = purpose === "handoff" && before.handoffTold !== true
    const note =
      announce && before.exhausted !== undefined
        ? Words.handoffNote(before.exhausted, job.contract !== undefined)
        : undefined
    const said = (): ReadonlyArray<Prompt.Message> => {
      const prompt = conversation.mirror.of(before.messages).content
      return note === undefined ? prompt : [...prompt, toPrompt({ role: "user", content: note }, {})]
    }
    const claim = yield* TurnClaim.make(job, before, said, purpose)
    if (Result.isFailure(claim)) {
      const { exhausted } = claim.failure
      if (purpose === "handoff" || !keeps(before.limits, exhausted.resource)) {
        const first = reachedFirst(before, RunState.used(before), exhausted)
        if (first.resource !== exhausted.resource) return outOf(first, before.limits)
        const ending = outOf(first)
        return { ...ending, detail: `${ending.detail}, and the next model call might pass it` }
      }
      yield* journal.commit({ type: "handoff", exhausted })
      return undefined
    }
    const { runId, turns } = before
    const key = PoolClaims.keyOf(before)
    const one = { runId, key, turn: turns + 1, attempt, estimate: claim.success, purpose, note }
    const tried = claimAndSend(job, journal, conversation, one)
    const came = yield* job.pool === undefined ? tried : fromPool(job, journal, one, tried)
    if (came.againInMs === undefined) return came.ending
    const waitLeft = Patience.countdown(journal.nowMs, came.againInMs)
    yield* Drain.waitOut(() => Math.min(waitLeft(), timeLeft()))
    if (came.isTurn === true || timeLeft() <= 0 || Drain.isRequested(yield* Drain.Drain)) return undefined
  }
})
