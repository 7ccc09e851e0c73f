/**
 * What the store keeps of a run beside its journal: it is written with every append and read with every list, so what a
 * model has written stands in it only as far as it is short.
 */
import type * as Schema from "effect/Schema"
import { cut } from "../run/EvidenceIndex.ts"
import type { WaitingCall } from "../run/RunEvent.ts"
import type * as RunState from "../run/RunState.ts"
import { approvalsOf, questionOf, unknownOf } from "../run/Waiting.ts"
import type { RunSummary, SummarizedCall } from "../store/RunStore.ts"

/** The most characters of a text, and of arguments as JSON. */
const most = 4_096

/** How much is shown of arguments that are longer. */
const shown = 200

type Args = Pick<SummarizedCall, "args" | "argsCut">

const measure = (args: Schema.Json): Args => {
  const text = JSON.stringify(args)
  return text.length <= most ? { args } : { argsCut: cut(text, shown) }
}

// A call may wait through many appends, and writing out long arguments takes long.
const measured = new WeakMap<object, Args>()

const argsOf = (args: Schema.Json): Args => {
  if (typeof args !== "object" || args === null) return measure(args)
  const known = measured.get(args)
  if (known !== undefined) return known
  const kept = measure(args)
  measured.set(args, kept)
  return kept
}

const inShort = ({ args, problem, ...call }: WaitingCall): SummarizedCall => ({
  ...call,
  ...argsOf(args),
  ...(problem === undefined ? undefined : { problem: cut(problem, most) })
})

/** The summary of a run. */
export const of = (state: RunState.RunState): RunSummary => {
  const { agent, costUsd, detail, inbox, parent, reason, runId, seq } = state
  const { startedAt, status, tags, toolCalls, turns, unpriced, updatedAt } = state
  const waits = state.pending.length > 0
  const question = waits ? questionOf(state) : undefined
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
    approvals: waits ? approvalsOf(state).map(inShort) : [],
    unknown: waits ? unknownOf(state).map(inShort) : [],
    ...(unpriced === undefined ? undefined : { unpriced }),
    ...(parent === undefined ? undefined : { parent }),
    ...(tags === undefined ? undefined : { tags }),
    ...(reason === undefined ? undefined : { reason }),
    ...(detail === undefined ? undefined : { detail: cut(detail, most) }),
    ...(question === undefined ? undefined : { question: { ...question, text: cut(question.text, most) } })
  }
}
