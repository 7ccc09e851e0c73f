import { describe, expect, it } from "@effect/vitest"
import { outOf } from "../../src/run/Exhaustion.ts"

describe("a run that is out of something", () => {
  it("says that what is left of a limit was kept for the handoff", () => {
    const exhausted = { resource: "tool_calls", used: 2, limit: 3 } as const
    const kept = "used 2 tool calls of a limit of 3 tool calls, and the rest was kept for its handoff"
    expect(outOf(exhausted, { toolCalls: 3, reserve: { toolCalls: 1 } }).detail).toBe(kept)
    expect(outOf(exhausted, { toolCalls: 3 }).detail).not.toContain("kept")
    expect(outOf({ ...exhausted, used: 3 }, { reserve: { toolCalls: 1 } }).detail).not.toContain("kept")
  })
})
