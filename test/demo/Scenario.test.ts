/** Scenarios, the world they play in, and how a stored run of one is taken up again. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/Agent.ts"
import * as Catalogue from "../../src/demo/Catalogue.ts"
import * as Demo from "../../src/demo/Demo.ts"
import * as Fixture from "../../src/demo/Fixture.ts"
import * as Scenario from "../../src/demo/Scenario.ts"
import * as RunTrace from "../../src/observe/RunTrace.ts"
import * as RunStore from "../../src/store/RunStore.ts"
import { inMemory, onTestClock, run } from "./support.ts"

const settings: ReadonlyArray<Catalogue.Settings> = (["informative", "generic", "fatal"] as const).flatMap(
  (toolErrors) =>
    (["stop", "continue"] as const).flatMap((permanent) =>
      (["off", "read-only", "all"] as const).flatMap((dedupe) =>
        (["on", "off"] as const).map((repetition) => ({ toolErrors, permanent, dedupe, repetition }))
      )
    )
)

describe("run ids", () => {
  it.effect("say which scenario and which settings a run has, whatever they are", () =>
    Effect.gen(function* () {
      for (const name of Catalogue.names) {
        for (const some of settings) {
          const runId = yield* Scenario.newRunId(name, some)
          assert.deepStrictEqual(Scenario.fromRunId(runId), {
            name,
            settings: some
          })
        }
      }
    })
  )

  it("of other runs are not mistaken for the demo's", () => {
    for (const runId of [
      "plan",
      "demo-nothing-12345678",
      "demo-plan",
      "demo-toString-12345678",
      "x-demo-plan-12345678"
    ]) {
      assert.isUndefined(Scenario.fromRunId(runId))
      assert.isUndefined(Scenario.agentFor(runId))
    }
  })
})

describe("a stored run", () => {
  const agentOf = (runId: string) => Effect.fromNullishOr(Scenario.agentFor(runId))

  it.effect("is taken up by the agent that its id names, after a decision", () =>
    inMemory(
      Effect.gen(function* () {
        const { runId } = yield* Demo.run("destructive")
        const agent = yield* agentOf(runId)
        const again = yield* Effect.flip(Agent.resume(agent, runId))
        assert.strictEqual(again._tag, "ApprovalRequired")
        yield* Agent.decide({ runId, callId: "c2" }, Agent.approve())
        const { output, run } = yield* Agent.resume(agent, runId)
        assert.strictEqual(output, "Deleted access.log to free space.")
        assert.strictEqual(run.turns, 3)
        const { events } = yield* RunStore.load(runId)
        assert.deepStrictEqual(Fixture.restore(events).deleted, ["access.log"])
      })
    )
  )

  it.effect("goes on with the settings that it was started with", () =>
    inMemory(
      Effect.gen(function* () {
        const { runId } = yield* Demo.run("denied", {
          permanent: "continue",
          limits: { turns: 2 }
        })
        const exit = yield* Effect.flip(Agent.resume(yield* agentOf(runId), runId, { limits: { turns: 4 } }))
        assert.strictEqual(exit._tag, "MaxTurnsExceeded")
      })
    )
  )

  it.effect("goes on in the world as it left it: a second deletion is counted with the first", () =>
    inMemory(
      Effect.gen(function* () {
        const { runId } = yield* Demo.run("double-delete", { dedupe: "all" })
        const agent = yield* agentOf(runId)
        yield* Agent.decide({ runId, callId: "c1" }, Agent.approve())
        const second = yield* Effect.flip(Agent.resume(agent, runId))
        assert.strictEqual(second._tag, "ApprovalRequired")
        yield* Agent.decide({ runId, callId: "c2" }, Agent.approve())
        yield* Agent.resume(agent, runId)
        // `all` never forgets, not even across processes: the second call was answered from the first.
        const stored = yield* RunStore.load(runId)
        assert.deepStrictEqual(Demo.resultOf("double-delete", stored).deleted, ["access.log"])
        assert.deepStrictEqual(Demo.toolsStarted(stored.events), ["delete_file"])
      })
    )
  )
})

describe("the slow tool", () => {
  it.effect("says how far it has come, every half second", () =>
    Effect.gen(function* () {
      const trace = RunTrace.memory()
      yield* onTestClock(Effect.provideService(run("slow"), RunTrace.RunTrace, trace), 500)
      const labels = trace.events.flatMap((event) => (event.type === "tool_progress" ? [event.label] : []))
      assert.deepStrictEqual(
        labels,
        [200, 400, 600, 800, 1000, 1200].map((done) => `scanned ${done} of 1200 files`)
      )
    })
  )
})

describe("the moment after a turn's tools", () => {
  it.effect("comes when their results are stored and before the model is asked again", () =>
    Effect.gen(function* () {
      const trace = RunTrace.memory()
      const moments: Array<ReadonlyArray<string>> = []
      const call = () => void moments.push(trace.events.map((event) => event.type))
      yield* Effect.provideService(run("plan", { afterTools: { turn: 2, call } }), RunTrace.RunTrace, trace)
      const [before = [], ...more] = moments
      assert.isEmpty(more)
      assert.strictEqual(before.filter((type) => type === "turn").length, 2)
      assert.strictEqual(before.filter((type) => type === "turn_started").length, 2)
      assert.strictEqual(before.filter((type) => type === "tool_result").length, 2)
      assert.strictEqual(before.at(-1), "tool_result")
    })
  )

  it.effect("does not come for a turn without tools", () =>
    Effect.gen(function* () {
      let called = 0
      yield* run("plan", {
        afterTools: { turn: 3, call: () => void called++ }
      })
      assert.strictEqual(called, 0)
    })
  )
})
