import { existsSync, writeFileSync } from "node:fs"
import { describe, expect, it } from "vitest"
import * as Ending from "../../../src/cli/Ending.ts"
import { age, table } from "../../../src/cli/runs/List.ts"
import * as Store from "../../../src/cli/Store.ts"
import { call, tools as kinds, ran, started, stateOf, stopped, turn } from "../../run/events.ts"
import { agentModule, cli, noRun, parsed, withoutEndpoint, workshop } from "../support.ts"
import { storeAt } from "./storeAt.ts"

const tools = (callId: string, path: string) => call(kinds.read, callId, { path })

const { path } = workshop()
withoutEndpoint()

/** A store and a directory of its own with a file to delete. */
const scene = (name: string) => {
  const { analystOf, runs, store } = storeAt(path(`${name}.db`))
  const analyst = analystOf(path(name))
  writeFileSync(path(name, "old.log"), "GET /\n")
  return {
    store,
    file: path(name, "access.log"),
    other: path(name, "old.log"),
    runs,
    start: (task = "Delete access.log", ...more: ReadonlyArray<string>) => analyst(...more, task)
  }
}

describe("checkrein runs list", () => {
  it("shows runs newest first, filtered, as a table and as JSON", async () => {
    const { runs, start } = scene("list")
    const first = await start("How many files?")
    const second = await start()
    const table = (await runs("list")).stdout.split("\n")
    expect(table[0]).toMatch(/^RUN +STATUS +REASON +AGENT +TURNS +COST +AGE$/)
    expect(table[1]).toMatch(
      new RegExp(`^${second.runId}  interrupted  approval  log-analyst@.*  2  +\\$0\\.00\\d+  \\d+s$`)
    )
    expect(table[2]).toContain(`${first.runId}  completed `)
    const column = table[0]?.indexOf("REASON")
    expect(table.slice(1).map((line) => line.slice(column).split(" ")[0])).toEqual(["approval", "answered"])
    const interrupted = parsed(await runs("list", "--status", "interrupted", "--json"))
    expect(interrupted.runs.map((run: { runId: string }) => run.runId)).toEqual([second.runId])
    const limited = await runs("list", "--limit", "1")
    expect(limited.stdout.split("\n")).toHaveLength(2)
    const none = await runs("list", "--agent", "nobody", "--json")
    expect(parsed(none)).toEqual({ runs: [] })
  })

  it("finds no runs in a store that is missing, says so, and does not make it", async () => {
    const problem = `there is no store ${path("gone.db")} here: \`checkrein run\` makes one, and --store names another`
    const gone = (...args: ReadonlyArray<string>) => cli("runs", ...args, "--store", path("gone.db"))
    for (const [args, object] of [
      [["list"], { runs: [] }],
      [["recover"], { recovered: [], left: [], failed: [] }],
      [["delete", "--older-than", "30d"], { deleted: [] }]
    ] as const) {
      const ended = await gone(...args)
      expect([args, ended.code, ended.stderr]).toEqual([args, 0, expect.stringContaining(problem)])
      const asked = await gone(...args, "--json")
      expect([asked.code, parsed(asked)]).toEqual([0, object])
    }
    for (const args of [
      ["show", "r"],
      ["audit", "r"],
      ["delete", "r"],
      ["show", "r", "--follow"]
    ]) {
      const ended = await gone(...args)
      expect([args, ended.code, ended.stdout, ended.stderr]).toEqual([args, 1, "", `checkrein: ${problem}`])
    }
    expect(existsSync(path("gone.db"))).toBe(false)
    expect((await cli("runs", "list", "--store", "memory")).code).toBe(2)
  })

  it("aligns what is wide, and lets nothing move the cursor", () => {
    expect(
      table([
        ["A", "B"],
        ["日本", "x\u001b[2J"],
        ["abcd", "y"]
      ])
    ).toBe("A     B\n日本  x [2J\nabcd  y")
    expect([0, 59_000, 60_000, 7_200_000, 172_800_000].map(age)).toEqual(["0s", "59s", "1m", "2h", "2d"])
  })
})

