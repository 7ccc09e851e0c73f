/**
 * Model calls: claimed before they are sent, counted, and answered with calls that are what they say.
 */
import * as Digest from "../../loop/Digest.ts"
import { callsOf, textOf } from "../../run/Message.ts"
import * as Money from "../../run/Money.ts"
import type { Of, RunEvent } from "../../run/RunEvent.ts"
import { broken, type Problem } from "./Law.ts"
import { type Ledger, nameOf, tokensOf } from "./Ledger.ts"

function* started(before: Ledger, { attempt, turn }: Of<"turn_started">): Generator<Problem> {
  if (before.claim !== undefined) {
    yield broken(1, `the model is asked for turn ${turn} while turn ${before.claim.turn} is on its way`)
  }
  for (const call of before.open.values()) {
    yield broken(3, `the model is asked although ${nameOf(call)} has no result`)
  }
  if (before.answered) yield broken(6, "the model is asked although it has answered")
  const next = before.turns + (before.claim === undefined ? 1 : 2)
  if (turn !== next) yield broken(6, `turn ${turn} is asked for, and the next one is turn ${next}`)
  if (attempt !== before.failedAttempts + 1) {
    yield broken(1, `it is attempt ${attempt} at turn ${turn}, after ${before.failedAttempts} that failed`)
  }
}

const isAmount = (usd: number): boolean => usd >= 0 && Money.round(usd) === usd

function* cost(usd: number): Generator<Problem> {
  if (!isAmount(usd)) yield broken(6, `${usd} is no cost: it is not a whole number of nano-dollars`)
}

function* plan(before: Ledger, { answers, calls, cutOff, message, note }: Of<"turn">): Generator<Problem> {
  const parts = callsOf(message)
  if (parts.length !== calls.length) {
    yield broken(3, `the model has asked for ${parts.length} calls, and ${calls.length} are planned`)
  }
  const ids = new Set<string>()
  for (const [index, { argsDigest, callId }] of calls.entries()) {
    const part = parts[index]
    if (callId === "") yield broken(3, "a call has an empty id")
    if (ids.has(callId) || before.calls.has(callId)) yield broken(3, `two calls have the id ${callId}`)
    ids.add(callId)
    if (part === undefined) continue
    if (part.id !== callId) yield broken(3, `the model's call ${part.id} is planned as call ${callId}`)
    if (Digest.ofArgs(part.params) !== argsDigest) {
      yield broken(4, `call ${callId} (${part.name}) is planned with the digest of other arguments`)
    }
  }
  // A handoff is over when the model has nothing to say in it.
  const silent = textOf(message).trim() === "" && before.phase === "investigate"
  if (answers && (parts.length > 0 || note !== undefined || cutOff === true || silent)) {
    yield broken(3, "a reply that is no answer is taken for one")
  }
}

function* replied(before: Ledger, event: Of<"turn">): Generator<Problem> {
  const { costUsd, totalUsd, turn } = event
  if (before.claim?.turn !== turn) yield broken(1, `turn ${turn} comes back without having been claimed`)
  yield* cost(costUsd)
  const total = Money.add(before.usd, costUsd)
  if (totalUsd !== total) yield broken(6, `the run has cost $${total} so far, and it says $${totalUsd}`)
  yield* plan(before, event)
}

/** In `hold` mode what a turn costs beyond what was held is said, and nothing else is. */
function* held({ claim, limits }: Ledger, { costUsd, overHold, usage }: Of<"turn">): Generator<Problem> {
  if (claim === undefined) return
  const { estimate } = claim
  const over = costUsd > estimate.costUsd || tokensOf(usage) > tokensOf(estimate.usage)
  if (limits.money === "hold" && over && overHold !== true) {
    yield broken(7, "the turn has used more than was held for it, and does not say so")
  }
}

function* failed({ claim }: Ledger, { attempt, costUsd, turn }: Of<"turn_failed">): Generator<Problem> {
  if (claim === undefined || claim.turn !== turn || claim.attempt !== attempt) {
    yield broken(1, `attempt ${attempt} at turn ${turn} fails without having been claimed`)
  }
  yield* cost(costUsd)
}

/** Laws 1, 3, 4 and 6, as far as they are about model calls. */
export function* check(before: Ledger, event: RunEvent): Generator<Problem> {
  switch (event.type) {
    case "turn_started":
      return yield* started(before, event)
    case "turn":
      yield* replied(before, event)
      return yield* held(before, event)
    case "turn_failed":
      return yield* failed(before, event)
  }
}
