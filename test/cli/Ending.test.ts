import { mkdirSync, writeFileSync } from "node:fs"
import { afterEach, describe, expect, it } from "vitest"
import { cli, elsewhere, module, parsed, withoutEndpoint, workshop } from "./support.ts"

const { path } = workshop()
withoutEndpoint()
afterEach(() => {
  delete process.env.CHECKREIN_TEST_GO
})

const waiter = module("waiter")

/** A printed command, as it is given to the command under test. */
const words = (command: string): ReadonlyArray<string> => command.replace("checkrein ", "").split(" ")

/** A run that was stopped in the middle of a tool that writes. */
const cutOff = async (name: string) => {
  const store = ["--store", path(`${name}.db`)]
  const { runId, running } = await elsewhere(store, "waiter", "send", /waiting to go/)
  running.signal("SIGINT")
  const ended = await running.ended
  const flags = [...waiter, ...store]
  const resolutions = ["happened", "did-not-happen"].map((outcome) =>
    ["checkrein runs resolve", runId, "c1", outcome, "--resume", ...flags].join(" ")
  )
  return { ended, flags, resolutions, runId, store }
}

describe("the way to go on", () => {
  it("begins with what became of a call, wherever a run is told that was stopped in the middle of one", async () => {
    const { ended, flags, resolutions, runId, store } = await cutOff("told")
    expect(ended.code).toBe(130)
    expect(ended.stderr).toContain(`send {} may or may not have happened (call c1)\n`)
    const toGoOn = `To go on:\n  ${resolutions.join("\n  ")}`
    expect(ended.stderr.trimEnd().endsWith(toGoOn)).toBe(true)

    const followed = await cli("runs", "show", runId, "--follow", ...flags)
    expect(followed.stderr.endsWith(toGoOn)).toBe(true)
    const shown = await cli("runs", "show", runId, "--json", ...flags)
    expect(parsed(shown).next).toEqual(resolutions)
    const { stdout: handoff } = await cli("runs", "show", runId, "--handoff", ...flags)
    expect(handoff.indexOf("runs resolve")).toBeGreaterThan(0)
    expect(handoff.indexOf("runs resolve")).toBeLessThan(handoff.indexOf("runs resume"))

    const resumed = await cli("runs", "resume", runId, ...flags)
    expect([resumed.code, resumed.stderr.endsWith(toGoOn)]).toEqual([3, true])
    const without = await cli("runs", "show", runId, ...store)
    expect(without.stdout).toContain(`runs resolve ${runId} c1 happened --resume --agent MODULE`)
  })

  it("can be gone as it is printed", async () => {
    const { resolutions } = await cutOff("gone")
    const ended = await cli(...words(resolutions[0] ?? ""))
    expect([ended.code, ended.stdout.startsWith("It ")]).toEqual([0, true])
  })

  it("has the limit in it that a run at its limit needs", async () => {
    mkdirSync(path("logs"))
    writeFileSync(path("logs", "old.log"), "x\n")
    const store = ["--store", path("limit.db")]
    const asked = await cli("run", "--root", path("logs"), ...store, "--json", "Delete old.log")
    const { runId } = parsed(asked)
    const atLimit = parsed(await cli("runs", "resume", runId, "--max-turns", "2", "--json", ...store))
    expect(atLimit).toMatchObject({ reason: "max_turns", approvals: [{ tool: "delete_file" }] })
    const decide = (verb: string) =>
      `checkrein runs ${verb} ${runId} call_1_0 --resume --max-turns 4 ${store.join(" ")}`
    expect(atLimit.next).toEqual([decide("approve"), decide("reject")])
    const ended = await cli(...words(decide("reject")))
    expect([ended.code, ended.stdout]).toEqual([0, "I did not delete anything: you declined."])
  })
})

