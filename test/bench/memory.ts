/**
 * Live memory of runs that wait at the same time in one process.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import { Agent, MemoryRunStore } from "../../src/index.ts"
import * as Workload from "./workload.ts"

const liveBytes = Effect.sync(() => {
  if (globalThis.gc === undefined) throw new Error("start node with --expose-gc")
  globalThis.gc()
  globalThis.gc()
  return process.memoryUsage().heapUsed
})

/** Bytes per waiting run, and how many of them completed once they could go on. */
export const waitingRuns = (count: number) =>
  Effect.gen(function* () {
    const latch = yield* Latch.make()
    let waiting = 0
    const handlers = Workload.toolkit.toLayer({
      list_files: () =>
        Effect.andThen(
          Effect.suspend(() => {
            waiting++
            return latch.await
          }),
          Effect.succeed(Workload.names)
        )
    })
    const layer = Layer.mergeAll(handlers, Workload.prices, Workload.model(2), MemoryRunStore.layer)
    return yield* Effect.gen(function* () {
      const before = yield* liveBytes
      const fibers = yield* Effect.forEach(Array.from({ length: count }), () =>
        Effect.forkChild(Agent.run(Workload.analyst, Workload.task))
      )
      while (waiting < count) yield* Effect.sleep("5 millis")
      const bytesEach = ((yield* liveBytes) - before) / count
      yield* latch.open
      const completed = yield* Fiber.joinAll(fibers)
      return { count, bytesEach, completed: completed.length }
    }).pipe(Effect.provide(layer))
  })
