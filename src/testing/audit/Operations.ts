/**
 * Work that a tool has started and that goes on: begun once, ended at most once, and never lost sight of.
 */
import type { RunEvent } from "../../run/RunEvent.ts"
import { broken, type Problem } from "./Law.ts"
import { executable, type Ledger, nameOf } from "./Ledger.ts"

/** Law 2, as far as it is about operations. */
export function* check({ calls, operations }: Ledger, event: RunEvent): Generator<Problem> {
  switch (event.type) {
    case "operation_started": {
      const { argsDigest, callId, operationId, tool } = event
      if (operations.has(operationId)) yield broken(2, `operation ${operationId} is started twice`)
      const call = calls.get(callId)
      if (call === undefined || call.starts === 0) {
        yield broken(1, `operation ${operationId} is started by call ${callId}, which was not`)
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
      for (const { handling, operationId } of event.operations ?? []) {
        const operation = operations.get(operationId)
        if (operation === undefined || operation.ended) {
          yield broken(2, `operation ${operationId} is ${handling.replace("_", " ")}, and does not go on`)
        }
      }
  }
}
