/**
 * Tool calls: decided about, claimed, executed as often as they may be, and answered.
 */
import * as Digest from "../../loop/Digest.ts"
import type { Of, RunEvent } from "../../run/RunEvent.ts"
import { broken, type Problem } from "./Law.ts"
import {
  askable,
  type Call,
  continues,
  executable,
  hasExpired,
  type Ledger,
  nameOf,
  sameCall
} from "./Ledger.ts"

// --- starts ---------------------------------------------------------------------------------------------------------

const isWriter = ({ planned }: Call): boolean => planned.effect !== "read"

const isTool = ({ planned }: Call): boolean => (planned.kind ?? "tool") === "tool"

const asks = ({ planned }: Call): boolean => (planned.approval ?? "none") !== "none"

/** Whether nobody has to be waited for, at this date. */
const isFree = (call: Call, at: string): boolean =>
  call.asked || asks(call)
    ? (call.decision?.decision === "approved" && !hasExpired(call.decision, at)) ||
      (call.decision?.decision === "not_required" && !call.asked)
    : true

/** A call is started when it waits; a writer that was cut off, or has ended, waits no more. */
function* once(call: Call): Generator<Problem> {
  const name = nameOf(call)
  switch (call.status) {
    case "waiting":
      return
    case "running":
      return yield broken(2, `${name} is started while it is running`)
    case "suspended":
      return yield broken(2, `${name} is started while the run in it waits for somebody`)
    case "unknown":
      return yield broken(2, `${name} is started again, and nobody can tell whether it has happened`)
    case "settled":
      return yield broken(2, `${name} is started after its result`)
  }
}

function* permission(call: Call, { at }: Of<"tool_start">): Generator<Problem> {
  // The run in a call that was started in time goes on.
  if (isFree(call, at) || (continues(call) && hasExpired(call.decision, at))) return
  const name = nameOf(call)
  if (hasExpired(call.decision, at)) {
    yield broken(4, `${name} is started although its approval has expired, at ${call.decision?.expires}`)
  } else if (call.decision?.decision === "rejected")
    yield broken(4, `${name} is started although it was rejected`)
  else yield broken(4, `${name} is started although nobody has approved it`)
}

function* identity(call: Call, event: Of<"tool_start">): Generator<Problem> {
  const name = nameOf(call)
  if (event.tool !== call.tool) yield broken(4, `${name} is started as a call of ${event.tool}`)
  const { args, argsDigest } = executable(call)
  const digest = Digest.ofArgs(event.args)
  if (digest !== argsDigest || digest !== Digest.ofArgs(args)) {
    const by = call.decision?.args === undefined ? "the model has asked for" : "were approved"
    yield broken(4, `${name} is started with other arguments than ${by}`)
  }
}

function* attempt(runId: string, call: Call, event: Of<"tool_start">): Generator<Problem> {
  const name = nameOf(call)
  if (event.attempt !== call.starts + 1) {
    yield broken(1, `${name} is started as attempt ${event.attempt}, after ${call.starts} that were started`)
  }
  if (call.key !== undefined && event.idempotencyKey !== call.key) {
    yield broken(2, `${name} is started again under another idempotency key`)
  }
  const { argsDigest, callId } = call.planned
  const asked = { runId, turn: call.turn, callId, argsDigest }
  const edited = executable(call).argsDigest !== argsDigest
  if (edited && event.idempotencyKey === Digest.idempotencyKey(asked)) {
    yield broken(2, `${name} is started with other arguments under the key of those that were asked for`)
  }
}

