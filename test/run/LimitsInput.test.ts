import { describe, expect, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Limits from "../../src/run/Limits.ts"
import { toInput } from "../../src/run/LimitsInput.ts"

const natural = (maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum })))
const many = { arbitrary: { runs: 500, size: 100 } }

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

  class Written {
    turns = 3
    get usd() {
      return 0.05
    }
    reserve = Object.create({ turns: 1 })
  }
  class Extended extends Written {
    override turns = 4
  }
  it.each<readonly [string, Limits.LimitsInput, object]>([
    ["a getter of a class", new Written(), { turns: 3, usd: 0.05, reserve: { turns: 1 } }],
    ["a class above a class", new Extended(), { turns: 4, usd: 0.05, reserve: { turns: 1 } }],
    [
      "a prototype",
      Object.create({ usd: 0.05, time: 10, money: "hold" }),
      { turns: 20, usd: 0.05, timeMs: 10, money: "hold" }
    ],
    [
      "a prototype's date",
      Object.create({ deadline: "2030" }),
      { turns: 20, deadline: "2030-01-01T00:00:00.000Z" }
    ],
    ["no prototype", Object.assign(Object.create(null), { usd: 1 }), { turns: 20, usd: 1 }],
    [
      "a frozen one",
      Object.freeze({ turns: 3, reserve: Object.freeze({ turns: 1 }) }),
      { turns: 3, reserve: { turns: 1 } }
    ]
  ])("a limit counts wherever an object has it: %s", (_, given, limits) => {
    expect(read(given)).toEqual(limits)
    expect(read(Limits.override({ turns: 20 }, given))).toEqual(limits)
    expect(read(Limits.override(given, {}))).toEqual(limits)
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
      expect(Limits.fromInput(toInput(stored))).toEqual(Result.succeed(stored))
    },
    many
  )

  it("no limit at all stays no limit, and does not become the default", () => {
    expect(Result.getOrThrow(Limits.fromInput(toInput({})))).toEqual({})
  })

  it("a run's limits can be raised one by one, as a resume does", () => {
    const stored = Result.getOrThrow(Limits.fromInput({ turns: 3, usd: 0.05, time: "1 minute" }))
    const raised = Limits.fromInput(Limits.override(toInput(stored), { turns: 6 }))
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
    expect(read({ deadline: "2030-01-31" }).deadline).toBe("2030-01-31T00:00:00.000Z")
  })

  it("is refused if it is no date, or together with a time", () => {
    expect(problem({ deadline: "soon" })).toContain("soon")
    expect(problem({ deadline: new Date(Number.NaN) })).toContain("deadline")
    // Each would be another moment wherever this runs, or one that nobody meant.
    for (const deadline of ["2030-01-31T12:00:00", "31 January 2030", "1"])
      expect(problem({ deadline })).toContain(deadline)
    expect(problem({ deadline: noon, time: "1 minute" })).toContain("deadline")
    expect(problem({ deadline: noon, time: Number.POSITIVE_INFINITY })).toBe("")
  })

  it("replaces a time that is below it, and is replaced by one that is above it", () => {
    expect(read(Limits.override({ time: "1 minute" }, { deadline: noon })).timeMs).toBeUndefined()
    const back = read(Limits.override({ deadline: noon }, { time: "1 minute" }))
    expect(back).toMatchObject({ timeMs: 60_000 })
    expect(back.deadline).toBeUndefined()
  })
})
