import { describe, expect, it } from "vitest"
import {
  cli,
  elsewhere,
  forgetTheDead,
  module,
  noRun,
  parsed,
  Running,
  withoutEndpoint,
  workshop
} from "../support.ts"
import { storeAt } from "./storeAt.ts"

const { path } = workshop()
withoutEndpoint()

const { analystOf, runs, store, waiting } = storeAt(path("runs.db"))
const ticker = module("ticker")
const onLogs = analystOf(path("logs"))
const follow = (id: string, ...args: ReadonlyArray<string>) => runs("show", id, "--follow", ...args)

const ticking = (ticks: number) => elsewhere(store, "ticker", String(ticks), /turn 2/)

/** More ticks than a test waits for, however long its processes take to start: a run that its test has to stop. */
const endless = 500

/** The run is driven on by its own process, which is then stopped. */
const goesOn = async (runId: string, running: Running) => {
  const { run } = parsed(await runs("show", runId, "--json"))
  expect(run.status).toBe("running")
  await running.prints(new RegExp(`turn ${run.turns + 1}\\b`))
  running.signal("SIGINT")
  expect((await running.ended).code).toBe(130)
}

const lines = (text: string) => text.split("\n").map((line) => JSON.parse(line))

describe("checkrein runs show --follow", () => {
  it("tells a run that is over from its beginning, and ends with its answer", async () => {
    const { runId } = await onLogs("How many files are there?")
    const ended = await follow(runId)
    expect([ended.code, ended.stderr]).toEqual([0, ""])
    expect(ended.stdout.split("\n").map((line) => line.trim().split(/ {2}/)[0])).toEqual([
      `▶ log-analyst@${path("logs")}`,
      "turn 1",
      "→ list_files {}",
      expect.stringMatching(/^✓ list_files/),
      "turn 2",
      "■ completed: answered",
      "There is 1 file."
    ])
  })

  it("prints the stored events with --json, each on a line of its own", async () => {
    const { runId } = await onLogs("How many files are there?")
    const { events } = parsed(await runs("show", runId, "--events", "--json"))
    const ended = await follow(runId, "--json")
    expect([ended.code, ended.stderr]).toEqual([0, ""])
    expect(lines(ended.stdout)).toEqual(events)
  })

  it("ends with the way to go on where the run stopped short, and goes past its earlier stops", async () => {
    const { next, runId } = await onLogs("Delete access.log", "--max-turns", "1")
    expect(next[0]).toContain("--max-turns 2")
    await runs("resume", runId, "--max-turns", "9")
    const ended = await follow(runId)
    expect(ended.code).toBe(3)
    expect(ended.stdout.match(/■ .*/g)).toEqual([
      expect.stringMatching(/^■ max turns exceeded/),
      expect.stringMatching(/^■ interrupted: approval/)
    ])
    expect(ended.stderr).toContain(`run ${runId} stopped short: interrupted (approval)`)
    expect(ended.stderr).toContain(`\n  checkrein runs approve ${runId} call_1_0 --resume ${store.join(" ")}`)
    const asJson = await follow(runId, "--json")
    expect([asJson.code, asJson.stderr]).toEqual([3, ended.stderr])
    expect(lines(asJson.stdout).at(-1)).toMatchObject({ type: "run_stopped", reason: "approval" })
  })

  it("tails a run that another process drives, to its end", async () => {
    const { runId, running } = await ticking(12)
    const ended = await follow(runId)
    expect([ended.code, ended.stderr]).toEqual([0, ""])
    expect(ended.stdout.match(/→ tick/g)).toHaveLength(12)
    expect(ended.stdout).toMatch(/■ completed: answered.*\nIt has ticked\.$/)
    expect((await running.ended).code).toBe(0)
  })

  it("stops watching by Ctrl-C, and nothing else", async () => {
    const { runId, running } = await ticking(endless)
    const watching = new Running(["runs", "show", runId, "--follow", ...store])
    await watching.prints(/turn 4/)
    watching.signal("SIGINT")
    const { code, stderr } = await watching.ended
    expect([code, stderr]).toEqual([130, "Not watched any more; the run goes on as it did.\n"])
    await goesOn(runId, running)
  })

  it("ends when nobody reads any more, and the run goes on", async () => {
    const { runId, running } = await ticking(endless)
    const watching = new Running(["runs", "show", runId, "--follow", ...store])
    await watching.prints(/turn 2/)
    watching.closeStdout()
    expect(await watching.ended).toMatchObject({ code: 0, stderr: "" })
    await goesOn(runId, running)
  })

  it("says that nobody drives the run, and goes on when somebody does", async () => {
    const { runId, running } = await ticking(1000)
    running.signal("SIGINT")
    await running.ended
    // Resumed and killed: it has not stopped, and nobody drives it once the dead process is forgotten.
    const again = new Running(["runs", "resume", runId, ...ticker, ...store, "--max-time", "1h"])
    await again.prints(/→ tick/)
    again.signal("SIGKILL")
    await again.ended
    forgetTheDead(path("runs.db"))
    const shown = (await runs("show", runId)).stdout
    expect(shown).toContain(
      `${runId} is running, and nobody drives it: its process has died, or it waits for one`
    )
    expect(shown).toMatch(/To go on\n {2}checkrein runs resume [^\n]*$/)
    const watching = new Running(["runs", "show", runId, "--follow", ...store])
    const [, command = ""] = await watching.prints(/Nobody drives run .* go on: checkrein (.*)\n/)
    expect(command).toBe(`runs resume ${runId} --agent MODULE ${store.join(" ")}`)
    const resumed = cli(...command.replace("--agent MODULE", ticker.join(" ")).split(" "), "--max-turns", "8")
    const ended = await watching.ended
    expect((await resumed).code).toBe(3)
    expect(ended.code).toBe(3)
    expect(ended.stdout).toContain("■ max turns exceeded")
  })

  it("ends where the run is deleted under it", async () => {
    const { runId, running } = await ticking(1000)
    const watching = follow(runId)
    running.signal("SIGKILL")
    await running.ended
    forgetTheDead(path("runs.db"))
    expect((await runs("delete", runId)).code).toBe(0)
    const ended = await watching
    expect(ended.code).toBe(1)
    expect(ended.stderr).toContain(noRun(runId, path("runs.db")))
  })

  it("watches a child too, and names the run at the top in the way to go on", async () => {
    const asker = module("asker")
    const { runId } = parsed(await cli("run", ...asker, ...store, "--json", "Pay."))
    const ended = await follow(`${runId}/k1`, ...asker)
    expect(ended.code).toBe(3)
    expect(ended.stdout).toContain("▶ clerk")
    expect(ended.stderr).toContain(`runs approve ${runId}/k1 p1 --resume ${asker.join(" ")}`)
  })

  it("does not mix with what shows a run as it stands", async () => {
    for (const flag of ["--events", "--full", "--handoff"]) {
      const ended = await follow("r", flag)
      expect([ended.code, ended.stdout]).toEqual([2, ""])
      expect(ended.stderr).toBe(
        "checkrein: --follow shows what happens, and --events, --full and --handoff how the run stands: use one of them"
      )
    }
    expect((await follow("nope")).stderr).toBe(noRun("nope", path("runs.db")))
  })

  it("is silent about progress that nobody stored, and waits with a tool that takes long", async () => {
    const { runId, running } = await waiting()
    const watching = new Running(["runs", "show", runId, "--follow", ...store])
    await watching.prints(/→ wait/)
    await runs("cancel", runId)
    const ended = await watching.ended
    expect([ended.code, ended.stdout.includes("waiting to go")]).toEqual([3, false])
    expect(ended.stdout).toContain("■ interrupted: cancelled")
    await running.ended
  })
})
