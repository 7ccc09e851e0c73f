/**
 * Proves that an agent loses nothing and does nothing twice, by stopping it wherever it can be stopped.
 *
 * A run is driven once to see where it meets the world: before and after each append to the store, in the middle of each
 * model call, before, in and after each tool. Then it is run again for each of these seams, stopped there, by interruption
 * of its fiber, by a defect and by the death of its driver, and taken up until it ends. What comes of it is held against
 * the undisturbed run. It takes no network: a script is the model, and the clock is the kit's own, so that nothing is
 * waited for.
 *
 * Each run builds `layer` anew, and with it the fake world of its tools: `tools.toLayer(Effect.sync(() => { const rows = new
 * Map(); return tools.of({ … }) }))`. What is kept in a module outlives a run, so that the next one does other things: it is
 * then reported as not `repeatable`, or as `at_least_once` with a tool that was never started.
 *
 * The kit knows what takes place in the world from the tools: each that changes something says `happened`, and one that is
 * not read-only and says nothing breaks the promise `observed`.
 *
 * A check is three runs for each seam, about fifty for an agent of two turns, of some milliseconds each. On a busy machine
 * that may be more than the 5 seconds that `vitest` gives a test: give it 30, as the last argument of `it.effect`. `only`
 * and `ways` make fewer runs of a long agent.
 *
 * @example
 * ```ts
 * import { assert, it } from "@effect/vitest"
 * import { Agent } from "checkrein"
 * import { Scripted } from "checkrein/provider"
 * import { CrashKit } from "checkrein/testing"
 * import { Effect, Layer, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 *
 * const Charge = Tool.make("charge", { parameters: Schema.Struct({ order: Schema.String }), success: Schema.String })
 * const tools = Toolkit.make(Charge)
 * const cashier = Agent.make("cashier", { toolkit: tools, limits: { turns: 5 } })
 *
 * it.effect(
 *   "charges once, wherever it is stopped",
 *   () =>
 *     Effect.gen(function* () {
 *       const report = yield* CrashKit.check({
 *         agent: cashier,
 *         input: "Charge order 7.",
 *         layer: Layer.merge(
 *           tools.toLayer({ charge: ({ order }) => Effect.as(CrashKit.happened(`charged ${order}`), "done") }),
 *           Scripted.layer(Scripted.make("cashier", [Scripted.call("charge", { order: "7" }), Scripted.text("Done.")]))
 *         )
 *       })
 *       assert.deepStrictEqual(report.broken, [])
 *     }),
 *   30_000
 * )
 * ```
 */
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as MemoryRunStore from "../store/MemoryRunStore.ts"
import { RunStore, type RunStoreError } from "../store/RunStore.ts"
import * as Killing from "./crash/Killing.ts"
import type { KillFailed } from "./crash/Module.ts"
import * as Report from "./crash/Report.ts"
import * as Seam from "./crash/Seam.ts"
import * as Subject from "./crash/Subject.ts"
import type * as Time from "./crash/Time.ts"
import * as Witness from "./crash/Witness.ts"

export type { Options as KillOptions } from "./crash/Killing.ts"
export { KillFailed } from "./crash/Module.ts"
export type { CallCount, Ending } from "./crash/Observation.ts"
export type { Broken, Name } from "./crash/Promises.ts"
export type { Account, Report, Visit } from "./crash/Report.ts"
export type { Fault, Point, Seam, Way } from "./crash/Seam.ts"
export { happened, happenedOnce, hasHappened } from "./crash/World.ts"

/** What is checked, and how. */
export interface Options<RO, LE, RI, SE> extends Subject.Options<RO, LE, RI> {
  /** Where the runs are kept, built anew for each run. Default: in memory. */
  readonly store?: Layer.Layer<RunStore, SE> | undefined
  /** How the runs are stopped. Default: `interruption`, `defect` and `crash`. */
  readonly ways?: ReadonlyArray<Exclude<Seam.Way, "kill">> | undefined
  /** The seams at which they are stopped. Default: all. */
  readonly only?: ((seam: Seam.Seam) => boolean) | undefined
  /**
   * At which seam of its own, counted from 1, the driver that takes a run up is stopped as well, in the same way: a fault
   * in the midst of the recovery. Default: never.
   */
  readonly relapse?: number | undefined
  /**
   * `test` (default) runs on a clock of its own, which moves when the run has nothing else to do. `live` is for tools and
   * stores that really wait: a server, a database.
   */
  readonly clock?: Time.Clock | undefined
}

