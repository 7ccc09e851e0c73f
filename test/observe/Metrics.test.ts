import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Metrics from "../../src/observe/Metrics.ts"
import type { Estimate, LiveEvent } from "../../src/run/RunEvent.ts"
import { samples } from "./events.ts"

const isTool = (name: string) => !name.startsWith("made_up")

/** What the registry holds after these events, as `id{attributes}` and the count, or the count and sum of times. */
const counting = (events: ReadonlyArray<readonly [agent: string, event: LiveEvent]>, left?: Estimate) =>
  Effect.gen(function* () {
    const context = yield* Effect.context<never>()
    const recorders = new Map<string, (event: LiveEvent) => void>()
    for (const [agent, event] of events) {
      const record = recorders.get(agent) ?? Metrics.recorder(agent, context, isTool, left)
      recorders.set(agent, record)
      record(event)
    }
    const out: Record<string, number | { readonly count: number; readonly sum: number }> = {}
    for (const { attributes, id, state, type } of yield* Metric.snapshot) {
      const key = `${id}{${Object.entries(attributes ?? {}).map(([name, value]) => `${name}=${value}`)}}`
      if (type === "Counter") out[key] = Number(state.count)
      else if (type === "Histogram") out[key] = { count: state.count, sum: state.sum }
    }
    return out
  }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))

const { handoff, run_resumed, run_stopped, tool_result, turn, turn_failed, turn_started } = samples

describe("Metrics", () => {
  it.effect("counts turns, tokens, money, failures and time by agent", () =>
    Effect.gen(function* () {
      const counted = yield* counting([
        ["a", turn],
        ["a", turn],
        ["b", turn],
        ["a", turn_failed]
      ])
      assert.deepStrictEqual(counted, {
        "checkrein.turns{agent=a}": 2,
        "checkrein.turn.ms{agent=a}": { count: 2, sum: 25 },
        "checkrein.tokens{agent=a,type=prompt}": 418,
        "checkrein.tokens{agent=a,type=completion}": 47,
        "checkrein.cost.usd{agent=a}": 0.0022,
        "checkrein.turns{agent=b}": 1,
        "checkrein.turn.ms{agent=b}": { count: 1, sum: 12.5 },
        "checkrein.tokens{agent=b,type=prompt}": 204,
        "checkrein.tokens{agent=b,type=completion}": 23,
        "checkrein.cost.usd{agent=b}": 0.0001,
        "checkrein.turn.failures{agent=a,reason=RateLimitError}": 1
      })
    })
  )

  describe("a model call that never came back", () => {
    const estimate = { usage: { promptTokens: 50, completionTokens: 5 }, costUsd: 0.002 }
    const claimed = { ...turn_started, estimate }
    const { costUsd, usage } = estimate
    const lost = {
      "checkrein.turns{agent=a}": 1,
      "checkrein.tokens{agent=a,type=prompt}": usage.promptTokens,
      "checkrein.tokens{agent=a,type=completion}": usage.completionTokens,
      "checkrein.cost.usd{agent=a}": costUsd
    }
    const of = (counted: Record<string, unknown>) =>
      Object.fromEntries(Object.entries(counted).filter(([key]) => !key.startsWith("checkrein.exits")))

    for (const end of [run_stopped, handoff, run_resumed]) {
      it.effect(`is counted at its estimate, once, with ${end.type}`, () =>
        Effect.gen(function* () {
          const counted = yield* counting([
            ["a", claimed],
            ["a", end],
            ["a", run_resumed]
          ])
          assert.deepStrictEqual(of(counted), lost)
        })
      )
    }

    it.effect("is counted by the driver that takes the run up", () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(of(yield* counting([["a", run_resumed]], estimate)), lost)
      })
    )

    it.effect("is none that came back, or has failed", () =>
      Effect.gen(function* () {
        for (const came of [turn, turn_failed]) {
          const without = yield* counting([["a", came]])
          const counted = yield* counting([
            ["a", claimed],
            ["a", came],
            ["a", run_stopped]
          ])
          assert.deepStrictEqual(of(counted), without)
        }
      })
    )
  })

  it.effect("counts settled calls, and the time of those that were executed, by tool and success", () =>
    Effect.gen(function* () {
      const counted = yield* counting([
        ["a", tool_result],
        ["a", { ...tool_result, ok: false, ms: 30 }],
        ["a", { ...tool_result, disposition: "cached", ms: 0 }],
        ["a", { ...tool_result, tool: "delete_file", ok: false, disposition: "rejected", ms: 0 }]
      ])
      assert.deepStrictEqual(counted, {
        "checkrein.tool.calls{agent=a,tool=list_files,ok=true,disposition=executed}": 1,
        "checkrein.tool.calls{agent=a,tool=list_files,ok=false,disposition=executed}": 1,
        "checkrein.tool.calls{agent=a,tool=list_files,ok=true,disposition=cached}": 1,
        "checkrein.tool.calls{agent=a,tool=delete_file,ok=false,disposition=rejected}": 1,
        "checkrein.tool.ms{agent=a,tool=list_files,ok=true}": { count: 1, sum: 1.2 },
        "checkrein.tool.ms{agent=a,tool=list_files,ok=false}": { count: 1, sum: 30 }
      })
    })
  )

  it.effect("counts exits by status and reason", () =>
    Effect.gen(function* () {
      const completed = { ...run_stopped, status: "completed", reason: "answered" } as const
      const counted = yield* counting([
        ["a", run_stopped],
        ["a", completed],
        ["a", completed]
      ])
      assert.deepStrictEqual(counted, {
        "checkrein.exits{agent=a,status=interrupted,reason=approval}": 1,
        "checkrein.exits{agent=a,status=completed,reason=answered}": 2
      })
    })
  )

  it.effect("counts nothing for the other events, and a child's cost not twice", () =>
    Effect.gen(function* () {
      const {
        turn: _1,
        turn_failed: _2,
        tool_result: _3,
        run_stopped: _4,
        turn_started: _5,
        ...rest
      } = samples
      assert.deepStrictEqual(yield* counting(Object.values(rest).map((event) => ["a", event])), {})
      const counted = yield* counting([["a", { ...tool_result, tool: "list_files", childCostUsd: 5 }]])
      assert.notProperty(counted, "checkrein.cost.usd{agent=a}")
    })
  )

  it.effect("puts tools that a model made up, and too many of anything, into one series", () =>
    Effect.gen(function* () {
      const madeUp = Array.from(
        { length: 1000 },
        (_, i) => ["m", { ...tool_result, tool: `made_up_${i}`, ms: 2 }] as const
      )
      const counted = yield* counting(madeUp)
      assert.deepStrictEqual(counted, {
        "checkrein.tool.calls{agent=m,tool=other,ok=true,disposition=executed}": 1000,
        "checkrein.tool.ms{agent=m,tool=other,ok=true}": { count: 1000, sum: 2000 }
      })
      const many = yield* counting(
        Array.from({ length: 1000 }, (_, i) => ["n", { ...turn_failed, reason: `reason ${i}` }] as const)
      )
      const failures = Object.keys(many).filter((key) => key.startsWith("checkrein.turn.failures"))
      assert.strictEqual(failures.length, 65)
      assert.strictEqual(many["checkrein.turn.failures{agent=n,reason=other}"], 936)
    })
  )

  it.effect("writes to the registry of the run, whichever run came first", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* counting([["a", turn]]))["checkrein.turns{agent=a}"], 1)
      assert.strictEqual((yield* counting([["a", turn]]))["checkrein.turns{agent=a}"], 1)
    })
  )
})
