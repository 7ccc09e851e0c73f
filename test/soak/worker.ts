/**
 * One of the processes: starts its share of the orders, takes over what others have left, and is the person who decides,
 * finds out and resumes.
 *
 * `node worker.ts STORE WORLD ORDERS SHARE SHARES`
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { Agent, RunHost, type RunStore } from "../../src/index.ts"
import { clerk, runIdOf, taskOf } from "./orders.ts"
import { storeAt } from "./store.ts"
import * as World from "./world.ts"

const [where = "", world = "", orders = "0", share = "0", shares = "1"] = process.argv.slice(2)

const agent = clerk(world)
const by = { by: `worker ${share}` }

/** Whoever comes second is told so, and nothing is wrong with that. */
const asFirst = <E, R>(said: Effect.Effect<void, E | Agent.CallNotPending, R>) =>
  Effect.catchIf(
    said,
    (error) => error instanceof Agent.CallNotPending,
    () => Effect.void
  )

/** Settles whatever a stopped run waits for, and has it go on. */
const settle = Effect.fnUntraced(function* ({ approvals, runId, unknown }: RunStore.RunSummary) {
  const host = yield* RunHost.RunHost
  for (const call of approvals) yield* asFirst(host.decide(call, Agent.approve(), by))
  for (const call of unknown) {
    const did = World.tookPlace(world, call)
    yield* asFirst(host.resolve(call, did ? Agent.happened(`${call.tool}: done`) : Agent.didNotHappen, by))
  }
  yield* host.resume(runId)
})

const startOrders = Effect.gen(function* () {
  const host = yield* RunHost.RunHost
  for (let order = Number(share); order < Number(orders); order += Number(shares)) {
    yield* host
      .start(agent.name, taskOf(order), { runId: runIdOf(order) })
      .pipe(Effect.catchTag("RunBusy", () => Effect.void))
  }
})

const seeToStopped = Effect.gen(function* () {
  const host = yield* RunHost.RunHost
  let before: RunStore.RunSummary | undefined
  while (true) {
    const page: ReadonlyArray<RunStore.RunSummary> = yield* host.list({ status: "interrupted", before })
    for (const summary of page) if (summary.parent === undefined) yield* settle(summary)
    before = page.at(-1)
    if (before === undefined) return
  }
})

const program = Effect.gen(function* () {
  const host = yield* RunHost.RunHost
  yield* Effect.forkScoped(startOrders)
  yield* Effect.forkScoped(Effect.repeat(seeToStopped, Schedule.spaced("500 millis")))
  yield* Effect.repeat(host.recover, Schedule.spaced("1 second"))
}).pipe(
  Effect.scoped,
  Effect.provide(
    RunHost.layer([agent], { concurrency: 10, shutdown: { grace: "5 seconds" } }).pipe(
      Layer.provide(storeAt(where))
    )
  )
)

NodeRuntime.runMain(program)
