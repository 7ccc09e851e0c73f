/**
 * Journals with one field of one event altered, and what is to be said of each.
 *
 * An alteration of every field is here. `harmless` ones are those that no law is about: the wording of a detail, who has
 * decided, how long a tool took.
 */
import type { Of, PlannedCall, RunEvent } from "../../src/run/RunEvent.ts"
import {
  about,
  countsChild,
  has,
  isAboutOperation,
  type Mutant,
  namesLimit,
  needsResults,
  next,
  type Place,
  placesOf,
  planOf,
  tellsCost,
  type Verdict
} from "./mutants.ts"

interface Alteration {
  readonly field: string
  readonly verdict: Verdict
  readonly event: RunEvent
}

const breaksIf = (broken: boolean): Verdict => (broken ? "breaks" : "harmless")

const nano = 1e-9

const more = (usd: number): number => Math.round((usd + nano) * 1e9) / 1e9

const otherDigest = "another digest"

const otherArgs = { path: "another" }

const otherPurpose = (purpose: "investigate" | "handoff") =>
  purpose === "investigate" ? "handoff" : "investigate"

// --- by type --------------------------------------------------------------------------------------------------------

const inForce = (rest: ReadonlyArray<RunEvent>): ReadonlyArray<RunEvent> => {
  const end = rest.findIndex(({ type }) => type === "limits_changed")
  return end < 0 ? rest : rest.slice(0, end)
}

function* limits(event: Of<"run_started"> | Of<"limits_changed">, { rest }: Place): Generator<Alteration> {
  const then = inForce(rest)
  const judged = has(then, "tool_start") || then.some(namesLimit)
  const verdict = has(then, "turn_started") ? "breaks" : judged ? "open" : "harmless"
  yield { field: "limits.turns", verdict, event: { ...event, limits: { turns: 0 } } }
}

function* turnStarted(event: Of<"turn_started">, { rest }: Place): Generator<Alteration> {
  yield { field: "turn", verdict: "breaks", event: { ...event, turn: event.turn + 1 } }
  yield { field: "attempt", verdict: "breaks", event: { ...event, attempt: event.attempt + 1 } }
  yield { field: "purpose", verdict: "breaks", event: { ...event, purpose: otherPurpose(event.purpose) } }
  const then = next(rest, "turn", "turn_failed", "run_stopped", "handoff", "run_resumed")
  const lost = then !== undefined && then.type !== "turn" && then.type !== "turn_failed"
  const { estimate } = event
  yield {
    field: "estimate.costUsd",
    verdict: breaksIf(lost && tellsCost(rest)),
    event: { ...event, estimate: { ...estimate, costUsd: more(estimate.costUsd) } }
  }
  yield { field: "note", verdict: "harmless", event: { ...event, note: "Go on." } }
}

/** A turn with its first call planned otherwise. */
const replanned = (event: Of<"turn">, change: Partial<PlannedCall>): Of<"turn"> => ({
  ...event,
  calls: event.calls.map((call, index) => (index === 0 ? { ...call, ...change } : call))
})

function* plans(event: Of<"turn">, { rest }: Place): Generator<Alteration> {
  const [first] = event.calls
  if (first === undefined) return
  const { callId } = first
  const started = about(rest, callId).some(({ type }) => type === "tool_start")
  yield { field: "calls", verdict: "breaks", event: { ...event, calls: event.calls.slice(1) } }
  yield { field: "calls.callId", verdict: "breaks", event: replanned(event, { callId: "another" }) }
  yield { field: "calls.argsDigest", verdict: "breaks", event: replanned(event, { argsDigest: otherDigest }) }
  yield {
    field: "calls.purpose",
    verdict: started ? "breaks" : "open",
    event: replanned(event, { purpose: otherPurpose(first.purpose ?? "investigate") })
  }
  if ((first.approval ?? "none") === "none" && (first.kind ?? "tool") === "tool") {
    yield {
      field: "calls.approval",
      verdict: started ? "breaks" : "open",
      event: replanned(event, { approval: "ask" })
    }
  }
  if (first.effect === "write") {
    const lost = about(rest, callId).some(
      (one) => one.type === "tool_result" && one.disposition === "unknown"
    )
    yield {
      field: "calls.effect",
      verdict: lost ? "breaks" : "open",
      event: replanned(event, { effect: "read" })
    }
  }
  const message = {
    ...event.message,
    content: event.message.content.filter(({ type }) => type !== "tool-call")
  }
  yield { field: "message", verdict: "breaks", event: { ...event, message } }
}

