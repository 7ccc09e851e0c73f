/** Tags: given when a run is started, and what it is listed and deleted by ever after. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { Agent, RunStore } from "../../src/index.ts"
import { describeStores } from "../store/stores.ts"
import { call, Tools, text, turn, world } from "./modelSupport.ts"

const agent = Agent.make("analyst", { toolkit: Tools })

describeStores((layer) => {
  it.effect("a run has its tags from its first event to its last, and is found by them", () =>
    Effect.gen(function* () {
      const store = yield* RunStore.RunStore
      const w = yield* world(
        [turn(call("read_file", { path: "a" }, { id: "a" })), text("done"), text("done")],
        {
          store: () => store
        }
      )
      const tags = ["tenant:acme", "nightly"]
      const { run } = yield* w.in(Agent.run(agent, "go", { runId: "a", tags }))
      yield* w.in(Agent.run(agent, "go", { runId: "b" }))
      assert.deepStrictEqual(run.tags, tags)
      assert.deepStrictEqual((yield* store.summary("a")).tags, tags)
      assert.isUndefined((yield* store.summary("b")).tags)
      const found = yield* store.list({ tag: "nightly", status: "completed" })
      assert.deepStrictEqual(
        found.map(({ runId }) => runId),
        ["a"]
      )
      const { state } = yield* RunStore.load("a")
      assert.deepStrictEqual(state.tags, tags)
    }).pipe(Effect.provide(layer))
  )

  it.effect("runs are deleted when nothing was written to them for long enough, by tag too", () =>
    Effect.gen(function* () {
      const store = yield* RunStore.RunStore
      const w = yield* world(
        Array.from({ length: 6 }, () => text("done")),
        { store: () => store }
      )
      const start = (runId: string, tag: string) =>
        w.in(Agent.run(agent, "go", { runId, tags: [tag], limits: { turns: 1 } }))
      yield* start("old", "x")
      yield* start("old too", "y")
      yield* TestClock.adjust("20 days")
      yield* start("new", "x")
      const ids = Effect.map(store.list(), (runs) => runs.map(({ runId }) => runId))
      assert.deepStrictEqual(yield* RunStore.deleteOlderThan("30 days"), [])
      assert.deepStrictEqual(yield* RunStore.deleteOlderThan("10 days", { tag: "y" }), ["old too"])
      assert.deepStrictEqual(yield* ids, ["new", "old"])
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* store.lease("old")
          assert.deepStrictEqual(yield* RunStore.deleteOlderThan("10 days"), [])
        })
      )
      assert.deepStrictEqual(yield* RunStore.deleteOlderThan("10 days"), ["old"])
      assert.deepStrictEqual(yield* ids, ["new"])
    }).pipe(Effect.provide(layer))
  )
})
