/** A store with runs that were left alone for some time. */
import * as Effect from "effect/Effect"
import * as NodeSqlite from "../../../src/store/NodeSqlite.ts"
import { RunStore, type RunSummary } from "../../../src/store/RunStore.ts"
import { append } from "../../../src/testing/conformance/Samples.ts"
import { parsed } from "../support.ts"
import { storeAt } from "./storeAt.ts"

const day = 86_400_000

/** A store with runs of these ages, in days, each untouched since. */
export const aged = async (
  file: string,
  runs: Record<string, Partial<RunSummary> & { readonly age: number }>
) => {
  await Effect.gen(function* () {
    const store = yield* RunStore
    for (const [runId, { age, ...rest }] of Object.entries(runs)) {
      const at = new Date(Date.now() - age * day).toISOString()
      yield* store.append(append(runId, 0, 1, { startedAt: at, updatedAt: at, ...rest }))
    }
  }).pipe(Effect.provide(NodeSqlite.runStore(file)), Effect.runPromise)
  const { runs: command } = storeAt(file)
  return {
    command,
    deleted: async (...args: ReadonlyArray<string>) =>
      parsed(await command("delete", ...args, "--json")).deleted,
    listed: async (...args: ReadonlyArray<string>): Promise<ReadonlyArray<string>> =>
      parsed(await command("list", ...args, "--json")).runs.map((run: RunSummary) => run.runId)
  }
}

/** How a run stands that has its answer. */
export const completed = { status: "completed", reason: "answered" } as const

/** Runs of several ages, agents, tags and endings. */
export const various = {
  fresh: { age: 0, ...completed, tags: ["acme"] },
  week: { age: 7, ...completed, agent: "clerk" },
  month: { age: 40, ...completed, tags: ["acme", "night"] },
  open: { age: 50, status: "interrupted", reason: "approval" },
  year: { age: 400, ...completed }
} as const
