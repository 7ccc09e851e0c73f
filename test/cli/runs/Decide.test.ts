import { mkdirSync, writeFileSync } from "node:fs"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { describe, expect, it } from "vitest"
import * as Agent from "../../../src/Agent.ts"
import * as Scripted from "../../../src/provider/Scripted.ts"
import * as NodeSqlite from "../../../src/store/NodeSqlite.ts"
import { cli, module, parsed, withoutEndpoint, workshop } from "../support.ts"
import { stoppedWhile } from "./stoppedWhile.ts"
import { storeAt } from "./storeAt.ts"

const { path } = workshop()
withoutEndpoint()

const { runs, store, waiting } = storeAt(path("runs.db"))

const paying = async (): Promise<string> =>
  parsed(await cli("run", ...module("asker"), ...store, "--json", "Pay.")).runId

/** A run that asks which account to pay from. */
const asking = async () => {
  const runId = await paying()
  await runs("approve", runId, "p1")
  await runs("approve", runId, "p2", "--resume", ...module("asker"))
  return runId
}

/** A run with a call of unknown outcome. */
const cutOff = async () => {
  const { runId, running } = await waiting("send")
  running.signal("SIGINT")
  await running.ended
  return runId
}

describe("a word about a call, with --resume", () => {
  it.each([
    ["approve", paying, ["p1"]],
    ["reject", paying, ["p1"]],
    ["answer", asking, ["the red one"]],
    ["resolve", cutOff, ["c1", "happened"]]
  ] as const)("is not recorded by %s where the run's agent is not known", async (verb, start, words) => {
    const runId = await start()
    const ended = await runs(verb, runId, ...words, "--resume", "--json")
    expect(ended.code).toBe(1)
    expect(parsed(ended).error.message).toMatch(
      new RegExp(`^run ${runId} is a run of .*: name the module that defines it with --agent MODULE$`)
    )
    expect(parsed(await runs("show", runId, "--json")).decided).toEqual([])
    const wrong = await runs(verb, runId, ...words, "--resume", ...module("ticker"))
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining("defines ticker")])
    expect(parsed(await runs("show", runId, "--json")).decided).toEqual([])
  })

  it.each([
    ["answer", asking, ["the red one"], "asker"],
    ["resolve", cutOff, ["c1", "happened"], "waiter"]
  ] as const)(
    "stays recorded by %s where somebody stops the run meanwhile",
    async (verb, start, words, agent) => {
      const runId = await start()
      const said = ["runs", verb, runId, ...words, "--resume", ...module(agent), ...store]
      const ended = await stoppedWhile(path("runs.db"), runId, said, {
        status: "interrupted",
        reason: "cancelled",
        detail: "no"
      })
      expect([ended.code, ended.stdout]).toEqual([3, ""])
      expect(ended.stderr).toMatch(/^Recorded: .*\n.* is not resumed\.\n/s)
      expect(parsed(await runs("show", runId, "--json")).run).toMatchObject({
        status: "interrupted",
        detail: "no"
      })
    }
  )

  it("stays recorded where the run cannot be resumed afterwards, which is said", async () => {
    const runId = await paying()
    const ended = await runs("reject", runId, "p1", "--resume", "--model", "m", "--json", ...module("asker"))
    const message =
      "recorded, but not resumed: --model names a model of an endpoint: set LLM_BASE_URL to where it is"
    expect([ended.code, parsed(ended)]).toEqual([1, { error: { tag: "NotResumed", message } }])
    expect(ended.stderr.split("\n")).toEqual(["Recorded: rejected pay (call p1).", `checkrein: ${message}`])
    expect((await runs("show", runId)).stdout).toContain("call p1: rejected by ")
  })
})

describe("a call that waits with more of them than a summary has", () => {
  it("is found, and named among those that wait", async () => {
    const calls = Array.from({ length: 120 }, (_, i) => Scripted.call("pay", { i }, { id: `c${i}` }))
    const tools = Toolkit.make(
      Tool.make("pay", { parameters: Schema.Struct({ i: Schema.Int }), needsApproval: true })
    )
    const agent = Agent.make("payer", { toolkit: tools, limits: { time: "1 minute" } })
    const layers = Layer.mergeAll(
      tools.toLayer({ pay: () => Effect.void }),
      Scripted.layer(Scripted.make("payer", [Scripted.turn(...calls)]), { usage: "omitted" }),
      NodeSqlite.runStore(path("runs.db"))
    )
    await Effect.runPromise(
      Effect.flip(Agent.run(agent, "Pay.", { runId: "many" })).pipe(Effect.provide(layers))
    )
    expect((await runs("approve", "many")).stderr).toMatch(
      /^checkrein: 120 calls .* c119 \(pay, of run many\)$/m
    )
    expect(await runs("approve", "many", "c119")).toMatchObject({ code: 0 })
    expect(parsed(await runs("show", "many", "--json")).decided).toMatchObject([
      { command: { callId: "c119" } }
    ])
  })
})

describe("an approval of a sub-agent's call that cannot be used", () => {
  it.each([
    ["has expired", ["--expires", "1ms"], /^the approval by ann expired at /],
    ["has arguments that do not fit", ["--args", '{"cents":"x"}'], /do not fit pay/]
  ] as const)("because it %s is no longer shown once the call waits again", async (_, how, problem) => {
    const runId = await paying()
    await runs("approve", runId, "p1", ...how, "--by", "ann")
    const { approvals } = parsed(await runs("resume", runId, "--json", ...module("asker")))
    expect(approvals[0].problem).toMatch(problem)
    expect(parsed(await runs("show", runId, "--json")).decided).toEqual([])
    await runs("approve", runId, "p1", "--by", "bob")
    expect(parsed(await runs("show", runId, "--json")).decided).toMatchObject([{ command: { by: "bob" } }])
  })
})

describe("a word about a call, without --resume", () => {
  it.each(["approve", "reject"])("(%s) names the limit that has to be raised first", async (verb) => {
    const root = path(verb)
    mkdirSync(root)
    writeFileSync(path(verb, "access.log"), "GET /\n")
    const { runId } = parsed(await cli("run", "--root", root, ...store, "--json", "Delete access.log"))
    const stopped = await runs("resume", runId, "--max-turns", "2", "--json")
    expect(parsed(stopped)).toMatchObject({
      status: "max_turns_exceeded",
      approvals: [{ tool: "delete_file" }]
    })
    const said = await runs(verb, runId)
    const resume = `checkrein runs resume ${runId} --max-turns 4 ${store.join(" ")}`
    expect([said.code, said.stdout]).toEqual([0, expect.stringContaining(`is resumed:\n  ${resume}`)])
    const [, command = ""] = /^ {2}checkrein (.*)$/m.exec(said.stdout) ?? []
    expect((await cli(...command.split(" "))).code).toBe(0)
  })
})