describe("checkrein runs show", () => {
  it("says where a run stands, what it used, what was said, and how it goes on", async () => {
    const { runs, start, store } = scene("show")
    const { next, runId } = await start()
    const { code, stdout } = await runs("show", runId)
    expect(code).toBe(0)
    expect(stdout).toContain(`${runId} is interrupted (approval): waits for a decision about delete_file`)
    expect(stdout).toMatch(/turns +2 of 20\n/)
    expect(stdout).toMatch(/time +.* of 600 s/)
    expect(stdout).toContain("  user       Delete access.log\n")
    expect(stdout).toContain('  assistant  → delete_file {"path":"access.log"}')
    const flag = store.join(" ")
    expect(next).toEqual([
      `checkrein runs approve ${runId} call_1_0 --resume ${flag}`,
      `checkrein runs reject ${runId} call_1_0 --resume ${flag}`
    ])
    for (const command of next) expect(stdout).toContain(`  ${command}`)
    expect(stdout).not.toContain("run_stopped")
    expect((await runs("show", runId, "--events")).stdout).toMatch(
      / 8 {2}\S+ {2}run_stopped +■ interrupted: approval/
    )
    const json = parsed(await runs("show", runId, "--events", "--json"))
    expect(json.run).toMatchObject({ runId, status: "interrupted", turns: 2 })
    expect(json.events.at(-1).type).toBe("run_stopped")
  })

  it("knows what was decided meanwhile", async () => {
    const { runs, start } = scene("decided")
    const { runId } = await start()
    await runs("reject", runId, "--by", "ann")
    await runs("approve", runId, "--by", "bob")
    const { stdout } = await runs("show", runId)
    expect(stdout).toContain("call call_1_0: rejected by ann; it counts when the run is resumed")
    expect(stdout).not.toContain("by bob")
    expect(stdout.slice(stdout.indexOf("To go on"))).toMatch(
      /^To go on\n {2}checkrein runs resume \S+ --store \S+$/
    )
  })

  it("says what was found, for whoever takes over, and prints it alone as Markdown", async () => {
    const { runs, start, store } = scene("handoff")
    const { runId } = await start("Which file mentions a GET?", "--max-turns", "2")
    const { stdout } = await runs("show", runId)
    expect(stdout).toContain(`\n\nLooked at\n  - \`${path("handoff")}\`\n`)
    expect(stdout).toMatch(/\n\nObserved\n {2}- `list_files`: /)
    expect(stdout).toContain('\n  to be resumed, for call call_1_0: scan_archive {"text":"GET"}\n')
    expect(stdout.match(/To go on/g), "once").toHaveLength(1)

    const markdown = await runs("show", runId, "--handoff")
    expect(markdown.code).toBe(0)
    expect(markdown.stdout).toMatch(new RegExp(`^# Handoff of run \`${runId}\`\n\nA run of \`log-analyst@`))
    const go = `checkrein runs resume ${runId} --max-turns 4 ${store.join(" ")}`
    expect(markdown.stdout).toContain(
      `\n1. resume the run with more room, say twice as much\n   - \`${go}\`\n`
    )
    const json = parsed(await runs("show", runId, "--handoff", "--json"))
    expect(json.handoff).toMatchObject({ runId, waiting: { calls: [{ tool: "scan_archive" }] } })

    const resumed = await cli(...go.split(" ").slice(1))
    expect([resumed.code, resumed.stdout]).toEqual([0, 'access.log mentions "GET": GET /; so do old.log'])
    const over = await runs("show", runId, "--handoff")
    expect([over.code, over.stderr]).toEqual([
      1,
      `checkrein: run ${runId} has completed, so there is nothing to hand over`
    ])
    expect(parsed(await runs("show", runId, "--json")).handoff).toBeNull()
  })

  it("says so when there is no such run", async () => {
    const { runs, start } = scene("nobody")
    await start("How many files?")
    for (const command of ["show", "approve", "resume", "cancel"]) {
      const ended = await runs(command, "nope")
      expect([command, ended.code, ended.stdout]).toEqual([command, 1, ""])
      expect(ended.stderr).toBe(noRun("nope", path("nobody.db")))
    }
  })
})

