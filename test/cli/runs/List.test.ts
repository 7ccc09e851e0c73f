import { DatabaseSync } from "node:sqlite"
import { describe, expect, it } from "vitest"
import { Reason } from "../../../src/run/RunEvent.ts"
import { cli, noRun, parsed, withoutEndpoint, workshop } from "../support.ts"
import { aged, various } from "./agedRuns.ts"

const { path } = workshop()
withoutEndpoint()

describe("checkrein runs list", () => {
  it("lists by tag, age, agent and status", async () => {
    const { listed } = await aged(path("filters.db"), various)
    expect(await listed("--tag", "acme")).toEqual(["fresh", "month"])
    expect(await listed("--older-than", "5d", "--newer-than", "60d")).toEqual(["week", "month", "open"])
    expect(await listed("--agent", "clerk")).toEqual(["week"])
    expect(await listed("--tag", "acme", "--older-than", "1 week", "--status", "completed")).toEqual([
      "month"
    ])
  })

  it("lists by why runs have stopped, whatever that may be", async () => {
    const answer = { status: "interrupted", reason: "input" } as const
    const { command, listed } = await aged(path("reasons.db"), { ...various, asks: { age: 60, ...answer } })
    expect(await listed("--reason", "approval")).toEqual(["open"])
    expect(await listed("--reason", "answered", "--tag", "acme", "--older-than", "1d")).toEqual(["month"])
    expect(await listed("--reason", "input", "--status", "completed")).toEqual([])
    for (const reason of Reason.literals) {
      const { code } = await command("list", "--reason", reason)
      expect([reason, code]).toEqual([reason, 0])
    }
    expect((await command("list", "--reason", "boredom")).code).toBe(2)
  })

  it("goes on where a page has ended, and says how", async () => {
    const { command, listed } = await aged(path("pages.db"), various)
    expect(await listed("--limit", "2")).toEqual(["fresh", "week"])
    expect((await command("list", "--limit", "2")).stderr).toBe(
      "At most 2 runs are shown: --limit shows more, and --after week the next ones."
    )
    expect((await command("list", "--limit", "1")).stderr).toContain("One run is shown: ")
    expect(await listed("--limit", "2", "--after", "week")).toEqual(["month", "open"])
    expect(await listed("--after", "open")).toEqual(["year"])
    const unknown = await command("list", "--after", "nobody")
    expect([unknown.code, unknown.stderr]).toEqual([1, noRun("nobody", path("pages.db"))])
  })

  it("shows the other runs where one cannot be read, which is named, and can be deleted", async () => {
    const file = path("damaged.db")
    const { command, deleted, listed } = await aged(file, various)
    const database = new DatabaseSync(file)
    database.exec(`UPDATE checkrein_runs SET summary = '{' WHERE run_id IN ('week', 'open')`)
    database.close()
    expect(await listed("--limit", "2")).toEqual(["fresh", "month"])
    const { code, stderr, stdout } = await command("list")
    expect([code, stdout.match(/^\w+/gm)]).toEqual([0, ["RUN", "fresh", "month", "year"]])
    expect(stderr).toMatch(/^warn: run week is left out of a list: its summary cannot be read: /m)
    const shown = await command("show", "week", "--json")
    expect([shown.code, parsed(shown).error.message]).toEqual([
      1,
      expect.stringContaining("run week: its summary cannot be read")
    ])
    expect(await deleted("--older-than", "5d")).toEqual(["month", "year"])
    expect(await deleted("week")).toEqual(["week"])
    expect((await command("list")).stderr).not.toContain("week")
  })

  it("has a column of tags where there are any", async () => {
    const { command } = await aged(path("tagged.db"), various)
    const table = (await command("list")).stdout.split("\n")
    expect(table[0]).toMatch(/ AGE +TAGS$/)
    expect(table.map((line) => line.split(/ {2,}/).at(-1)?.trim())).toEqual([
      "TAGS",
      "acme",
      "7d",
      "acme, night",
      "50d",
      "400d"
    ])
    expect((await command("list", "--agent", "clerk")).stdout).not.toContain("TAGS")
  })

  it("does not call a run free whose model has no known price", async () => {
    const { command } = await aged(path("prices.db"), {
      priced: { age: 0, costUsd: 0 },
      partly: { age: 1, costUsd: 0.000123, unpriced: true },
      unpriced: { age: 2, costUsd: 0, unpriced: true }
    })
    const [, ...rows] = (await command("list")).stdout.split("\n")
    expect(rows.map((row) => row.split(/ {2,}/).at(-2))).toEqual([
      "$0.00",
      "$0.000123 + unpriced",
      "not priced"
    ])
    const { runs } = parsed(await command("list", "--json"))
    expect(runs.map(({ unpriced }: { readonly unpriced?: boolean }) => unpriced)).toEqual([
      undefined,
      true,
      true
    ])
  })

  it("knows the tags with which a run was started", async () => {
    const store = ["--store", path("started.db")]
    const run = ["run", "--root", path("."), ...store, "--json", "--tag", "acme", "--tag", "n 2"]
    const { runId } = parsed(await cli(...run, "How many files are there?"))
    expect(parsed(await cli("runs", "list", "--tag", "n 2", ...store, "--json")).runs).toMatchObject([
      { runId, tags: ["acme", "n 2"] }
    ])
    expect((await cli("runs", "show", runId, ...store)).stdout).toContain("  tags        acme, n 2\n")
  })
})
