/**
 * What may be altered about the events of a call.
 */
import * as Digest from "../../../src/loop/Digest.ts"
import type { Of } from "../../../src/run/RunEvent.ts"
import {
  type Alteration,
  limitsAt,
  more,
  ofTokens,
  otherArgs,
  otherDigest,
  otherPurpose
} from "./alteration.ts"
import {
  about,
  breaksIf,
  countsChild,
  isAboutOperation,
  needsResults,
  type Place,
  planOf,
  type Verdict
} from "./places.ts"

/** The start of a call. */
export function* toolStart(event: Of<"tool_start">, place: Place): Generator<Alteration> {
  const { before, rest } = place
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
  const { tokens, usd } = limitsAt(place)
  if (usd !== undefined) {
    yield { field: "holdUsd", verdict: "breaks", event: { ...event, holdUsd: usd + 1 } }
  }
  if (tokens !== undefined) {
    yield { field: "holdTokens", verdict: "breaks", event: { ...event, holdTokens: tokens + 1 } }
  }
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

/** Whether a call was started with other arguments than its own. */
const isEdited = ({ before, events }: Place, callId: string): boolean =>
  about(before, callId).some(
    (one) => one.type === "tool_start" && Digest.ofArgs(one.args) !== planOf(events, callId)?.argsDigest
  )

/** The result of a call. */
export function* toolResult(event: Of<"tool_result">, place: Place): Generator<Alteration> {
  const { rest } = place
  const { callId, disposition } = event
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
      verdict: isEdited(place, callId) ? "breaks" : reused ? "open" : "harmless",
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
    const [then] = about(rest, event.callId)
    const told = then?.type === "tool_result"
    yield { field: "mayRepeat", verdict: breaksIf(writes || told || once.content.trim() === ""), event: once }
  }
  if (event.childCostUsd !== undefined) {
    yield {
      field: "childCostUsd",
      verdict: countsChild(rest, event) ? "breaks" : "open",
      event: { ...event, childCostUsd: more(event.childCostUsd) }
    }
    yield {
      field: "childTokens",
      verdict: countsChild(rest, event) ? ofTokens(place) : "open",
      event: { ...event, childTokens: (event.childTokens ?? 0) + 1 }
    }
  }
  yield {
    field: "evidence",
    verdict: "harmless",
    event: { ...event, evidence: [{ kind: "file", name: "access.log" }] }
  }
  yield {
    field: "digest",
    verdict: reused ? "open" : "harmless",
    event: { ...event, digest: otherDigest }
  }
  const isRefused = disposition === "refused" && event.pool === undefined
  const timed = limitsAt(place).timeMs !== undefined || limitsAt(place).deadline !== undefined
  yield {
    field: "short",
    verdict: !isRefused ? "harmless" : timed ? "open" : "breaks",
    event: { ...event, short: "time" }
  }
  yield {
    field: "wrongArguments",
    verdict: isRefused ? "open" : "harmless",
    event: { ...event, wrongArguments: true }
  }
  yield* dispositions(event, place)
}

/** A question whether a call may run. */
export function* approvalRequired(event: Of<"approval_required">): Generator<Alteration> {
  yield { field: "callId", verdict: "breaks", event: { ...event, callId: "another" } }
  yield { field: "tool", verdict: "breaks", event: { ...event, tool: "another" } }
  yield { field: "args", verdict: "breaks", event: { ...event, args: otherArgs } }
  yield { field: "argsDigest", verdict: "breaks", event: { ...event, argsDigest: otherDigest } }
  yield { field: "problem", verdict: "harmless", event: { ...event, problem: "in other words" } }
}