/** Who needs a person is asked before any call starts; then the reads run at once, and the writers one by one. */
function* order(before: Ledger, call: Call, { at }: Of<"tool_start">): Generator<Problem> {
  const name = nameOf(call)
  let earlier = true
  for (const other of before.open.values()) {
    if (other === call) {
      earlier = false
      continue
    }
    if (!isTool(other)) continue
    const than = nameOf(other)
    if (other.planned.approval === "ask" && !other.asked && other.decision === undefined) {
      yield broken(4, `${name} is started before it is known whether ${than} needs a person`)
    }
    if (other.status === "running" && (isWriter(call) || isWriter(other))) {
      yield broken(3, `${name} is started while ${than} is running, and one of them may change something`)
    } else if (isWriter(call) && isWriter(other) && earlier) {
      yield broken(3, `${name} is started before ${than}, which the model has asked for first`)
    } else if (isWriter(call) && !isWriter(other) && other.status === "waiting" && isFree(other, at)) {
      yield broken(3, `${name} is started before ${than}, which changes nothing and could run`)
    }
  }
}

function* started(before: Ledger, event: Of<"tool_start">): Generator<Problem> {
  const call = before.calls.get(event.callId)
  if (call === undefined)
    return yield broken(1, `call ${event.callId} is started, and no turn has asked for it`)
  if (!isTool(call)) return yield broken(3, `${nameOf(call)} is no tool, and is started as one`)
  yield* once(call)
  yield* permission(call, event)
  yield* identity(call, event)
  yield* attempt(before.runId, call, event)
  // Another attempt goes on with what was begun, wherever the others have got to.
  if (!call.retrying) yield* order(before, call, event)
}

// --- results --------------------------------------------------------------------------------------------------------

function* ended(call: Call, how: string): Generator<Problem> {
  const name = nameOf(call)
  if (call.status === "running") return
  if (call.status === "unknown") {
    yield broken(2, `${name} is put down as ${how}, although nobody can tell whether it has happened`)
  } else yield broken(1, `${name} is put down as ${how}, and was not started`)
}

function* unstarted(call: Call, how: string): Generator<Problem> {
  if (call.status === "waiting" && !call.retrying) return
  const is = call.retrying ? "tried again" : call.status
  yield broken(2, `${nameOf(call)} is put down as ${how} while it is ${is}`)
}

/** What the model reads of a call tells it the arguments that an approver has given it, if they are not its own. */
function* saysArguments(call: Call, content: string): Generator<Problem> {
  const { args, argsDigest } = executable(call)
  if (argsDigest === call.planned.argsDigest || content.includes(JSON.stringify(args))) return
  const name = nameOf(call)
  yield broken(3, `${name} has other arguments than the model asked for, and its result does not say so`)
}

function* executed(call: Call, { content }: Of<"tool_result">): Generator<Problem> {
  const name = nameOf(call)
  if (call.planned.kind === "input")
    return yield broken(3, `${name} is a question, and is answered by a tool`)
  if (call.planned.kind === "submit") return
  // An attempt after which there is no other has its result after all.
  if (!call.retrying) yield* ended(call, "executed")
  yield* saysArguments(call, content)
}

function* cached(before: Ledger, call: Call, { content, ok }: Of<"tool_result">): Generator<Problem> {
  yield* unstarted(call, "cached")
  yield* saysArguments(call, content)
  const { argsDigest } = executable(call)
  const edited = argsDigest !== call.planned.argsDigest
  const brought = Digest.ofText(edited ? content.slice(content.indexOf("\n") + 1) : content)
  // With other arguments than the model asked for it is a call of those, too.
  const isKnown = [call.planned.argsDigest, argsDigest].some((digest) =>
    before.brought.get(sameCall(call.tool, digest))?.has(brought)
  )
  // Work that goes on is not started again: the call is answered with the name of its operation.
  const goesOn = [...before.operations.values()].some(
    ({ ended, started }) =>
      !ended &&
      started.tool === call.tool &&
      started.argsDigest === argsDigest &&
      content.includes(started.operationId)
  )
  if (!ok || (!goesOn && !isKnown)) {
    yield broken(3, `${nameOf(call)} is answered with a result that this call has never brought`)
  }
}

