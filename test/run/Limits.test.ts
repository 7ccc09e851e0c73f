import { describe, expect, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Limits from "../../src/run/Limits.ts"

const limits: Limits.Limits = { toolCalls: 12, timeMs: 600_000, reserve: { toolCalls: 2, timeMs: 30_000 } }

const claim = (toolCalls: number, purpose: Limits.Purpose, seconds: number, of: Limits.Limits = limits) =>
  Result.match(Limits.claim(of, { toolCalls, timeMs: seconds * 1000 }, purpose), {
    onSuccess: (count): number | string => count,
    onFailure: (refused) => ("exhausted" in refused ? `refused: ${refused.exhausted.resource}` : refused)
  })

const natural = (maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum })))
const purposes = Arbitrary.schema(Limits.Purpose)
const many = { arbitrary: { runs: 500, size: 100 } }

describe("claim: twelve calls with a reserve of two, ten minutes with a reserve of 30 s", () => {
  it.each([
    [9, "investigate", 100, 10],
    [10, "investigate", 100, "refused: tool_calls"],
    [10, "handoff", 580, 11],
    [11, "handoff", 590, 12],
    [12, "handoff", 599, "refused: tool_calls"],
    [2, "investigate", 569.9, 3],
    [2, "investigate", 570, "refused: time"],
    [0, "investigate", 600, "refused: time"],
    [0, "handoff", 600, "refused: time"],
    [11, "handoff", 599.999, 12],
    [0, "investigate", 0, 1]
  ] as const)("%s used, %s, at %s s: %s", (used, purpose, seconds, expected) => {
    expect(claim(used, purpose, seconds)).toBe(expected)
  })

  it("more used than the limit, spend over or a limit that was lowered, is refused", () => {
    expect(claim(13, "handoff", 0)).toBe("refused: tool_calls")
    expect(claim(500, "investigate", 0)).toBe("refused: tool_calls")
    expect(claim(0, "handoff", 10_000)).toBe("refused: time")
  })

  it("without limits nothing is refused, and turns, money and tokens are not a tool call's business", () => {
    expect(claim(1_000_000, "investigate", 1e9, {})).toBe(1_000_001)
    expect(claim(0, "investigate", 0, { turns: 0, usd: 0, tokens: 0 })).toBe(1)
  })

  it("a refusal says which resource was short, how much of it was used, and for what it was claimed", () => {
    const refused = Limits.claim(limits, { toolCalls: 10, timeMs: 0 }, "investigate")
    expect(refused).toMatchObject({
      _tag: "Failure",
      failure: {
        _tag: "ClaimRefused",
        purpose: "investigate",
        exhausted: { resource: "tool_calls", used: 10, limit: 12 }
      }
    })
  })

  it.prop(
    "over the whole space: granted exactly while there is room for this purpose, and then one more than before",
    {
      limit: natural(20),
      reserve: natural(20),
      used: natural(25),
      deadline: natural(50),
      kept: natural(50),
      now: natural(60),
      purpose: purposes
    },
    ({ deadline, kept, limit, now, purpose, reserve, used }) => {
      const of = {
        toolCalls: limit,
        timeMs: deadline,
        reserve: { toolCalls: Math.min(reserve, limit), timeMs: Math.min(kept, deadline) }
      }
      const callsLeft = limit - (purpose === "investigate" ? of.reserve.toolCalls : 0) - used
      const timeLeft = deadline - (purpose === "investigate" ? of.reserve.timeMs : 0) - now
      const granted = Limits.claim(of, { toolCalls: used, timeMs: now }, purpose)
      expect(Result.isSuccess(granted)).toBe(callsLeft > 0 && timeLeft > 0)
      if (Result.isSuccess(granted)) {
        expect(granted.success).toBe(used + 1)
        expect(granted.success).toBeLessThanOrEqual(limit)
      }
    },
    many
  )

  it.prop(
    "made one after another, exactly as many are granted as there are calls, the reserve for handoff alone",
    { limit: natural(30), reserve: natural(30) },
    ({ limit, reserve }) => {
      const of = { toolCalls: limit, reserve: { toolCalls: Math.min(reserve, limit) } }
      let used = 0
      const run = (purpose: Limits.Purpose) => {
        let granted = 0
        for (let attempt = 0; attempt < 40; attempt++) {
          const one = Limits.claim(of, { toolCalls: used, timeMs: 0 }, purpose)
          if (Result.isFailure(one)) continue
          used = one.success
          granted++
        }
        return granted
      }
      expect(run("investigate")).toBe(limit - of.reserve.toolCalls)
      expect(run("handoff")).toBe(of.reserve.toolCalls)
      expect(run("handoff")).toBe(0)
    },
    { arbitrary: { runs: 100, size: 100 } }
  )

  it.each([
    ["a negative count", { toolCalls: -1, timeMs: 0 }],
    ["a fraction of a call", { toolCalls: 1.5, timeMs: 0 }],
    ["a count that is no number", { toolCalls: Number.NaN, timeMs: 0 }],
    ["a reading of NaN", { toolCalls: 0, timeMs: Number.NaN }],
    ["a reading of Infinity", { toolCalls: 0, timeMs: Number.POSITIVE_INFINITY }],
    ["a reading of -Infinity", { toolCalls: 0, timeMs: Number.NEGATIVE_INFINITY }]
  ])("%s is InvalidClaim, with limits and without", (_, used) => {
    expect(Limits.claim(limits, used, "handoff")).toMatchObject({
      _tag: "Failure",
      failure: { _tag: "InvalidClaim" }
    })
    expect(Limits.claim({}, used, "handoff")).toMatchObject({
      _tag: "Failure",
      failure: { _tag: "InvalidClaim" }
    })
  })

  it("an unknown purpose is InvalidClaim, and never gets at the reserve", () => {
    const purpose = "curiosity" as Limits.Purpose
    for (const toolCalls of [0, 10]) {
      const claimed = Limits.claim(limits, { toolCalls, timeMs: 0 }, purpose)
      expect(claimed).toMatchObject({ _tag: "Failure", failure: { _tag: "InvalidClaim" } })
    }
  })
})

