/**
 * Journals with one event dropped, repeated or moved, and what is to be said of each: that a law is broken, that none is,
 * or, where only a second look at the whole journal could tell, nothing.
 *
 * The verdicts are worked out from the kind of the mutation and the events around it, and never from an audit.
 */
import { callsOf } from "../../../src/run/Message.ts"
import type { Of, RunEvent } from "../../../src/run/RunEvent.ts"
import {
  about,
  asksAgain,
  breaksIf,
  changesCost,
  countsCalls,
  has,
  isAboutOperation,
  isEnd,
  isExecuted,
  type Mutant,
  needsResults,
  next,
  type Place,
  placesOf,
  planOf,
  settles,
  showsStart,
  tellsCost,
  tellsTurns,
  untilResumed,
  type Verdict
} from "./places.ts"

// --- dropped events -------------------------------------------------------------------------------------------------

const withoutTurnStarted = ({ rest }: Place): Verdict => {
  const then = next(rest, "turn", "turn_failed", "turn_started", "run_stopped", "handoff", "run_resumed")
  if (then === undefined) return "harmless"
  return then.type === "handoff" || then.type === "run_resumed" ? breaksIf(tellsTurns(rest)) : "breaks"
}

const withoutTurn = ({ before, rest }: Place, event: Of<"turn">): Verdict => {
  if (event.calls.some(({ callId }) => about(rest, callId).length > 0)) return "breaks"
  const then = next(rest, "turn_started", "run_stopped", "handoff", "run_resumed")
  if (then === undefined) return "harmless"
  if (then.type === "turn_started" || isEnd(then)) return "breaks"
  const claim = before.findLast((one) => one.type === "turn_started")
  if (claim?.estimate.costUsd !== event.costUsd && tellsCost(rest)) return "breaks"
  return "open"
}

const withoutTurnFailed = ({ rest }: Place): Verdict => {
  const then = next(rest, "turn_started", "run_stopped", "handoff", "run_resumed")
  if (then === undefined) return "harmless"
  return then.type === "turn_started" || then.type === "run_stopped" ? "breaks" : breaksIf(tellsTurns(rest))
}

/** Whether an event lets another attempt at its call follow; if there is none, its own result may follow just as well. */
const letsRepeat = (event: RunEvent | undefined): boolean =>
  event?.type === "tool_result" && event.mayRepeat === true

const withoutToolStart = ({ before, rest }: Place, { callId }: Of<"tool_start">): Verdict => {
  const [then] = about(rest, callId)
  if (then !== undefined && isExecuted(then) && letsRepeat(about(before, callId).at(-1))) return "open"
  if (then !== undefined) return showsStart(then) ? "breaks" : "open"
  const counted = rest.some(countsCalls)
  const waited = rest.some((one) => one.type === "run_stopped" && one.reason === "unknown_outcome")
  return counted || waited ? "open" : "harmless"
}

const withoutToolResult = (place: Place, event: Of<"tool_result">): Verdict => {
  const { rest } = place
  if (changesCost(place, event)) return "breaks"
  if (settles(event)) {
    if (needsResults(rest)) return "breaks"
    return has(rest, "tool_start", "tool_result") ? "open" : "harmless"
  }
  if (event.mayRepeat === true) {
    const [then] = about(untilResumed(rest), event.callId)
    if (then?.type === "tool_start") return "breaks"
    return then === undefined && has(rest, "run_resumed") ? "open" : "harmless"
  }
  // What a Stop cuts off is let go of with it, whether or not anybody has written that down.
  const then = next(rest, "run_stopped", "outcome_resolved", "run_resumed")
  if (then === undefined || then.type === "run_resumed") return "harmless"
  if (then.type === "outcome_resolved") return then.callId === event.callId ? "breaks" : "open"
  return then.type === "run_stopped" && then.reason === "cancelled" ? "harmless" : "open"
}

const withoutQuestion = (place: Place, event: Of<"approval_required">): Verdict => {
  const { events, rest } = place
  const [following] = about(rest, event.callId)
  if (asksAgain(event, place)) return following?.type === "approval_resolved" ? "breaks" : "open"
  // What was wrong with a first decision is told with the same question.
  if (following?.type === "approval_required" && event.problem === undefined) return "open"
  if (event.problem !== undefined || planOf(events, event.callId)?.approval === "required") return "harmless"
  const settled = rest.findIndex((one) => settles(one) && "callId" in one && one.callId === event.callId)
  const open = settled < 0 ? rest : rest.slice(0, settled)
  if (about(open, event.callId).some(({ type }) => type === "approval_resolved")) return "breaks"
  if (has(open, "tool_start")) return "breaks"
  return open.some((one) => one.type === "run_stopped" && one.reason === "approval") ? "open" : "harmless"
}

