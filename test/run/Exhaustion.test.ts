import { describe, expect, it } from "@effect/vitest"
import { endingAt, outOf } from "../../src/run/Exhaustion.ts"

describe("a run that is out of something", () => {
  it("says that what is left of a limit was kept for the handoff", () => {
    const exhausted = { resource: "tool_calls", used: 2, limit: 3 } as const
    const kept = "used 2 tool calls of a limit of 3 tool calls, and the rest was kept for its handoff"
    expect(outOf(exhausted, { toolCalls: 3, reserve: { toolCalls: 1 } }).detail).toBe(kept)
    expect(outOf(exhausted, { toolCalls: 3 }).detail).not.toContain("kept")
    expect(outOf({ ...exhausted, used: 3 }, { reserve: { toolCalls: 1 } }).detail).not.toContain("kept")
  })
})

describe("a run that ends after its handoff", () => {
  const used = { turns: 4, usd: 0.4, tokens: 440, toolCalls: 3, timeMs: 9000 }
  const before = { resource: "usd", used: 0.3, limit: 0.35 } as const

  it("says what it has used of its own limit by now", () => {
    const { detail, exhausted } = endingAt({ exhausted: before, limits: { usd: 0.35 } }, used, before)
    expect(exhausted?.used).toBe(0.4)
    expect(detail).toBe("used $0.4 of a limit of $0.35")
  })

  it("says since when what a shared budget has used is known", () => {
    const shared = { ...before, pool: "team" }
    const { detail, exhausted } = endingAt({ exhausted: shared, limits: {} }, used, shared)
    expect(exhausted).toEqual(shared)
    expect(detail).toBe(
      "the budget pool team had used $0.3 of a limit of $0.35 when the handoff of this run began"
    )
    expect(outOf(shared).detail).toBe("the budget pool team has used $0.3 of a limit of $0.35")
  })
})
