import { describe, expect, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Given from "../../src/run/Given.ts"

describe("a duration", () => {
  it("is told in milliseconds, however it is written", () => {
    for (const [value, ms] of [
      [0, 0],
      [1.5, 1.5],
      [2_000_000n, 2],
      ["10 minutes", 600_000],
      ["Infinity", Number.POSITIVE_INFINITY],
      [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY],
      [[1, 500_000_000], 1_500],
      [{ hours: 1, seconds: 1 }, 3_601_000],
      [{ hours: 1, minutes: undefined }, 3_600_000],
      [Object.create({ hours: 1 }), 3_600_000],
      [Duration.days(1), 86_400_000]
    ] as const)
      expect(Given.millisOf(value)).toBe(ms)
  })

  it.each<readonly [string, unknown]>([
    ["NaN", Number.NaN],
    ["-1", -1],
    ["-Infinity", Number.NEGATIVE_INFINITY],
    ["-1n", -1n],
    ["less than nothing", "-1 day"],
    ["less than nothing of a unit", { hours: -1 }],
    ["a text that is none", "soon"],
    ["an empty text", ""],
    ["a number as text", "1000"],
    ["a unit of NaN", { hours: Number.NaN }],
    ["a unit that is none", { minute: 1 }],
    ["a unit of text", { hours: "1" }],
    ["a unit of null", { hours: 1, minutes: null }],
    ["no unit", {}],
    ["no unit that is defined", { hours: undefined, minutes: undefined }],
    ["a date", new Date(0)],
    ["a pair of NaN", [Number.NaN, 0]],
    ["a list", []],
    ["null", null],
    ["nothing", undefined],
    ["a boolean", true],
    ["a function", () => "1 second"]
  ])("%s is none", (_, value) => {
    expect(Given.millisOf(value)).toBeUndefined()
  })
})

describe("a date", () => {
  it.each([
    ["2026", "2026-01-01T00:00:00.000Z"],
    ["2026-02", "2026-02-01T00:00:00.000Z"],
    ["2026-02-03", "2026-02-03T00:00:00.000Z"],
    ["2026-02-03T04:05Z", "2026-02-03T04:05:00.000Z"],
    ["2026-02-03T04:05:06.7899+02:00", "2026-02-03T02:05:06.789Z"],
    ["2028-02-29", "2028-02-29T00:00:00.000Z"],
    ["2026-02-28T23:00:00-02:00", "2026-03-01T01:00:00.000Z"],
    ["2026-03-01T01:00:00+02:00", "2026-02-28T23:00:00.000Z"],
    ["-000001-01-01", "-000001-01-01T00:00:00.000Z"],
    ["+002026-02-03T04:05Z", "2026-02-03T04:05:00.000Z"],
    ["+012099-01-01", "+012099-01-01T00:00:00.000Z"]
  ])("%s is %s", (date, moment) => {
    expect(Given.momentOf(date)).toBe(moment)
  })

  it.each([
    "2099-02-30",
    "2026-02-29",
    "2100-02-29T12:00Z",
    "2026-04-31T23:59:59+02:00",
    "+012099-02-30",
    "2026-01-32"
  ])("%s is a day that there is not", (date) => {
    expect(Given.momentOf(date)).toBeUndefined()
  })

  it("is none without its zone, without its zeros, or in words", () => {
    for (const none of ["", "soon", "1", "Jan 1 2026", "2026-1-1", "2026-13-01", "2026-01-01T00:00", 0, null])
      expect(Given.momentOf(none)).toBeUndefined()
  })
})

describe("a date to compare by", () => {
  it.each([
    ["-000001-01-01", true],
    ["9999-12-31T23:59:59Z", true],
    ["9999-12-31T23:59:59-01:00", false],
    ["+010000-01-01", false],
    ["soon", false]
  ])("%s may be one: %s", (date, is) => {
    expect(Given.date.is(date)).toBe(is)
  })
})

describe("options", () => {
  interface Options {
    readonly wait?: Duration.Input
    readonly times?: number
    readonly share?: number
    readonly mode?: "off" | "on"
  }
  const kinds: Given.Kinds<Options> = {
    wait: Given.duration,
    times: Given.wholeOrAll(1),
    share: Given.upTo(1),
    mode: Given.oneOf("off", "on")
  }

  it.each<readonly [object]>([
    [{}],
    [{ wait: undefined, times: undefined }],
    [{ wait: "1 second", times: 1, share: 0, mode: "on" }],
    [{ times: Number.POSITIVE_INFINITY, share: 1 }]
  ])("%j can be used", (given) => {
    expect(Given.problemOf(given, "options", kinds)).toBeUndefined()
  })

  it.each<readonly [unknown, string]>([
    [null, "options is null, and must be an object"],
    [[], "options is a list, and must be an object"],
    [{ Times: 1 }, 'options has no "Times": there are wait, times, share, mode'],
    [{ wait: null }, "options.wait is null, and must be a duration of at least 0"],
    [{ times: 0 }, "options.times is 0, and must be a whole number of at least 1, or Infinity"],
    [{ times: 1.5 }, "options.times is 1.5, and must be a whole number of at least 1, or Infinity"],
    [{ times: "2" }, 'options.times is "2", and must be a whole number of at least 1, or Infinity'],
    [{ share: 1.1 }, "options.share is 1.1, and must be a number from 0 to 1"],
    [{ share: Number.NaN }, "options.share is NaN, and must be a number from 0 to 1"],
    [{ mode: "On" }, 'options.mode is "On", and must be "off" or "on"']
  ])("%j cannot", (given, problem) => {
    expect(Given.problemOf(given, "options", kinds)).toBe(problem)
  })

  it("what is needed may not be left out", () => {
    expect(Given.problemOf({ times: 1 }, "options", kinds, ["wait"])).toBe(
      "options.wait is undefined, and must be a duration of at least 0"
    )
  })
})
