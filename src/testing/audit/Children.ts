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

/** The most that was held for a child; `undefined` where nothing had to be. */
const most = (amounts: ReadonlyArray<number | undefined>): number | undefined => {
  const held = amounts.filter((amount) => amount !== undefined)
  return held.length < amounts.length ? undefined : Math.max(...held)
}

/** Children that no call has started, or that may use more than was held for them. */
function* begun(events: Journal, children: Children): Generator<Finding> {
  for (const [callId, [first]] of children) {
    if (first?.type !== "run_started") continue
    const starts = startsOf(events, callId)
    if (starts.length === 0) {
      yield found(first, 1, `call ${callId} of its parent has not been started`)
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

/** What a run has cost at one of its events, and whether it stopped there. */
interface Total {
  readonly usd: number
  readonly stopped: boolean
}

/**
 * What a child had cost before its first event and after each; a model call on its way counts when it is over, or lost. The
 * dates of two journals may be those of two clocks: which of its totals a child has told when cannot be read from them.
 */
const totalsOf = (child: Journal): ReadonlyArray<Total> => {
  const ledger = Ledger.empty(child[0]?.runId ?? "")
  const after = child.map((event): Total => {
    Ledger.record(ledger, event)
    return { usd: ledger.usd, stopped: event.type === "run_stopped" }
  })
  return [{ usd: 0, stopped: false }, ...after]
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
  const left = new Map([...children].map(([callId, child]) => [callId, totalsOf(child)]))
  for (const [event, usd] of tellings(events, children)) {
    const { callId } = event
    const totals = left.get(callId)
    // What has come to its end tells what it had cost then.
    const atEnd = event.type === "tool_result" && event.disposition === "executed"
    const place = totals?.findIndex((total) => total.usd === usd && (total.stopped || !atEnd)) ?? -1
    if (totals !== undefined && place >= 0) {
      // Whatever it tells next is a total that came no earlier.
      left.set(callId, totals.slice(place))
      continue
    }
    if (totals === undefined && usd === 0) continue
    const is = totals === undefined ? "there is no such run" : `it has cost $${totals.at(-1)?.usd}`
    yield found(event, 6, `the run in call ${callId} is said to have cost $${usd}, and ${is}`)
  }
}

/** What each ending of a run has left unknown, and what the run had cost then. */
const leftAt = (child: Journal) => {
  const ledger = Ledger.empty(child[0]?.runId ?? "")
  return child.flatMap((event) => {
    Ledger.record(ledger, event)
    if (event.type !== "run_stopped") return []
    const lost = [...ledger.open.values()].find(({ status }) => status === "unknown")
    return [{ usd: ledger.usd, lost: lost === undefined ? undefined : Ledger.nameOf(lost) }]
  })
}

/**
 * Calls that came to their end although nobody could tell what the run in them had done. Which ending of it a call has
 * told is known by its cost alone: one of the same cost at which nothing was unknown acquits the call.
 */
function* hidden(events: Journal, children: Children): Generator<Finding> {
  for (const event of events) {
    if (event.type !== "tool_result" || event.disposition !== "executed") continue
    const { callId, childCostUsd } = event
    const child = children.get(callId) ?? []
    const ends = leftAt(child).filter(({ usd }) => usd === (childCostUsd ?? usd))
    const lost = ends.every((end) => end.lost !== undefined) ? ends.at(-1)?.lost : undefined
    if (lost === undefined) continue
    const runId = child[0]?.runId
    yield found(
      event,
      2,
      `call ${callId} has a result, and nobody can tell whether ${lost} of run ${runId} happened`
    )
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
  yield* hidden(events, children)
  yield* begun(events, children)
}
