import { Agent, RunHost } from "checkrein"
import { Effect, Schedule } from "effect"
import { analyst } from "./analyst.ts"

export const Host = RunHost.layer([analyst], { concurrency: 8, shutdown: { grace: "20 seconds" } })

export const serve = Effect.gen(function* () {
  const host = yield* RunHost.RunHost
  // What a process has left that died is taken over, now and every minute.
  const recover = Effect.ignore(host.recover, { log: "Warn" })
  yield* Effect.forkScoped(Effect.repeat(recover, Schedule.spaced("1 minute")))

  // Stored when this returns, and started once, however often a client repeats it.
  const runId = yield* host.start(analyst.name, "Free some space.", { runId: "ticket-7" })
  const { approvals } = yield* host.ended(runId)
  for (const call of approvals) yield* host.decide(call, Agent.approve(), { by: "ann" })
  yield* host.resume(runId)
  return yield* host.ended(runId)
})
