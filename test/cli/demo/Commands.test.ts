import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { spent } from "../../../src/cli/demo/Screen.ts"
import * as Catalogue from "../../../src/demo/Catalogue.ts"
import * as NodeSqlite from "../../../src/store/NodeSqlite.ts"
import * as RunStore from "../../../src/store/RunStore.ts"
import { plan } from "../../demo/plan.ts"
import { cli, parsed, Running, spawned, withoutEndpoint, workshop } from "../support.ts"

const { path } = workshop()
withoutEndpoint()

const demo = (...args: ReadonlyArray<string>) => cli("demo", ...args, "--store", path("runs.db"))
const json = async (...args: ReadonlyArray<string>) => parsed(await demo(...args, "--json"))

describe("checkrein demo", () => {
  it("lists the scenarios", async () => {
    const { code, stdout } = await cli("demo", "--list")
    expect(code).toBe(0)
    expect(stdout.split("\n").map((line) => line.split(" ")[0])).toEqual(Catalogue.names)
    expect(parsed(await cli("demo", "--json")).scenarios).toHaveLength(Catalogue.names.length)
  })

  it("prints exactly the fields that are promised, and nothing else, with --json", async () => {
    const ended = await demo("plan", "--json")
    expect(ended.code).toBe(0)
    expect(ended.stderr).toBe("")
    expect(ended.stdout.split("\n")).toHaveLength(1)
    const { detail, ms, runId, ...rest } = parsed(ended)
    expect(runId).toMatch(/^demo-plan-/)
    expect(detail).toBe("the model answered")
    expect(ms).toBeGreaterThan(0)
    expect(rest).toEqual(plan)
  })

  it("shows progress on stderr and a summary on stdout", async () => {
    const ended = await demo("plan")
    expect(ended.stderr).toContain("→ read_file")
    expect(ended.stdout).toContain("ending   completed (answered)")
    expect(ended.stdout).toContain("3 turns, 2 tool runs, 815 tokens in and 70 out, $0.00247,")
  })

  it("says the same cost of a run while it runs, at its end, in the list and on its own screen", async () => {
    const ended = await demo("destructive")
    const runId = /runs approve (\S+)/.exec(ended.stdout)?.[1] ?? ""
    const at = (command: string, ...ids: ReadonlyArray<string>) =>
      cli("runs", command, ...ids, "--store", path("runs.db"))
    const [listed, shown] = [await at("list"), await at("show", runId)]
    const said = [
      /■ interrupted: approval {2}2 turns {2}(\S+)/.exec(ended.stderr),
      / used .* out, ([^,]+),/.exec(ended.stdout),
      new RegExp(`^${runId} .* 2 +(\\$\\S+)`, "m").exec(listed.stdout),
      /^ {2}money +(\S+)/m.exec(shown.stdout)
    ]
    expect(said.map((found) => found?.[1])).toEqual(Array(4).fill("$0.00157"))
  })

  it("says how a run that stopped short goes on, and that works", async () => {
    const ended = await demo("destructive")
    expect(ended.code).toBe(3)
    expect(ended.stdout).toContain("interrupted (approval)")
    const [, ...command] = /runs reject .*/.exec(ended.stdout)?.[0]?.split(" ") ?? []
    const resumed = await cli("runs", ...command)
    expect(resumed.code).toBe(0)
    expect(resumed.stdout).toBe("I did not delete anything: you declined the deletion.")
  })

  it("takes every flag", async () => {
    expect(await json("runaway", "--max-turns", "8")).toMatchObject({
      promptTokens: 3431,
      status: "max_turns_exceeded"
    })
    expect(await json("runaway", "--max-turns", "none", "--max-usd", "0.01")).toMatchObject({
      costUsd: 0.01078
    })
    expect(await json("recover", "--tool-errors", "fatal")).toMatchObject({
      reason: "tool_fatal"
    })
    expect(await json("denied", "--permanent", "continue", "--max-turns", "12")).toMatchObject({
      costUsd: 0.018622
    })
    expect(await json("repeat", "--dedupe", "read-only")).toMatchObject({
      toolRuns: 1,
      costUsd: 0.002446
    })
    expect(await json("double-delete", "--approve", "all", "--dedupe", "all")).toMatchObject({
      deleted: ["access.log"]
    })
    for (const reject of [["--reject"], ["--reject", "--reason", "keep the logs"]]) {
      expect(await json("destructive", ...reject)).toMatchObject({
        turns: 3,
        deleted: []
      })
    }
    expect(await json("slow", "--stop-after", "50ms")).toMatchObject({
      reason: "cancelled",
      detail: "user pressed Stop"
    })
    const late = await json("plan", "--latency", "30ms", "--provider", "http")
    expect(late).toMatchObject({ promptTokens: 815, costUsd: 0.00247 })
    expect(late.ms).toBeGreaterThan(85)
  })

  it("takes the flags that limit a run", async () => {
    expect(await json("runaway", "--max-calls", "3")).toMatchObject({
      toolRuns: 3,
      status: "budget_exceeded",
      handoff: { exhausted: { resource: "tool_calls", limit: 3 } }
    })
    const { handoff, runId } = await json("runaway", "--max-calls", "3")
    expect(handoff.next[0].commands).toEqual([
      `checkrein runs resume ${runId} --max-calls 6 --store ${path("runs.db")}`
    ])
    expect(await json("runaway", "--max-tokens", "600")).toMatchObject({ turns: 3, reason: "max_budget" })
    expect(await json("slow", "--max-time", "50ms")).toMatchObject({
      status: "budget_exceeded",
      handoff: { exhausted: { resource: "time" } }
    })
    expect(await json("runaway", "--max-turns", "4", "--reserve-turns", "1")).toMatchObject({
      status: "max_turns_exceeded",
      turns: 4,
      toolRuns: 2,
      handoff: { exhausted: { resource: "turns" } }
    })
  })

  it("holds money to its limit, or lets the last turn pass it", async () => {
    const args = ["runaway", "--max-turns", "none", "--max-usd", "0.01", "--money"]
    expect(await json(...args, "over-by-one-turn")).toMatchObject({ costUsd: 0.01078 })
    const held = await json(...args, "hold")
    expect(held).toMatchObject({ status: "budget_exceeded" })
    expect(held.costUsd).toBeLessThanOrEqual(0.01)
    const overHttp = await json(...args, "hold", "--provider", "http")
    expect(overHttp).toMatchObject({ turns: held.turns, costUsd: held.costUsd })
  })

  it("stops a model that repeats itself where it is told to", async () => {
    expect(await json("runaway", "--repetition", "on")).toMatchObject({ turns: 5, reason: "stalled" })
    expect(await json("runaway", "--repetition", "off", "--max-turns", "8")).toMatchObject({
      promptTokens: 3431
    })
  })

  it("hands over what was found where a limit stops a run, as data and on the screen", async () => {
    const ended = await demo("investigate")
    expect(ended.code).toBe(3)
    expect(ended.stdout).toContain("used 12 tool calls of a limit of 12 tool calls")
    expect(ended.stdout).toMatch(/Files read:\n {2}- `README\.md`/)
    expect(ended.stdout).toContain("1 of 7 orders are missing: 1007")
    const [, ...command] = /runs resume .*/.exec(ended.stdout)?.[0]?.split(" ") ?? []
    const resumed = await cli("runs", ...command, "--json")
    expect(resumed.code).toBe(0)
    expect(parsed(resumed)).toMatchObject({
      status: "completed",
      reason: "submitted",
      turns: 14,
      toolCalls: 13
    })
  })

  it("refuses what makes no sense, with exit code 2", async () => {
    for (const args of [
      ["plan", "--approve", "all", "--reject"],
      ["nothing"],
      ["plan", "--max-turns", "few"],
      ["plan", "--stop-after", "soon"],
      ["plan", "--max-calls", "some"],
      ["plan", "--max-tool-calls", "3"],
      ["plan", "--reserve-usd", "lots"],
      ["plan", "--reserve-calls", "3"],
      ["investigate", "--max-calls", "1"],
      ["plan", "--money", "mine"],
      ["plan", "--repetition", "often"],
      ["plan", "--kill-after", "0"]
    ]) {
      const { code, stderr } = await demo(...args)
      expect([code, stderr]).toEqual([2, expect.stringContaining("checkrein: ")])
    }
    const killed = await cli("demo", "plan", "--kill-after", "2", "--store", "memory")
    expect([killed.code, killed.stderr]).toEqual([2, expect.stringContaining("--kill-after needs a store")])
  })
})

