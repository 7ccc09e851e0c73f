/** Every row of the published figures, on the real loop, in-process and over HTTP, to the token. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fixture from "../../src/demo/Fixture.ts"
import * as LogTools from "../../src/demo/LogTools.ts"
import * as Scripts from "../../src/demo/Scripts.ts"
import * as Script from "../../src/provider/Script.ts"
import * as Tokens from "../../src/provider/Tokens.ts"
import * as Wire from "../../src/provider/Wire.ts"
import { plan } from "./plan.ts"
import { onTestClock, providers, run } from "./support.ts"

const unlimited = Number.POSITIVE_INFINITY

/** A ratio as the figures state it. */
const ratio = (a: number, b: number): number => Math.round((10 * a) / b) / 10

describe("the fixture", () => {
  it.effect(
    "counts 204 prompt tokens in the first request, and ends its task with a full stop or question mark",
    () =>
      Effect.gen(function* () {
        const tools = Object.values(LogTools.toolkit.tools)
        const messages: ReadonlyArray<Wire.Message> = [
          { role: "system", content: LogTools.instructions },
          { role: "user", content: LogTools.task }
        ]
        assert.strictEqual(yield* Tokens.countWireRequest(messages, Wire.tools(tools)), 204)
        assert.match(LogTools.task, /[.?]$/)
        assert.deepStrictEqual(
          tools.map((tool) => tool.name),
          ["list_files", "read_file", "delete_file", "scan_archive"]
        )
      })
  )

  it("has three files, of which errors.log is the largest", () => {
    const { files } = Fixture.make()
    assert.deepStrictEqual([...files.keys()], ["access.log", "errors.log", "notes.txt"])
    const [largest] = [...files].sort(([, a], [, b]) => b.length - a.length)
    assert.deepStrictEqual(largest, ["errors.log", "ERROR timeout: worker 7 timed out after 30000 ms\n"])
  })
})

for (const { provider, test } of providers) {
  const go = (...[name, options]: Parameters<typeof run>) => run(name, { provider, ...options })

  describe(`figures, ${provider}`, () => {
    test("plan, cap 20", () =>
      Effect.gen(function* () {
        const { detail, ms, runId, ...result } = yield* go("plan", {
          limits: { turns: 20 }
        })
        assert.match(runId, /^demo-plan-[0-9a-f]{8}$/)
        assert.isAtLeast(ms, 0)
        assert.isNotEmpty(detail)
        assert.deepStrictEqual(result, plan)
      }))

    test("runaway, caps 8, 20, 50 and 100", () =>
      Effect.gen(function* () {
        const capped = (turns: number) => go("runaway", { limits: { turns } })
        const [at8, at20, at50, at100] = yield* Effect.all([capped(8), capped(20), capped(50), capped(100)])
        assert.strictEqual(at8.promptTokens, 3_431)
        assert.strictEqual(at20.costUsd, 0.038038)
        assert.strictEqual(at20.toolRuns, 19)
        assert.strictEqual(at50.promptTokens, 88_649)
        assert.strictEqual(at100.promptTokens, 337_299)
        assert.strictEqual(ratio(at100.promptTokens, at50.promptTokens), 3.8)
        assert.strictEqual(ratio(at100.costUsd, at50.costUsd), 3.7)
        for (const result of [at8, at20, at50, at100]) {
          assert.strictEqual(result.status, "max_turns_exceeded")
          assert.strictEqual(result.reason, "max_turns")
          assert.strictEqual(result.toolRuns, result.turns - 1)
          assert.strictEqual(result.answer, "")
        }
      }))

    test("runaway, no cap, budget $0.010", () =>
      Effect.gen(function* () {
        const result = yield* go("runaway", {
          limits: { turns: unlimited, usd: 0.01 }
        })
        assert.strictEqual(result.costUsd, 0.01078)
        assert.strictEqual(result.status, "budget_exceeded")
        assert.strictEqual(result.reason, "max_budget")
        assert.isBelow(result.costUsd - 0.01, result.perTurn.at(-1)?.costUsd ?? 0)
      }))

    test("recover: errors fatal, generic, informative; denied, cap 12, permanent failures not stopping", () =>
      Effect.gen(function* () {
        const fatal = yield* go("recover", { toolErrors: "fatal" })
        const generic = yield* go("recover", { toolErrors: "generic" })
        const informative = yield* go("recover", { toolErrors: "informative" })
        assert.deepStrictEqual([fatal.status, fatal.reason, fatal.answer], ["failed", "tool_fatal", ""])
        assert.strictEqual(generic.answer, "I could not read the file, so I do not know.")
        assert.strictEqual(informative.answer, "errors.log mentions a timeout.")
        assert.strictEqual(ratio(informative.costUsd, fatal.costUsd), 4.7)

        const denied = yield* go("denied", {
          limits: { turns: 12 },
          permanent: "continue"
        })
        assert.deepInclude(denied, {
          turns: 12,
          toolRuns: 11,
          promptTokens: 7_079,
          costUsd: 0.018622,
          status: "max_turns_exceeded",
          answer: ""
        })
        assert.strictEqual(ratio(denied.costUsd, informative.costUsd), 5.2)
      }))

    test("denied, default policy", () =>
      Effect.gen(function* () {
        const result = yield* go("denied")
        assert.deepInclude(result, {
          status: "failed",
          reason: "tool_permanent",
          toolRuns: 1,
          answer: ""
        })
        assert.include(result.detail, "permission denied: private/audit.log")
      }))

    test("repeat against repeat-baseline, and cached", () =>
      Effect.gen(function* () {
        const twice = yield* go("repeat")
        const once = yield* go("repeat-baseline")
        const cached = yield* go("repeat", { dedupe: "read-only" })
        assert.closeTo(twice.costUsd - once.costUsd, 0.00105, 1e-12)
        assert.strictEqual(Math.round((100 * (twice.costUsd - once.costUsd)) / once.costUsd), 75)
        assert.strictEqual(cached.costUsd, twice.costUsd)
        assert.deepStrictEqual([twice.toolRuns, cached.toolRuns], [2, 1])
      }))

    test("double-delete, dedupe on every tool and on read-only tools", () =>
      Effect.gen(function* () {
        const all = yield* go("double-delete", {
          approve: "all",
          dedupe: "all"
        })
        assert.deepInclude(all, {
          turns: 3,
          toolRuns: 1,
          deleted: ["access.log"],
          status: "completed"
        })
        const reads = yield* go("double-delete", {
          approve: "all",
          dedupe: "read-only"
        })
        assert.deepInclude(reads, {
          turns: 3,
          toolRuns: 2,
          deleted: ["access.log", "access.log"]
        })
      }))

    test("destructive: waits, approved, rejected with and without a reason", () =>
      Effect.gen(function* () {
        const waits = yield* go("destructive")
        assert.deepInclude(waits, {
          turns: 2,
          status: "interrupted",
          reason: "approval",
          costUsd: 0.00157,
          deleted: [],
          answer: ""
        })
        const approved = yield* go("destructive", { approve: "all" })
        assert.deepInclude(approved, {
          turns: 3,
          status: "completed",
          deleted: ["access.log"]
        })
        assert.strictEqual(approved.answer, "Deleted access.log to free space.")
        for (const reason of [undefined, "keep the logs"]) {
          const rejected = yield* go("destructive", {
            approve: "reject",
            reason
          })
          assert.deepInclude(rejected, {
            turns: 3,
            status: "completed",
            deleted: []
          })
          assert.strictEqual(rejected.answer, "I did not delete anything: you declined the deletion.")
        }
      }))
  })
}

