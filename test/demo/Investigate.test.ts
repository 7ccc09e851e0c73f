/** The scenario `investigate`: an agent that runs out of tool calls, and what it hands over. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/Agent.ts"
import * as Demo from "../../src/demo/Demo.ts"
import * as ExportTest from "../../src/demo/ExportTest.ts"
import * as ExportTree from "../../src/demo/ExportTree.ts"
import * as Scenario from "../../src/demo/Scenario.ts"
import * as RunStore from "../../src/store/RunStore.ts"
import { inMemory, onTestClock, providers } from "./support.ts"

const paths = [...ExportTree.files.keys()]
const result = ExportTest.inWords(ExportTest.run(ExportTree.files, ExportTree.test))

describe("the sources", () => {
  it("lose the last order, and say so when their own test runs them", () => {
    assert.strictEqual(result, "1 of 4 tests failed: writes every order: 1 of 7 orders are missing: 1007")
  })

  it("pass their test once the fault is put right: what it says is what they do", () => {
    const pages = ExportTree.files.get("src/pages.js") ?? ""
    const fixed = new Map(ExportTree.files).set(
      "src/pages.js",
      pages.replace("from + size <= rows", "from < rows")
    )
    assert.strictEqual(ExportTest.inWords(ExportTest.run(fixed, ExportTree.test)), "all 4 tests passed")
  })

  it("fail otherwise where they are broken otherwise", () => {
    const broken = new Map(ExportTree.files).set(
      "src/csv.js",
      "exports.toLine = (fields) => fields.join(';')"
    )
    const { failed } = ExportTest.run(broken, ExportTree.test)
    assert.deepStrictEqual(
      failed.map(({ name }) => name),
      [
        "begins with a header",
        "writes amounts with two decimals",
        "quotes a customer with a comma in the name",
        "writes every order"
      ]
    )
  })
})

const onClock = {
  "in-process": <A, E>(run: Effect.Effect<A, E>) => onTestClock(run, 100),
  http: <A, E>(run: Effect.Effect<A, E>) => run
}

for (const { provider, test } of providers) {
  describe(`investigate, ${provider}`, () => {
    test("uses up its twelve tool calls, and hands over the nine files and the test's real result", () =>
      onClock[provider](
        inMemory(
          Effect.gen(function* () {
            const { handoff, ...ended } = yield* Demo.run("investigate", { provider })
            assert.deepInclude(ended, {
              status: "budget_exceeded",
              reason: "max_budget",
              turns: 12,
              toolRuns: 12,
              answer: "",
              deleted: []
            })
            assert.deepInclude(handoff, {
              status: "budget_exceeded",
              exhausted: { resource: "tool_calls", used: 12, limit: 12 }
            })
            assert.deepStrictEqual(
              handoff?.files.map(({ name }) => name),
              paths
            )
            assert.strictEqual(new Set(handoff?.files.map(({ digest }) => digest)).size, 9)
            assert.deepStrictEqual(
              handoff?.commands.map(({ outcome }) => outcome),
              [result]
            )
            assert.deepInclude(handoff?.endedOperations[0], { outcome: "failed", detail: result })
            assert.isEmpty(handoff?.operations)
            assert.strictEqual(handoff?.contract?.lacks, "no valid result was submitted with submit_result")
            assert.include(handoff?.changes.at(-1)?.saw, "note saved: Reproduced: 1 of 4 tests failed")

            const { events } = yield* RunStore.load(ended.runId)
            const started = events.filter((event) => event.type === "tool_start")
            assert.deepStrictEqual(
              started.map(({ purpose, tool }) => [tool, purpose]),
              [
                ...paths.map(() => ["read_source", "investigate"]),
                ["start_test", "investigate"],
                ["observe_test", "handoff"],
                ["save_handoff", "handoff"]
              ]
            )
            // Ten calls were investigation's; what it might have spent of the reserve it did not even ask for.
            assert.strictEqual(events.filter((event) => event.type === "handoff").length, 1)
            assert.deepInclude(events.at(-1), { type: "run_stopped", status: "budget_exceeded" })
          })
        )
      ))
  })
}

describe("investigate, taken up again", () => {
  const resume = (runId: string, limits: Agent.ResumeOptions["limits"]) =>
    Effect.flatMap(Effect.fromNullishOr(Scenario.agentFor(runId)), (agent) =>
      Agent.resume(agent, runId, { limits })
    )

  it.effect("with more room, it looks once more and submits what was asked for", () =>
    onTestClock(
      inMemory(
        Effect.gen(function* () {
          const { runId } = yield* Demo.run("investigate")
          const { output, run } = yield* resume(runId, { toolCalls: 24 })
          assert.deepStrictEqual(output, {
            reproduced: result,
            codePath: "src/export.js (exportOrders) → src/pages.js (pagesOf): from + size <= rows",
            explanation: "the last page is left out if it is not full"
          })
          assert.deepInclude(run, { turns: 14, toolCalls: 13, reason: "submitted" })
        })
      ),
      100
    )
  )

  it.effect("by another process, the test that was started goes on", () =>
    onTestClock(
      inMemory(
        Effect.gen(function* () {
          const { handoff, runId } = yield* Demo.run("investigate", { limits: { turns: 10 } })
          // The call of the tenth turn waits for more turns, so that nothing goes on yet.
          assert.deepStrictEqual(
            handoff?.waiting.calls.map(({ tool }) => tool),
            ["start_test"]
          )
          const started = yield* Effect.flip(resume(runId, { turns: 11, toolCalls: 24 }))
          assert.strictEqual(started._tag, "MaxTurnsExceeded")
          const { state } = yield* RunStore.load(runId)
          assert.deepInclude(state.operations[0], { operationId: "test-1", handling: "detached" })
          const { output } = yield* resume(runId, { turns: 20 })
          assert.deepInclude(output, { reproduced: result })
        })
      ),
      100
    )
  )

  it.effect(
    "after fewer calls than it needs, it has handed over what there was, and goes on from there",
    () =>
      onTestClock(
        inMemory(
          Effect.gen(function* () {
            const { handoff, runId, ...ended } = yield* Demo.run("investigate", { limits: { toolCalls: 6 } })
            assert.deepInclude(ended, { status: "budget_exceeded", toolRuns: 5, turns: 7 })
            assert.deepStrictEqual(
              handoff?.files.map(({ name }) => name),
              paths.slice(0, 4)
            )
            assert.include(handoff?.summary, "nothing is reproduced yet")
            assert.isEmpty(handoff?.commands)
            const { output } = yield* resume(runId, { toolCalls: 24 })
            assert.deepInclude(output, { reproduced: result })
          })
        ),
        100
      )
  )

  it.effect("without a reserve, it never gets to the test's result, and says nothing of it", () =>
    onTestClock(
      inMemory(
        Effect.gen(function* () {
          const { handoff, ...ended } = yield* Demo.run("investigate", {
            limits: { toolCalls: 10, reserve: { toolCalls: 0 } }
          })
          assert.deepInclude(ended, { status: "budget_exceeded", toolRuns: 10, answer: "" })
          assert.isEmpty(handoff?.commands)
          assert.deepInclude(handoff?.operations[0], { operationId: "test-1", handling: "detached" })
        })
      ),
      100
    )
  )
})