/** What was decided about a call. */
export function* approvalResolved(event: Of<"approval_resolved">, { rest }: Place): Generator<Alteration> {
  const { callId, decision } = event
  const after = about(rest, callId)
  // Only until a person is asked again, because it has expired.
  const askedAgain = after.findIndex(({ type }) => type === "approval_required")
  const later = askedAgain < 0 ? after : after.slice(0, askedAgain)
  const started = later.some(({ type }) => type === "tool_start")
  const said = (disposition: Of<"tool_result">["disposition"]) =>
    later.some((one) => one.type === "tool_result" && one.disposition === disposition)
  const told = said("rejected")
  yield { field: "callId", verdict: "breaks", event: { ...event, callId: "another" } }
  yield { field: "argsDigest", verdict: "breaks", event: { ...event, argsDigest: otherDigest } }
  yield { field: "args", verdict: "breaks", event: { ...event, args: { ...otherArgs, and: "more" } } }
  if (decision === "approved") {
    const verdict = breaksIf(started || said("refused") || askedAgain >= 0)
    yield { field: "decision", verdict, event: { ...event, decision: "rejected" } }
    yield { field: "decision", verdict: "breaks", event: { ...event, decision: "not_required" } }
    const other = { args: otherArgs, argsDigest: Digest.ofArgs(otherArgs) }
    yield {
      field: "args and argsDigest",
      verdict: breaksIf(started || said("cached")),
      event: { ...event, ...other }
    }
    yield { field: "expires", verdict: "breaks", event: { ...event, expires: event.at } }
    const [start] = later.filter(({ type }) => type === "tool_start")
    if (start !== undefined) {
      yield { field: "expires", verdict: "breaks", event: { ...event, v: 2, expires: start.at } }
      const justBefore = new Date(Date.parse(start.at) + 1).toISOString()
      const again = later.filter(({ type }) => type === "tool_start").length > 1
      const verdict = again || askedAgain >= 0 ? "open" : "harmless"
      yield { field: "expires", verdict, event: { ...event, v: 2, expires: justBefore } }
    }
    if (event.expires !== undefined) {
      const { expires: _, ...forever } = event
      yield { field: "expires", verdict: breaksIf(askedAgain >= 0), event: forever }
      yield { field: "v", verdict: "breaks", event: { ...event, v: 1 } }
    }
  } else if (decision === "rejected") {
    yield { field: "decision", verdict: breaksIf(told), event: { ...event, decision: "approved" } }
    yield { field: "reason", verdict: breaksIf(told), event: { ...event, reason: "for another reason" } }
  } else {
    yield { field: "decision", verdict: "breaks", event: { ...event, decision: "approved" } }
  }
  yield { field: "by", verdict: "harmless", event: { ...event, by: "somebody else" } }
}

/** What became of a call that was lost. */
export function* outcomeResolved(event: Of<"outcome_resolved">, { rest }: Place): Generator<Alteration> {
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

/** A child that waits for somebody. */
export function* childSuspended(event: Of<"child_suspended">, { rest }: Place): Generator<Alteration> {
  yield { field: "callId", verdict: "breaks", event: { ...event, callId: "another" } }
  yield {
    field: "childCostUsd",
    verdict: countsChild(rest, event) ? "breaks" : "open",
    event: { ...event, childCostUsd: more(event.childCostUsd) }
  }
  const suspension = { ...event.suspension, runId: "another" }
  yield { field: "suspension.runId", verdict: "harmless", event: { ...event, suspension } }
}

/** Work that goes on. */
export function* operations(
  event: Of<"operation_started"> | Of<"operation_ended">,
  { rest }: Place
): Generator<Alteration> {
  if (event.type === "operation_ended") {
    yield { field: "operationId", verdict: "breaks", event: { ...event, operationId: "another" } }
    yield { field: "detail", verdict: "harmless", event: { ...event, detail: "in other words" } }
    yield { field: "by", verdict: "harmless", event: { ...event, by: "grace" } }
    return yield { field: "outcome", verdict: "harmless", event: { ...event, outcome: "failed" } }
  }
  const ended = rest.some((one) => isAboutOperation(one, event))
  yield { field: "operationId", verdict: breaksIf(ended), event: { ...event, operationId: "another" } }
  yield { field: "callId", verdict: "breaks", event: { ...event, callId: "another" } }
  yield { field: "tool", verdict: "breaks", event: { ...event, tool: "another" } }
  yield { field: "argsDigest", verdict: "breaks", event: { ...event, argsDigest: otherDigest } }
  yield { field: "label", verdict: "harmless", event: { ...event, label: "in other words" } }
  yield { field: "observe", verdict: "harmless", event: { ...event, observe: "another" } }
}
