/** What a turn costs in each store, and whether that grows with the length of a run. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Agent } from "../../src/index.ts"
import { encode } from "../../src/run/EventCodec.ts"
import { load, RunStore } from "../../src/store/RunStore.ts"
import { median } from "./measure.ts"
import * as Workload from "./workload.ts"

type Store = RunStore["Service"]

const timed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const start = performance.now()
    yield* effect
    return performance.now() - start
  })

/** Drives a run of this many turns to its end. */
const drive = (store: Store, runId: string, turns: number) =>
  Agent.run(Workload.analyst, Workload.task, { runId }).pipe(
    Effect.provide(Layer.mergeAll(Workload.handlers, Workload.model(turns), Workload.prices)),
    Effect.provideService(RunStore, store)
  )

/** Milliseconds and bytes of journal per turn, for a run of this many turns. */
export const perTurn = (store: Store, turns: number) =>
  Effect.gen(function* () {
    const runId = `growth ${turns}`
    const ms = (yield* timed(drive(store, runId, turns))) / turns
    const events = yield* store.read(runId)
    const bytes = events.reduce((sum, event) => sum + Buffer.byteLength(encode(event)), 0) / turns
    return { turns, ms, bytes }
  })

/** Milliseconds to open a run of this many turns: at first, as a process does that has just begun, and later. */
export const opening = (store: Store, turns: number) =>
  Effect.gen(function* () {
    const open = timed(Effect.provideService(load(`growth ${turns}`), RunStore, store))
    const first = yield* open
    const later = yield* Effect.forEach([1, 2, 3, 4, 5], () => open)
    return { first, later: median(later) }
  })

/** Milliseconds to decide about a call, to read a run's status and to list runs, when a run has this many turns. */
export const questions = (store: Store, turns: number) =>
  Effect.gen(function* () {
    const runId = `waits after ${turns}`
    const world = Layer.mergeAll(Workload.handlers, Workload.asking(turns), Workload.prices)
    yield* Effect.exit(
      Agent.run(Workload.asker, Workload.task, { runId }).pipe(
        Effect.provide(world),
        Effect.provideService(RunStore, store)
      )
    )
    const { approvals } = yield* store.summary(runId)
    const [call] = approvals
    if (call === undefined) return yield* Effect.die(new Error("the run does not wait"))
    const often = <E>(effect: Effect.Effect<unknown, E>) =>
      Effect.map(
        Effect.forEach(Array.from({ length: 200 }), () => timed(effect)),
        (times) => median(times.slice(50))
      )
    // Only the first is taken; those after it look at as much and are refused, so the writing is measured beside them.
    const decide = Effect.exit(Effect.provideService(Agent.decide(call, Agent.approve()), RunStore, store))
    return {
      status: yield* often(store.summary(runId)),
      list: yield* often(store.list({ limit: 20 })),
      decide: (yield* often(decide)) + (yield* often(store.send(runId, { type: "cancel", reason: "" })))
    }
  })
