/**
 * How one event changes the state of a run. Whoever drives one keeps a `Draft` and steps it in place, because a transcript that
 * were copied for every event would cost more with every turn.
 */
import * as Answer from "./Answer.ts"
import { anchor, follow } from "./Deadline.ts"
import { type Draft, without } from "./Draft.ts"
import * as Money from "./Money.ts"
import * as PendingCalls from "./PendingCalls.ts"
import * as Repetition from "./Repetition.ts"
import type { RunEvent } from "./RunEvent.ts"
import { isAtLimit, totals } from "./RunState.ts"

const charge = (draft: Draft, usage: Money.Usage, costUsd: number): void => {
  draft.usage = Money.addUsage(draft.usage, usage)
  draft.costUsd = Money.add(draft.costUsd, costUsd)
}

/** A model call whose answer never came back counts as a turn and, at its estimate, as spent. */
const settleLostClaim = (draft: Draft): void => {
  if (draft.claim === undefined) return
  const { costUsd, turns } = totals(draft)
  draft.turns = turns
  draft.usage = Money.addUsage(draft.usage, draft.claim.estimate.usage)
  draft.costUsd = costUsd
  delete draft.claim
}

/** The model is told anew that only the reserve is left. */
const untold = (draft: Draft): void => {
  delete draft.handoffTold
  delete draft.strayedInTurn
}

/** Steps a draft by one event, in place. */
export const apply = (draft: Draft, event: RunEvent): void => {
  draft.seq = event.seq + 1
  draft.updatedAt = event.at
  draft.elapsedMs = event.elapsedMs
  draft.limits = follow(draft.limits, event.at, event.elapsedMs)
  switch (event.type) {
    case "run_started": {
      draft.agent = event.agent
      draft.startedAt = event.at
      draft.messages.push(...event.messages)
      draft.given = event.messages.length
      draft.limits = anchor(event.limits, event.at, event.elapsedMs)
      if (event.contract !== undefined) draft.contract = event.contract
      if (event.parent !== undefined) draft.parent = event.parent
      if (event.tags !== undefined) draft.tags = event.tags
      return
    }
    case "run_resumed": {
      settleLostClaim(draft)
      if (draft.status !== "running") draft.refused = []
      // Another driver goes on as if it had been there all the time. What a model was told of repetition and of a reserve
      // counts no more where the run had stopped for just that, or a person has said something.
      const spoken = event.messages.length > 0
      if (spoken || draft.reason === "stalled") draft.repetition = Repetition.none()
      if (spoken || isAtLimit(draft)) untold(draft)
      draft.status = "running"
      draft.limits = anchor(draft.limits, event.at, event.elapsedMs)
      delete draft.reason
      delete draft.detail
      delete draft.exhausted
      delete draft.refusedInTurn
      // The answer in a handoff was its summary; any other was the answer, even if its driver died before it said so.
      if (draft.phase === "handoff" || spoken) {
        draft.answered = false
        Answer.turnTo(draft)
      }
      delete draft.fruitless
      draft.phase = "investigate"
      // Until somebody drives the run its calls stand, and its children wait, as they did.
      if (event.queued !== true) PendingCalls.takeUp(draft)
      draft.operations = draft.operations.map((operation) => without(operation, "handling"))
      draft.inbox = Math.max(draft.inbox, event.inbox)
      if (event.revoked !== undefined) draft.revoked = event.revoked
      PendingCalls.say(draft, event.messages)
      return
    }
    case "limits_changed": {
      draft.limits = anchor(event.limits, event.at, event.elapsedMs)
      untold(draft)
      return
    }
    case "turn_started": {
      const { estimate, seq, turn } = event
      draft.claim = { seq, turn, estimate }
      if (event.purpose === "handoff") draft.handoffTold = true
      if (event.note !== undefined) draft.messages.push({ role: "user", content: event.note })
      return
    }
    case "turn": {
      delete draft.claim
      draft.turns++
      charge(draft, event.usage, event.costUsd)
      draft.lastUsage = event.usage
      draft.lastCostUsd = event.costUsd
      if (event.unpriced === true) draft.unpriced = true
      draft.answered = event.answers
      if (event.message.content.length > 0) draft.messages.push(event.message)
      if (event.note !== undefined) draft.messages.push({ role: "user", content: event.note })
      PendingCalls.ask(draft, event)
      Answer.hear(draft, event)
      return
    }
    case "turn_failed": {
      delete draft.claim
      charge(draft, event.usage ?? Money.noUsage, event.costUsd)
      if (event.unpriced === true) draft.unpriced = true
      return
    }
    case "tool_start":
      PendingCalls.start(draft, event)
      return
    case "tool_result":
      PendingCalls.finish(draft, event)
      return
    case "approval_required":
      PendingCalls.requireApproval(draft, event)
      return
    case "approval_resolved":
      PendingCalls.decide(draft, event)
      return
    case "input_given":
      PendingCalls.answer(draft, event)
      return
    case "child_suspended":
      PendingCalls.suspend(draft, event)
      return
    case "outcome_resolved":
      PendingCalls.resolve(draft, event)
      return
    case "handoff": {
      settleLostClaim(draft)
      draft.phase = "handoff"
      Answer.turnTo(draft)
      draft.exhausted = event.exhausted
      return
    }
    case "run_stopped": {
      settleLostClaim(draft)
      draft.status = event.status
      draft.reason = event.reason
      draft.detail = event.detail
      if (event.exhausted !== undefined) draft.exhausted = event.exhausted
      PendingCalls.letGoAll(draft)
      if (event.operations !== undefined) {
        const handled = new Map(event.operations.map(({ handling, operationId }) => [operationId, handling]))
        draft.operations = draft.operations.map((operation) => {
          const handling = handled.get(operation.operationId)
          return handling === undefined ? operation : { ...operation, handling }
        })
      }
      return
    }
    case "operation_started": {
      const { argsDigest, callId, label, observe, operationId, tool } = event
      draft.operations = [...draft.operations, { operationId, callId, tool, argsDigest, observe, label }]
      return
    }
    case "operation_ended": {
      const { detail, operationId, outcome } = event
      draft.operations = draft.operations.map((operation) =>
        operation.operationId === operationId
          ? { ...without(operation, "handling"), ended: { outcome, detail } }
          : operation
      )
      return
    }
    case "input_required":
      return
  }
}
