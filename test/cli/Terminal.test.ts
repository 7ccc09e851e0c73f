import { describe, expect, it } from "vitest"
import { text } from "./hostile.ts"
import { cli, module, parsed, withoutEndpoint, workshop } from "./support.ts"

const { path } = workshop()
withoutEndpoint()

describe("what a model or a tool has written", () => {
  const store = ["--store", path("hostile.db")]
  // All but the newlines and tabs of what is told, and of JSON.
  const unsafe = /[^\P{Cc}\n\t]|[\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/u
  const told = async (...args: ReadonlyArray<string>) => {
    const ended = await cli(...args, ...store)
    for (const output of [ended.stdout, ended.stderr])
      expect([args, unsafe.exec(output)]).toEqual([args, null])
    return ended
  }

  it("takes no terminal over, whatever prints it", async () => {
    const run = ["run", ...module("hostile"), "--tag", text.replace("\0", "")]
    const { stdout } = await told(...run, "Look.")
    expect(stdout).toMatch(/ end\n\tsecond line .* end\n$/)
    const { answer, runId } = parsed(await told(...run, "--json", text))
    expect(answer).toBe(`${text}\n\tsecond line${text}\r\n`)
    const stopped = parsed(await told(...run, "--max-turns", "1", "--json", "Look."))
    await told(...run, "--max-turns", "1", "Look.")
    for (const id of [runId, stopped.runId]) {
      for (const flags of [[], ["--full"], ["--events"], ["--handoff"], ["--follow"], ["--json", "--events"]])
        await told("runs", "show", id, ...flags)
      await told("runs", "show", id, "--follow", "--json")
      await told("runs", "audit", id)
    }
    await told("runs", "list")
    await told("runs", "list", "--json")
    await told("runs", "show", text)
    await told("runs", "show", text, "--json")
    await told("runs", "resume", stopped.runId, ...module("hostile"), "--max-turns", "5")
    await told("runs", "cancel", runId)
    await told("runs", "delete", "--all")
  })
})