describe("what a run waits for", () => {
  it("is the same object wherever it is told", async () => {
    const store = ["--store", path("waits.db")]
    const agent = module("asker")
    const told = async (ended: ReturnType<typeof cli>) => {
      const { approvals, question, runId } = parsed(await ended)
      const shown = parsed(await cli("runs", "show", runId, ...store, "--json"))
      const [listed] = parsed(await cli("runs", "list", ...store, "--limit", "2", "--json")).runs.filter(
        (run: { readonly runId: string }) => run.runId === runId
      )
      expect([shown.approvals, shown.question]).toEqual([approvals, question])
      expect([listed.approvals, listed.question ?? null]).toEqual([approvals, question])
      return { approvals, question, runId }
    }
    const first = await told(cli("run", ...agent, ...store, "--json", "Pay."))
    const call = { callId: "p1", args: { cents: 100 }, argsDigest: expect.any(String) }
    expect([first.approvals.length, first.approvals[0], first.question]).toMatchObject([2, call, null])
    const { runId } = first
    await cli("runs", "approve", runId, "p1", ...store)
    const then = await told(cli("runs", "approve", runId, "p2", "--resume", ...agent, ...store, "--json"))
    expect(then).toEqual({ approvals: [], question: { runId, callId: "q1", text: "Which account?" }, runId })
    const { runId: lost, store: where } = await cutOff("lost")
    const shown = parsed(await cli("runs", "show", lost, ...where, "--json"))
    const [listed] = parsed(await cli("runs", "list", ...where, "--json")).runs
    expect([shown.unknown, listed.unknown]).toMatchObject([[{ tool: "send", callId: "c1" }], shown.unknown])
  })
})

describe("a model without a price", () => {
  it("is said to have none, and to count as free, wherever money is told", async () => {
    const store = ["--store", path("unpriced.db")]
    const free = "the price of a model is not known, and it counts as free"
    const ended = await cli("run", ...module("ticker"), ...store, "--max-turns", "1", "--json", "3")
    const { runId, unpriced } = parsed(ended)
    expect([unpriced, ended.stderr.includes(free)]).toEqual([true, true])
    expect(ended.stderr).toMatch(/ turn 1 {2}10 \+ 5 tokens {2}not priced$/m)
    expect(ended.stderr).toMatch(/max turns {2}1 turn {2}not priced /)
    const listed = await cli("runs", "list", ...store)
    expect(listed.stdout).toMatch(/ {2}1 +not priced {2}\d+s$/)
    expect(parsed(await cli("runs", "list", ...store, "--json")).runs).toMatchObject([{ unpriced: true }])
    expect((await cli("runs", "show", runId, ...store)).stdout).toContain(`money       not priced; ${free}\n`)
    const events = (await cli("runs", "show", runId, "--events", ...store)).stdout
    expect(events.match(/not priced/g)).toHaveLength(3)
    expect((await cli("runs", "show", runId, "--handoff", ...store)).stdout).toContain(free)
    const asked = await cli("run", ...module("asker"), ...store, "Pay.")
    expect(asked.stderr).toContain(`  its cost: not priced; ${free}\n`)
  })
})

describe("a run in memory", () => {
  it("is said to end with its process, and has no way to go on", async () => {
    const ask = ["run", ...waiter, "--store", "memory", "--max-time", "1s", "Wait."]
    const ended = await cli(...ask)
    expect(ended.code).toBe(3)
    expect(ended.stderr).not.toContain("checkrein runs")
    expect(ended.stderr).not.toContain("To go on")
    expect(ended.stderr).toMatch(
      /\nThe run was kept in memory and ends with this process: --store FILE keeps one that can be resumed\.$/
    )
    const { handoff, next } = parsed(await cli(...ask, "--json"))
    expect([next, handoff.next]).toEqual([[], []])
  })

  it("is said to end so, too, where SQLite is asked to keep it there", async () => {
    const ended = await cli("run", ...waiter, "--store", ":memory:", "--max-time", "1s", "Wait.")
    expect(ended.stderr).not.toContain("checkrein runs")
    expect(ended.stderr).toContain("The run was kept in memory and ends with this process")
    const listed = await cli("runs", "list", "--store", ":memory:")
    expect([listed.code, listed.stderr]).toEqual([
      2,
      expect.stringContaining("a store in memory ends with its process")
    ])
  })

  it("hands over all that it has, since nobody can ask for it later", async () => {
    const ended = await cli("demo", "investigate", "--store", "memory")
    expect(ended.stdout).not.toContain("To go on")
    expect(ended.stdout).toContain("The run was kept in memory and ends with this process")
  })
})
