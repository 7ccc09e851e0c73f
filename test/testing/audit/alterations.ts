/**
 * Journals with one field of one event altered, and what is to be said of each.
 *
 * An alteration of every field is here. `harmless` ones are those that no law is about: the wording of a detail, who has
 * decided, how long a tool took.
 */
import { type Of, type PlannedCall, type RunEvent, version } from "../../../src/run/RunEvent.ts"
import {
  type Alteration,
  command,
  limitsAt,
  more,
  moreTokens,
  ofTokens,
  otherDigest,
  otherPurpose
} from "./alteration.ts"
import {
  approvalRequired,
  approvalResolved,
  childSuspended,
  operations,
  outcomeResolved,
  toolResult,
  toolStart
} from "./callAlterations.ts"
import {
  about,
  asksAgain,
  breaksIf,
  has,
  type Mutant,
  namesLimit,
  next,
  type Place,
  placesOf,
  tellsCost,
  type Verdict
} from "./places.ts"

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

/** What is held for a turn is held in tokens, too. */
const ofUsage = (place: Place): Verdict => (limitsAt(place).money === "hold" ? "breaks" : ofTokens(place))

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
  yield {
    field: "finish",
    verdict: event.finish === "content_filter" ? "open" : "harmless",
    event: { ...event, finish: "length" }
  }
  yield { field: "cutOff", verdict: breaksIf(event.answers), event: { ...event, cutOff: true } }
  yield {
    field: "error",
    verdict: "harmless",
    event: { ...event, error: { reason: "NetworkError", detail: "it broke" } }
  }
  yield { field: "model", verdict: "harmless", event: { ...event, model: "another" } }
  yield { field: "ms", verdict: "harmless", event: { ...event, ms: event.ms + 1 } }
  yield { field: "counted", verdict: "harmless", event: { ...event, counted: true } }
  yield { field: "unpriced", verdict: "harmless", event: { ...event, unpriced: true } }
  yield { field: "overHold", verdict: "harmless", event: { ...event, overHold: true } }
  yield { field: "usage", verdict: ofUsage(place), event: { ...event, usage: moreTokens(event.usage) } }
  yield { field: "note", verdict: breaksIf(event.answers), event: { ...event, note: "Go on." } }
  yield* plans(event, place)
}

/** An attempt that failed. */
function* turnFailed(event: Of<"turn_failed">, place: Place): Generator<Alteration> {
  const { rest } = place
  yield { field: "turn", verdict: "breaks", event: { ...event, turn: event.turn + 1 } }
  yield { field: "attempt", verdict: "breaks", event: { ...event, attempt: event.attempt + 1 } }
  yield {
    field: "costUsd",
    verdict: breaksIf(tellsCost(rest)),
    event: { ...event, costUsd: more(event.costUsd) }
  }
  yield { field: "reason", verdict: "harmless", event: { ...event, reason: "another" } }
  yield { field: "detail", verdict: "harmless", event: { ...event, detail: "in other words" } }
  yield { field: "retryInMs", verdict: "harmless", event: { ...event, retryInMs: 500 } }
  const usage = moreTokens(event.usage ?? { promptTokens: 0, completionTokens: 0 })
  yield { field: "usage", verdict: ofTokens(place), event: { ...event, usage } }
}

function* runStopped(event: Of<"run_stopped">): Generator<Alteration> {
  yield { field: "turns", verdict: "breaks", event: { ...event, turns: event.turns + 1 } }
  yield { field: "costUsd", verdict: "breaks", event: { ...event, costUsd: more(event.costUsd) } }
  if (event.tokens !== undefined)
    yield { field: "tokens", verdict: "breaks", event: { ...event, tokens: event.tokens + 1 } }
  yield { field: "unpriced", verdict: "harmless", event: { ...event, unpriced: true } }
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

function* ofType(event: RunEvent, place: Place): Generator<Alteration> {
  switch (event.type) {
    case "run_started":
      yield* limits(event, place)
      yield {
        field: "contract",
        verdict: breaksIf(place.rest.some((one) => one.type === "run_stopped" && one.reason === "answered")),
        event: { ...event, contract: { tool: "another" } }
      }
      yield { field: "messages", verdict: "harmless", event: { ...event, messages: [] } }
      yield { field: "tags", verdict: "harmless", event: { ...event, tags: ["another"] } }
      yield { field: "after", verdict: "harmless", event: { ...event, after: "another" } }
      yield {
        field: "parent",
        verdict: "harmless",
        event: { ...event, parent: { runId: "another", callId: "c" } }
      }
      return yield { field: "agent", verdict: "harmless", event: { ...event, agent: "another" } }
    case "limits_changed":
      return yield* limits(event, place)
    case "run_resumed": {
      const known = place.before.some(
        (one) => (one.type === "run_resumed" && one.inbox > 0) || ("command" in one && (one.command ?? 0) > 0)
      )
      const messages = [{ role: "user", content: "Go on." }] as const
      yield { field: "messages", verdict: "open", event: { ...event, messages } }
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
      yield { field: "by", verdict: "harmless", event: { ...event, by: "somebody else" } }
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
function* envelope(event: RunEvent, place: Place): Generator<Alteration> {
  const { before } = place
  yield* command(event, place)
  yield { field: "v", verdict: "breaks", event: { ...event, v: version + 1 } }
  yield { field: "at", verdict: "breaks", event: { ...event, at: "yesterday" } }
  yield { field: "elapsedMs", verdict: "breaks", event: { ...event, elapsedMs: -1 } }
  if (before.length === 0) return
  yield { field: "runId", verdict: "breaks", event: { ...event, runId: "another" } }
  yield { field: "seq", verdict: "breaks", event: { ...event, seq: event.seq + 1 } }
  // A date is looked at where something has expired by it.
  const verdict = breaksIf(asksAgain(event, place))
  yield { field: "at", verdict, event: { ...event, at: "1961-04-12T06:07:00.000Z" } }
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