describe("approve, reject and resume", () => {
  it("records first and runs later", async () => {
    const { file, runs, start, store } = scene("approve")
    const { runId } = await start()
    const recorded = await runs("approve", runId, "call_1_0", "--by", "ann")
    expect(recorded.stdout).toContain(`checkrein runs resume ${runId} ${store.join(" ")}`)
    expect([recorded.code, existsSync(file)]).toEqual([0, true])
    const resumed = await runs("resume", runId)
    expect([resumed.code, resumed.stdout, existsSync(file)]).toEqual([0, "Deleted access.log.", false])
    expect((await runs("show", runId, "--events")).stdout).toContain("approved by ann")
    const again = await runs("resume", runId)
    expect([again.code, again.stdout]).toEqual([0, "Deleted access.log."])
    const late = await runs("approve", runId)
    expect([late.code, late.stderr]).toEqual([1, `checkrein: no call of run ${runId} waits for a decision`])
  })

  it("rejects with a reason and resumes at once", async () => {
    const { file, runs, start } = scene("reject")
    const { runId } = await start()
    const ended = await runs("reject", runId, "--reason", "keep the logs", "--resume", "--json")
    expect(ended.stderr.split("\n")[0]).toBe("Recorded: rejected delete_file (call call_1_0).")
    expect(parsed(ended)).toMatchObject({
      runId,
      status: "completed",
      answer: "I did not delete anything: you declined."
    })
    expect(existsSync(file)).toBe(true)
    expect((await runs("show", runId, "--full")).stdout).toContain("keep the logs")
  })

  it("runs with other arguments, if they are JSON", async () => {
    const { file, other, runs, start } = scene("edited")
    const { runId } = await start()
    const wrong = await runs("approve", runId, "--args", "{path")
    expect([wrong.code, wrong.stderr]).toEqual([2, "checkrein: --args is not JSON: {path"])
    for (const depth of [257, 20_000]) {
      const deep = await runs("approve", runId, "--args", "[".repeat(depth) + "]".repeat(depth))
      expect([deep.code, deep.stderr]).toEqual([2, "checkrein: --args is nested more than 256 levels deep"])
    }
    const ended = await runs("approve", runId, "--args", '{"path":"old.log"}', "--resume")
    expect([ended.code, existsSync(file), existsSync(other)]).toEqual([0, true, false])
    expect(ended.stdout).toContain("Deleted old.log.")
  })

  it("expires, if that is said, and then the call waits again", async () => {
    const { file, runs, start } = scene("expired")
    const { runId } = await start()
    for (const wrong of ["soon", "0s", "-1h"]) {
      const ended = await runs("approve", runId, `--expires=${wrong}`)
      expect([ended.code, ended.stderr]).toEqual([2, expect.stringContaining("Expected a duration")])
    }
    await runs("approve", runId, "--expires", "1ms", "--by", "ann")
    expect((await runs("show", runId)).stdout).not.toContain("Decided")
    const ended = await runs("resume", runId)
    expect([ended.code, ended.stderr]).toEqual([3, expect.stringContaining("the approval by ann expired at")])
    expect(existsSync(file)).toBe(true)
    await runs("approve", runId, "--expires", "1h", "--by", "bob")
    expect((await runs("show", runId)).stdout).toMatch(/approved by bob until \d{4}-.*; it counts/)
    const end = await runs("resume", runId)
    expect([end.code, existsSync(file)]).toEqual([0, false])
  })

  it("takes a call of unknown name for a mistake", async () => {
    const { runs, start } = scene("mistake")
    const { runId } = await start()
    const ended = await runs("approve", runId, "c9")
    expect(ended.stderr).toContain(
      `call c9 of run ${runId} does not wait for a decision; those that do: call_1_0`
    )
    expect(ended.code).toBe(1)
  })

  it("goes on with more turns", async () => {
    const { runs, start } = scene("turns")
    const { runId } = await start("Which file mentions a GET?", "--max-turns", "1")
    const ended = await runs("resume", runId, "--max-turns", "9")
    expect([ended.code, ended.stdout]).toEqual([0, 'access.log mentions "GET": GET /; so do old.log'])
    expect((await runs("show", runId)).stdout).toMatch(/turns +3 of 9\n/)
  })

  it("explains which agent a run needs", async () => {
    const { runs, store } = scene("whose")
    const module = agentModule("asker")
    const { runId } = parsed(await cli("run", "--agent", module, ...store, "--json", "x"))
    const without = await runs("resume", runId)
    expect(without.stderr).toContain(`run ${runId} is a run of lead, which this command does not know`)
    const other = await runs("resume", runId, "--agent", agentModule("waiter"))
    expect(other.stderr).toContain("defines waiter: name the module of lead with --agent")
    expect([without.code, other.code]).toEqual([1, 1])
  })

  it("takes up a run of the demo", async () => {
    const { runs, store } = scene("demo")
    const { runId, ...demo } = parsed(await cli("demo", "destructive", ...store, "--json"))
    expect(demo).toMatchObject({ status: "interrupted", reason: "approval" })
    const ended = await runs("approve", runId, "--resume")
    expect([ended.code, ended.stdout]).toEqual([0, "Deleted access.log to free space."])
  })
})

