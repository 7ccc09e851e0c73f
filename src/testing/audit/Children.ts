/**
 * A run and the runs that its calls have started: each begun by a call, within what was held for it, and what it has cost
 * told exactly.
 */
import type { Of, RunEvent } from "../../run/RunEvent.ts"
import { broken, type Law } from "./Law.ts"
import * as Ledger from "./Ledger.ts"

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

/** The children of a run, by the call that has started them. */
export type Children = ReadonlyMap<string, Journal>

/** The children of a run among these journals. */
export const childrenOf = (runId: string, journals: ReadonlyArray<Journal>): Children => {
  const children = new Map<string, Journal>()
  for (const journal of journals) {
    const [first] = journal
    if (first?.type !== "run_started" || first.parent?.runId !== runId) continue
    children.set(first.parent.callId, journal)
  }
  return children
}

const found = ({ runId, seq }: RunEvent, law: Law, problem: string): Finding => ({
  ...broken(law, problem),
  runId,
  seq
})

// --- starts ---------------------------------------------------------------------------------------------------------

const startsOf = (events: Journal, callId: string): ReadonlyArray<Of<"tool_start">> =>
  events.filter((event): event is Of<"tool_start"> => event.type === "tool_start" && event.callId === callId)

/** The most that was held for a child by then; `undefined` where nothing had to be. */
const most = (amounts: ReadonlyArray<number | undefined>): number | undefined => {
  const held = amounts.filter((amount) => amount !== undefined)
  return held.length < amounts.length ? undefined : Math.max(...held)
}

/** Children that no call has started, or that may use more than was held for them. */
function* begun(events: Journal, children: Children): Generator<Finding> {
  for (const [callId, [first]] of children) {
    if (first?.type !== "run_started") continue
    const starts = startsOf(events, callId).filter(({ at }) => at <= first.at)
    if (starts.length === 0) {
      yield found(first, 1, `call ${callId} of its parent had not been started when it began`)
      continue
    }
    const { tokens = Number.POSITIVE_INFINITY, usd = Number.POSITIVE_INFINITY } = first.limits
    const heldUsd = most(starts.map(({ holdUsd }) => holdUsd))
    if (heldUsd !== undefined && usd > heldUsd) {
      yield found(first, 7, `it may spend $${usd}, and its parent has held $${heldUsd} for it`)
    }
    const heldTokens = most(starts.map(({ holdTokens }) => holdTokens))
    if (heldTokens !== undefined && tokens > heldTokens) {
      yield found(first, 7, `it may use ${tokens} tokens, and its parent has held ${heldTokens} for it`)
    }
  }
}

// --- costs ----------------------------------------------------------------------------------------------------------

interface Total {
  readonly at: string
  readonly usd: number
}

/** What a child had cost after each of its events; a model call on its way counts when it is over, or lost. */
const totalsOf = (child: Journal): ReadonlyArray<Total> => {
  const ledger = Ledger.empty(child[0]?.runId ?? "")
  return child.map((event) => {
    Ledger.record(ledger, event)
    return { at: event.at, usd: ledger.usd }
  })
}

/** What the child may have told by then: dates are no finer than a millisecond, so it may be any total of the last one. */
const possible = (totals: ReadonlyArray<Total>, at: string): ReadonlySet<number> => {
  const before = totals.findLast((total) => total.at < at)
  const now = totals.filter((total) => total.at === at)
  return new Set([before?.usd ?? 0, ...now.map(({ usd }) => usd)])
}

/** The events by which a call says what its child has cost, with what it says. */
function* tellings(
  events: Journal,
  children: Children
): Generator<readonly [Of<"tool_result"> | Of<"child_suspended">, number]> {
  const last = new Map<string, number>()
  for (const event of events) {
    if (event.type !== "tool_result" && event.type !== "child_suspended") continue
    const { callId, childCostUsd } = event
    // What is cut off before its child was heard of tells nothing new; what has come to its end tells all.
    const silent = event.type === "tool_result" && event.disposition !== "executed"
    if (childCostUsd === undefined && (silent || !children.has(callId))) continue
    const usd = childCostUsd ?? last.get(callId) ?? 0
    last.set(callId, usd)
    yield [event, usd]
  }
}

/** Costs that the children did not have, or have had and not told. */
function* told(events: Journal, children: Children): Generator<Finding> {
  const totals = new Map([...children].map(([callId, child]) => [callId, totalsOf(child)]))
  for (const [event, usd] of tellings(events, children)) {
    const { at, callId } = event
    const costs = possible(totals.get(callId) ?? [], at)
    if (costs.has(usd)) continue
    const amounts = [...costs].map((amount) => `$${amount}`).join(" or ")
    const is = children.has(callId) ? `it had cost ${amounts}` : "there is no such run"
    yield found(event, 6, `the run in call ${callId} is said to have cost $${usd}, and ${is}`)
  }
}

/** Calls that are suspended with a run which they have not started. */
function* suspended(events: Journal, children: Children): Generator<Finding> {
  for (const event of events) {
    if (event.type !== "child_suspended") continue
    const { callId, suspension } = event
    if (children.get(callId)?.[0]?.runId === suspension.runId) continue
    yield found(
      event,
      3,
      `call ${callId} is suspended with run ${suspension.runId}, which it has not started`
    )
  }
}

/** What a run's journal says of its children, held against theirs. */
export function* check(events: Journal, children: Children): Generator<Finding> {
  yield* told(events, children)
  yield* suspended(events, children)
  yield* begun(events, children)
}