const withoutDecision = ({ rest }: Place, { callId, decision }: Of<"approval_resolved">): Verdict => {
  const settled = rest.findIndex((one) => settles(one) && "callId" in one && one.callId === callId)
  const open = settled < 0 ? rest : rest.slice(0, settled + 1)
  // It has expired unused, and whoever never knew of it is asked just the same.
  if (about(open, callId)[0]?.type === "approval_required") return "open"
  const result = settled < 0 ? undefined : rest[settled]
  if (about(open, callId).some(({ type }) => type === "tool_start")) return "breaks"
  if (decision === "not_required" && has(open, "tool_start")) return "breaks"
  return breaksIf(result?.type === "tool_result" && result.disposition === "rejected")
}

const withoutHandoff = ({ rest }: Place): Verdict => {
  const phase = untilResumed(rest)
  if (has(phase, "turn_started")) return "breaks"
  const plain = (event: RunEvent) =>
    event.type === "tool_result" &&
    event.disposition === "refused" &&
    event.short === undefined &&
    event.detail === undefined &&
    event.wrongArguments === undefined
  if (phase.some(plain)) return "breaks"
  return has(phase, "tool_start") ? "open" : "harmless"
}

const dropped = (place: Place): Verdict => {
  const { before, events, index, rest } = place
  const event = events[index]
  if (event === undefined || rest.length === 0) return "harmless"
  switch (event.type) {
    case "run_started":
      return "breaks"
    case "run_resumed":
      return before.at(-1)?.type === "run_stopped" ? "breaks" : "open"
    case "limits_changed":
      return "open"
    case "turn_started":
      return withoutTurnStarted(place)
    case "turn":
      return withoutTurn(place, event)
    case "turn_failed":
      return withoutTurnFailed(place)
    case "tool_start":
      return withoutToolStart(place, event)
    case "tool_result":
      return withoutToolResult(place, event)
    case "approval_required":
      return withoutQuestion(place, event)
    case "approval_resolved":
      return withoutDecision(place, event)
    case "child_suspended":
      return changesCost(place, event) ? "breaks" : "open"
    case "input_given":
      return breaksIf(needsResults(rest))
    case "outcome_resolved":
      if (event.outcome === "still_unknown") return "harmless"
      return needsResults(rest) ? "breaks" : has(rest, "tool_start") ? "open" : "harmless"
    case "operation_started":
      return breaksIf(rest.some((one) => isAboutOperation(one, event)))
    case "handoff":
      return withoutHandoff(place)
    // A process may die before it writes these down.
    case "run_stopped":
    case "input_required":
      return "harmless"
    case "operation_ended":
      return breaksIf(rest.some((one) => one.type === "run_stopped" && one.exhausted !== undefined))
  }
}

// --- repeated events ------------------------------------------------------------------------------------------------

const repeated = (event: RunEvent): Verdict => {
  switch (event.type) {
    // A run may be taken up, and its driver die, as often as one likes; a question may be asked again.
    case "run_resumed":
    case "limits_changed":
    case "input_required":
      return "harmless"
    case "approval_required":
      return breaksIf(event.command !== undefined)
    case "outcome_resolved":
      return breaksIf(event.outcome !== "still_unknown" || event.command !== undefined)
    default:
      return "breaks"
  }
}

// --- events in another order ----------------------------------------------------------------------------------------

const callOf = (event: RunEvent): string | undefined => ("callId" in event ? event.callId : undefined)

const modelCalls: ReadonlySet<string> = new Set(["turn_started", "turn", "turn_failed"])

/** A result that stands for itself: a cached one stands for an earlier one. */
const isOwn = (event: RunEvent): boolean =>
  event.type === "tool_result" && settles(event) && event.disposition !== "cached"

/** Whether an event takes in a command from outside; these are read in order. */
const takesIn = (event: RunEvent): boolean => "command" in event && event.command !== undefined

