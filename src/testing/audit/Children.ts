/**
 * A run and the runs that its calls have started: each begun by a call, and what it has cost told to the cent.
 */
import type { RunEvent } from "../../run/RunEvent.ts"
import { broken, type Law } from "./Law.ts"

/** A breach of a law, and the event by which it is broken. */
export interface Finding {
  readonly law: Law
  readonly runId: string
  /** The number of the event. */
  readonly seq: number
  /** What is wrong with it, in a sentence. */
  readonly problem: string
}

/** A journal. */
export type Journal = ReadonlyArray<RunEvent>

interface Total {
  readonly at: string
  readonly usd: number
}

/** What a child had cost when it said so: at each turn, and when it stopped. */
const totalsOf = (child: Journal): ReadonlyArray<Total> =>
  child.flatMap((event) =>
    event.type === "turn"
      ? [{ at: event.at, usd: event.totalUsd }]
      : event.type === "run_stopped"
        ? [{ at: event.at, usd: event.costUsd }]
        : []
  )

/** What the child may have told by then: dates are no finer than a millisecond, so it may be any total of the last one. */
const possible = (totals: ReadonlyArray<Total>, at: string): ReadonlySet<number> => {
  const before = totals.findLast((total) => total.at < at)
  const now = totals.filter((total) => total.at === at)
  return new Set([before?.usd ?? 0, ...now.map(({ usd }) => usd)])
}

/** The children of a run among these journals, by the call that started them. */
export const childrenOf = (runId: string, journals: ReadonlyArray<Journal>): ReadonlyMap<string, Journal> => {
  const children = new Map<string, Journal>()
  for (const journal of journals) {
    const [first] = journal
    if (first?.type !== "run_started" || first.parent?.runId !== runId) continue
    children.set(first.parent.callId, journal)
  }
  return children
}

/** Children that no call has started. */
function* begun(events: Journal, children: ReadonlyMap<string, Journal>): Generator<Finding> {
  const started = new Map<string, string>()
  for (const event of events) {
    if (event.type === "tool_start" && !started.has(event.callId)) started.set(event.callId, event.at)
  }
  for (const [callId, [first]] of children) {
    if (first === undefined) continue
    const at = started.get(callId)
    if (at !== undefined && at <= first.at) continue
    const { runId, seq } = first
    yield { ...broken(1, `call ${callId} of its parent had not been started when it began`), runId, seq }
  }
}

/** Costs that the children did not have, or have had and not told. */
function* told(events: Journal, children: ReadonlyMap<string, Journal>): Generator<Finding> {
  const last = new Map<string, number>()
  for (const event of events) {
    if (event.type !== "tool_result" && event.type !== "child_suspended") continue
    const { at, callId, childCostUsd, runId, seq } = event
    const child = children.get(callId)
    if (childCostUsd === undefined && (child === undefined || event.type !== "tool_result")) continue
    // What is cut off before its child was heard of tells nothing new; what has come to its end tells all.
    if (childCostUsd === undefined && event.type === "tool_result" && event.disposition !== "executed")
      continue
    const usd = childCostUsd ?? last.get(callId) ?? 0
    last.set(callId, usd)
    const costs = possible(child === undefined ? [] : totalsOf(child), at)
    if (costs.has(usd)) continue
    const cost = [...costs].map((amount) => `$${amount}`).join(" or ")
    const problem =
      child === undefined
        ? `the run in call ${callId} is said to have cost $${usd}, and there is no such run`
        : `the run in call ${callId} is said to have cost $${usd}, and it had cost ${cost}`
    yield { ...broken(6, problem), runId, seq }
  }
}

/** Which call a suspended child is of. */
function* suspended(events: Journal, children: ReadonlyMap<string, Journal>): Generator<Finding> {
  for (const event of events) {
    if (event.type !== "child_suspended") continue
    const { callId, runId, seq, suspension } = event
    const child = children.get(callId)?.[0]
    if (child?.runId === suspension.runId) continue
    yield {
      ...broken(3, `call ${callId} is suspended with run ${suspension.runId}, which it has not started`),
      runId,
      seq
    }
  }
}

/** What a run's journal says of its children, held against theirs. */
export function* check(events: Journal, children: ReadonlyMap<string, Journal>): Generator<Finding> {
  yield* begun(events, children)
  yield* told(events, children)
  yield* suspended(events, children)
}
