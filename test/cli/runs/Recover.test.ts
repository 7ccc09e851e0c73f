import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import * as Agent from "../../../src/Agent.ts"
import * as Scripted from "../../../src/provider/Scripted.ts"
import * as NodeSqlite from "../../../src/store/NodeSqlite.ts"
import {
  elsewhere,
  forgetTheDead,
  impatient,
  module,
  parsed,
  Running,
  withoutEndpoint,
  workshop
} from "../support.ts"
import { storeAt } from "./storeAt.ts"

const { path } = workshop()
withoutEndpoint()

/** Stores a run that nobody has driven yet, as a process leaves it that dies at once. */
const leave = (file: string, agent: string, runId: string, task: string) =>
  Agent.create(Agent.make(agent), task, { runId, limits: { turns: 100, time: "1 minute" } }).pipe(
    Effect.provide(Scripted.layer(Scripted.make("none", []), { usage: "omitted" })),
    Effect.provide(NodeSqlite.runStore(file)),
    Effect.runPromise
  )

/** A store and a directory of its own. */
const scene = (name: string) => {
  mkdirSync(path(name))
  writeFileSync(path(name, "access.log"), "GET /\n")
  const file = path(`${name}.db`)
  const { runs, store } = storeAt(file)
  return {
    file,
    store,
    leave: (agent: string, runId: string, task: string) => leave(file, agent, runId, task),
    analyst: `log-analyst@${path(name)}`,
    runs,
    recover: (...args: ReadonlyArray<string>) => runs("recover", ...args)
  }
}

