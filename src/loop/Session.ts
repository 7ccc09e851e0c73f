/**
 * One driver's time with a run, under its lease: starts the run or takes it up where its journal ends, drives it, and
 * says in which state it stopped.
 */
import * as Effect from "effect/Effect"
import * as RunSpans from "../observe/RunSpans.ts"
import { empty } from "../run/Draft.ts"
import type { Limits } from "../run/Limits.ts"
import type { Message } from "../run/Message.ts"
import type { Ending } from "../run/NextStep.ts"
import type { Body, Parent } from "../run/RunEvent.ts"
import * as RunState from "../run/RunState.ts"
import { questionOf } from "../run/Waiting.ts"
import { type Lease, RunStore } from "../store/RunStore.ts"
import * as Cancel from "./Cancel.ts"
import * as Inbox from "./Inbox.ts"
import type { Job } from "./Job.ts"
import * as Journal from "./Journal.ts"
import * as Loop from "./Loop.ts"
import * as Orphans from "./Orphans.ts"
import * as PoolClaims from "./PoolClaims.ts"
import * as Reconcile from "./Reconcile.ts"
import * as RunEnd from "./RunEnd.ts"
import * as Words from "./Words.ts"

/** A run to begin: what is known before its first event. */
export interface Start {
  readonly runId: string
  readonly messages: ReadonlyArray<Message>
  readonly limits: Limits
  readonly parent?: Parent | undefined
  readonly tags?: ReadonlyArray<string> | undefined
  readonly after?: string | undefined
  /** How long it was waited for what its agent brings, in milliseconds: that is the run's time. */
  readonly waitedMs: number
}

/** What is known of an agent before it is ready to run. */
type Known = Pick<Job, "agent" | "contract" | "pool"> & Partial<Pick<Job, "tools">>

/** What is said to a run that is taken up again. */
interface Told {
  readonly limits?: Limits | undefined
  readonly message?: string | undefined
  /** The last model call, of which its driver may have died before it could tell the shared budget. */
  readonly last: PoolClaims.LastAttempt | undefined
}

/** A run that goes on, and that nobody drives yet: the last command that counts no more if it is a Stop, if any does. */
interface Queued {
  readonly revoked: number | undefined
}

/** How a run is taken up again. */
interface Resumption extends Told {
  /** The last Stop that the run had been sent when it was taken: one that came later counts. */
  readonly sent: number
  /** Whether the run above it takes it up: then nobody has stopped that, or it goes on again. */
  readonly withParent?: boolean | undefined
  /** How the run ends at once, as soon as what became of its calls is written down. */
  readonly stays?: Ending | undefined
}

const drive = Effect.fnUntraced(function* (job: Job, journal: Journal.Journal, parent: Parent | undefined) {
  const { tags } = journal.state()
  return yield* RunSpans.agent({ agent: job.agent, runId: journal.runId, parent, tags }, (span) =>
    Effect.ensuring(
      Loop.drive(job, journal),
      Effect.sync(() => {
        const { costUsd, reason, status, turns } = journal.state()
        if (status !== "running" && reason !== undefined)
          RunSpans.agentStopped(span, { status, reason, turns, costUsd })
      })
    )
  )
})

/** The pen of a run that begins; its first event is staged. */
const begin = Effect.fnUntraced(function* (
  job: Known,
  { after, limits, messages, parent, runId, tags, waitedMs }: Start,
  lease: Lease,
  watcher: Journal.Watcher | undefined
) {
  const { agent, tools } = job
  const from = waitedMs === 0 ? undefined : { ...empty(runId), elapsedMs: waitedMs }
  const journal = yield* Journal.make({ runId, agent, tools: tools?.tools, from, lease, watcher })
  journal.stage({
    type: "run_started",
    agent: job.agent,
    messages,
    limits,
    ...(job.contract === undefined ? undefined : { contract: job.contract.inJournal() }),
    ...(parent === undefined ? undefined : { parent }),
    ...(tags === undefined ? undefined : { tags }),
    ...(job.pool === undefined ? undefined : { pool: job.pool.pool }),
    ...(after === undefined ? undefined : { after })
  })
  return journal
})

/** Starts a run and drives it until it stops. The caller knows that it does not exist yet. */
export const start = Effect.fnUntraced(function* (
  job: Job,
  start: Start,
  lease: Lease,
  watcher: Journal.Watcher | undefined
) {
  const journal = yield* begin(job, start, lease, watcher)
  yield* drive(job, journal, start.parent)
  return journal.state()
})