const saysDeclined = (content: string): boolean => /declined/i.test(content) && /did not run/i.test(content)

function* rejected(call: Call, { content }: Of<"tool_result">): Generator<Problem> {
  const name = nameOf(call)
  yield* unstarted(call, "rejected")
  if (call.begun !== undefined) yield* saysArguments(call, content)
  const { decision } = call
  if (decision?.decision !== "rejected") {
    return yield broken(4, `${name} is put down as rejected, and nobody has rejected it`)
  }
  if (!saysDeclined(content) || !content.includes(decision.reason?.trim() ?? "")) {
    yield broken(3, `${name} was rejected, and its result does not say so in full`)
  }
}

function* refused(call: Call, { content }: Of<"tool_result">): Generator<Problem> {
  yield* unstarted(call, "refused")
  if (call.begun !== undefined) yield* saysArguments(call, content)
  if (call.decision?.decision === "rejected") {
    yield broken(3, `${nameOf(call)} was rejected, and its result says something else`)
  }
}

/** A call whose run has used something since its call was let go of tells it when the run above is taken up, or ends. */
const tellsOnly = (call: Call, { childCostUsd, disposition }: Of<"tool_result">): boolean =>
  disposition === "cancelled" && continues(call) && call.status === "waiting" && childCostUsd !== undefined

function* cutOff(call: Call, event: Of<"tool_result">): Generator<Problem> {
  const { disposition, mayRepeat } = event
  const name = nameOf(call)
  if (!tellsOnly(call, event)) yield* ended(call, disposition)
  const writes = call.planned.effect === "write"
  if (disposition === "unknown" && !writes) {
    yield broken(2, `${name} may be repeated, and is put down as unknown`)
  }
  if (disposition === "cancelled" && writes && mayRepeat !== true) {
    yield broken(2, `${name} was cut off and may have happened, and is put down as cancelled`)
  }
}

/** What a child has used is told as a total, which only grows. */
function* told(call: Call, event: Of<"tool_result"> | Of<"child_suspended">): Generator<Problem> {
  const { childCostUsd, childTokens } = event
  const less =
    (childCostUsd ?? call.told.usd) < call.told.usd || (childTokens ?? call.told.tokens) < call.told.tokens
  if (less) yield broken(6, `the run in ${nameOf(call)} is said to have used less than before`)
}

function* answered(before: Ledger, event: Of<"tool_result">): Generator<Problem> {
  const { callId, content, disposition, mayRepeat, ok, tool } = event
  const call = before.calls.get(callId)
  if (call === undefined) return yield broken(3, `call ${callId} has a result, and no turn has asked for it`)
  const name = nameOf(call)
  if (call.status === "settled") return yield broken(3, `${name} has a second result`)
  if (tool !== call.tool) yield broken(3, `${name} has a result of ${tool}`)
  if (disposition !== "executed" && disposition !== "cached") {
    if (ok) yield broken(3, `${name} is put down as ${disposition}, and as having gone well`)
    if (content.trim() === "" && mayRepeat !== true) yield broken(3, `${name} is answered without a word`)
  }
  yield* told(call, event)
  switch (disposition) {
    case "executed":
      return yield* executed(call, event)
    case "cached":
      return yield* cached(before, call, event)
    case "rejected":
      return yield* rejected(call, event)
    case "refused":
      return yield* refused(call, event)
    case "cancelled":
    case "unknown":
      return yield* cutOff(call, event)
  }
}

// --- people ---------------------------------------------------------------------------------------------------------

/** A call waits for a decision before it is started for the first time, or again after its approval has expired. */
const decidable = ({ askedAgain, starts, status }: Call): boolean =>
  status === "waiting" && (starts === 0 || askedAgain)

