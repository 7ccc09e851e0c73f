/**
 * How large the SQLite file of a run is, after a checkpoint.
 */
import { mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { Agent } from "../../src/index.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as Workload from "./workload.ts"

/** Bytes of the file, of the transcript as JSON, and what is allowed: 1.5 times the transcript and 400 bytes an event. */
export const fileSize = async (turns: number) => {
  const folder = mkdtempSync(join(tmpdir(), "checkrein-bench-"))
  const file = join(folder, "runs.db")
  const runtime = ManagedRuntime.make(
    Layer.mergeAll(Workload.handlers, Workload.prices, Workload.model(1_000_000), NodeSqlite.runStore(file))
  )
  try {
    const exit = await runtime.runPromise(
      Effect.flip(Agent.run(Workload.analyst, Workload.task, { limits: { turns } }))
    )
    if (exit._tag !== "MaxTurnsExceeded") throw exit
    await runtime.dispose()
    const bytes = statSync(file).size
    const messages = Buffer.byteLength(JSON.stringify(exit.run.messages))
    return { turns, bytes, messages, events: exit.run.seq, allowed: 1.5 * messages + 400 * exit.run.seq }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
