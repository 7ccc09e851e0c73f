/**
 * Runs a subject in a process that is killed at a seam, for each seam, and takes the run up in this one.
 */
import { randomUUID } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { RunStore, RunStoreError } from "../../store/RunStore.ts"
import * as Module from "./Module.ts"
import * as Report from "./Report.ts"
import type * as Seam from "./Seam.ts"
import type * as Subject from "./Subject.ts"
import type * as Time from "./Time.ts"
import * as Victim from "./Victim.ts"
import * as Witness from "./Witness.ts"

/** What is killed where, and how. */
export interface Options {
  /** The Postgres URL of the store. Default: a new SQLite file for each run. */
  readonly store?: string | undefined
  /** The seams at which the process is killed. Default: all, and each takes the time in which a process starts. */
  readonly only?: ((seam: Seam.Seam) => boolean) | undefined
  readonly clock?: Time.Clock | undefined
  /** Flags for `node`, such as those that load the sources of your module. */
  readonly flags?: ReadonlyArray<string> | undefined
  /** How many processes run at the same time. Default 4: most of the time they wait. */
  readonly concurrency?: number | undefined
}

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "crash-kit-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const failedBy =
  (module: string) =>
  (error: unknown): Module.KillFailed | RunStoreError =>
    error instanceof Module.KillFailed || error instanceof RunStoreError
      ? error
      : new Module.KillFailed({ module, problem: String(error) })

/** Checks the subject that the module exports. */
export const check = Effect.fnUntraced(function* (module: URL, options: Options) {
  const { clock = "test", concurrency = 4, flags = [], only = () => true } = options
  const { href } = module
  const subject = yield* Module.load(href)
  const files = yield* folder
  let runs = 0
  const observe: Report.Observe<Module.KillFailed | RunStoreError, never> = (fault, telling) =>
    Effect.suspend(() => {
      const file = join(files, String(runs++))
      const where = options.store ?? `${file}.db`
      const witness = `${file}.jsonl`
      // Runs that share a store must not share an id.
      const runId = options.store === undefined ? "crash-kit" : `crash-kit-${randomUUID()}`
      return Effect.gen(function* () {
        const run: Subject.Run = {
          store: yield* RunStore,
          runId,
          witness: Witness.file(witness),
          clock,
          telling,
          orphaned: fault !== undefined
        }
        if (fault === undefined) return yield* subject.observe(run)
        const { seam } = fault
        const orders = { module: href, store: where, witness, runId, clock, seam, telling: [...telling] }
        yield* Victim.kill(orders, flags, join(files, "compiled"))
        const observed = yield* subject.observe(run)
        const stops = ["killed", ...observed.observation.stops]
        return {
          ...observed,
          observation: { ...observed.observation, stops },
          strikes: [{ fault, runId, callId: undefined }]
        }
      }).pipe(Effect.provide(Module.storeAt(where), { local: true }), Effect.mapError(failedBy(href)))
    })
  return yield* Report.make(observe, { ways: ["kill"], only, concurrency })
}, Effect.scoped)