/** Two neighbours, the second before the first. */
const swapped = ({ before, events, index, rest }: Place): Verdict => {
  const first = events[index]
  const second = rest[0]
  if (first === undefined || second === undefined) return "harmless"
  if (index === 0) return "breaks"
  if (second.type === "run_stopped") return first.type === "run_resumed" ? "open" : "breaks"
  if (first.type === "run_stopped") {
    return rest[1] === undefined || rest[1].type === "run_resumed" ? "open" : "breaks"
  }
  if (first.type === "run_resumed") return before.at(-1)?.type === "run_stopped" ? "breaks" : "open"
  if (modelCalls.has(first.type) && modelCalls.has(second.type)) return "breaks"
  if (second.type === "turn_started" && settles(first)) return "breaks"
  if (second.type === "turn_started" && first.type === "handoff") return "breaks"
  if (second.type === "run_resumed") {
    return first.type === "turn" || first.type === "turn_failed" || first.type === "child_suspended"
      ? "breaks"
      : "open"
  }
  const call = callOf(second)
  if (call === undefined) return "open"
  if (first.type === "turn") return breaksIf(callsOf(first.message).some(({ id }) => id === call))
  // One thing after the other happens to a call, but that a person is asked about it again.
  if (call === callOf(first))
    return first.type === "approval_required" && second.type === first.type ? "open" : "breaks"
  if (takesIn(first) && takesIn(second)) return "breaks"
  const writes = (event: RunEvent) => planOf(events, callOf(event) ?? "")?.effect !== "read"
  if (second.type === "tool_start" && isExecuted(first) && writes(second)) return "breaks"
  if (first.type === "tool_start" && second.type === "tool_start") {
    return first.purpose === second.purpose ? "harmless" : "open"
  }
  return isOwn(first) && isOwn(second) ? "harmless" : "open"
}

// --- mutants --------------------------------------------------------------------------------------------------------

/** The same events as if one driver had written them in this order: only what they say can give them away. */
export const rewritten = (events: ReadonlyArray<RunEvent>): ReadonlyArray<RunEvent> => {
  let at = ""
  let elapsedMs = 0
  return events.map((event, seq) => {
    at = event.at > at ? event.at : at
    elapsedMs = Math.max(elapsedMs, event.elapsedMs)
    return { ...event, seq, at, elapsedMs }
  })
}

/** Every mutant of a journal with an event less, one twice, or two in the other order, as a driver would have written it. */
export const misplaced = (events: ReadonlyArray<RunEvent>): ReadonlyArray<Mutant> =>
  placesOf(events).flatMap((place): ReadonlyArray<Mutant> => {
    const { before, index, rest } = place
    const event = events[index]
    const [following, ...others] = rest
    if (event === undefined) return []
    const { seq, type } = event
    const drop: Mutant = {
      kind: "drop",
      what: type,
      seq,
      verdict: dropped(place),
      events: rewritten([...before, ...rest])
    }
    const repeat: Mutant = {
      kind: "repeat",
      what: type,
      seq,
      verdict: repeated(event),
      events: rewritten([...before, event, event, ...rest])
    }
    if (following === undefined) return [drop, repeat]
    const reorder: Mutant = {
      kind: "reorder",
      what: `${type}, ${following.type}`,
      seq,
      verdict: swapped(place),
      events: rewritten([...before, following, event, ...others])
    }
    return [drop, repeat, reorder]
  })

/** The same in the store: the numbers give every one of them away, but for an end that is missing. */
export const tampered = (events: ReadonlyArray<RunEvent>): ReadonlyArray<Mutant> =>
  placesOf(events).flatMap(({ before, index, rest }): ReadonlyArray<Mutant> => {
    const event = events[index]
    const [following, ...others] = rest
    if (event === undefined) return []
    const { seq, type: what } = event
    const drop = { kind: "drop", what, seq, events: [...before, ...rest] } as const
    const repeat = {
      kind: "repeat",
      what,
      seq,
      verdict: "breaks",
      events: [...before, event, event, ...rest]
    } as const
    if (following === undefined) return [{ ...drop, verdict: "harmless" }, repeat]
    const reorder = {
      kind: "reorder",
      what,
      seq,
      verdict: "breaks",
      events: [...before, following, event, ...others]
    } as const
    return [{ ...drop, verdict: "breaks" }, repeat, reorder]
  })
