/** What makes an agent a tool: options that cannot be what was meant are refused when it is made. */
import * as Tool from "effect/ai/Tool"
import { describe, expect, it } from "vitest"
import { Agent } from "../../src/index.ts"

const cleaner = Agent.make("cleaner")

describe("an agent", () => {
  it("is no tool where it is misspelt what that is", () => {
    const made = (options: unknown) => () =>
      Agent.asTool(cleaner, options as Parameters<typeof Agent.asTool>[1])
    expect(made({ name: "ask" })).toThrow(
      new TypeError("cleaner cannot be a tool: options.description is undefined, and must be a text")
    )
    expect(made({ name: "ask", description: "asks", schema: Tool })).toThrow(
      new TypeError(
        'cleaner cannot be a tool: options has no "schema": there are name, description, parameters, success, input'
      )
    )
  })
})
