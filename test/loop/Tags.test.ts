/** Tags: given when a run is started, and what it is listed and deleted by ever after. */
import { assert, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { Agent, RunHost, RunStore } from "../../src/index.ts"
import { append } from "../../src/testing/conformance/Samples.ts"
import { describeStores } from "../store/stores.ts"
import { call, Tools, text, turn, world } from "./modelSupport.ts"

const agent = Agent.make("analyst", { toolkit: Tools })

const none: { readonly [what: string]: unknown } = {
  "a text": "acme",
  "a number": 5,
  null: null,
  "an object": { 0: "acme", length: 1 },
  "a Set": new Set(["acme"]),
  "a list with a number": ["acme", 5],
  "a list with nothing": ["acme", undefined],
  // What is not there is looked at by no `every`.
  "a list with a hole": Object.assign(["acme"], { length: 2 }),
  "a list in a list": [["acme"]]
}

describeStores((layer) => {
  it.effect.each(Object.entries(none))("are refused before anything is stored if they are %s", ([, given]) =>
    Effect.gen(function* () {
      const store = yield* RunStore.RunStore
      const w = yield* world([], { store: () => store })
      const asked: Array<string> = []
      const budget = ({ runId }: { readonly runId: string }) =>
        Effect.sync(() => {
          asked.push(runId)
          return undefined
        })
      const hosted = [Agent.make("h").pipe(Agent.provide(w.model))] as const
      const hostOf = <E>(host: Layer.Layer<RunHost.RunHost, E, RunStore.RunStore>) =>
        Effect.map(
          Layer.build(Layer.provide(host, Layer.succeed(RunStore.RunStore, store))),
          Context.get(RunHost.RunHost)
        )
      const host = yield* hostOf(RunHost.layer(hosted))
      const sharing = yield* hostOf(RunHost.layer(hosted, { budget }))
      const tags = given as ReadonlyArray<string>
      for (const options of [{ tags }, { tags, runId: "a" }]) {
        const ways: { readonly [way: string]: Effect.Effect<unknown, unknown> } = {
          run: w.in(Agent.run(agent, "go", options)),
          stream: w.in(Stream.runDrain(Agent.stream(agent, "go", options))),
          create: w.in(Agent.create(agent, "go", options)),
          start: host.start("h", "go", options),
          "start with a budget": sharing.start("h", "go", options),
          append: store.append(append("a", 0, 1, { tags }))
        }
        for (const [way, effect] of Object.entries(ways)) {
          const error = yield* Effect.flip(effect)
          assert.strictEqual(error instanceof RunStore.RunStoreError && error.kind, "invalid", way)
          assert.match(String(error), /its tags have to be a list of texts/, way)
        }
      }
      assert.deepStrictEqual(asked, [])
      assert.deepStrictEqual(w.requests, [])
      assert.deepStrictEqual(yield* store.list(), [])
    }).pipe(Effect.scoped, Effect.provide(layer))
  )

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