describe("checkrein demo tasks", () => {
  it("puts the six tasks to the rules when there is no endpoint", async () => {
    const ended = await cli("demo", "tasks", "--store", "memory")
    expect(ended.code).toBe(0)
    expect(ended.stdout).toContain("6 of 6 tasks were answered")
    expect(ended.stderr).toContain("LLM_BASE_URL is not set")
  })

  it("puts them to the endpoint of LLM_BASE_URL, here the scripted one", async () => {
    const provider = new Running(["provider", "--json"])
    try {
      const [, baseUrl = ""] = await provider.prints(/"baseUrl":"([^"]+)"/)
      process.env.LLM_BASE_URL = baseUrl
      process.env.LLM_MODEL = "analyst"
      const { answered, tasks } = parsed(await cli("demo", "tasks", "--store", "memory", "--json"))
      expect(answered).toBe(6)
      expect(tasks[0]).toMatchObject({
        turns: 3,
        toolRuns: 4,
        status: "completed"
      })
    } finally {
      delete process.env.LLM_BASE_URL
      delete process.env.LLM_MODEL
      provider.signal("SIGTERM")
      await provider.ended
    }
  })
})

describe("what a task has used", () => {
  const used = { turns: 1, toolRuns: 0, promptTokens: 1200, completionTokens: 7, costUsd: 0, ms: 3 }

  it("is not called free where the price of the model is not known", () => {
    const counts = "1 turn, 0 tool runs, 1,200 tokens in and 7 out"
    expect(spent(used)).toBe(`${counts}, $0.00, 3 ms`)
    expect(spent({ ...used, unpriced: true })).toBe(`${counts}, not priced, 3 ms`)
  })
})

