/** What the cases share: a test on every store, runs that are taken up until they end, and properties. */
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { Agent, MemoryRunStore, type RunEvent, type RunExit, RunStore } from "../../src/index.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as Audit from "../../src/testing/Audit.ts"
import { inFolder } from "../store/folders.ts"
import { describeStores } from "../store/stores.ts"
import { type Plan, type Planner, taskOf } from "./plans.ts"

type Services = RunStore.RunStore | Scope.Scope

/** A test on an empty store. */
export type Check = (
  name: string,
  body: () => Generator<Effect.Effect<unknown, unknown, Services>, void, never>
) => void

export type StoreName = "memory" | "SQLite" | "Postgres"

type Store = Layer.Layer<RunStore.RunStore, RunStore.RunStoreError>

type Body = (check: Check, store: StoreName) => void

// Side by side: what waits for a disk or a server waits together.
const on = (layer: Store, store: StoreName, body: Body, run: typeof it.live | typeof it.effect = it.live) =>
  body((name, test) => run(name, () => Effect.provide(Effect.gen(test), layer), { concurrent: true }), store)

/** Describes the same for every store. */
export const onEveryStore = (body: Body): void => describeStores((layer, store) => on(layer, store, body))

const sqlite: Store = inFolder((folder) => NodeSqlite.runStore(join(folder, "runs.db")))

/**
 * Describes the same for a store that keeps what it is given, and for one that has to write and read it; on the real
 * clock, or with `it.effect` on the test clock.
 */
export const onTwoStores = (body: Body, run: typeof it.live | typeof it.effect = it.live): void => {
  describe("memory", () => on(MemoryRunStore.layer, "memory", body, run))
  describe("SQLite", () => on(sqlite, "SQLite", body, run))
}

/** How many examples a property is tried on: a database takes its time. */
export const examples: { readonly [S in StoreName]: number } = { memory: 20, SQLite: 3, Postgres: 2 }

/** Tries a property on so many examples; one that fails is made smaller before it is told. */
export const forAny = <A, E, R>(
  arbitrary: Arbitrary.Arbitrary<A>,
  runs: number,
  property: (example: A) => Effect.Effect<unknown, E, R>
): Effect.Effect<void, never, R> =>
  Effect.gen(function* () {
    const holds = (example: A) =>
      property(example).pipe(
        Effect.as(true),
        Effect.catchCause((cause) => Effect.fail(Cause.pretty(cause)))
      )
    const result = yield* Arbitrary.checkEffect(arbitrary, holds, { runs, size: 20, maxShrinks: 200 })
    expect(Arbitrary.formatCheckFailure(result)).toBeUndefined()
  })

/** The stored events of a run. */
export const journal = (runId: string) => RunStore.RunStore.use((store) => store.read(runId))

/** How a run stands, as the store tells without its journal. */
export const summary = (runId: string) => RunStore.RunStore.use((store) => store.summary(runId))

/** The events of one type. */
export const of = <Type extends RunEvent.RunEvent["type"]>(
  events: ReadonlyArray<RunEvent.RunEvent>,
  type: Type
): ReadonlyArray<RunEvent.Of<Type>> =>
  events.filter((event): event is RunEvent.Of<Type> => event.type === type)

/** A run and all runs below it break no law. */
export const expectLawful = (runId: string) =>
  Effect.gen(function* () {
    expect((yield* Audit.run(runId)).findings).toEqual([])
  })

/** Carries out a plan, and takes the run up again until it completes; `meanwhile` does what each stop asks for. */
export const carryOut = <E, R>(
  agent: Planner,
  turns: Plan,
  runId: string,
  meanwhile: (exit: RunExit.RunExit) => Effect.Effect<unknown, E, R>
) =>
  Effect.gen(function* () {
    let exit = yield* Agent.outcome(Agent.run(agent, taskOf(turns), { runId }))
    for (let stops = 1; exit._tag !== "Completed"; stops++) {
      expect(stops, `it stops again and again: ${exit.message}`).toBeLessThan(200)
      yield* meanwhile(exit)
      exit = yield* Agent.outcome(Agent.resume(agent, runId))
    }
    return exit
  })