function* asked(call: Call, event: Of<"approval_required">): Generator<Problem> {
  const name = nameOf(call)
  const expired = call.status === "waiting" && hasExpired(call.decision, event.at)
  if (!decidable(call) && !expired) yield broken(4, `a person is asked about ${name} when it is too late`)
  if (call.decision !== undefined && !expired)
    yield broken(4, `a person is asked about ${name}, which is decided`)
  if (event.tool !== call.tool) yield broken(4, `a person is asked about ${name} as a call of ${event.tool}`)
  const { argsDigest } = askable(call)
  if (event.argsDigest !== argsDigest || Digest.ofArgs(event.args) !== argsDigest) {
    const than = call.begun === undefined ? "the model has asked for" : "it was started with"
    yield broken(4, `a person is asked about ${name} with other arguments than ${than}`)
  }
}

function* decided(call: Call, event: Of<"approval_resolved">): Generator<Problem> {
  const name = nameOf(call)
  if (!decidable(call)) yield broken(4, `${name} is decided about when it is too late`)
  if (call.decision !== undefined) yield broken(4, `${name} is decided about twice`)
  const waits = call.asked || call.planned.approval === "required"
  if (event.decision === "not_required" && (waits || call.planned.approval !== "ask")) {
    yield broken(4, `${name} is said to need nobody, and that was not the question`)
  }
  if (event.decision !== "not_required" && !waits) {
    yield broken(4, `${name} is ${event.decision}, and nobody was asked`)
  }
  if (hasExpired(event, event.at)) yield broken(4, `${name} is approved with an approval that has expired`)
  const { argsDigest } = askable(call)
  const digest = event.args === undefined ? argsDigest : Digest.ofArgs(event.args)
  if (call.begun !== undefined && digest !== argsDigest) {
    yield broken(4, `${name} is approved with other arguments than it was started with`)
  }
  if (event.argsDigest !== digest)
    yield broken(4, `${name} is decided about with the digest of other arguments`)
}

function* given(call: Call): Generator<Problem> {
  const name = nameOf(call)
  if (call.status === "settled") yield broken(3, `${name} is answered twice`)
  if (call.planned.kind !== "input") yield broken(3, `${name} is answered by a person, and is no question`)
}

function* suspended(call: Call, event: Of<"child_suspended">): Generator<Problem> {
  yield* ended(call, "suspended")
  yield* told(call, event)
}

function* resolved(call: Call, { content, outcome, tool }: Of<"outcome_resolved">): Generator<Problem> {
  const name = nameOf(call)
  if (call.status === "settled") yield broken(3, `${name} has a second result`)
  else if (call.status !== "unknown") {
    yield broken(2, `somebody says what became of ${name}, which was not in question`)
  }
  if (tool !== call.tool) yield broken(3, `${name} is resolved as a call of ${tool}`)
  if (content.trim() === "") yield broken(3, `${name} is resolved without a word`)
  if (outcome !== "still_unknown") yield* saysArguments(call, content)
}

function* aboutCall(call: Call, event: RunEvent): Generator<Problem> {
  switch (event.type) {
    case "approval_required":
      return yield* asked(call, event)
    case "approval_resolved":
      return yield* decided(call, event)
    case "input_required":
      if (call.status === "settled" || call.planned.kind !== "input") {
        yield broken(3, `a person is asked to answer ${nameOf(call)}, which is no open question`)
      }
      return
    case "input_given":
      return yield* given(call)
    case "child_suspended":
      return yield* suspended(call, event)
    case "outcome_resolved":
      return yield* resolved(call, event)
  }
}

/** Laws 1 to 4, as far as they are about tool calls. */
export function* check(before: Ledger, event: RunEvent): Generator<Problem> {
  if (event.type === "tool_start") return yield* started(before, event)
  if (event.type === "tool_result") return yield* answered(before, event)
  if (!("callId" in event) || event.type === "operation_started") return
  const call = before.calls.get(event.callId)
  if (call === undefined)
    yield broken(3, `${event.type} is about call ${event.callId}, which no turn has asked for`)
  else yield* aboutCall(call, event)
}
