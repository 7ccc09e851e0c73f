/** Texts that some databases cannot keep: what people and models say comes back as it was, and nothing is called so. */
import { assert, it } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { Agent, RunHost, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { textOf } from "../../src/testing/conformance/Samples.ts"
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

  it.effect("an id, an agent or a tag with such letters, or too many, is refused before anything runs", () =>
    Effect.gen(function* () {
      const { store, w } = yield* here
      const hosted = RunHost.layer([Agent.make("h").pipe(Agent.provide(w.model))])
      const host = Context.get(
        yield* Layer.build(Layer.provide(hosted, Layer.succeed(RunStore.RunStore, store))),
        RunHost.RunHost
      )
      for (const runId of ["a\u0000", "a\ud800", "日".repeat(700)]) {
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
      // An empty one would be shared by all who leave theirs empty, and what a run is called leaves room for its sub-agents.
      for (const runId of ["", textOf(513)]) {
        const asked: ReadonlyArray<Effect.Effect<unknown, { readonly message: string }>> = [
          w.in(Agent.run(agent, "go", { runId })),
          w.in(Stream.runDrain(Agent.stream(agent, "go", { runId }))),
          w.in(Agent.create(agent, "go", { runId })),
          host.start("h", "go", { runId })
        ]
        for (const effect of asked) {
          const error = yield* Effect.flip(effect)
          assert.strictEqual(error instanceof RunStore.RunStoreError && error.kind, "invalid")
          assert.match(error.message, runId === "" ? /the id of the run is empty/ : /has 513 bytes/)
        }
      }
      assert.deepStrictEqual(w.requests, [])
      assert.deepStrictEqual(yield* store.list(), [])
    }).pipe(Effect.scoped, Effect.provide(layer))
  )

  it.effect("a run of the longest id has runs of sub-agents below it, eleven deep", () =>
    Effect.gen(function* () {
      const { store, w } = yield* here
      const limits = { turns: 3, time: "1 minute" } as const
      const script = (lines: ReadonlyArray<Scripted.Line>) =>
        Layer.fresh(
          Scripted.layer(Scripted.make("m", lines), { usage: { promptTokens: 1, completionTokens: 1 } })
        )
      const name = textOf(256)
      let below: Agent.Agent<string, never, RunStore.RunStore> = Agent.make(name, { limits }).pipe(
        Agent.provide(script([text("done")]))
      )
      for (let depth = 0; depth < 11; depth++) {
        const ask = Agent.asTool(below, { name: "ask", description: "Asks." })
        const lines = [
          call("ask", { task: "x" }, { id: `${depth}${"c".repeat(128)}`.slice(0, 128) }),
          text("done")
        ]
        below = Agent.make(name, { toolkit: Toolkit.make(ask.tool), limits }).pipe(
          Agent.provide(Layer.merge(ask.layer, script(lines)))
        )
      }
      yield* w.in(Agent.run(below, "go", { runId: textOf(512), tags: [name] }))
      const runs = yield* store.list({ agent: name, status: "completed" })
      assert.strictEqual(runs.length, 12)
      assert.strictEqual(Math.max(...runs.map(({ runId }) => runId.length)), 512 + 11 * 129)
    }).pipe(Effect.provide(layer))
  )
})
