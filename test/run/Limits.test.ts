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
  ])("%s is a typed error, with limits and without", (_, used) => {
    expect(Limits.claim(limits, used, "handoff")).toMatchObject({
      _tag: "Failure",
      failure: { _tag: expect.any(String) }
    })
    expect(Limits.claim({}, used, "handoff")).toMatchObject({
      _tag: "Failure",
      failure: { _tag: expect.any(String) }
    })
  })

  it("an unknown purpose is a typed error, and never gets at the reserve", () => {
    const purpose = "curiosity" as Limits.Purpose
    for (const toolCalls of [0, 10]) {
      const claimed = Limits.claim(limits, { toolCalls, timeMs: 0 }, purpose)
      expect(claimed).toMatchObject({ _tag: "Failure", failure: { _tag: expect.any(String) } })
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

describe("fromInput", () => {
  const read = (input?: Limits.LimitsInput) => Result.getOrThrow(Limits.fromInput(input))
  const refusal = (input: Limits.LimitsInput) => {
    const result = Limits.fromInput(input)
    expect(result).toMatchObject({ _tag: "Failure", failure: { _tag: "InvalidLimits" } })
    return Result.isFailure(result) ? result.failure.message : ""
  }

  it("an agent that names no limits gets 20 turns, and nothing else", () => {
    expect(read()).toEqual({ turns: 20 })
    expect(read({})).toEqual({ turns: 20 })
    expect(read({ turns: undefined, usd: undefined })).toEqual({ turns: 20 })
  })

  it("reads what a user writes", () => {
    expect(read({ turns: 20, usd: 0.05, time: "10 minutes", reserve: { turns: 1 } })).toEqual({
      turns: 20,
      usd: 0.05,
      timeMs: 600_000,
      reserve: { turns: 1 }
    })
    expect(
      read({ time: 1500, toolCalls: 12, tokens: 5000, reserve: { time: "1 second", toolCalls: 2 } })
    ).toEqual({
      turns: 20,
      toolCalls: 12,
      tokens: 5000,
      timeMs: 1500,
      reserve: { timeMs: 1000, toolCalls: 2 }
    })
  })

  it("Infinity lifts a limit, the default of 20 turns too", () => {
    const infinity = Number.POSITIVE_INFINITY
    expect(
      read({ turns: infinity, usd: infinity, tokens: infinity, toolCalls: infinity, time: infinity })
    ).toEqual({})
  })

  it("nothing at all is a limit", () => {
    expect(read({ turns: 0, usd: 0, tokens: 0, toolCalls: 0, time: 0 })).toEqual({
      turns: 0,
      usd: 0,
      tokens: 0,
      toolCalls: 0,
      timeMs: 0
    })
  })

  it.each([
    ["turns", { turns: -1 }],
    ["turns", { turns: 2.5 }],
    ["turns", { turns: Number.NaN }],
    ["turns", { turns: Number.NEGATIVE_INFINITY }],
    ["tokens", { tokens: 0.5 }],
    ["tokens", { tokens: Number.NaN }],
    ["toolCalls", { toolCalls: -3 }],
    ["toolCalls", { toolCalls: 1.1 }],
    ["usd", { usd: -0.01 }],
    ["usd", { usd: Number.NaN }],
    ["usd", { usd: Number.NEGATIVE_INFINITY }],
    ["time", { time: -5 }],
    ["time", { time: Number.NaN }],
    ["time", { time: Number.NEGATIVE_INFINITY }],
    ["time", { time: "a while" as "1 second" }],
    ["reserve.turns", { reserve: { turns: -1 } }],
    ["reserve.time", { time: 10, reserve: { time: -5 } }]
  ] as const)("a wrong %s is named: %o", (name, input) => {
    expect(refusal(input)).toContain(name)
  })

  it("a reserve as large as its limit is allowed; a larger one, or one without a limit, is not", () => {
    expect(read({ turns: 3, reserve: { turns: 3 } })).toEqual({ turns: 3, reserve: { turns: 3 } })
    expect(refusal({ turns: 3, reserve: { turns: 4 } })).toMatch(/reserve\.turns.*4.*3/)
    expect(refusal({ reserve: { usd: 0.01 } })).toContain("reserve.usd")
    expect(refusal({ turns: Number.POSITIVE_INFINITY, reserve: { turns: 1 } })).toContain("reserve.turns")
    expect(refusal({ time: "1 second", reserve: { time: "2 seconds" } })).toMatch(/reserve\.time/)
  })

  it("a reserve of Infinity is larger than any limit", () => {
    expect(refusal({ turns: 3, reserve: { turns: Number.POSITIVE_INFINITY } })).toContain("reserve.turns")
    expect(refusal({ time: "1 second", reserve: { time: Number.POSITIVE_INFINITY } })).toContain(
      "reserve.time"
    )
  })

  const amount = Arbitrary.schema(
    Schema.Struct({
      turns: Schema.optionalKey(Schema.Finite),
      usd: Schema.optionalKey(Schema.Finite),
      tokens: Schema.optionalKey(Schema.Finite),
      toolCalls: Schema.optionalKey(Schema.Finite),
      time: Schema.optionalKey(Schema.Finite)
    })
  )

  const unchecked: ReadonlyArray<readonly [unknown, string]> = [
    [
      { turn: 1 },
      'there is no limit "turn": there are turns, usd, tokens, toolCalls, time, deadline, money, reserve'
    ],
    [
      { turns: 2, reserve: { calls: 1 } },
      'there is no reserve of "calls": there are turns, usd, tokens, toolCalls, time'
    ],
    [{ turns: 2, reserve: { money: "hold" } }, 'there is no reserve of "money"'],
    [{ turns: 2, reserve: null }, "reserve is null, and must be an object"],
    [{ money: "x" }, 'money is "x", and must be "over-by-one-turn" or "hold"'],
    [{ money: null }, "money is null"],
    [{ turns: "20" }, 'turns is "20", and must be a whole number of at least 0'],
    [{ turns: null }, "turns is null"],
    [{ usd: {} }, "usd is an object, and must be a number of USD of at least 0"],
    [{ usd: Symbol("usd") }, "usd is Symbol(usd)"],
    [{ time: null }, "time is null, and must be a duration"],
    [{ time: [1] }, "time is a list, and must be a duration"],
    [{ deadline: null }, "deadline is null, and must be a date"],
    [{ deadline: 5 }, "deadline is 5, and must be a date"],
    [null, "limits is null, and must be an object"],
    ["20", 'limits is "20", and must be an object'],
    [[20], "limits is a list, and must be an object"]
  ]
  it.each(unchecked)("refuses what only JavaScript can write, and names it: %o", (input, problem) => {
    const given = input as Limits.LimitsInput
    for (const written of [
      given,
      Limits.override({ turns: 3 }, given),
      Limits.override(given, { tokens: 1 })
    ]) {
      expect(refusal(written)).toContain(problem)
    }
  })

  it.prop(
    "is total, and what it accepts can be stored",
    { top: amount, reserve: amount },
    ({ reserve, top }) => {
      for (const input of [top, { ...top, reserve }]) {
        const result = Limits.fromInput(input)
        if (Result.isSuccess(result)) {
          const json = JSON.stringify(result.success)
          expect(Schema.decodeUnknownSync(Limits.Limits)(JSON.parse(json))).toEqual(result.success)
        } else expect(result.failure._tag).toBe("InvalidLimits")
      }
    },
    many
  )

  it("a count that is too large to be stored exactly is refused, not stored and unreadable later", () => {
    const result = Limits.fromInput({ tokens: 2 ** 60 })
    if (Result.isSuccess(result)) expect(Schema.is(Limits.Limits)(result.success)).toBe(true)
  })
})

describe("override", () => {
  const read = (input: Limits.LimitsInput) => Result.getOrThrow(Limits.fromInput(input))

  it("each limit that is named replaces the one below it, in the reserve too", () => {
    const under = { turns: 10, usd: 0.05, reserve: { turns: 1, usd: 0.01 } }
    expect(read(Limits.override(under, { usd: 0.5, time: "1 minute" }))).toEqual({
      turns: 10,
      usd: 0.5,
      timeMs: 60_000,
      reserve: { turns: 1, usd: 0.01 }
    })
    expect(read(Limits.override(under, { reserve: { turns: 2 } })).reserve).toEqual({ turns: 2, usd: 0.01 })
    expect(Limits.override({ turns: 3 }, {})).toEqual({ turns: 3 })
  })

  it("Infinity lifts the limit below", () => {
    expect(read(Limits.override({ turns: 10, usd: 1 }, { usd: Number.POSITIVE_INFINITY }))).toEqual({
      turns: 10
    })
  })

  it("a limit that is there but undefined names nothing: it does not lift the limit below", () => {
    expect(read(Limits.override({ turns: 5, usd: 0.05 }, { turns: undefined, usd: undefined }))).toEqual({
      turns: 5,
      usd: 0.05
    })
    const under = { turns: 5, reserve: { turns: 1 } }
    expect(read(Limits.override(under, { reserve: { turns: undefined } })).reserve).toEqual({ turns: 1 })
    expect(read(Limits.override(under, { reserve: undefined })).reserve).toEqual({ turns: 1 })
  })
})

describe("toInput", () => {
  const amounts = Arbitrary.all({
    turns: natural(40),
    usd: natural(1_000_000),
    tokens: natural(10_000),
    toolCalls: natural(40),
    timeMs: natural(600_000),
    mask: natural(31),
    reserved: natural(31)
  })

  it.prop(
    "stored limits become what a user would have written: reading that gives them back",
    { drawn: amounts },
    ({ drawn }) => {
      const has = (mask: number, bit: number) => (mask & (1 << bit)) !== 0
      const some = (mask: number, share: number) => ({
        ...(has(mask, 0) ? { turns: Math.floor(drawn.turns * share) } : undefined),
        ...(has(mask, 1) ? { usd: (drawn.usd * share) / 1e9 } : undefined),
        ...(has(mask, 2) ? { tokens: Math.floor(drawn.tokens * share) } : undefined),
        ...(has(mask, 3) ? { toolCalls: Math.floor(drawn.toolCalls * share) } : undefined),
        ...(has(mask, 4) ? { timeMs: drawn.timeMs * share } : undefined)
      })
      const stored: Limits.Limits =
        drawn.reserved === 0
          ? some(drawn.mask, 1)
          : { ...some(drawn.mask, 1), reserve: some(drawn.mask & drawn.reserved, 0.5) }
      expect(Limits.fromInput(Limits.toInput(stored))).toEqual(Result.succeed(stored))
    },
    many
  )

  it("no limit at all stays no limit, and does not become the default", () => {
    expect(Result.getOrThrow(Limits.fromInput(Limits.toInput({})))).toEqual({})
  })

  it("a run's limits can be raised one by one, as a resume does", () => {
    const stored = Result.getOrThrow(Limits.fromInput({ turns: 3, usd: 0.05, time: "1 minute" }))
    const raised = Limits.fromInput(Limits.override(Limits.toInput(stored), { turns: 6 }))
    expect(raised).toEqual(Result.succeed({ turns: 6, usd: 0.05, timeMs: 60_000 }))
  })
})

describe("a deadline by the calendar", () => {
  const noon = "2030-01-31T12:00:00.000Z"
  const read = (input: Limits.LimitsInput) => Result.getOrThrow(Limits.fromInput(input))
  const problem = (input: Limits.LimitsInput) =>
    Result.match(Limits.fromInput(input), { onFailure: ({ problem }) => problem, onSuccess: () => "" })

  it("is stored as ISO 8601, whether it was given as a date or as text", () => {
    expect(read({ deadline: new Date(noon) }).deadline).toBe(noon)
    expect(read({ deadline: "2030-01-31T13:00:00+01:00" }).deadline).toBe(noon)
  })

  it("is refused if it is no date, or together with a time", () => {
    expect(problem({ deadline: "soon" })).toContain("soon")
    expect(problem({ deadline: noon, time: "1 minute" })).toContain("deadline")
    expect(problem({ deadline: noon, time: Number.POSITIVE_INFINITY })).toBe("")
  })

  it("becomes the time that is left when the run is taken up, however long it slept", () => {
    const limits = read({ deadline: noon, reserve: { time: "1 minute" } })
    expect(Limits.anchor(limits, "2030-01-31T11:50:00.000Z", 0).timeMs).toBe(600_000)
    expect(Limits.anchor(limits, "2030-01-31T11:59:00.000Z", 90_000).timeMs).toBe(150_000)
    expect(Limits.anchor(limits, "2030-02-01T00:00:00.000Z", 90_000).timeMs).toBe(90_000)
  })

  it("leaves limits without one alone", () => {
    const limits = read({ time: "1 minute" })
    expect(Limits.anchor(limits, noon, 5_000)).toBe(limits)
  })

  it("replaces a time that is below it, and is replaced by one that is above it", () => {
    expect(read(Limits.override({ time: "1 minute" }, { deadline: noon })).timeMs).toBeUndefined()
    const back = read(Limits.override({ deadline: noon }, { time: "1 minute" }))
    expect(back).toMatchObject({ timeMs: 60_000 })
    expect(back.deadline).toBeUndefined()
  })

  it("is written back as it was, not as the time that was left", () => {
    const anchored = Limits.anchor(read({ deadline: noon }), "2030-01-31T11:50:00.000Z", 0)
    expect(Limits.toInput(anchored)).toEqual({ turns: 20, deadline: noon })
  })
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

describe("lower", () => {
  it("no limit is above what is allowed, and no reserve above its limit", () => {
    const of = { turns: 5, usd: 0.5, reserve: { usd: 0.2, turns: 1 } }
    expect(Limits.lower(of, { usd: 0.1, tokens: 70 })).toEqual({
      turns: 5,
      usd: 0.1,
      tokens: 70,
      reserve: { usd: 0.1, turns: 1 }
    })
    expect(Limits.lower(of, { usd: 9 })).toEqual(of)
    expect(Limits.lower({}, {})).toEqual({})
  })
})
