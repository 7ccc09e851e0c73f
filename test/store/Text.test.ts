/** Letters that some databases cannot keep: what people and models say comes back with them, and nothing is called so. */
import { assert, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Agent, RunHost, RunStore } from "../../src/index.ts"
import { call, Tools, text, turn, world } from "../loop/modelSupport.ts"
import { describeStores } from "./stores.ts"

const agent = Agent.make("analyst", { toolkit: Tools, limits: { turns: 5, time: "1 minute" } })

const odd = "NUL \u0000, halves \ud800 and \udc00, \udc34\ud83d"

const here = Effect.flatMap(RunStore.RunStore, (store) =>
  Effect.map(
    world(
      [
        turn(text(odd), call("read_file", { path: odd }, { id: odd })),
        turn(
          call("delete_file", { path: "a" }, { id: "c2" }),
          call("delete_file", { path: "b" }, { id: "c3" })
        ),
        text(odd)
      ],
      { store: () => store }
    ),
    (w) => ({ store, w })
  )
)

describeStores((layer) => {
  it.effect("whatever text a run takes in is stored and comes back as it was", () =>
    Effect.gen(function* () {
      const { store, w } = yield* here
      const asked = yield* w.in(Effect.flip(Agent.run(agent, odd, { runId: "a" })))
      assert.strictEqual(asked._tag, "ApprovalRequired")
      yield* w.in(Agent.decide({ runId: "a", callId: "c2" }, Agent.reject(odd), { by: odd }))
      yield* w.in(
        Agent.decide({ runId: "a", callId: "c3" }, Agent.approve({ args: { path: odd } }), { by: odd })
      )
      const { output, run } = yield* w.in(Agent.resume(agent, "a", { message: odd }))
      assert.strictEqual(output, odd)
      const { events, state } = yield* RunStore.load("a")
      assert.deepStrictEqual(state, run)
      const said = JSON.stringify(events).split(JSON.stringify(odd).slice(1, -1)).length - 1
      assert.isAtLeast(said, 9)
      assert.deepStrictEqual(w.work.started, [`read_file ${odd}`, `delete_file ${odd}`])
      yield* w.in(Agent.create(agent, odd, { runId: "b" }))
      yield* w.in(Agent.cancel("b", odd))
      assert.strictEqual((yield* store.summary("b")).detail, odd)
    }).pipe(Effect.provide(layer))
  )

  it.effect("an id, an agent or a tag with such letters is refused before anything runs", () =>
    Effect.gen(function* () {
      const { store, w } = yield* here
      const hosted = RunHost.layer([Agent.make("h").pipe(Agent.provide(w.model))])
      const host = Context.get(
        yield* Layer.build(Layer.provide(hosted, Layer.succeed(RunStore.RunStore, store))),
        RunHost.RunHost
      )
      for (const runId of ["a\u0000", "a\ud800"]) {
        const named = { runId, callId: "c" }
        const asked: { readonly [what: string]: Effect.Effect<unknown, unknown> } = {
          run: w.in(Agent.run(agent, "go", { runId })),
          create: w.in(Agent.create(agent, "go", { runId })),
          after: w.in(Agent.run(agent, "go", { after: runId })),
          tags: w.in(Agent.run(agent, "go", { tags: [runId] })),
          agent: w.in(Agent.run(Agent.make(runId, { limits: { turns: 1 } }), "go")),
          resume: w.in(Agent.resume(agent, runId)),
          decide: w.in(Agent.decide(named, Agent.approve())),
          answer: w.in(Agent.answer(runId, "yes")),
          resolve: w.in(Agent.resolve(named, Agent.didNotHappen)),
          cancel: w.in(Agent.cancel(runId, "enough")),
          load: w.in(RunStore.load(runId)),
          hosted: host.start("h", "go", { runId }),
          resumed: host.resume(runId),
          ended: host.ended(runId),
          status: host.status(runId)
        }
        for (const [what, effect] of Object.entries(asked)) {
          const error = yield* Effect.flip(effect)
          assert.strictEqual(error instanceof RunStore.RunStoreError && error.kind, "invalid", what)
        }
      }
      assert.deepStrictEqual(w.requests, [])
      assert.deepStrictEqual(yield* store.list(), [])
    }).pipe(Effect.scoped, Effect.provide(layer))
  )
})
