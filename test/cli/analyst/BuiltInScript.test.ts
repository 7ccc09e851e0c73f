import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import * as Agent from "../../../src/Agent.ts"
import * as BuiltInScript from "../../../src/cli/analyst/BuiltInScript.ts"
import * as Scripted from "../../../src/provider/Scripted.ts"
import * as MemoryRunStore from "../../../src/store/MemoryRunStore.ts"

describe("the built-in script", () => {
  it("says what it needs to an agent that has other tools", async () => {
    const { output } = await Effect.runPromise(
      Agent.run(Agent.make("other", { limits: { time: "1 minute" } }), "What went wrong today?").pipe(
        Effect.provide([Scripted.layer(BuiltInScript.script, { usage: "omitted" }), MemoryRunStore.layer])
      )
    )
    expect(output).toBe(
      "I am a script that searches files with list_files and scan_archive, and this agent has no tools. LLM_MODEL=plan answers whatever it is asked."
    )
  })
})
