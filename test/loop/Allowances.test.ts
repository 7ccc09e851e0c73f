import { describe, expect, it } from "@effect/vitest"
import { within } from "../../src/loop/Allowances.ts"

describe("within", () => {
  it("no limit is above what is allowed, and no reserve above its limit", () => {
    const of = { turns: 5, usd: 0.5, reserve: { usd: 0.2, turns: 1 } }
    expect(within(of, { usd: 0.1, tokens: 70, hold: false })).toEqual({
      turns: 5,
      usd: 0.1,
      tokens: 70,
      reserve: { usd: 0.1, turns: 1 }
    })
    expect(within(of, { usd: 9, hold: false })).toEqual(of)
    expect(within({}, { hold: false })).toEqual({})
  })
})