function* turn(event: Of<"turn">, place: Place): Generator<Alteration> {
  const { rest } = place
  yield { field: "turn", verdict: "breaks", event: { ...event, turn: event.turn + 1 } }
  yield { field: "costUsd", verdict: "breaks", event: { ...event, costUsd: more(event.costUsd) } }
  yield { field: "totalUsd", verdict: "breaks", event: { ...event, totalUsd: more(event.totalUsd) } }
  const then = next(rest, "run_stopped", "turn_started")
  const ended = then?.type === "run_stopped" && then.reason === "answered"
  yield {
    field: "answers",
    verdict: event.answers ? (ended ? "breaks" : "open") : "breaks",
    event: { ...event, answers: !event.answers }
  }
  yield { field: "finish", verdict: "harmless", event: { ...event, finish: "length" } }
  yield { field: "model", verdict: "harmless", event: { ...event, model: "another" } }
  yield { field: "ms", verdict: "harmless", event: { ...event, ms: event.ms + 1 } }
  yield { field: "counted", verdict: "harmless", event: { ...event, counted: true } }
  yield* plans(event, place)
}

function* turnFailed(event: Of<"turn_failed">, { rest }: Place): Generator<Alteration> {
  yield { field: "turn", verdict: "breaks", event: { ...event, turn: event.turn + 1 } }
  yield { field: "attempt", verdict: "breaks", event: { ...event, attempt: event.attempt + 1 } }
  yield {
    field: "costUsd",
    verdict: breaksIf(tellsCost(rest)),
    event: { ...event, costUsd: more(event.costUsd) }
  }
  yield { field: "reason", verdict: "harmless", event: { ...event, reason: "another" } }
  yield { field: "detail", verdict: "harmless", event: { ...event, detail: "in other words" } }
}

function* toolStart(event: Of<"tool_start">, { before, events, rest }: Place): Generator<Alteration> {
  const { callId } = event
  const again = [...about(before, callId), ...about(rest, callId)].some(({ type }) => type === "tool_start")
  yield { field: "callId", verdict: "breaks", event: { ...event, callId: "another" } }
  yield { field: "tool", verdict: "breaks", event: { ...event, tool: "another" } }
  yield { field: "args", verdict: "breaks", event: { ...event, args: otherArgs } }
  yield { field: "attempt", verdict: "breaks", event: { ...event, attempt: event.attempt + 1 } }
  yield { field: "purpose", verdict: "breaks", event: { ...event, purpose: otherPurpose(event.purpose) } }
  // A tool may give any key of its own, as long as it is the same for every attempt.
  yield {
    field: "idempotencyKey",
    verdict: breaksIf(again),
    event: { ...event, idempotencyKey: "another" }
  }
  const limit = inForceAt(events, event).usd
  if (limit !== undefined) {
    yield { field: "holdUsd", verdict: "breaks", event: { ...event, holdUsd: limit + 1 } }
  }
}

const inForceAt = (events: ReadonlyArray<RunEvent>, event: RunEvent) => {
  const set = events
    .slice(0, event.seq)
    .findLast((one) => one.type === "run_started" || one.type === "limits_changed")
  return set?.type === "run_started" || set?.type === "limits_changed" ? set.limits : {}
}

function* dispositions(event: Of<"tool_result">, { events, rest }: Place): Generator<Alteration> {
  const plan = planOf(events, event.callId)
  const to = (disposition: Of<"tool_result">["disposition"], verdict: Verdict): Alteration => ({
    field: `disposition ${event.disposition} to ${disposition}`,
    verdict,
    event: { ...event, disposition, ok: false }
  })
  switch (event.disposition) {
    case "executed":
      yield to("rejected", "breaks")
      if ((plan?.kind ?? "tool") !== "tool") return
      yield to("refused", "breaks")
      yield to("cached", "breaks")
      if (plan?.effect === "read") {
        yield to("unknown", "breaks")
        if (needsResults(rest)) yield to("cancelled", "breaks")
      }
      if (plan?.effect === "write") yield to("cancelled", "breaks")
      return
    case "rejected":
      yield to("executed", "breaks")
      return yield to("refused", "breaks")
    case "refused":
      yield to("executed", "breaks")
      return yield to("unknown", "breaks")
    case "cached":
      yield to("executed", "breaks")
      return yield to("cancelled", "breaks")
    case "cancelled":
      yield to("rejected", "breaks")
      return yield to("cached", "breaks")
    case "unknown":
      if (event.mayRepeat !== true) yield to("cancelled", "breaks")
      return yield to("refused", "breaks")
  }
}

