import { mkdirSync } from "node:fs"
import { describe, expect, it } from "vitest"
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

mkdirSync(path("logs"))

const { runs, store, waiting } = storeAt(path("runs.db"))

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

  it("is resumed as soon as its process is known to be dead, or has stopped it", async () => {
    const env = { env: { CHECKREIN_TEST_GO: path("logs") } }
    const dead = await waiting()
    dead.running.signal("SIGKILL")
    await dead.running.ended
    const resuming = new Running(["runs", "resume", dead.runId, ...module("waiter"), ...store], env)
    await resuming.prints(/waiting, 17 s at most/)
    forgetTheDead(path("runs.db"))
    expect(await resuming.ended).toMatchObject({ code: 0, stdout: "It went.\n" })

    const live = await waiting()
    const next = new Running(["runs", "resume", live.runId, ...module("waiter"), ...store], env)
    await next.prints(/waiting, 17 s at most/)
    live.running.signal("SIGINT")
    expect((await live.running.ended).code).toBe(130)
    expect(await next.ended).toMatchObject({ code: 0, stdout: "It went.\n" })
  })
})
