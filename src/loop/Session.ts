/**
 * One driver's time with a run, under its lease: starts the run or takes it up where its journal ends, drives it, and
 * says in which state it stopped.
 */
import { CurrentSpanTransformer } from "effect/ai/Telemetry"
import * as Effect from "effect/Effect"
import * as Metrics from "../observe/Metrics.ts"
import * as RunTrace from "../observe/RunTrace.ts"
import * as Spans from "../observe/Spans.ts"
import * as Fold from "../run/Fold.ts"
import type { Limits } from "../run/Limits.ts"
import type { Message } from "../run/Message.ts"
import type { Body, LiveEvent, Parent } from "../run/RunEvent.ts"
import * as RunExit from "../run/RunExit.ts"
import * as RunState from "../run/RunState.ts"
import { type Lease, load, RunStore } from "../store/RunStore.ts"
import * as Inbox from "./Inbox.ts"
import type { Job } from "./Job.ts"
import * as Journal from "./Journal.ts"
import * as Loop from "./Loop.ts"
import * as PoolClaims from "./PoolClaims.ts"
import * as Words from "./Words.ts"

/** A run to begin: what is known before its first event. */
export interface Start {
  readonly runId: string
  readonly messages: ReadonlyArray<Message>
  readonly limits: Limits
  readonly parent?: Parent | undefined
  readonly tags?: ReadonlyArray<string> | undefined
  readonly after?: string | undefined
}

/** What is said to a run that is taken up again. */
export interface Resumption {
  readonly limits?: Limits | undefined
  readonly message?: string | undefined
  /** The last command that the run had been sent when it was taken: a Stop that came later counts. */
  readonly sent: number
}

const drive = Effect.fnUntraced(function* (job: Job, journal: Journal.Journal, parent: Parent | undefined) {
  return yield* Spans.agent({ agent: job.agent, runId: journal.runId, parent }, (span) =>
    Effect.ensuring(
      Effect.provideService(Loop.drive(job, journal), CurrentSpanTransformer, job.chatSpan),
      Effect.sync(() => {
        const { costUsd, reason, status, turns } = journal.state()
        if (status !== "running" && reason !== undefined)
          Spans.agentStopped(span, { status, reason, turns, costUsd })
      })
    )
  )
})