function* toolResult(event: Of<"tool_result">, place: Place): Generator<Alteration> {
  const { rest } = place
  const { disposition } = event
  const executed = disposition === "executed"
  yield { field: "callId", verdict: "breaks", event: { ...event, callId: "another" } }
  yield { field: "tool", verdict: "breaks", event: { ...event, tool: "another" } }
  yield { field: "ms", verdict: "harmless", event: { ...event, ms: event.ms + 1 } }
  yield {
    field: "detail",
    verdict: disposition === "refused" ? "open" : "harmless",
    event: { ...event, detail: "in other words" }
  }
  const reused = rest.some((one) => one.type === "tool_result" && one.disposition === "cached")
  if (executed) {
    yield {
      field: "content",
      verdict: reused ? "open" : "harmless",
      event: { ...event, content: "in other words" }
    }
  } else if (disposition !== "cached") {
    yield {
      field: "content",
      verdict: breaksIf(event.mayRepeat !== true),
      event: { ...event, content: "" }
    }
    yield { field: "ok", verdict: "breaks", event: { ...event, ok: true } }
  }
  if (disposition === "cached") {
    yield { field: "content", verdict: "breaks", event: { ...event, content: "what was never brought" } }
    yield { field: "ok", verdict: "breaks", event: { ...event, ok: false } }
  }
  if (disposition === "rejected") {
    yield { field: "content", verdict: "breaks", event: { ...event, content: "It went well." } }
  }
  if (event.mayRepeat === true) {
    const writes = planOf(place.events, event.callId)?.effect === "write"
    const { mayRepeat: _, ...once } = event
    yield { field: "mayRepeat", verdict: breaksIf(writes || once.content.trim() === ""), event: once }
  }
  if (event.childCostUsd !== undefined) {
    yield {
      field: "childCostUsd",
      verdict: breaksIf(countsChild(rest, event)),
      event: { ...event, childCostUsd: more(event.childCostUsd) }
    }
  }
  yield {
    field: "evidence",
    verdict: "harmless",
    event: { ...event, evidence: [{ kind: "file", name: "access.log" }] }
  }
  yield* dispositions(event, place)
}

function* approvalRequired(event: Of<"approval_required">): Generator<Alteration> {
  yield { field: "callId", verdict: "breaks", event: { ...event, callId: "another" } }
  yield { field: "tool", verdict: "breaks", event: { ...event, tool: "another" } }
  yield { field: "args", verdict: "breaks", event: { ...event, args: otherArgs } }
  yield { field: "argsDigest", verdict: "breaks", event: { ...event, argsDigest: otherDigest } }
  yield { field: "problem", verdict: "harmless", event: { ...event, problem: "in other words" } }
}

function* approvalResolved(event: Of<"approval_resolved">, { before, rest }: Place): Generator<Alteration> {
  const { callId, decision } = event
  const later = about(rest, callId)
  const started = later.some(({ type }) => type === "tool_start")
  const said = (disposition: Of<"tool_result">["disposition"]) =>
    later.some((one) => one.type === "tool_result" && one.disposition === disposition)
  const told = said("rejected")
  yield { field: "callId", verdict: "breaks", event: { ...event, callId: "another" } }
  yield { field: "argsDigest", verdict: "breaks", event: { ...event, argsDigest: otherDigest } }
  yield { field: "args", verdict: "breaks", event: { ...event, args: { ...otherArgs, and: "more" } } }
  if (decision === "approved") {
    const verdict = breaksIf(started || said("refused"))
    yield { field: "decision", verdict, event: { ...event, decision: "rejected" } }
    yield { field: "decision", verdict: "breaks", event: { ...event, decision: "not_required" } }
  } else if (decision === "rejected") {
    yield { field: "decision", verdict: breaksIf(told), event: { ...event, decision: "approved" } }
    yield { field: "reason", verdict: breaksIf(told), event: { ...event, reason: "for another reason" } }
  } else {
    yield { field: "decision", verdict: "breaks", event: { ...event, decision: "approved" } }
  }
  yield { field: "by", verdict: "harmless", event: { ...event, by: "somebody else" } }
  const taken = before.findLast((one) => "command" in one && one.command !== undefined)
  if (
    taken !== undefined &&
    "command" in taken &&
    taken.command !== undefined &&
    event.command !== undefined
  ) {
    yield { field: "command", verdict: "breaks", event: { ...event, command: taken.command } }
  }
}

