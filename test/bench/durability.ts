/** What a turn costs on SQLite over a turn in memory, and what the machine's own fsync costs. */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Agent } from "../../src/index.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import { median } from "./measure.ts"
import * as Workload from "./workload.ts"

type Store = RunStore["Service"]

const rounds = 45
const turns = 60

/** Milliseconds of the median append of 500 bytes to a file that is then brought to the disk. */
export const fsync = (): number => {
  const folder = mkdtempSync(join(tmpdir(), "checkrein-bench-"))
  const file = openSync(join(folder, "file"), "a")
  try {
    const page = Buffer.alloc(500)
    const times = Array.from({ length: 200 }, () => {
      const start = performance.now()
      writeSync(file, page)
      fdatasyncSync(file)
      return performance.now() - start
    })
    return median(times)
  } finally {
    closeSync(file)
    rmSync(folder, { recursive: true })
  }
}

/** Milliseconds per turn that a store costs over another, with a tool that only reads and with one that writes. */
export const over = (store: Store, base: Store) =>
  Effect.gen(function* () {
    const drive = (on: Store, agent: typeof Workload.analyst) =>
      Effect.gen(function* () {
        const start = performance.now()
        yield* Effect.provideService(Agent.run(agent, Workload.task), RunStore, on)
        return (performance.now() - start) / turns
      })
    const excess = (agent: typeof Workload.analyst) =>
      Effect.gen(function* () {
        const samples = { on: [0], under: [0] }
        for (let round = 0; round < rounds; round++) {
          const under = yield* drive(base, agent)
          const on = yield* drive(store, agent)
          // The first third warms the compiler up.
          if (round < rounds / 3) continue
          samples.on.push(on)
          samples.under.push(under)
        }
        return median(samples.on.slice(1)) - median(samples.under.slice(1))
      })
    return { reading: yield* excess(Workload.analyst), writing: yield* excess(Workload.writer) }
  }).pipe(Effect.provide(Layer.mergeAll(Workload.handlers, Workload.model(turns), Workload.prices)))