/** Stores a run that has ended before its agent was ready. The caller knows that it does not exist yet. */
export const end = Effect.fnUntraced(function* (
  agent: Known,
  start: Start,
  lease: Lease,
  watcher: Journal.Watcher | undefined,
  ending: Ending
) {
  const journal = yield* begin(agent, start, lease, watcher)
  yield* RunEnd.stopDriven(journal, ending)
  return journal.state()
})

/** Stores a run that somebody drives later. The caller knows that it does not exist yet. */
export const create = Effect.fnUntraced(function* (job: Job, start: Start, lease: Lease) {
  const journal = yield* begin(job, start, lease, undefined)
  yield* journal.commit()
  return journal.state()
})

/** The person's message as the events it stands for: the answer to a question, or a message. */
const said = (
  state: RunState.RunState,
  question: ReturnType<typeof questionOf>,
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

/** What a run that is taken up again goes on with, besides what is said to it. */
interface Again {
  readonly news?: ReadonlyArray<Body>
  /** The last of its commands that is taken in, if any is. */
  readonly inbox?: number
  readonly watcher?: Journal.Watcher | undefined
  readonly queued?: Queued
}

/** The pen of a run that is taken up again; what it goes on with is staged. */
const again = Effect.fnUntraced(function* (
  { agent, tools }: Known,
  state: RunState.RunState,
  { limits, message }: Told,
  lease: Lease,
  { inbox = state.inbox, news = [], queued, watcher }: Again
) {
  const { runId } = state
  const question = questionOf(state)
  if (message !== undefined && question !== undefined && question.runId !== runId) {
    const store = yield* RunStore
    const { callId } = question
    yield* store.send(question.runId, { type: "answer", callId, answer: message })
  }
  const { answer, messages } = said(state, question, message)
  const journal = yield* Journal.make({ runId, agent, tools: tools?.tools, from: state, lease, watcher })
  const resumed: Body = {
    type: "run_resumed",
    inbox,
    messages,
    ...(queued === undefined ? undefined : { queued: true }),
    ...(queued?.revoked === undefined ? undefined : { revoked: queued.revoked })
  }
  journal.stage(resumed, ...news)
  if (limits !== undefined) journal.stage({ type: "limits_changed", limits })
  if (answer !== undefined) journal.stage(answer)
  return journal
})

/** Ends a stored run before its agent is ready, with what is said to it written down. */
export const endAgain = Effect.fnUntraced(function* (
  agent: Known,
  state: RunState.RunState,
  told: Told,
  lease: Lease,
  watcher: Journal.Watcher | undefined,
  ending: Ending
) {
  // If the pool cannot be told now it is told when the run is taken up again.
  yield* Effect.ignore(PoolClaims.settleAgain(agent, told.last), { log: "Warn" })
  const news = yield* Orphans.closeBelow(agent, state)
  const journal = yield* again(agent, state, told, lease, { news, watcher })
  yield* RunEnd.stopDriven(journal, ending)
  return journal.state()
})

/**
 * Writes down that a run goes on, and what is said to it, for whoever drives it then. `sent` is the number of the last Stop
 * that it had been sent when it was asked for that.
 */
export const goesOn = Effect.fnUntraced(function* (
  agent: Known,
  state: RunState.RunState,
  told: Told,
  sent: number,
  lease: Lease
) {
  const queued = { revoked: Cancel.revokedBy(state, sent) }
  const journal = yield* again(agent, state, told, lease, { queued })
  yield* journal.commit()
})

/** Takes up a run that stopped or whose driver is gone, and drives it until it stops. */
export const resume = Effect.fnUntraced(function* (
  job: Job,
  state: RunState.RunState,
  resumption: Resumption,
  lease: Lease,
  watcher: Journal.Watcher | undefined
) {
  const { last, sent, stays, withParent = false } = resumption
  const store = yield* RunStore
  yield* PoolClaims.settleAgain(job, last)
  const news = yield* Orphans.closeBelow(job, state)
  const commands = yield* store.inbox(state.runId, state.inbox)
  const misfits = yield* Inbox.misfits(job, state, commands)
  const inbox = commands.at(-1)?.id ?? state.inbox
  const journal = yield* again(job, state, resumption, lease, { news, inbox, watcher })
  Inbox.takeIn(journal, commands, misfits)
  if (stays !== undefined) {
    const lost = RunState.unknownOutcomes(journal.state())
    yield* Reconcile.lookUp(
      job,
      journal,
      lost.filter((call) => call.reconcile === true)
    )
    yield* RunEnd.stopDriven(journal, stays)
    return journal.state()
  }
  const stop = Cancel.toObey(state, commands, { sent, withParent })
  if (stop !== undefined) {
    yield* RunEnd.stopDriven(journal, Cancel.endingFor(stop.reason))
    return journal.state()
  }
  yield* drive(job, journal, state.parent)
  return journal.state()
})
