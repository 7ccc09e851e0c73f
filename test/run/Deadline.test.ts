import { describe, expect, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { anchor, follow } from "../../src/run/Deadline.ts"
import * as Limits from "../../src/run/Limits.ts"
import { toInput } from "../../src/run/LimitsInput.ts"

describe("a deadline by the calendar", () => {
  const noon = "2030-01-31T12:00:00.000Z"
  const read = (input: Limits.LimitsInput) => Result.getOrThrow(Limits.fromInput(input))

  it("becomes the time that is left when the run is taken up, however long it slept", () => {
    const limits = read({ deadline: noon, reserve: { time: "1 minute" } })
    expect(anchor(limits, "2030-01-31T11:50:00.000Z", 0).timeMs).toBe(600_000)
    expect(anchor(limits, "2030-01-31T11:59:00.000Z", 90_000).timeMs).toBe(150_000)
    expect(anchor(limits, "2030-02-01T00:00:00.000Z", 90_000).timeMs).toBe(90_000)
  })

  it("moves when the calendar has gone on without the run, or was set back, and not with what two clocks differ", () => {
    const limits = anchor(read({ deadline: noon }), "2030-01-31T11:50:00.000Z", 0)
    expect(follow(limits, "2030-01-31T11:50:30.900Z", 30_000)).toBe(limits)
    expect(follow(limits, "2030-01-31T11:55:00.000Z", 30_000).timeMs).toBe(330_000)
    expect(follow(limits, "2030-01-31T13:00:00.000Z", 30_000).timeMs).toBe(30_000)
    expect(follow(limits, "2030-01-31T11:40:00.000Z", 30_000).timeMs).toBe(1_230_000)
  })

  it("stays where it was once it has passed, whatever goes on beyond it", () => {
    const limits = anchor(read({ deadline: noon }), "2030-01-31T11:59:50.000Z", 0)
    expect(follow(limits, "2030-01-31T12:00:05.000Z", 15_000)).toBe(limits)
  })

  it("leaves limits without one alone", () => {
    const limits = read({ time: "1 minute" })
    expect(anchor(limits, noon, 5_000)).toBe(limits)
    expect(follow(limits, noon, 5_000)).toBe(limits)
  })

  it("is written back as it was, not as the time that was left", () => {
    const anchored = anchor(read({ deadline: noon }), "2030-01-31T11:50:00.000Z", 0)
    expect(toInput(anchored)).toEqual({ turns: 20, deadline: noon })
  })
})