describe("checkrein without arguments", () => {
  it("shows each of the five endings, and how each run goes on", async () => {
    const before = process.cwd()
    process.chdir(path())
    try {
      const { code, stderr, stdout } = await cli()
      expect(code).toBe(0)
      expect(stderr).toBe("")
      for (const title of [
        "1. completed",
        "2. max_turns_exceeded",
        "3. budget_exceeded",
        "4 a. interrupted",
        "4 b. interrupted",
        "5. failed"
      ]) {
        expect(stdout).toContain(title)
      }
      const { runs } = parsed(await cli("runs", "list", "--json"))
      const statuses = new Set(runs.map((run: { readonly status: string }) => run.status))
      expect([...statuses].sort()).toEqual([
        "budget_exceeded",
        "completed",
        "failed",
        "interrupted",
        "max_turns_exceeded"
      ])
    } finally {
      process.chdir(before)
    }
  })
})

// These wait for other processes and for timers more than they work: the right to drive a run outlives a process that is
// killed by a quarter of a minute.
describe.concurrent("checkrein demo, taking its time", { timeout: 90_000 }, () => {
  it("stops cleanly at Ctrl-C, and says how the run goes on", async () => {
    const running = new Running(["demo", "slow", "--store", path("ctrl-c.db")])
    await running.prints(/scanned 200 of 1200 files/)
    running.signal("SIGINT")
    const { stdout } = await running.ended
    expect(stdout).toContain("interrupted (cancelled): Ctrl-C")
    expect(stdout).toMatch(/runs resume demo-slow-/)
  })

  it("really dies after --kill-after 2, and is resumed by another process to the same end", async () => {
    const store = path("killed.db")
    const killed = await spawned("demo", "plan", "--kill-after", "2", "--store", store)
    expect(killed.code).toBe(-2)
    expect(killed.stdout).toBe("")
    const [, runId = ""] = /runs resume (\S+) --store/.exec(killed.stderr) ?? []

    // What the dead process has left, before anybody has touched it.
    const { events, state } = await Effect.runPromise(
      RunStore.load(runId).pipe(Effect.provide(NodeSqlite.runStore(store)))
    )
    expect(state).toMatchObject({
      status: "running",
      turns: 2,
      costUsd: 0.00157
    })
    expect(state.messages).toHaveLength(6)
    const types = events.map((event) => event.type)
    expect(types.filter((type) => type === "turn")).toHaveLength(2)
    expect(types.filter((type) => type === "turn_started")).toHaveLength(2)
    expect(types.at(-1)).toBe("tool_result")

    const resumed = parsed(await spawned("runs", "resume", runId, "--store", store, "--json"))
    expect(resumed).toMatchObject({
      status: "completed",
      turns: 3,
      toolCalls: 2,
      costUsd: 0.00247
    })
  })

  it("figures: measures every row, and all come out as published", async () => {
    const { code, stdout } = await cli("demo", "figures", "--json")
    const { ok, rows }: { ok: boolean; rows: ReadonlyArray<{ run: string; ok: boolean }> } =
      JSON.parse(stdout)
    expect(code).toBe(ok ? 0 : 1)
    expect(rows).toHaveLength(23)
    // How long something takes is the machine's affair too; the tests on the TestClock are exact about it.
    const timed = (run: string) => run.startsWith("slow") || run.startsWith("plan at a latency")
    expect(rows.filter((row) => !row.ok && !timed(row.run))).toEqual([])
  })
})