/**
 * Stops an agent at every seam, in every way, and says which promises it has broken.
 *
 * The final transcript, the cost and the ending have to be those of the undisturbed run, with these exceptions: a model
 * call that was lost counts as a turn and costs its estimate, so that a limit may come earlier; a tool that was broken is
 * answered with an error; and the outcome of a tool that changes the world may be unknown. Then its `Reconcile` is asked,
 * or else the kit says what it has seen take place; what a `Reconcile` says has to be that as well. A read-only or
 * idempotent tool runs at least once, any other at most once.
 *
 * A tool that is not read-only, has given a result in the undisturbed run and told of nothing with `happened` is reported
 * as `observed`: of its effect nobody knows whether it takes place once. It tells, or it is a `Tool.Readonly` one, or it
 * is named in `silent`. The tools of a sub-agent tell for it.
 *
 * A call that is made after a lost model call has another idempotency key, for the turn is in it. Where a result, or what
 * took place, says the key itself, or the id of the run or of the call, that is no difference, and neither are the tokens
 * that it has: what was paid is compared where the transcripts have the same letters, and else the number of turns alone.
 * An id that a tool makes of its key, by a hash of its own or a part of it, is a difference, and is reported as `transcript`:
 * let the tool count, or say the whole key.
 *
 * Time passes while a run is taken up, so whatever goes by the clock may come to something else. An operation goes on
 * meanwhile, and a look at it may be made again: have its fake end it before the first look, whenever that is.
 *
 * Fails only if the layer or the store cannot be had.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent } from "checkrein"
 * import * as Layer from "effect/Layer"
 * import { CrashKit } from "checkrein/testing"
 *
 * declare const cashier: Agent.Agent<string>
 *
 * const atTheTools = CrashKit.check({
 *   agent: cashier,
 *   input: "Charge order 7.",
 *   layer: Layer.empty,
 *   only: ({ point }) => point === "in tool"
 * })
 * ```
 */
export const check = <RO, LE, RI, SE = never>(
  options: Options<RO, LE, RI, SE>
): Effect.Effect<Report.Report, RunStoreError | LE | SE, RI> => {
  const { clock = "test", only = () => true, ways = Seam.inProcess } = options
  const store: Layer.Layer<RunStore, SE> = options.store ?? MemoryRunStore.layer
  const subject = Subject.make(options)
  const observe: Report.Observe<RunStoreError | LE | SE, RI> = (fault, telling) =>
    Effect.gen(function* () {
      const runId = yield* Subject.newRunId
      const run = {
        store: yield* RunStore,
        runId,
        witness: Witness.memory(),
        clock,
        telling,
        orphaned: false,
        fault
      }
      return yield* subject.observe(run)
    }).pipe(Effect.provide(store, { local: true }))
  return Report.make(observe, { ways, only, concurrency: 1, relapse: options.relapse })
}

/**
 * Makes a subject for `checkKilled`: the default export of a module of its own, with everything that it needs.
 *
 * @example
 * ```ts
 * import { Agent } from "checkrein"
 * import { Scripted } from "checkrein/provider"
 * import { CrashKit } from "checkrein/testing"
 *
 * const script = Scripted.make("poet", [Scripted.text("Logs rotate, as seasons do.")])
 *
 * export default CrashKit.subject({
 *   agent: Agent.make("poet"),
 *   input: "Why do logs rotate?",
 *   layer: Scripted.layer(script)
 * })
 * ```
 */
export const subject: <RO, LE>(options: Subject.Options<RO, LE, never>) => Subject.Subject<LE, never> =
  Subject.make

/**
 * Kills a process with `kill -9` at every seam, takes its run up in this one, and says which promises were broken.
 *
 * The module exports what `subject` makes as its default, and has to be one that `node` can load. Its runs are kept in
 * SQLite files in a folder for temporary files, or in the Postgres database of `store`; what took place is counted in files
 * beside. Each seam takes the time in which a process starts: `only` chooses some of them, and the test needs a timeout
 * of its own.
 *
 * @example
 * ```ts
 * import { assert, it } from "@effect/vitest"
 * import { CrashKit } from "checkrein/testing"
 * import { Effect } from "effect"
 *
 * it.live(
 *   "survives kill -9 around its tools",
 *   () =>
 *     Effect.gen(function* () {
 *       const module = new URL("./poet.ts", import.meta.url)
 *       const report = yield* CrashKit.checkKilled(module, { only: ({ point }) => point.endsWith("tool") })
 *       assert.deepStrictEqual(report.broken, [])
 *     }),
 *   60_000
 * )
 * ```
 */
export const checkKilled = (
  module: URL,
  options: Killing.Options = {}
): Effect.Effect<Report.Report, KillFailed | RunStoreError> => Killing.check(module, options)
