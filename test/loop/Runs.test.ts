/** Runs that are stored at the same moment, under the same id. */
import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import { Agent, RunHost, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { describeStores } from "../store/stores.ts"
import { model, of } from "./support.ts"

type Store = RunStore.RunStore["Service"]

const agentOf = (name: string) =>
  Agent.make(name, { limits: { time: "1 hour" } }).pipe(Agent.provide(model([Scripted.text("done")]).layer))
const agent = agentOf("clerk")

/** A store that takes its time, as one that is far away does. */
const far = (store: Store): Store => {
  const slowly = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.delay(effect, "5 millis")
  return {
    ...store,
    append: (append) => slowly(store.append(append)),
    read: (runId, from) => slowly(store.read(runId, from)),
    lease: (runId) => slowly(store.lease(runId))
  }
}

/** Asks ten times for the same, each a little later than the one before: before, while and after it is stored. */
const tenTimes = <A, E, R>(ask: (index: number) => Effect.Effect<A, E, R>) =>
  Effect.forEach(
    Array.from({ length: 10 }, (_, index) => index),
    (index) => Effect.delay(ask(index), `${index * 2} millis`),
    { concurrency: "unbounded" }
  )

describeStores((layer, name) => {
  const onFar = <A, E>(effect: Effect.Effect<A, E, RunStore.RunStore>) =>
    Effect.gen(function* () {
      yield* Effect.provideService(effect, RunStore.RunStore, far(yield* RunStore.RunStore))
      const store = yield* RunStore.RunStore
      return yield* store.read("r")
    }).pipe(Effect.provide(layer))

  it.live(`a run is stored once, and all who create it get its id (${name})`, () =>
    Effect.gen(function* () {
      const events = yield* onFar(
        Effect.gen(function* () {
          const ids = yield* tenTimes((index) => Agent.create(agent, `task ${index}`, { runId: "r" }))
          expect(ids).toEqual(ids.map(() => "r"))
        })
      )
      expect(events).toMatchObject([{ type: "run_started", messages: [{ role: "user" }] }])
    })
  )

  it.live(`a host that is told to start it by many drives it once (${name})`, () =>
    Effect.gen(function* () {
      const events = yield* onFar(
        Effect.gen(function* () {
          const host = yield* RunHost.RunHost
          const ids = yield* tenTimes(() => host.start("clerk", "go", { runId: "r" }))
          expect(ids).toEqual(ids.map(() => "r"))
          expect(yield* host.ended("r")).toMatchObject({ status: "completed", turns: 1 })
        }).pipe(Effect.provide(RunHost.layer([agent])))
      )
      expect(of(events, "run_started")).toHaveLength(1)
      expect(of(events, "turn_started")).toHaveLength(1)
    })
  )

  for (const how of ["Agent.create", "host.start"] as const)
    it.live(`all get its id, however long what its agent brings takes to build (${how}, ${name})`, () =>
      Effect.gen(function* () {
        // It is there when all have asked for it, which takes longer than anybody waits who has to wait for another one.
        let asked = 0
        const allAsk = Latch.makeUnsafe()
        const slow = Layer.effectDiscard(
          Effect.suspend(() => (++asked === 10 ? allAsk.open : Effect.asVoid(allAsk.await)))
        )
        const patient = agent.pipe(Agent.provide(slow))
        const events = yield* onFar(
          Effect.gen(function* () {
            const host = yield* RunHost.RunHost
            const ids = yield* tenTimes(() =>
              how === "host.start"
                ? host.start("clerk", "go", { runId: "r" })
                : Agent.create(patient, "go", { runId: "r" })
            )
            expect(ids).toEqual(ids.map(() => "r"))
            if (how === "host.start") expect(yield* host.ended("r")).toMatchObject({ status: "completed" })
          }).pipe(Effect.provide(RunHost.layer([patient])))
        )
        expect(of(events, "run_started")).toHaveLength(1)
      })
    )

  it.live(`of two agents one has it, and the other is told so (${name})`, () =>
    Effect.gen(function* () {
      const other = agentOf("other")
      const events = yield* onFar(
        Effect.gen(function* () {
          const exits = yield* tenTimes((index) =>
            Effect.result(Agent.create(index % 2 === 0 ? agent : other, "go", { runId: "r" }))
          )
          const tags = exits.map((exit) => (exit._tag === "Success" ? "stored" : exit.failure._tag))
          expect(new Set(tags)).toEqual(new Set(["stored", "AgentMismatch"]))
          expect(new Set(tags.filter((_, index) => index % 2 === 0)).size).toBe(1)
        })
      )
      expect(events).toHaveLength(1)
    })
  )

  it.effect(
    `one that somebody else is about to store, and never does, is busy, also in a test whose time stands (${name})`,
    () =>
      Effect.gen(function* () {
        const store = yield* RunStore.RunStore
        yield* store.lease("r")
        const refused = yield* Effect.flip(Agent.create(agent, "go", { runId: "r" }))
        expect(refused._tag).toBe("RunBusy")
      }).pipe(Effect.scoped, Effect.provide(layer))
  )
})
