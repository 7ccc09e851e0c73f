/**
 * Work that a tool has started and that goes on: begun once, ended at most once, and never lost sight of.
 */
import type { Of, RunEvent } from "../../run/RunEvent.ts"
import { broken, type Problem } from "./Law.ts"
import { executable, type Ledger, nameOf } from "./Ledger.ts"

/** At a limit something is done about all work that goes on, and what it was is said. */
function* handled(operations: Ledger["operations"], event: Of<"run_stopped">): Generator<Problem> {
  const told = event.operations ?? []
  for (const { handling, operationId } of told) {
    const operation = operations.get(operationId)
    if (operation === undefined || operation.ended) {
      yield broken(2, `operation ${operationId} is ${handling.replace("_", " ")}, and does not go on`)
    }
  }
  if (event.reason !== "max_turns" && event.reason !== "max_budget") return
  for (const [id, { ended }] of operations) {
    if (ended || told.some(({ operationId }) => operationId === id)) continue
    yield broken(2, `operation ${id} goes on at the limit, and nothing is said of it`)
  }
}

/** Law 2, as far as it is about operations. */
export function* check({ calls, operations }: Ledger, event: RunEvent): Generator<Problem> {
  switch (event.type) {
    case "operation_started": {
      const { argsDigest, callId, operationId, tool } = event
      if (operations.has(operationId)) yield broken(2, `operation ${operationId} is started twice`)
      const call = calls.get(callId)
      // A call that was lost may turn out to have started one.
      if (call?.status !== "running" && call?.status !== "unknown") {
        yield broken(1, `operation ${operationId} is started by call ${callId}, which is not running`)
      } else if (tool !== call.tool || argsDigest !== executable(call).argsDigest) {
        yield broken(2, `operation ${operationId} is not what ${nameOf(call)} has started`)
      }
      return
    }
    case "operation_ended": {
      const operation = operations.get(event.operationId)
      if (operation === undefined)
        yield broken(2, `operation ${event.operationId} ends, and was never started`)
      else if (operation.ended) yield broken(2, `operation ${event.operationId} ends twice`)
      return
    }
    case "run_stopped":
      yield* handled(operations, event)
  }
}
