import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as NoModel from "../../src/cli/NoModel.ts"
import { CommandFailed } from "../../src/cli/Output.ts"
import { Agent } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as MemoryRunStore from "../../src/store/MemoryRunStore.ts"
import { RunStore, RunStoreError } from "../../src/store/RunStore.ts"

const none = Scripted.layer(Scripted.make("none", []), { usage: "omitted" })
const bot = Agent.make("bot")
const own = Agent.provide(Scripted.layer(Scripted.make("own", [Scripted.text("done")]), { usage: "omitted" }))

/** A command that drives a run, where the model around the store is none. */
const command = <A, E, R>(running: Effect.Effect<A, E, R>) =>
  running.pipe(NoModel.refused, Effect.provide(Layer.provideMerge(NoModel.refusing, none)), Effect.scoped)

const down = new RunStoreError({ runId: "r", kind: "unavailable", problem: "the disk is away" })

/** The store, of which nobody can read how a run stands. */
const unreadable = Layer.effect(
  RunStore,
  Effect.map(RunStore, (store) => RunStore.of({ ...store, summary: () => Effect.fail(down) }))
)

layer(MemoryRunStore.layer)("an agent without a model", (it) => {
  it.effect("is refused before anything is stored, and one that brings a model is not", () =>
    Effect.gen(function* () {
      const refused = yield* Effect.flip(command(Agent.run(bot, "go", { runId: "r" })))
      expect(refused).toEqual(new CommandFailed({ message: NoModel.noModel }))
      const store = yield* RunStore
      expect((yield* Effect.flip(store.summary("r")))._tag).toBe("RunNotFound")
      expect((yield* command(Agent.run(own(bot), "go", { runId: "r" }))).output).toBe("done")
    })
  )

  it.effect("is let through to a run that has its answer", () =>
    Effect.gen(function* () {
      yield* command(Agent.run(own(bot), "go", { runId: "answered" }))
      expect((yield* command(Agent.resume(bot, "answered"))).output).toBe("done")
    })
  )

  it.effect("is not what is said where the store fails", () =>
    Effect.gen(function* () {
      const lease = Effect.flatMap(RunStore, (store) => store.lease("r"))
      const failed = yield* Effect.flip(Effect.provide(command(lease), unreadable))
      expect(failed).toBe(down)
    })
  )

  it.effect("is not what is said of another defect", () =>
    Effect.gen(function* () {
      const defect = new CommandFailed({ message: "something else" })
      const exit = yield* Effect.exit(command(Effect.die(defect)))
      expect(exit).toMatchObject({ _tag: "Failure", cause: { reasons: [{ _tag: "Die", defect }] } })
    })
  )
})