describe("figures that take time, in-process on the TestClock", () => {
  it.effect("slow, Stop pressed at 1.2 s", () =>
    Effect.gen(function* () {
      const result = yield* onTestClock(run("slow", { stopAfter: "1200 millis" }), 100)
      assert.deepInclude(result, {
        status: "interrupted",
        reason: "cancelled",
        detail: "user pressed Stop",
        ms: 1_200
      })
    })
  )

  it.effect("slow, without Stop", () =>
    Effect.gen(function* () {
      const result = yield* onTestClock(run("slow"), 100)
      assert.deepInclude(result, { status: "completed", ms: 3_000 })
    })
  )

  for (const latency of [0, 100, 500, 2_000]) {
    it.effect(`plan at a latency of ${latency} ms`, () =>
      Effect.gen(function* () {
        const result = yield* onTestClock(run("plan", { latency }), Math.max(latency, 1))
        assert.strictEqual(result.ms, 3 * latency)
        assert.strictEqual(result.costUsd, 0.00247)
      })
    )
  }
})

describe.concurrent("figures that take time, over HTTP", () => {
  // A machine that is busy is late; what must not happen is that Stop waits for the tool or the model.
  const slack = 600

  it.live("slow, Stop pressed at 1.2 s", () =>
    Effect.gen(function* () {
      const result = yield* run("slow", {
        provider: "http",
        stopAfter: "1200 millis"
      })
      assert.deepInclude(result, {
        status: "interrupted",
        reason: "cancelled",
        detail: "user pressed Stop"
      })
      assert.isAtLeast(result.ms, 1_190)
      assert.isBelow(result.ms, 1_200 + slack)
    })
  )

  it.live("slow, without Stop", () =>
    Effect.gen(function* () {
      const result = yield* run("slow", { provider: "http" })
      assert.strictEqual(result.status, "completed")
      assert.isAtLeast(result.ms, 2_990)
      assert.isBelow(result.ms, 3_000 + slack)
    })
  )

  for (const latency of [0, 100, 500, 2_000]) {
    it.live(`plan at a latency of ${latency} ms`, () =>
      Effect.gen(function* () {
        const result = yield* run("plan", { provider: "http", latency })
        assert.isAtLeast(result.ms, 3 * latency - 10)
        assert.isBelow(result.ms, 3 * latency + slack)
        assert.strictEqual(result.costUsd, 0.00247)
      })
    )
  }
})

describe("the script alone", () => {
  it("believes that it deleted when it is told nothing", () => {
    const told = (content: string) =>
      Scripts.destructive.reply(
        2,
        Script.transcript(
          2,
          () => [{ role: "tool", tool_call_id: "c2", content }],
          () => []
        )
      )
    assert.deepInclude(told(""), { text: "Deleted access.log to free space." })
    assert.deepInclude(told("Declined: it did not run."), {
      text: "I did not delete anything: you declined the deletion."
    })
  })
})
