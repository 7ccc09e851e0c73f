/**
 * Another process on the same store, which says on its output what happens to it.
 *
 * `node elsewhere.ts append STORE RUN COUNT NAME` appends events, each as the next one, and sends a command.
 * `node elsewhere.ts hold STORE RUN` takes the lease of a run and keeps it; when it is lost, tries to append.
 * `node elsewhere.ts drive STORE RUN` runs an agent whose tool never ends by itself.
 */
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import { LeaseTime, RunStore } from "../../src/store/RunStore.ts"
import { append, event } from "../../src/testing/conformance/Samples.ts"
import { open } from "./opening.ts"

const [mode = "", where = "", runId = "", count = "0", name = ""] = process.argv.slice(2)

const appending = Effect.gen(function* () {
  const store = yield* RunStore
  for (let i = 0; i < Number(count); i++) {
    const write = Effect.gen(function* () {
      const { seq } = yield* store.summary(runId)
      yield* store.append({ ...append(runId, seq), events: [event(runId, seq, `${name} ${i}`)] })
    })
    yield* Effect.retry(write, { while: (error) => error._tag === "StaleWriter" })
  }
  yield* store.send(runId, { type: "cancel", reason: name })
})

const holding = Effect.gen(function* () {
  const store = yield* RunStore
  const lease = yield* store.lease(runId)
  const { seq } = yield* store.summary(runId)
  yield* Console.log("held")
  const why = yield* Effect.flip(lease.lost)
  const checked = yield* Effect.flip(lease.check)
  const appended = yield* Effect.flip(store.append(append(runId, seq)))
  yield* Console.log(`lost ${why._tag} ${checked._tag} ${appended._tag}`)
}).pipe(Effect.scoped)

// Loaded for this mode alone: it takes longer than the others take for all they do.
const driving = Effect.gen(function* () {
  const Agent = yield* Effect.promise(() => import("../../src/Agent.ts"))
  const Waiter = yield* Effect.promise(() => import("./waiter.ts"))
  return yield* Effect.exit(Effect.provide(Agent.run(Waiter.agent, "wait", { runId }), Waiter.layer))
}).pipe(
  Effect.flatMap((exit) => Console.log(Exit.isSuccess(exit) ? "completed" : `ended ${String(exit.cause)}`))
)

const modes = { append: appending, hold: holding, drive: driving }
const program = Object.entries(modes).find(([known]) => known === mode)?.[1]

if (program !== undefined) {
  const leaseTime = Layer.succeed(LeaseTime, Duration.seconds(Number(process.env.CHECKREIN_TEST_LEASE ?? 15)))
  await Effect.runPromise(Effect.provide(program, Layer.provide(open(where), leaseTime)))
}
