import { mkdirSync } from "node:fs"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { describe, expect, it } from "vitest"
import * as Agent from "../../../src/Agent.ts"
import * as NodeSqlite from "../../../src/store/NodeSqlite.ts"
import { agent, layer } from "../agents/ticker.ts"
import {
  cli,
  elsewhere,
  forgetTheDead,
  impatient,
  module,
  parsed,
  Running,
  withoutEndpoint,
  workshop
} from "../support.ts"
import { stoppedWhile } from "./stoppedWhile.ts"
import { storeAt } from "./storeAt.ts"

const { path } = workshop()
withoutEndpoint()

mkdirSync(path("logs"))

const { runs, store, waiting } = storeAt(path("runs.db"))

/** A run that nobody has driven yet. */
const ticking = async (runId: string) => {
  const created = Agent.create(agent, "1", { runId })
  await Effect.runPromise(Effect.provide(created, Layer.merge(layer, NodeSqlite.runStore(path("runs.db")))))
  return { runId }
}

describe("a run that another process drives", () => {
  const sentence = (runId: string) =>
    `checkrein: run ${runId} is driven by another process: watch it with \`checkrein runs show ${runId} --follow ${store.join(" ")}\`, stop it with \`checkrein runs cancel ${runId} ${store.join(" ")}\`, or wait until it has stopped`

  it("is not resumed, which is said as soon as it moves, and it goes on", async () => {
    const { runId, running } = await elsewhere(store, "ticker", "25", /turn 2/)
    const ended = await runs("resume", runId, ...module("ticker"), "--json")
    expect([ended.code, parsed(ended).error.tag]).toEqual([1, "RunBusy"])
    expect(ended.stderr.split("\n")).toEqual([
      "The run is driven by another process, or that process has died: waiting, 17 s at most.",
      sentence(runId)
    ])
    expect(await running.ended).toMatchObject({ code: 0, stdout: "It has ticked.\n" })
  })

  it("is not resumed either while it keeps silent for longer than a dead one could be thought to live", async () => {
    const { runId, running } = await waiting()
    const ended = await impatient("runs", "resume", runId, ...module("waiter"), ...store)
    expect([ended.code, ended.stdout]).toEqual([1, ""])
    expect(ended.stderr.split("\n").at(-1)).toBe(sentence(runId))
    await runs("cancel", runId)
    expect((await running.ended).code).toBe(3)
  })

  it("is resumed as soon as its process is known to be dead", async () => {
    const env = { env: { CHECKREIN_TEST_GO: path("logs") } }
    const dead = await waiting()
    dead.running.signal("SIGKILL")
    await dead.running.ended
    const resuming = new Running(["runs", "resume", dead.runId, ...module("waiter"), ...store], env)
    await resuming.prints(/waiting, 17 s at most/)
    forgetTheDead(path("runs.db"))
    expect(await resuming.ended).toMatchObject({ code: 0, stdout: "It went.\n" })
  })

  it("is resumed as soon as it has stopped for anything but a Stop", async () => {
    const { runId } = await ticking("meanwhile")
    const ended = await stoppedWhile(
      path("runs.db"),
      runId,
      ["runs", "resume", runId, ...module("ticker"), ...store],
      { status: "interrupted", reason: "provider", detail: "it is away" }
    )
    expect(ended).toMatchObject({ code: 0, stdout: "It has ticked.\n" })
  })

  it.each(["Ctrl-C", "cancelled from the command line"])(
    "is left as a Stop has left it: %s",
    async (detail) => {
      const { runId } = await ticking(detail)
      const resume = ["runs", "resume", runId, ...module("ticker"), ...store]
      const ended = await stoppedWhile(path("runs.db"), runId, [...resume, "--json"], {
        status: "interrupted",
        reason: "cancelled",
        detail
      })
      expect([ended.code, parsed(ended)]).toMatchObject([3, { runId, reason: "cancelled", detail, turns: 0 }])
      expect(ended.stderr).toContain("The run has been stopped meanwhile, and is not resumed.\n")
      // Whoever asks after that has it go on.
      expect((await cli(...resume)).stdout).toBe("It has ticked.")
    }
  )

  it("is stopped where its process has died and a Stop has come since", async () => {
    const { runId, running } = await waiting()
    running.signal("SIGKILL")
    await running.ended
    const env = { env: { CHECKREIN_TEST_GO: path("logs") } }
    const resuming = new Running(["runs", "resume", runId, ...module("waiter"), ...store], env)
    await resuming.prints(/waiting, 17 s at most/)
    const cancelling = new Running(["runs", "cancel", runId, "--reason", "it died", ...store])
    await cancelling.prints(/It has not stopped yet/)
    forgetTheDead(path("runs.db"))
    expect(await cancelling.ended).toMatchObject({
      code: 0,
      stdout: `Run ${runId} has stopped: interrupted (cancelled): it died\n`
    })
    expect(await resuming.ended).toMatchObject({ code: 3, stdout: "" })
  })
})