describe("checkrein runs recover", () => {
  it("drives what was left of the agents that it knows, and says why it could not drive the rest", async () => {
    const { analyst, file, leave, recover, store } = scene("known")
    const demo = await new Running(["demo", "plan", "--kill-after", "1", ...store]).ended
    const [, demoId = ""] = /runs resume (\S+)/.exec(demo.stderr) ?? []
    await leave(analyst, "asks", "How many files are there?")
    await leave(analyst, "waits", "Delete access.log")
    await leave("ticker", "ticks", "2")
    forgetTheDead(file)

    const ended = await recover("--json")
    const { failed, left, recovered } = parsed(ended)
    expect(recovered).toMatchObject([
      { runId: demoId, status: "completed", turns: 3 },
      { runId: "asks", status: "completed", answer: "There is 1 file." },
      { runId: "waits", status: "interrupted", reason: "approval", approvals: [{ tool: "delete_file" }] }
    ])
    expect(recovered[2].next[0]).toBe(`checkrein runs approve waits call_1_0 --resume ${store.join(" ")}`)
    const unknown =
      "run ticks is a run of ticker, which this command does not know: name the module that defines it with --agent MODULE"
    expect(failed).toEqual([
      { runId: "ticks", agent: "ticker", error: { tag: "CommandFailed", message: unknown } }
    ])
    expect([left, ended.code]).toEqual([[], 1])
    const alone = await recover()
    expect([alone.code, alone.stdout]).toEqual([1, `Could not drive 1 run:\n  ticks  ${unknown}`])
    expect(ended.stderr).toMatch(/^asks {2}▶ resumed/m)
    expect(ended.stderr).toMatch(new RegExp(`^${demoId} {4}turn 2`, "m"))
    expect(ended.stderr.match(/the built-in script answers/g), "said once").toHaveLength(1)

    const rest = await recover(...module("ticker"))
    expect([rest.code, rest.stdout]).toEqual([0, "Took over 1 run:\n  ticks  completed (answered)"])
    const nothing = await recover("--json")
    expect([nothing.code, parsed(nothing)]).toEqual([0, { recovered: [], left: [], failed: [] }])
    expect((await recover()).stderr).toBe("Every run has stopped: there is nothing to take over.")
  })

  it("takes up what was decided and never resumed, and leaves alone what still waits", async () => {
    const { analyst, file, leave, recover, runs } = scene("decided")
    for (const runId of ["decided", "waits"]) await leave(analyst, runId, "Delete access.log")
    forgetTheDead(file)
    expect(parsed(await recover("--json")).recovered).toHaveLength(2)
    expect((await runs("approve", "decided", "call_1_0")).code).toBe(0)
    expect(parsed(await recover("--json"))).toMatchObject({
      recovered: [{ runId: "decided", status: "completed" }],
      left: [],
      failed: []
    })
    expect(parsed(await runs("show", "waits", "--json"))).toMatchObject({ run: { reason: "approval" } })
  })

  it("takes the module's agent for its runs, and the built-in one for the others", async () => {
    const { analyst, leave, recover, store } = scene("both")
    await leave(analyst, "asks", "Delete access.log")
    await leave("lead", "pays", "Pay.")
    const { recovered } = parsed(await recover(...module("asker"), "--json"))
    expect(recovered).toMatchObject([
      { runId: "asks", reason: "approval" },
      { runId: "pays", reason: "approval" }
    ])
    expect(recovered[1].next[0]).toContain(`runs approve pays/k1 p1 --resume ${module("asker").join(" ")}`)
    expect(recovered[0].next[0]).toBe(`checkrein runs approve asks call_1_0 --resume ${store.join(" ")}`)
  })

  it("leaves alone what another process drives, and does not disturb it", async () => {
    const { runs, store } = scene("driven")
    const idle = await elsewhere(store, "waiter", "Wait.", /waiting to go/)
    const busy = await elsewhere(store, "ticker", "900", /tick/)
    const agents = [...module("waiter"), "--json", ...store]
    const ended = await impatient("runs", "recover", ...agents)
    expect(ended.code).toBe(1)
    const { failed, left } = parsed(ended)
    const why = "another process drives it"
    expect(left).toEqual([{ runId: idle.runId, agent: "waiter", why }])
    expect(failed, "of an agent that is not known here").toMatchObject([{ runId: busy.runId }])
    const ticking = await impatient("runs", "recover", ...module("ticker"), "--json", ...store)
    expect(parsed(ticking).left).toMatchObject([{ runId: busy.runId, why }])
    expect(ended.stderr.match(/: waiting, 3 s at most\.$/gm), "said once").toHaveLength(1)
    for (const { runId, running } of [idle, busy]) {
      await runs("cancel", runId)
      expect((await running.ended).code).toBe(3)
    }
    const alone = await impatient("runs", "recover", ...module("waiter"), ...store)
    expect(alone.code).toBe(0)
  })

  it("waits for what a process may have left a moment ago, beside which the others go on", async () => {
    const { file, leave, store } = scene("just killed")
    const killed = await Promise.all([1, 2].map(() => elsewhere(store, "ticker", "900", /tick/)))
    for (const { running } of killed) running.signal("SIGKILL")
    for (const { running } of killed) await running.ended
    await leave("ticker", "other", "3")
    const recovering = new Running([
      ...[
        "runs",
        "recover",
        ...module("ticker"),
        "--max-turns",
        "5",
        "--concurrency",
        "1",
        "--json",
        ...store
      ]
    ])
    await recovering.prints(/waiting, 17 s at most/)
    await recovering.prints(/^other {2}■/m)
    forgetTheDead(file)
    const ended = await recovering.ended
    expect(ended.code).toBe(3)
    const { failed, left, recovered } = parsed(ended)
    expect([failed, left]).toEqual([[], []])
    expect(recovered).toHaveLength(3)
    expect(recovered).toContainEqual(expect.objectContaining({ runId: "other", status: "completed" }))
    for (const { runId } of killed)
      expect(recovered).toContainEqual(expect.objectContaining({ runId, status: "max_turns_exceeded" }))
  })

  it("goes on with the others where one cannot be driven", async () => {
    const { analyst, file, leave, recover } = scene("broken")
    await leave("broken", "fails", "x")
    await leave(analyst, "damaged", "How many files are there?")
    await leave(analyst, "asks", "How many files are there?")
    const database = new DatabaseSync(file)
    database.exec(`UPDATE checkrein_events SET body = '{' WHERE run_no =
      (SELECT run_no FROM checkrein_runs WHERE run_id = 'damaged')`)
    database.close()
    const ended = await recover(...module("broken"), "--json")
    expect(ended.code).toBe(1)
    const { failed, recovered } = parsed(ended)
    expect(recovered).toMatchObject([{ runId: "asks", status: "completed" }])
    expect(failed).toMatchObject([
      { runId: "fails", agent: "broken", error: { message: "no database of customers" } },
      { runId: "damaged", error: { tag: "RunStoreError" } }
    ])
    const screen = await recover(...module("broken"))
    expect([screen.code, screen.stdout]).toEqual([
      1,
      expect.stringMatching(
        /^Could not drive 2 runs:\n {2}fails {2}no database.*\n {2}damaged {2}the store failed/
      )
    ])
  })

  it("says so where an agent has no model, and leaves its run as it was", async () => {
    const { leave, recover } = scene("modelless")
    await leave("ticker", "ticks", "2")
    const file = path("modelless.ts")
    const index = JSON.stringify(new URL("../../../src/index.ts", import.meta.url).href)
    writeFileSync(file, `import { Agent } from ${index}\nexport const agent = Agent.make("ticker")`)
    const ended = await recover("--agent", file)
    expect([ended.code, ended.stdout]).toEqual([
      1,
      expect.stringMatching(/^Could not drive 1 run:\n {2}ticks {2}the agent has no model: /)
    ])
    const rest = parsed(await recover(...module("ticker"), "--json"))
    expect(rest.recovered).toMatchObject([{ runId: "ticks", status: "completed" }])
  })

  it("says so where the directory of a log analyst is gone", async () => {
    const { analyst, leave, recover } = scene("gone")
    await leave(analyst, "asks", "How many files are there?")
    rmSync(path("gone"), { recursive: true })
    const ended = await recover()
    expect([ended.code, ended.stdout]).toEqual([
      1,
      `Could not drive 1 run:\n  asks  there is no directory ${path("gone")}`
    ])
  })

  it("has the runs go on with the limits that are named, each as far as they let it", async () => {
    const { leave, recover } = scene("limits")
    await leave("ticker", "short", "2")
    await leave("ticker", "long", "9")
    const ended = await recover(...module("ticker"), "--max-turns", "5", "--json")
    expect([ended.code, parsed(ended).recovered]).toMatchObject([
      3,
      [
        { runId: "short", status: "completed" },
        { runId: "long", reason: "max_turns", turns: 5 }
      ]
    ])
    await leave("ticker", "poor", "2")
    const poor = await recover(...module("ticker"), "--max-usd", "1")
    expect([poor.code, poor.stdout]).toEqual([1, expect.stringContaining("set LLM_PRICE_INPUT")])
  })

  it("drives so many at a time, and each of them once", async () => {
    const { leave, recover } = scene("many")
    for (const n of [1, 2, 3, 4, 5]) await leave("ticker", `t${n}`, "3")
    const ended = await recover(...module("ticker"), "--concurrency", "2", "--json")
    expect([ended.code, parsed(ended).recovered.length]).toEqual([0, 5])
    let driven = 0
    let most = 0
    for (const [, mark] of ended.stderr.matchAll(/^t\d {2,}([▶■])/gm)) {
      driven += mark === "▶" ? 1 : -1
      most = Math.max(most, driven)
    }
    expect([most, driven]).toEqual([2, 0])
    expect(ended.stderr.match(/→ tick/g)).toHaveLength(15)
    expect((await recover("--concurrency", "0")).code).toBe(2)
  })

  it("leaves every run resumable when it is stopped itself, and those that waited for their turn as they were", async () => {
    const { leave, recover, runs, store } = scene("stopped")
    await leave("waiter", "first", "Wait.")
    await leave("waiter", "second", "Wait.")
    const recovering = new Running([
      ...["runs", "recover", ...module("waiter"), "--concurrency", "1", "--json", ...store]
    ])
    await recovering.prints(/waiting to go/)
    recovering.signal("SIGTERM")
    const ended = await recovering.ended
    expect(ended.code).toBe(143)
    expect(parsed(ended)).toMatchObject({
      recovered: [{ runId: "first", reason: "cancelled", detail: "SIGTERM" }],
      left: [{ runId: "second", why: "it was not its turn yet" }]
    })
    const { runs: listed } = parsed(await runs("list", "--json"))
    expect(listed).toMatchObject([{ status: "running" }, { status: "interrupted" }])
    process.env.CHECKREIN_TEST_GO = path("stopped")
    expect((await recover(...module("waiter"))).stdout).toBe(
      "Took over 1 run:\n  second  completed (answered)"
    )
    expect((await runs("resume", "first", ...module("waiter"))).stdout).toBe("It went.")
    delete process.env.CHECKREIN_TEST_GO
  })

  it("tells a run that somebody else stops", async () => {
    const { leave, runs, store } = scene("cancelled")
    await leave("waiter", "run", "Wait.")
    const recovering = new Running(["runs", "recover", ...module("waiter"), ...store])
    await recovering.prints(/waiting to go/)
    await runs("cancel", "run", "--reason", "wrong one")
    const ended = await recovering.ended
    expect(ended.code).toBe(3)
    expect(ended.stdout).toBe(
      `Took over 1 run:\n  run  interrupted (cancelled): wrong one\n    checkrein runs resume run ${module("waiter").join(" ")} ${store.join(" ")}\n`
    )
  })

  it("does not drive a run that somebody has stopped just before it is taken over", async () => {
    const { file, leave, recover, runs } = scene("overtaken")
    await leave("overtaken", "first", "Go.")
    await leave("overtaken", "run", "Go.")
    process.env.CHECKREIN_TEST_STORE = file
    const ended = await recover(...module("overtaken"), "--concurrency", "1", "--json")
    delete process.env.CHECKREIN_TEST_STORE
    expect(parsed(ended)).toMatchObject({
      recovered: [{ runId: "first", status: "completed" }],
      left: [{ runId: "run", agent: "overtaken", why: "it has stopped meanwhile" }],
      failed: []
    })
    const { runs: listed } = parsed(await runs("list", "--json"))
    expect(listed).toMatchObject([
      { status: "interrupted", reason: "cancelled", detail: "not this one", turns: 0 },
      { runId: "first", status: "completed" }
    ])
  })
})
