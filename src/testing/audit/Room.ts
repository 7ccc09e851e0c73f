/**
 * Limits: what begins has room, and what is said to be used up is.
 */
import { follow } from "../../run/Deadline.ts"
import { amounts } from "../../run/Exhaustion.ts"
import type * as Limits from "../../run/Limits.ts"
import * as Money from "../../run/Money.ts"
import type { Of, RunEvent } from "../../run/RunEvent.ts"
import { broken, type Problem } from "./Law.ts"
import { type Call, continues, type Ledger, nameOf, tokensOf } from "./Ledger.ts"

const all = ["turns", "usd", "tokens", "time", "tool_calls"] as const

const usedBy = ({ tokens, toolCalls, turns, usd }: Ledger, elapsedMs: number): Limits.Used => ({
  turns,
  usd,
  tokens,
  toolCalls,
  timeMs: elapsedMs
})

const keptOf = (limits: Limits.Limits, resource: Limits.Resource, purpose: Limits.Purpose): number =>
  purpose === "investigate" ? (limits.reserve?.[amounts[resource]] ?? 0) : 0

/** What work of this purpose may use of a resource; `undefined` for no limit. */
const ceiling = (
  limits: Limits.Limits,
  resource: Limits.Resource,
  purpose: Limits.Purpose
): number | undefined => {
  const limit = limits[amounts[resource]]
  if (limit === undefined) return undefined
  const kept = keptOf(limits, resource, purpose)
  return resource === "usd" ? Money.subtract(limit, kept) : limit - kept
}

const isUsedUp = (
  limits: Limits.Limits,
  used: Limits.Used,
  resource: Limits.Resource,
  purpose: Limits.Purpose
): boolean => {
  const most = ceiling(limits, resource, purpose)
  return most !== undefined && used[amounts[resource]] >= most
}

/** A count of tool calls ends an investigation only where calls are kept for a handoff. */
const endsTurns = (limits: Limits.Limits, resource: Limits.Resource): boolean =>
  resource !== "tool_calls" || limits.reserve?.toolCalls !== undefined

const shown: Record<Limits.Resource, (amount: number) => string> = {
  turns: (n) => `${n} turns`,
  usd: (n) => `$${n}`,
  tokens: (n) => `${n} tokens`,
  time: (n) => `${n} ms`,
  tool_calls: (n) => `${n} tool calls`
}

const doing: Record<Limits.Purpose, string> = { investigate: "investigate", handoff: "hand over" }

function* room(
  { limits }: Ledger,
  used: Limits.Used,
  purpose: Limits.Purpose,
  resources: ReadonlyArray<Limits.Resource>,
  what: string
): Generator<Problem> {
  for (const resource of resources) {
    if (!isUsedUp(limits, used, resource, purpose)) continue
    const show = shown[resource]
    const most = show(ceiling(limits, resource, purpose) ?? 0)
    yield broken(
      7,
      `${what} begins to ${doing[purpose]} with ${show(used[amounts[resource]])} of ${most} used`
    )
  }
}

/** What running children hold. */
const heldBy = ({ open }: Ledger): { readonly usd: number; readonly tokens: number } => {
  const running = [...open.values()].filter(({ status }) => status === "running")
  return {
    usd: running.reduce((sum, { hold }) => Money.add(sum, hold.usd), 0),
    tokens: running.reduce((sum, { hold }) => sum + hold.tokens, 0)
  }
}

function* fits(
  before: Ledger,
  hold: { readonly usd: number; readonly tokens: number },
  purpose: Limits.Purpose,
  what: string
): Generator<Problem> {
  const held = heldBy(before)
  const usd = ceiling(before.limits, "usd", purpose)
  if (usd !== undefined && hold.usd > 0) {
    const left = Money.subtract(Money.subtract(usd, before.usd), held.usd)
    if (hold.usd > left) yield broken(7, `${what} holds $${hold.usd}, and $${Math.max(0, left)} is left`)
  }
  const tokens = ceiling(before.limits, "tokens", purpose)
  if (tokens !== undefined && hold.tokens > 0) {
    const left = tokens - before.tokens - held.tokens
    if (hold.tokens > left) {
      yield broken(7, `${what} holds ${hold.tokens} tokens, and ${Math.max(0, left)} are left`)
    }
  }
}

function* asked(before: Ledger, event: Of<"turn_started">, elapsedMs: number): Generator<Problem> {
  const { attempt, estimate, purpose, turn } = event
  if (purpose !== before.phase) {
    yield broken(7, `turn ${turn} is to ${doing[purpose]}, and the run is there to ${doing[before.phase]}`)
  }
  // A turn that is tried again was begun before: it only has to be in time.
  const resources = attempt === 1 ? all.filter((name) => endsTurns(before.limits, name)) : (["time"] as const)
  yield* room(before, usedBy(before, elapsedMs), purpose, resources, `turn ${turn}`)
  if (before.limits.money === "hold") {
    yield* fits(before, { usd: estimate.costUsd, tokens: tokensOf(estimate.usage) }, purpose, `turn ${turn}`)
  }
}

/** While a result is being submitted or a question asked, the calls beside it still run. */
const isSettling = ({ open }: Ledger): boolean =>
  [...open.values()].some(({ planned }) => planned.kind === "submit" || planned.kind === "input")

