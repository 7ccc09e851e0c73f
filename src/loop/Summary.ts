/**
 * What the store keeps of a run beside its journal: it is written with every append and read with every list, so what a
 * model has written stands in it only as far as it is short.
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { cut } from "../run/EvidenceIndex.ts"
import type { WaitingCall } from "../run/RunEvent.ts"
import type * as RunState from "../run/RunState.ts"
import { approvalsOf, questionOf, unknownOf } from "../run/Waiting.ts"
import {
  load,
  type RunNotFound,
  type RunStore,
  type RunStoreError,
  type RunSummary,
  type SummarizedCall
} from "../store/RunStore.ts"

/** The most characters of a text, and of arguments as JSON. */
const most = 4_096

/** The most characters that the arguments of all calls of a sort have together, and what is said about them. */
const mostTogether = 32_768

/** How much is shown of arguments that are longer, or for which no room is left. */
const shown = 200

/** The most calls of a sort. */
const mostCalls = 100

interface Measured {
  readonly length: number
  readonly argsCut: string
}

const measure = (args: Schema.Json): Measured => {
  const text = JSON.stringify(args)
  return { length: text.length, argsCut: cut(text, shown) }
}

// A call may wait through many appends, and writing out long arguments takes long.
const measured = new WeakMap<object, Measured>()

const measureOnce = (args: Schema.Json): Measured => {
  if (typeof args !== "object" || args === null) return measure(args)
  const known = measured.get(args)
  if (known !== undefined) return known
  const kept = measure(args)
  measured.set(args, kept)
  return kept
}

/** The first of the calls, each as it is as long as there is room for it. */
const inShort = (calls: ReadonlyArray<WaitingCall>): ReadonlyArray<SummarizedCall> => {
  let left = mostTogether
  /** How long a text may be that would take so many characters. */
  const roomFor = (length: number): number => {
    const room = length <= Math.min(left, most) ? length : shown
    left -= Math.min(length, room)
    return room
  }
  return calls.slice(0, mostCalls).map(({ args, problem, ...call }) => {
    const { argsCut, length } = measureOnce(args)
    return {
      ...call,
      ...(length <= roomFor(length) ? { args } : { argsCut }),
      ...(problem === undefined
        ? undefined
        : { problem: cut(problem, roomFor(Math.min(problem.length, most))) })
    }
  })
}

/** How many calls wait beside those that the summary has; `undefined` if it has all. */
const moreOf = (approvals: number, unknown: number): RunSummary["more"] => {
  const more = { approvals: Math.max(0, approvals - mostCalls), unknown: Math.max(0, unknown - mostCalls) }
  return more.approvals + more.unknown > 0 ? more : undefined
}

/** All calls of a run that wait, of a sort: those of which its summary has no more than the number are in its journal. */
export const waiting = (
  summary: RunSummary,
  of: "approvals" | "unknown"
): Effect.Effect<ReadonlyArray<SummarizedCall>, RunNotFound | RunStoreError, RunStore> =>
  (summary.more?.[of] ?? 0) === 0
    ? Effect.succeed(summary[of])
    : Effect.map(load(summary.runId), ({ state }) =>
        of === "approvals" ? approvalsOf(state) : unknownOf(state)
      )

/** The summary of a run. */
export const of = (state: RunState.RunState): RunSummary => {
  const { agent, costUsd, detail, inbox, parent, reason, runId, seq } = state
  const { startedAt, status, tags, toolCalls, turns, unpriced, updatedAt } = state
  const waits = state.pending.length > 0
  const question = waits ? questionOf(state) : undefined
  const approvals = waits ? approvalsOf(state) : []
  const unknown = waits ? unknownOf(state) : []
  const more = moreOf(approvals.length, unknown.length)
  return {
    runId,
    agent,
    status,
    turns,
    toolCalls,
    costUsd,
    seq,
    inbox,
    startedAt,
    updatedAt,
    approvals: inShort(approvals),
    unknown: inShort(unknown),
    ...(more === undefined ? undefined : { more }),
    ...(unpriced === undefined ? undefined : { unpriced }),
    ...(parent === undefined ? undefined : { parent }),
    ...(tags === undefined ? undefined : { tags }),
    ...(reason === undefined ? undefined : { reason }),
    ...(detail === undefined ? undefined : { detail: cut(detail, most) }),
    ...(question === undefined ? undefined : { question: { ...question, text: cut(question.text, most) } })
  }
}