function* outcomeResolved(event: Of<"outcome_resolved">, { rest }: Place): Generator<Alteration> {
  yield { field: "callId", verdict: "breaks", event: { ...event, callId: "another" } }
  yield { field: "tool", verdict: "breaks", event: { ...event, tool: "another" } }
  yield { field: "content", verdict: "breaks", event: { ...event, content: "" } }
  yield { field: "by", verdict: "harmless", event: { ...event, by: "somebody else" } }
  if (event.outcome === "still_unknown") return
  yield {
    field: "outcome",
    verdict: needsResults(rest) ? "breaks" : "open",
    event: { ...event, outcome: "still_unknown" }
  }
}

function* runStopped(event: Of<"run_stopped">): Generator<Alteration> {
  yield { field: "turns", verdict: "breaks", event: { ...event, turns: event.turns + 1 } }
  yield { field: "costUsd", verdict: "breaks", event: { ...event, costUsd: more(event.costUsd) } }
  yield { field: "detail", verdict: "harmless", event: { ...event, detail: "in other words" } }
  const gone = { operationId: "another", handling: "detached" } as const
  yield { field: "operations", verdict: "breaks", event: { ...event, operations: [gone] } }
  if (event.operations !== undefined) {
    const { operations: _, ...silent } = event
    yield { field: "operations", verdict: "breaks", event: silent }
  }
  const status = event.status === "completed" ? "interrupted" : "completed"
  yield { field: "status", verdict: "breaks", event: { ...event, status } }
  const reason = event.reason === "answered" ? "cancelled" : "answered"
  yield { field: "reason", verdict: "breaks", event: { ...event, reason } }
  if (event.exhausted === undefined) {
    const exhausted = { resource: "turns", used: event.turns, limit: event.turns } as const
    yield { field: "exhausted", verdict: "breaks", event: { ...event, exhausted } }
  } else {
    const { exhausted, ...without } = event
    yield { field: "exhausted", verdict: "breaks", event: without }
    yield* overstated(event, exhausted)
  }
  if (event.status !== "completed" && event.reason !== "cancelled") {
    yield {
      field: "status and reason",
      verdict: "breaks",
      event: { ...event, status: "completed", reason: "answered" }
    }
  }
}

function* overstated(
  event: Of<"run_stopped"> | Of<"handoff">,
  exhausted: Of<"handoff">["exhausted"]
): Generator<Alteration> {
  const { limit, resource, used } = exhausted
  const altered = (change: Partial<Of<"handoff">["exhausted"]>): RunEvent => ({
    ...event,
    exhausted: { ...exhausted, ...change }
  })
  yield { field: "exhausted.limit", verdict: "breaks", event: altered({ limit: limit + 1 }) }
  yield { field: "exhausted.used", verdict: "breaks", event: altered({ used: used + 1 }) }
  const other = resource === "turns" ? "tokens" : "turns"
  yield { field: "exhausted.resource", verdict: "open", event: altered({ resource: other }) }
}

function* childSuspended(event: Of<"child_suspended">, { rest }: Place): Generator<Alteration> {
  yield { field: "callId", verdict: "breaks", event: { ...event, callId: "another" } }
  yield {
    field: "childCostUsd",
    verdict: breaksIf(countsChild(rest, event)),
    event: { ...event, childCostUsd: more(event.childCostUsd) }
  }
}