function* started(
  before: Ledger,
  call: Call,
  { holdTokens, holdUsd, purpose }: Of<"tool_start">,
  elapsedMs: number
): Generator<Problem> {
  const name = nameOf(call)
  const used = usedBy(before, elapsedMs)
  if (purpose !== (call.planned.purpose ?? "investigate")) {
    yield broken(7, `${name} is started to ${doing[purpose]}, which is not what its tool is for`)
  }
  yield* fits(before, { usd: holdUsd ?? 0, tokens: holdTokens ?? 0 }, purpose, name)
  if (continues(call)) return
  if (before.phase === "handoff" && purpose === "investigate") {
    yield broken(7, `${name} investigates while the run hands over`)
  }
  const claimed = ["tool_calls", "time"] as const
  yield* room(before, used, purpose, claimed, name)
  if (call.retrying || isSettling(before)) return
  yield* room(before, used, before.phase, ["turns", "usd", "tokens"], name)
}

/** A call is refused for want of what is used up, or because the run hands over. */
function* refused(before: Ledger, call: Call, event: Of<"tool_result">): Generator<Problem> {
  const { detail, elapsedMs, pool, short, wrongArguments } = event
  if (pool !== undefined) return
  const name = nameOf(call)
  const purpose = call.planned.purpose ?? "investigate"
  if (short === "tool_calls" || short === "time") {
    if (!isUsedUp(before.limits, usedBy(before, elapsedMs), short, purpose)) {
      yield broken(7, `${name} is refused for want of ${short.replace("_", " ")}, and there was room`)
    }
  } else if (short === undefined && detail === undefined && wrongArguments !== true) {
    if (before.phase !== "handoff") yield broken(7, `${name} is refused, and there was room`)
  }
}

/** A turn like the last one would have reached into what is kept for the handoff, or the handoff began for that. */
const reaches = (
  { handsOver, last, limits, phase, tokens, usd }: Ledger,
  resource: Limits.Resource
): boolean => {
  if ((resource !== "usd" && resource !== "tokens") || keptOf(limits, resource, "investigate") === 0)
    return false
  const after = resource === "usd" ? Money.add(usd, last.usd) : tokens + last.tokens
  return phase === "handoff"
    ? handsOver?.resource === resource && handsOver.pool === undefined
    : after > (ceiling(limits, resource, phase) ?? Number.POSITIVE_INFINITY)
}

/**
 * Whether the time until a date was this much at a moment since the event before: it is told as of when it was looked at,
 * and the calendar may have moved. The date had passed then, or the event tells of it at once.
 */
const isOfCalendar = (
  { elapsedMs: sinceMs, limits }: Ledger,
  limit: number,
  at: string,
  elapsedMs: number
): boolean => {
  if (limits.deadline === undefined) return false
  const { timeMs = 0 } = follow(limits, at, elapsedMs)
  return (limit >= sinceMs && limit <= elapsedMs) || Math.abs(timeMs - limit) < 1_000
}

/** What is said of a limit that is used up: only time may have gone on since it was looked at. */
function* exhausted(
  before: Ledger,
  { limit, pool, resource, used }: Limits.Exhausted,
  { at, elapsedMs }: Pick<RunEvent, "at" | "elapsedMs">
): Generator<Problem> {
  // What others have used of a shared budget is not in this journal.
  if (pool !== undefined) return
  const show = shown[resource]
  const name = amounts[resource]
  const limits =
    resource === "time" && isOfCalendar(before, limit, at, elapsedMs)
      ? { ...before.limits, timeMs: limit }
      : before.limits
  if (limits[name] !== limit) {
    const is = limits[name] === undefined ? "none" : show(limits[name])
    yield broken(7, `a limit of ${show(limit)} is said to be used up, and the limit is ${is}`)
    return
  }
  const counts = usedBy(before, elapsedMs)
  const counted = counts[name]
  const right = resource === "time" ? used <= counted : used === counted
  if (!right) yield broken(7, `${show(used)} are said to be used, and the journal counts ${show(counted)}`)
  // Where the worst case is held, a limit ends a run when the next turn does not fit any more.
  const holds = limits.money === "hold" && (resource === "usd" || resource === "tokens")
  // A clock may have been set back since the handoff began: the run ends with it all the same.
  const wasReached = before.phase === "handoff" && resource === "time" && limits.deadline !== undefined
  if (
    !holds &&
    !wasReached &&
    !reaches(before, resource) &&
    !isUsedUp(limits, { ...counts, [name]: used }, resource, "investigate")
  ) {
    yield broken(7, `the limit of ${show(limit)} is said to be reached, and there is room`)
  }
}

/**
 * Law 7. A time limit is looked at a moment before what begins is dated: `graceMs` is how long that may take where a
 * process is held up.
 */
export const check = (graceMs: number) =>
  function* (before: Ledger, event: RunEvent): Generator<Problem> {
    const decidedMs = Math.max(before.elapsedMs, event.elapsedMs - graceMs)
    switch (event.type) {
      case "turn_started":
        return yield* asked(before, event, decidedMs)
      case "tool_start": {
        const call = before.calls.get(event.callId)
        if (call !== undefined) yield* started(before, call, event, decidedMs)
        return
      }
      case "tool_result": {
        const call = before.calls.get(event.callId)
        if (call !== undefined && event.disposition === "refused") yield* refused(before, call, event)
        return
      }
      case "handoff":
        if (before.phase === "handoff") yield broken(7, "the run hands over already")
        return yield* exhausted(before, event.exhausted, event)
      case "run_stopped":
        if (event.exhausted !== undefined) yield* exhausted(before, event.exhausted, event)
        return
    }
  }