describe("what a run is told with", () => {
  it("only the beginning of each part of a handoff, and how many lines it has", () => {
    const files = Array.from({ length: 9 }, (_, index) => `${index}.ts`)
    const read = files.map((name, index) => tools(`c${index}`, name))
    const run = stateOf([
      started({ turns: 1 }),
      ...turn(1, read),
      ...read.flatMap((call, index) => ran(call, { evidence: [{ kind: "file", name: `${index}.ts` }] })),
      stopped("max_turns_exceeded", "max_turns", { exhausted: { resource: "turns", used: 1, limit: 1 } })
    ])
    const where = { store: Store.defaultFile, agent: undefined, root: "run" }
    const screen = Ending.told(run, where)
    expect(screen).toContain("  Files read:\n    - `0.ts`\n")
    expect(screen).toContain("    - `4.ts`\n    … 4 more lines\nIn full: checkrein runs show run --handoff\n")
    expect(Ending.toJson(run, where).handoff?.files).toHaveLength(9)
  })

  it("why an earlier approval could not be used", async () => {
    const { runs, start } = scene("unfit")
    const { runId } = await start()
    const problem =
      'the arguments given with the approval do not fit delete_file (Missing key at ["path"]): {"file":7}'
    const why = `\n    an earlier decision could not be used: ${problem}\n`
    const ended = await runs("approve", runId, "--args", '{"file":7}', "--resume", "--json")
    expect([ended.code, parsed(ended).approvals[0].problem]).toEqual([3, problem])
    expect(ended.stderr).toContain(why)
    expect((await runs("show", runId)).stdout).toContain(why)
  })

  it("ids that look like flags or hold control characters are commands that a shell takes and a terminal survives", () => {
    expect(Ending.resume({ store: Store.defaultFile, agent: "-a.ts", root: "-r" }, "--force")).toBe(
      "checkrein runs resume --force --agent=-a.ts -- -r"
    )
    expect(Ending.resume({ store: "-s.db", agent: undefined, root: "r\u001b[2J'\u009b" })).toBe(
      "checkrein runs resume $'r\\x1b[2J\\'\\u009b' --store=-s.db"
    )
  })

  it("a command takes an id behind --", async () => {
    const { start, store } = scene("dashes")
    await start("How many files?")
    const ended = await cli("runs", "approve", ...store, "--", "-r", "\u001b[2J")
    expect([ended.code, ended.stderr]).toEqual([1, noRun("-r", path("dashes.db"))])
  })
})

describe("a run with a sub-agent and a contract", () => {
  it("asks for each call by the child's id, then asks its question, then submits", async () => {
    const { runs, store } = scene("child")
    const agent = ["--agent", agentModule("asker")]
    const started = await cli("run", ...agent, ...store, "--json", "Pay.")
    const { approvals, next, runId } = parsed(started)
    const child = `${runId}/k1`
    expect(started.code).toBe(3)
    expect(approvals.map((call: { runId: string; callId: string }) => [call.runId, call.callId])).toEqual([
      [child, "p1"],
      [child, "p2"]
    ])
    expect(next).toContain(
      `checkrein runs approve ${child} p2 --resume --agent ${agentModule("asker")} ${store.join(" ")}`
    )

    const unnamed = await runs("approve", runId)
    expect(unnamed.stderr).toContain(
      `2 calls of run ${runId} wait for a decision, so name one of them: p1 (pay, of run ${child})`
    )
    const alone = await runs("resume", child, ...agent)
    expect(alone.stderr).toContain(
      `run ${child} was started by another run and goes on with it: resume ${runId}`
    )
    expect([unnamed.code, alone.code]).toEqual([1, 1])

    const below = (await runs("show", child, "--handoff", ...agent)).stdout
    const flags = `--agent ${agentModule("asker")} ${store.join(" ")}`
    expect(below).toContain(`\`checkrein runs approve ${child} p2 --resume ${flags}\``)
    expect(below).toContain(`\`checkrein runs resume ${runId} ${flags}\``)
    expect(below).toContain(`It was started by call \`k1\` of run \`${runId}\`.`)
    const above = parsed(await runs("show", runId, "--json")).handoff
    expect(above.children).toMatchObject([{ runId: child, standing: "not_over" }])
    expect(above.waiting.approvals.map(({ callId }: { callId: string }) => callId)).toEqual(["p1", "p2"])

    const recorded = await runs("approve", child, "p1")
    expect(recorded.stdout).toContain(`checkrein runs resume ${runId} --agent MODULE ${store.join(" ")}`)
    const asks = await runs("reject", runId, "p2", "--resume", ...agent, "--json")
    expect(parsed(asks)).toMatchObject({
      runId,
      reason: "input",
      question: { runId, callId: "q1", text: "Which account?" }
    })
    expect(asks.stderr).toContain("it asks: Which account?")

    const done = await runs("resume", runId, "--message", "the red one", ...agent, "--json")
    expect(parsed(done)).toMatchObject({
      status: "completed",
      reason: "submitted",
      answer: { done: "the red one" }
    })
    expect((await runs("resume", runId, ...agent)).stdout).toBe('{\n  "done": "the red one"\n}')
    const text = (await runs("show", child, "--full")).stdout
    expect(text).toContain(`child of    ${runId}, call k1`)
    expect(text).toContain("paid 100")
    expect(text).toContain("✗ pay: Declined")
  })
})