function* operations(
  event: Of<"operation_started"> | Of<"operation_ended">,
  { rest }: Place
): Generator<Alteration> {
  if (event.type === "operation_ended") {
    yield { field: "operationId", verdict: "breaks", event: { ...event, operationId: "another" } }
    yield { field: "detail", verdict: "harmless", event: { ...event, detail: "in other words" } }
    return yield { field: "outcome", verdict: "harmless", event: { ...event, outcome: "failed" } }
  }
  const ended = rest.some((one) => isAboutOperation(one, event))
  yield { field: "operationId", verdict: breaksIf(ended), event: { ...event, operationId: "another" } }
  yield { field: "callId", verdict: "breaks", event: { ...event, callId: "another" } }
  yield { field: "tool", verdict: "breaks", event: { ...event, tool: "another" } }
  yield { field: "argsDigest", verdict: "breaks", event: { ...event, argsDigest: otherDigest } }
  yield { field: "label", verdict: "harmless", event: { ...event, label: "in other words" } }
}

function* ofType(event: RunEvent, place: Place): Generator<Alteration> {
  switch (event.type) {
    case "run_started":
      yield* limits(event, place)
      yield {
        field: "contract",
        verdict: breaksIf(place.rest.some((one) => one.type === "run_stopped" && one.reason === "answered")),
        event: { ...event, contract: { tool: "another" } }
      }
      return yield { field: "agent", verdict: "harmless", event: { ...event, agent: "another" } }
    case "limits_changed":
      return yield* limits(event, place)
    case "run_resumed": {
      const known = place.before.some(
        (one) => (one.type === "run_resumed" && one.inbox > 0) || ("command" in one && (one.command ?? 0) > 0)
      )
      return yield { field: "inbox", verdict: breaksIf(known), event: { ...event, inbox: 0 } }
    }
    case "turn_started":
      return yield* turnStarted(event, place)
    case "turn":
      return yield* turn(event, place)
    case "turn_failed":
      return yield* turnFailed(event, place)
    case "tool_start":
      return yield* toolStart(event, place)
    case "tool_result":
      return yield* toolResult(event, place)
    case "approval_required":
      return yield* approvalRequired(event)
    case "approval_resolved":
      return yield* approvalResolved(event, place)
    case "input_required":
      yield { field: "callId", verdict: "breaks", event: { ...event, callId: "another" } }
      return yield { field: "question", verdict: "harmless", event: { ...event, question: "in other words" } }
    case "input_given":
      yield { field: "callId", verdict: "breaks", event: { ...event, callId: "another" } }
      return yield { field: "answer", verdict: "harmless", event: { ...event, answer: "in other words" } }
    case "child_suspended":
      return yield* childSuspended(event, place)
    case "outcome_resolved":
      return yield* outcomeResolved(event, place)
    case "operation_started":
    case "operation_ended":
      return yield* operations(event, place)
    case "handoff":
      return yield* overstated(event, event.exhausted)
    case "run_stopped":
      return yield* runStopped(event)
  }
}

/** What surrounds every event. */
function* envelope(event: RunEvent, { before }: Place): Generator<Alteration> {
  yield { field: "v", verdict: "breaks", event: { ...event, v: event.v + 1 } }
  yield { field: "at", verdict: "breaks", event: { ...event, at: "yesterday" } }
  yield { field: "elapsedMs", verdict: "breaks", event: { ...event, elapsedMs: -1 } }
  if (before.length === 0) return
  yield { field: "runId", verdict: "breaks", event: { ...event, runId: "another" } }
  yield { field: "seq", verdict: "breaks", event: { ...event, seq: event.seq + 1 } }
  yield { field: "at", verdict: "breaks", event: { ...event, at: "1961-04-12T06:07:00.000Z" } }
}

/** Every mutant of a journal with one field of one event altered. */
export const altered = (events: ReadonlyArray<RunEvent>): ReadonlyArray<Mutant> =>
  placesOf(events).flatMap((place): ReadonlyArray<Mutant> => {
    const original = events[place.index]
    if (original === undefined) return []
    const alterations = [...envelope(original, place), ...ofType(original, place)]
    return alterations.map(({ event, field, verdict }) => ({
      kind: "alter",
      what: `${original.type}.${field}`,
      seq: original.seq,
      verdict,
      events: [...place.before, event, ...place.rest]
    }))
  })
