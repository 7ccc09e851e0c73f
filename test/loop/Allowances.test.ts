import { describe, expect, it } from "@effect/vitest"
import { within } from "../../src/loop/Allowances.ts"

const at = "2026-07-01T00:00:00.000Z"

const timed = (ms: number, untilDate = false) => ({
  hold: false,
  timeLeftMs: () => ms,
  untilDate: () => untilDate
})
const untimed = timed(Number.POSITIVE_INFINITY)

describe("within", () => {
  it("no limit is above what is allowed, and no reserve above its limit", () => {
    const of = { turns: 5, usd: 0.5, reserve: { usd: 0.2, turns: 1 } }
    expect(within(of, { ...untimed, usd: 0.1, tokens: 70 }, at)).toEqual({
      turns: 5,
      usd: 0.1,
      tokens: 70,
      reserve: { usd: 0.1, turns: 1 }
    })
    expect(within(of, { ...untimed, usd: 9 }, at)).toEqual(of)
    expect(within({}, untimed, at)).toEqual({})
  })

  it("time is allowed from now on, whatever the child was driven before", () => {
    expect(within({}, timed(500), at)).toEqual({ timeMs: 500 })
    expect(within({}, timed(500), at, 2000)).toEqual({ timeMs: 2500 })
    expect(within({ timeMs: 2100 }, timed(500), at, 2000)).toEqual({ timeMs: 2100 })
    expect(within({ timeMs: 9000, reserve: { timeMs: 800 } }, timed(500), at)).toEqual({
      timeMs: 500,
      reserve: { timeMs: 500 }
    })
  })

  it("of a date and an allowance the earlier counts", () => {
    const deadline = "2026-07-01T00:00:10.000Z"
    expect(within({ deadline }, timed(4000), at)).toEqual({ timeMs: 4000 })
    expect(within({ deadline }, timed(60_000), at, 2000)).toEqual({ deadline, timeMs: 12_000 })
    expect(within({ deadline }, untimed, at)).toEqual({ deadline, timeMs: 10_000 })
  })

  it("the date by which its parent ends is the child's, too, unless its own time is over first", () => {
    const until = timed(4000, true)
    const deadline = "2026-07-01T00:00:04.000Z"
    expect(within({}, until, at, 2000)).toEqual({ deadline, timeMs: 6000 })
    expect(within({ timeMs: 9000 }, until, at)).toEqual({ deadline, timeMs: 4000 })
    expect(within({ timeMs: 3000 }, until, at)).toEqual({ timeMs: 3000 })
    expect(within({ deadline: "2026-07-01T00:00:10.000Z" }, until, at)).toEqual({ deadline, timeMs: 4000 })
    const sooner = "2026-07-01T00:00:01.000Z"
    expect(within({ deadline: sooner }, until, at)).toEqual({ deadline: sooner, timeMs: 1000 })
  })
})
