/**
 * Endings: a run stops with what it has used, for a reason that the journal bears out.
 */
import { mostFruitless } from "../../run/Answer.ts"
import * as Money from "../../run/Money.ts"
import type { Of, Reason, RunEvent } from "../../run/RunEvent.ts"
import { broken, type Problem } from "./Law.ts"
import { type Call, type Ledger, nameOf, tokensOf } from "./Ledger.ts"

const statusOf: Record<Reason, Of<"run_stopped">["status"]> = {
  answered: "completed",
  submitted: "completed",
  max_turns: "max_turns_exceeded",
  max_budget: "budget_exceeded",
  approval: "interrupted",
  input: "interrupted",
  provider: "interrupted",
  unknown_outcome: "interrupted",
  stalled: "interrupted",
  stop_condition: "interrupted",
  cancelled: "interrupted",
  provider_refused: "failed",
  tool_fatal: "failed",
  tool_permanent: "failed",
  defect: "failed"
}

function* totals(before: Ledger, { costUsd, tokens, turns }: Of<"run_stopped">): Generator<Problem> {
  const { claim } = before
  const counted = before.turns + (claim === undefined ? 0 : 1)
  if (turns !== counted) yield broken(6, `the run has taken ${counted} turns, and it says ${turns}`)
  const cost = claim === undefined ? before.usd : Money.add(before.usd, claim.estimate.costUsd)
  if (costUsd !== cost) yield broken(6, `the run has cost $${cost}, and it says $${costUsd}`)
  const used = before.tokens + tokensOf(claim?.estimate.usage)
  if (tokens !== undefined && tokens !== used)
    yield broken(6, `the run has used ${used} tokens, and it says ${tokens}`)
}

function* completed(before: Ledger, { reason }: Of<"run_stopped">): Generator<Problem> {
  for (const call of before.open.values()) {
    yield broken(3, `the run completes although ${nameOf(call)} has no result`)
  }
  if (reason === "answered" && !before.answered) yield broken(6, "the run completes without an answer")
  if (reason === "answered" && before.contract !== undefined) {
    yield broken(6, `the run completes with text, and its result has to be submitted with ${before.contract}`)
  }
  if (reason === "answered" && before.phase === "handoff") {
    yield broken(6, "the run stops at a limit, and calls its handoff an answer")
  }
  if (reason === "submitted" && !before.submitted) yield broken(6, "the run completes without a result")
}

const undecided = (call: Call): boolean =>
  call.status === "waiting" &&
  call.decision === undefined &&
  (call.asked || call.planned.approval === "required")

function* waits(before: Ledger, reason: Reason): Generator<Problem> {
  const open = [...before.open.values()]
  const below = open.flatMap(({ suspension }) => suspension ?? [])
  const { filtered, replies } = before.fruitless
  const givesUp = replies >= mostFruitless
  switch (reason) {
    case "approval":
      if (!open.some(undecided) && !below.some(({ approvals }) => approvals.length > 0))
        yield broken(4, "the run waits for a decision, and no call needs one")
      return
    case "input":
      if (!open.some(({ planned }) => planned.kind === "input") && !below.some(({ question }) => question))
        yield broken(3, "the run waits for an answer, and nothing was asked")
      return
    case "unknown_outcome":
      if (!open.some(({ status }) => status === "unknown") && !below.some((child) => child.reason === reason))
        yield broken(2, "the run waits to be told of an outcome, and none is unknown")
      return
    case "provider":
      if (!before.failed && !givesUp && !below.some((child) => child.reason === reason))
        yield broken(1, "the run waits for its model, and no model call has failed")
      return
    case "provider_refused":
      if (!before.failed && !(givesUp && filtered === replies))
        yield broken(1, "the model has refused, and no model call has failed")
  }
}

function* stopped(before: Ledger, event: Of<"run_stopped">): Generator<Problem> {
  const { exhausted, reason, status } = event
  yield* totals(before, event)
  if (status !== statusOf[reason]) yield broken(6, `a run that stops for ${reason} is not ${status}`)
  const limited = reason === "max_turns" || reason === "max_budget"
  if (limited !== (exhausted !== undefined)) {
    const said = limited ? "no limit is said to be" : "a limit is said to be"
    yield broken(7, `the run stops for ${reason}, and ${said} used up`)
  }
  if (limited && exhausted !== undefined && (exhausted.resource === "turns") !== (reason === "max_turns")) {
    yield broken(7, `the run stops for ${reason}, and what is used up is ${exhausted.resource}`)
  }
  if (status === "completed") yield* completed(before, event)
  yield* waits(before, reason)
}

/** What an ending says. */
export function* check(before: Ledger, event: RunEvent): Generator<Problem> {
  if (event.type === "run_stopped") yield* stopped(before, event)
}
