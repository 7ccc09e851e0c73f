import { existsSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { describe, expect, it } from "vitest"
import * as Agent from "../../../src/Agent.ts"
import * as Journal from "../../../src/loop/Journal.ts"
import * as Scripted from "../../../src/provider/Scripted.ts"
import * as NodeSqlite from "../../../src/store/NodeSqlite.ts"
import { load, RunStore, type RunSummary } from "../../../src/store/RunStore.ts"
import {
  elsewhere,
  forgetTheDead,
  impatient,
  parsed,
  Running,
  withoutEndpoint,
  workshop
} from "../support.ts"
import { storeAt } from "./storeAt.ts"

const { path } = workshop()
withoutEndpoint()

const { analystOf, runs, store, waiting } = storeAt(path("runs.db"))
const onLogs = analystOf(path("logs"))

/** The time at which the first command to a run is seen in the store, in milliseconds since 1970. */
const whenSent = (runId: string): Promise<number> =>
  new Promise((resolve) => {
    const file = new DatabaseSync(path("runs.db"), { readOnly: true })
    const command = file.prepare("SELECT id FROM checkrein_commands WHERE run_id = ?")
    const looking = setInterval(() => {
      if (command.get(runId) === undefined) return
      resolve(Date.now())
      clearInterval(looking)
      file.close()
    }, 5)
  })

/** The time at which a run has stopped, as its journal says. */
const stoppedMs = async (runId: string): Promise<number> => {
  const listed: ReadonlyArray<RunSummary> = parsed(await runs("list", "--json")).runs
  return Date.parse(listed.find((run) => run.runId === runId)?.updatedAt ?? "")
}

describe("checkrein runs cancel", () => {
  it("tells whoever was asked to have a cancelled run go on, and waits for its turn elsewhere", async () => {
    const { runId } = await onLogs("Delete access.log")
    await runs("cancel", runId)
    const again = await runs("cancel", runId, "--reason", "no, stop")
    expect([again.code, again.stdout]).toEqual([
      0,
      `Nobody drives run ${runId}: it is interrupted (cancelled): cancelled from the command line`
    ])
    const inbox = Effect.flatMap(RunStore, (runs) => runs.inbox(runId, 0))
    const stored = Effect.provide(inbox, NodeSqlite.runStore(path("runs.db")))
    expect(await Effect.runPromise(stored)).toMatchObject([
      { command: { type: "cancel", reason: "no, stop" } }
    ])
  })

  it("stops a run that waits for somebody at once, and the run can still be resumed", async () => {
    const { runId } = await onLogs("Delete access.log")
    const ended = await runs("cancel", runId, "--reason", "wrong directory")
    expect([ended.code, ended.stdout]).toEqual([
      0,
      `Run ${runId} has stopped: interrupted (cancelled): wrong directory`
    ])
    expect(parsed(await runs("list", "--json")).runs[0]).toMatchObject({ runId, reason: "cancelled" })
    const again = await runs("resume", runId, "--json")
    expect(parsed(again)).toMatchObject({ runId, reason: "approval" })
    const approved = await runs("approve", runId, "--resume")
    expect([approved.code, approved.stdout]).toEqual([0, "Deleted access.log."])
    expect(existsSync(path("logs", "access.log"))).toBe(false)
  })

  it("leaves a run that is over as it is, and says so", async () => {
    const { runId } = await onLogs("How many files are there?")
    const ended = await runs("cancel", runId, "--json")
    expect([ended.code, parsed(ended)]).toEqual([0, { runId, cancelled: false, status: "completed" }])
    expect((await runs("cancel", runId)).stdout).toBe(
      `Nobody drives run ${runId}: it is completed (answered)`
    )
  })

  it("stops a run of another process within a second, in the middle of a tool", async () => {
    const { runId, running } = await waiting()
    const sent = whenSent(runId)
    const ended = await runs("cancel", runId, "--json")
    expect((await stoppedMs(runId)) - (await sent)).toBeLessThan(1000)
    expect(parsed(ended)).toEqual({ runId, cancelled: true, status: "interrupted" })
    expect(await running.ended).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("interrupted (cancelled): cancelled from the command line")
    })
  })

  /** Stops a run that is driven from here, which hears of it as told. Yields what the command has printed. */
  const cancelling = async (
    runId: string,
    flags: ReadonlyArray<string>,
    hear: (journal: Journal.Journal) => ReturnType<Journal.Journal["commit"]>
  ) => {
    const ended = Effect.gen(function* () {
      yield* Agent.create(Agent.make("asker"), "Go.", { runId, limits: { turns: 5, time: "1 minute" } })
      const store = yield* RunStore
      const lease = yield* store.lease(runId)
      const { state } = yield* load(runId)
      const journal = yield* Journal.make({ runId, agent: "asker", from: state, lease })
      const cancel = yield* Effect.forkChild(
        Effect.promise(() => runs("cancel", runId, "--reason", "enough", ...flags))
      )
      yield* Stream.runHead(store.watchInbox(runId, 0))
      yield* hear(journal)
      return yield* Fiber.join(cancel)
    })
    const nothing = Scripted.layer(Scripted.make("none", []), { usage: "omitted" })
    const world = Layer.merge(nothing, NodeSqlite.runStore(path("runs.db")))
    return await Effect.runPromise(Effect.provide(Effect.scoped(ended), world))
  }
  const stopped = { type: "run_stopped", status: "interrupted", turns: 0, costUsd: 0, tokens: 0 } as const
  const asCancelled = { ...stopped, reason: "cancelled", detail: "enough" } as const
  const resumed = { type: "run_resumed", inbox: 1, messages: [] } as const

  it("waits for its own Stop where the run is about to stop for something else", async () => {
    const ended = await cancelling("asks", ["--json"], (journal) =>
      journal.commit({ ...stopped, reason: "approval", detail: "waits for a decision" }).pipe(
        // As long as a command may need to see that.
        Effect.andThen(Effect.sleep("1 second")),
        Effect.andThen(journal.commit(resumed, asCancelled))
      )
    )
    expect(parsed(ended)).toEqual({ runId: "asks", cancelled: true, status: "interrupted" })
  })

  it("says so where somebody has the run go on at once", async () => {
    const ended = await cancelling("again", [], (journal) => journal.commit(asCancelled, resumed))
    expect([ended.code, ended.stdout]).toEqual([
      0,
      "Run again was stopped, and has been resumed since: it is running"
    ])
  })

  it("stops what a dead process has left, once nobody can think that it lives", async () => {
    const { runId, running } = await waiting()
    running.signal("SIGKILL")
    await running.ended
    const cancelling = new Running(["runs", "cancel", runId, "--reason", "it died", ...store])
    await cancelling.prints(
      /It has not stopped yet\. If its process has died, it is stopped from here, in 17 s/
    )
    forgetTheDead(path("runs.db"))
    expect(await cancelling.ended).toMatchObject({
      code: 0,
      stdout: `Run ${runId} has stopped: interrupted (cancelled): it died\n`
    })
  })

  it("says so where a process lives and does not stop", async () => {
    const { runId, running } = await elsewhere(store, "stubborn", "Go.", /busy/)
    const ended = await impatient("runs", "cancel", runId, ...store)
    expect([ended.code, ended.stdout]).toEqual([1, ""])
    expect(ended.stderr.split("\n").at(-1)).toBe(
      `checkrein: run ${runId} was asked to stop 3 s ago and goes on: a tool of it may not let itself be interrupted; end its process, and it can be resumed`
    )
    running.signal("SIGKILL")
    await running.ended
  })
})