/** Whoever has to hear of a run's events: the trace, the metrics and whoever watches. */
const listenersOf = Effect.fnUntraced(function* (
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

/** The pen of a run that begins; its first event is staged. */
const begin = Effect.fnUntraced(function* (
  job: Job,
  { after, limits, messages, parent, runId, tags }: Start,
  lease: Lease,
  watcher: ((event: LiveEvent) => void) | undefined
) {
  const journal = yield* Journal.make(runId, undefined, lease, yield* listenersOf(job.agent, watcher))
  journal.stage({
    type: "run_started",
    agent: job.agent,
    messages,
    limits,
    ...(job.contract === undefined ? undefined : { contract: job.contract.inJournal() }),
    ...(parent === undefined ? undefined : { parent }),
    ...(tags === undefined ? undefined : { tags }),
    ...(after === undefined ? undefined : { after })
  })
  return journal
})

/** Starts a run and drives it until it stops. The caller knows that it does not exist yet. */
export const start = Effect.fnUntraced(function* (
  job: Job,
  start: Start,
  lease: Lease,
  watcher: ((event: LiveEvent) => void) | undefined
) {
  const journal = yield* begin(job, start, lease, watcher)
  yield* drive(job, journal, start.parent)
  return Fold.snapshot(journal.state())
})

/** Stores a run that somebody drives later. The caller knows that it does not exist yet. */
export const create = Effect.fnUntraced(function* (job: Job, start: Start, lease: Lease) {
  const journal = yield* begin(job, start, lease, undefined)
  yield* journal.commit()
  return Fold.snapshot(journal.state())
})

/**
 * What the runs below a run have used whose driver has died in the middle of them: it could not say so itself, and the run
 * may end before they are taken up again.
 */
const unheard = Effect.fnUntraced(function* ({ pending, runId, status }: RunState.RunState) {
  const told: Array<Body> = []
  if (status !== "running") return told
  for (const { agent, callId, status, tool } of pending) {
    if (agent !== true || status !== "running") continue
    const child = yield* Effect.catchTag(
      load(RunState.childId(runId, callId)),
      "RunNotFound",
      () => Effect.undefined
    )
    // Its own word, as it would have come from it: at its last turn, or at its end.
    const last = child?.events.findLast(({ type }) => type === "turn" || type === "run_stopped")
    if (child === undefined || last === undefined) continue
    const childCostUsd = last.type === "turn" ? last.totalUsd : last.type === "run_stopped" ? last.costUsd : 0
    const { tokens } = RunState.used(child.state)
    const content = Words.cancelled(tool)
    told.push({
      type: "tool_result",
      callId,
      tool,
      content,
      ok: false,
      ms: 0,
      disposition: "cancelled",
      childCostUsd,
      childTokens: tokens,
      ...(child.state.unpriced === true ? { childUnpriced: true } : undefined)
    })
  }
  return told
})

/** Ends a run that nobody drives. */
export const cancel = Effect.fnUntraced(function* (state: RunState.RunState, reason: string, lease: Lease) {
  const { agent, inbox, runId } = state
  const journal = yield* Journal.make(runId, state, lease, yield* listenersOf(agent, undefined))
  journal.stage(...(yield* unheard(state)))
  journal.stage({ type: "run_resumed", inbox, messages: [] })
  yield* journal.commit(Loop.stopped(journal, Inbox.cancelledFor(reason)))
})

/** The person's message as the events it stands for: the answer to a question, or a message. */
const said = (
  state: RunState.RunState,
  question: ReturnType<typeof RunExit.questionOf>,
  message: string | undefined
): { messages: Array<Message>; answer?: Body } => {
  if (message === undefined) {
    const handedOff = state.pending.length === 0 && state.phase === "handoff" && state.answered
    return {
      messages: handedOff ? [{ role: "user", content: Words.goOn }] : []
    }
  }
  return question?.runId === state.runId
    ? {
        messages: [],
        answer: {
          type: "input_given",
          callId: question.callId,
          answer: message
        }
      }
    : {
        messages: question === undefined ? [{ role: "user", content: message }] : []
      }
}

/** Takes up a run that stopped or whose driver is gone, and drives it until it stops. */
export const resume = Effect.fnUntraced(function* (
  job: Job,
  state: RunState.RunState,
  { limits, message, sent }: Resumption,
  lease: Lease,
  watcher: ((event: LiveEvent) => void) | undefined
) {
  const store = yield* RunStore
  const { runId } = state
  const commands = yield* store.inbox(runId, state.inbox)
  const question = RunExit.questionOf(state)
  if (message !== undefined && question !== undefined && question.runId !== runId) {
    yield* store.send(question.runId, {
      type: "answer",
      callId: question.callId,
      answer: message
    })
  }
  const { answer, messages } = said(state, question, message)
  // Its driver has died in the middle of a model call, and could not tell the shared budget.
  if (state.claim !== undefined) yield* PoolClaims.settleLost(job, { runId, ...state.claim })
  const journal = yield* Journal.make(runId, state, lease, yield* listenersOf(job.agent, watcher))
  journal.stage(...(yield* unheard(state)))
  journal.stage({
    type: "run_resumed",
    inbox: commands.at(-1)?.id ?? state.inbox,
    messages
  })
  if (limits !== undefined) journal.stage({ type: "limits_changed", limits })
  if (answer !== undefined) journal.stage(answer)
  yield* Inbox.takeIn(job, journal, commands)
  // Somebody pressed Stop, and the driver died before it heard of it, or this one was not listening yet.
  const since = state.status === "running" ? state.inbox : sent
  const cancel = commands.find(({ command, id }) => command.type === "cancel" && id > since)
  if (cancel?.command.type === "cancel") {
    yield* journal.commit(Loop.stopped(journal, Inbox.cancelledFor(cancel.command.reason)))
    return Fold.snapshot(journal.state())
  }
  yield* drive(job, journal, state.parent)
  return Fold.snapshot(journal.state())
})