describe("exhausted", () => {
  const used = (more: Partial<Limits.Used>): Limits.Used => ({
    turns: 0,
    usd: 0,
    tokens: 0,
    toolCalls: 0,
    timeMs: 0,
    ...more
  })
  const resource = (of: Limits.Limits, more: Partial<Limits.Used>, purpose: Limits.Purpose = "handoff") =>
    Limits.exhausted(of, used(more), purpose)?.resource

  it.each([
    ["turns", { turns: 3 }, "turns", 1],
    ["usd", { usd: 0.05 }, "usd", 0.000000001],
    ["tokens", { tokens: 1000 }, "tokens", 1],
    ["time", { timeMs: 600_000 }, "timeMs", 0.1]
  ] as const)("%s: reached at the limit and past it, not just below", (name, of, key, least) => {
    const limit = Object.values(of)[0]!
    expect(resource(of, { [key]: limit - least })).toBeUndefined()
    expect(resource(of, { [key]: limit })).toBe(name)
    expect(resource(of, { [key]: limit + least })).toBe(name)
  })

  it("tool calls count only where they have a reserve: without one the model may still answer", () => {
    expect(resource({ toolCalls: 2 }, { toolCalls: 2 })).toBeUndefined()
    expect(resource({ toolCalls: 2, reserve: { turns: 1 } }, { toolCalls: 2 })).toBeUndefined()
    const reserved = { toolCalls: 2, reserve: { toolCalls: 1 } }
    expect(resource(reserved, { toolCalls: 1 }, "investigate")).toBe("tool_calls")
    expect(resource(reserved, { toolCalls: 1 }, "handoff")).toBeUndefined()
    expect(resource(reserved, { toolCalls: 2 }, "handoff")).toBe("tool_calls")
  })

  it("the first of several is named, in the order turns, usd, tokens, time, tool calls", () => {
    const all = { turns: 1, usd: 1, tokens: 1, timeMs: 1, toolCalls: 1, reserve: { toolCalls: 0 } }
    const everything = { turns: 1, usd: 1, tokens: 1, timeMs: 1, toolCalls: 1 }
    const names: Array<string | undefined> = []
    for (const free of ["turns", "usd", "tokens", "timeMs", "toolCalls"] as const) {
      names.push(resource(all, everything))
      everything[free] = 0
    }
    expect(names).toEqual(["turns", "usd", "tokens", "time", "tool_calls"])
    expect(resource(all, everything)).toBeUndefined()
  })

  it("says what was used and what the limit is, the reserve included", () => {
    const of = { usd: 0.05, reserve: { usd: 0.01 } }
    expect(Limits.exhausted(of, used({ usd: 0.045 }), "investigate")).toEqual({
      resource: "usd",
      used: 0.045,
      limit: 0.05
    })
  })

  it.prop(
    "a reserve of money begins at the very nano-dollar, without floating-point dust",
    { limit: natural(5_000_000), reserve: natural(5_000_000) },
    ({ limit, reserve }) => {
      const kept = Math.min(limit, reserve)
      const of = { usd: limit / 1e6, reserve: { usd: kept / 1e6 } }
      const boundary = (limit - kept) * 1000
      expect(resource(of, { usd: boundary / 1e9 }, "investigate")).toBe("usd")
      if (boundary > 0) expect(resource(of, { usd: (boundary - 1) / 1e9 }, "investigate")).toBeUndefined()
    },
    many
  )
})

describe("hold", () => {
  const nothing = { turns: 0, usd: 0, tokens: 0, toolCalls: 0, timeMs: 0 }
  const fits =
    (of: Limits.Limits, used: Partial<Limits.Used>, usd: number, tokens: number) =>
    (purpose: Limits.Purpose) =>
      Result.isSuccess(Limits.hold(of, { ...nothing, ...used }, { usd, tokens }, purpose))

  it("what fits exactly fits, in money and in tokens, and a reserve is for handoff alone", () => {
    const of = { usd: 0.8, tokens: 1_000, reserve: { usd: 0.1, tokens: 100 } }
    expect(fits(of, { usd: 0.5 }, 0.2, 0)("investigate")).toBe(true)
    expect(fits(of, { usd: 0.5 }, 0.200000001, 0)("investigate")).toBe(false)
    expect(fits(of, { usd: 0.5 }, 0.3, 0)("handoff")).toBe(true)
    expect(fits(of, { usd: 0.5 }, 0.300000001, 0)("handoff")).toBe(false)
    expect(fits(of, { tokens: 500 }, 0, 400)("investigate")).toBe(true)
    expect(fits(of, { tokens: 500 }, 0, 401)("investigate")).toBe(false)
    expect(fits(of, { tokens: 500 }, 0, 500)("handoff")).toBe(true)
    expect(fits({}, { usd: 99, tokens: 1e9 }, 99, 1e9)("investigate")).toBe(true)
  })

  it("a refusal names what was short, what was used and the limit", () => {
    const refused = Limits.hold(
      { tokens: 10 },
      { ...nothing, tokens: 4 },
      { usd: 0, tokens: 7 },
      "investigate"
    )
    expect(Result.isFailure(refused) && refused.failure.exhausted).toEqual({
      resource: "tokens",
      used: 4,
      limit: 10
    })
  })
})
