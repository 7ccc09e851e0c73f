import { DatabaseSync } from "node:sqlite"
import { describe, expect, it } from "vitest"
import { noRun, parsed, withoutEndpoint, workshop } from "../support.ts"
import { storeAt } from "./storeAt.ts"

const { path } = workshop()
withoutEndpoint()

/** A run in a store of its own that was asked to delete a file, and was allowed to. */
const scene = async (name: string) => {
  const { analystOf, runs } = storeAt(path(`${name}.db`))
  const { runId } = await analystOf(path(name))("Delete access.log")
  await runs("approve", runId, "--resume")
  return { runId, audit: (...args: ReadonlyArray<string>) => runs("audit", ...args) }
}

/** Rewrites the events of a type behind the store's back. */
const damage = (name: string, type: string, from: string, to: string, more = ""): void => {
  const db = new DatabaseSync(path(`${name}.db`))
  db.prepare(`UPDATE checkrein_events SET body = replace(body, ?, ?)${more} WHERE body LIKE ?`).run(
    from,
    to,
    `%"type":"${type}"%`
  )
  db.close()
}

/** The same, in events that are as from before there were checksums. */
const tamper = (name: string, type: string, from: string, to: string): void =>
  damage(name, type, from, to, ", checksum = NULL")

describe("checkrein runs audit", () => {
  it("says that no law is broken, and how much it has looked at", async () => {
    const { audit, runId } = await scene("good")
    const ended = await audit(runId)
    expect(ended.stdout).toMatch(new RegExp(`^${runId}: no law is broken: \\d+ events, 0 children$`))
    expect([ended.code, ended.stderr]).toEqual([0, ""])
    const json = parsed(await audit(runId, "--json"))
    expect(json).toEqual({ runId, events: expect.any(Number), children: 0, findings: [] })
    expect(json.events).toBeGreaterThan(10)
  })

  it("names each event that breaks a law, under the law, and exits with 3", async () => {
    const { audit, runId } = await scene("bad")
    tamper("bad", "approval_resolved", '"decision":"approved"', '"decision":"rejected"')
    tamper("bad", "run_stopped", '"turns":', '"turns":1')
    const { findings } = parsed(await audit(runId, "--json"))
    expect(findings).toMatchObject([
      { law: 6, runId, problem: "the run has taken 2 turns, and it says 12" },
      { law: 4, runId, problem: expect.stringMatching(/^call .* is started although it was rejected$/) },
      { law: 6, runId, problem: "the run has taken 3 turns, and it says 13" }
    ])
    const [first, start, last] = findings
    const ended = await audit(runId)
    expect(ended.stdout.split("\n")).toEqual([
      expect.stringMatching(new RegExp(`^${runId}: the laws are broken 3 times: \\d+ events, 0 children$`)),
      "",
      "Law 4: A call that needs a person starts after its approval, with the arguments that were approved; a decision is used once.",
      `  event ${start.seq}: ${start.problem}`,
      "",
      "Law 6: A run costs its turns, its lost model calls and its children, exactly, and nothing follows its end.",
      `  event ${first.seq}: ${first.problem}`,
      `  event ${last.seq}: ${last.problem}`
    ])
    expect([ended.code, ended.stderr]).toEqual([3, ""])
  })

  it("names what is told of the run and is not what its journal says", async () => {
    const { audit, runId } = await scene("told")
    const db = new DatabaseSync(path("told.db"))
    const right = db.prepare("SELECT * FROM checkrein_runs WHERE run_id = ?").get(runId) ?? {}
    const found = async (column: string, value: string) => {
      db.prepare(`UPDATE checkrein_runs SET ${column} = ? WHERE run_id = ?`).run(value, runId)
      const ended = await audit(runId)
      db.prepare(`UPDATE checkrein_runs SET ${column} = ? WHERE run_id = ?`).run(right[column] ?? null, runId)
      return ended
    }
    const summary = String(right.summary).replace('"status":"completed"', '"status":"failed"')
    const ended = await found("summary", summary)
    expect(ended.code).toBe(3)
    expect(ended.stdout.split("\n")).toEqual([
      expect.stringMatching(/the laws are broken once/),
      "",
      "Law 9: What is told of a run without its journal, in its summary and in lists, is what the journal says.",
      expect.stringMatching(
        /^ {2}event \d+: the summary of the run says "failed" for its status, and the journal "completed"$/
      )
    ])
    for (const column of ["agent", "status", "reason", "started_at"]) {
      const ended = await found(column, "another")
      expect([ended.code, ended.stdout]).toEqual([
        3,
        expect.stringMatching(/the run is not listed as one of/)
      ])
    }
    expect(await found("seq", "3")).toMatchObject({ code: 1, stderr: expect.stringMatching(/event 3 /) })
    expect((await audit(runId)).code).toBe(0)
    db.close()
  })

  it("says so when there is no such run, and when an event cannot be read", async () => {
    const { audit, runId } = await scene("gone")
    expect(await audit("nope")).toEqual({
      code: 1,
      stdout: "",
      stderr: noRun("nope", path("gone.db"))
    })
    damage("gone", "turn", '"costUsd":', '"costUsd":1')
    const unreadable = await audit(runId)
    expect([unreadable.code, unreadable.stdout]).toEqual([1, ""])
    expect(unreadable.stderr).toMatch(/^checkrein: .*event 2 of run .* is not as it was written/)
  })
})
