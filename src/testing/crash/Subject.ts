/**
 * What is put to the test: an agent with its input and its world, that can be run again and again.
 */
import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as References from "effect/References"
import type { Agent } from "../../Agent.ts"
import { RunStore, type RunStoreError } from "../../store/RunStore.ts"
import * as Drive from "./Drive.ts"
import * as Observation from "./Observation.ts"
import * as Saboteur from "./Saboteur.ts"
import type * as Seam from "./Seam.ts"
import * as Time from "./Time.ts"
import type * as Witness from "./Witness.ts"

const TypeId: unique symbol = Symbol.for("checkrein/testing/Subject")

/** What a subject is made of. */
export interface Options<RO, LE, RI> extends Drive.Script {
  /** The agent; or a function that makes one for each run, if it holds a world in itself that has to be new. */
  readonly agent: Agent<unknown, unknown, RO | RunStore> | (() => Agent<unknown, unknown, RO | RunStore>)
  /**
   * What the agent needs: its model, its tools, and the services behind them. It is built anew for each run and outlives
   * every driver of it, so that the services of the outside world are as they were when the run is taken up. A fake of the
   * world has to be made in it: what is kept in a module outlives a run, and the next one finds it changed.
   */
  readonly layer: Layer.Layer<RO, LE, RI>
  /**
   * The tools that change the world and cannot tell of it with `happened`. The kit counts only how often they are started,
   * and believes that a call that was cut off had its effect. Default: none, and `observed` names those that do not tell.
   */
  readonly silent?: ReadonlyArray<string> | undefined
}

/** How a subject is run once. */
export interface Run {
  readonly store: RunStore["Service"]
  readonly runId: string
  readonly witness: Witness.Witness
  readonly clock: Time.Clock
  readonly telling: ReadonlySet<string>
  /** Whether a process was killed that drove the run: then nobody else drives it, whatever its lease says. */
  readonly orphaned: boolean
  /** Where and how it is stopped; nowhere without. */
  readonly fault?: Seam.Fault | undefined
}

/** What came of it. */
export interface Observed {
  readonly observation: Observation.Observation
  readonly seams: ReadonlyArray<Seam.Seam>
  /** Where it was stopped, as far as it has come there. */
  readonly strikes: ReadonlyArray<Saboteur.Strike>
  /** A call of each tool that should have told of what took place, and did not. */
  readonly silent: ReadonlyArray<Witness.Of<"Entered">>
}

/** An agent with its input and its world. */
export interface Subject<out E, out R> {
  readonly [TypeId]: typeof TypeId
  readonly observe: (run: Run) => Effect.Effect<Observed, E, R>
}

/** Whether a value is a subject. */
export const isSubject = (u: unknown): u is Subject<unknown, never> =>
  typeof u === "object" && u !== null && TypeId in u

/** Makes a subject. */
export const make = <RO, LE, RI>(options: Options<RO, LE, RI>): Subject<LE, RI> => ({
  [TypeId]: TypeId,
  observe: ({ fault, ...run }) =>
    Effect.gen(function* () {
      const { witness, runId, store } = run
      const saboteur = Saboteur.make(witness, fault)
      const agent = typeof options.agent === "function" ? options.agent() : options.agent
      const ended = yield* Drive.drive(options, { ...run, agent, saboteur })
      const observation = yield* Observation.read(store, runId, ended, witness)
      const silent = Observation.silentIn(observation).filter(
        ({ tool }) => options.silent?.includes(tool) !== true
      )
      return { observation, seams: saboteur.seams(), strikes: saboteur.strikes(), silent }
    }).pipe(
      Effect.provide(options.layer, { local: true }),
      Time.on(run.clock),
      // The same each time, and silent: hundreds of runs that are broken on purpose have nothing to say.
      Random.withSeed("the crash kit"),
      Effect.provideService(References.MinimumLogLevel, "None")
    )
})

/** An id for a run: always the same one, so that runs are alike, unless the store has such a run already. */
export const newRunId: Effect.Effect<string, RunStoreError, RunStore> = Effect.gen(function* () {
  const store = yield* RunStore
  return yield* store.summary("crash-kit").pipe(
    Effect.map(() => `crash-kit-${randomUUID()}`),
    Effect.catchTag("RunNotFound", () => Effect.succeed("crash-kit"))
  )
})
