import { describe, expect, it } from "vitest"
import { cli, module, noRun, parsed, withoutEndpoint, workshop } from "../support.ts"
import { aged, completed, various } from "./agedRuns.ts"
import { storeAt } from "./storeAt.ts"

const { path } = workshop()
withoutEndpoint()

describe("checkrein runs delete", () => {
  it("deletes one run whole", async () => {
    const { command, listed } = await aged(path("one.db"), various)
    const ended = await command("delete", "month")
    expect([ended.code, ended.stdout]).toEqual([0, "Deleted run month."])
    expect(await listed()).toEqual(["fresh", "week", "open", "year"])
    for (const verb of ["show", "delete"]) {
      const gone = await command(verb, "month")
      expect([gone.code, gone.stderr]).toEqual([1, noRun("month", path("one.db"))])
    }
  })

  it("deletes what is old, of the runs that the flags name", async () => {
    const { deleted, listed } = await aged(path("old.db"), various)
    expect(await deleted("--older-than", "30d", "--status", "failed")).toEqual([])
    expect(await deleted("--older-than", "30d", "--tag", "acme")).toEqual(["month"])
    expect(await deleted("--older-than", "1 week", "--agent", "clerk")).toEqual(["week"])
    expect(await deleted("--older-than", "30d", "--status", "completed")).toEqual(["year"])
    expect(await listed()).toEqual(["fresh", "open"])
    const { command } = await aged(path("counted.db"), various)
    expect((await command("delete", "--older-than", "30d")).stdout).toBe("Deleted 3 runs.")
    expect((await command("delete", "--older-than", "30d")).stdout).toBe("Deleted 0 runs.")
  })

  it("deletes runs of any age only if it is told so", async () => {
    const { command, deleted, listed } = await aged(path("all.db"), various)
    expect((await command("delete", "--tag", "acme")).code).toBe(2)
    expect((await deleted("--tag", "acme", "--all")).sort()).toEqual(["fresh", "month"])
    expect(await listed()).toEqual(["week", "open", "year"])
    expect(await deleted("--all")).toHaveLength(3)
  })

  it("keeps an old run to which something has happened since", async () => {
    const { deleted } = await aged(path("touched.db"), {
      touched: { age: 90, ...completed, updatedAt: new Date().toISOString() },
      old: { age: 60, ...completed }
    })
    expect(await deleted("--older-than", "30d")).toEqual(["old"])
  })

  it("deletes the run of a sub-agent with the run above it alone", async () => {
    const asker = module("asker")
    const { runs, store } = storeAt(path("child.db"))
    const { runId } = parsed(await cli("run", ...asker, ...store, "--json", "Pay."))
    const below = await runs("delete", `${runId}/k1`)
    expect([below.code, below.stderr]).toEqual([
      1,
      `checkrein: run ${runId}/k1 was started by another run and is deleted with it: delete ${runId}`
    ])
    const whole = await runs("delete", runId)
    expect([whole.code, whole.stdout]).toEqual([0, `Deleted run ${runId} and the run below it.`])
    expect(parsed(await runs("list", "--json")).runs).toEqual([])
  })

  it("says which runs are gone, those of sub-agents included", async () => {
    const below = (parent: string) => ({ age: 9, ...completed, parent: { runId: parent, callId: "k" } })
    const family = { a: { age: 9, ...completed }, "a/1": below("a"), "a/1/1": below("a/1"), b: { age: 9 } }
    const one = await aged(path("family.db"), family)
    expect((await one.command("delete", "a")).stdout).toBe("Deleted run a and the 2 runs below it.")
    expect(await one.deleted("b")).toEqual(["b"])
    const read = await aged(path("read.db"), family)
    expect(await read.deleted("a")).toEqual(["a", "a/1", "a/1/1"])
    const old = await aged(path("families.db"), family)
    expect((await old.command("delete", "--older-than", "5d")).stdout).toBe("Deleted 4 runs.")
  })

  it("wants to know what to delete, and nothing that it does not understand", async () => {
    const { command, listed } = await aged(path("usage.db"), various)
    const cases = [
      [[], "which runs? Name the ID of one, or of many the age with --older-than; --all is any age"],
      [["--status", "completed"], "which runs?"],
      [["month", "--older-than", "30d"], "use one of them"],
      [["month", "--tag", "acme"], "use one of them"],
      [["month", "--all"], "use one of them"],
      [["--older-than", "30d", "--all"], "use one of them"],
      [["--older-than", "long"], 'Expected an age such as 12h, 30d or "2 weeks", got long']
    ] as const
    for (const [args, problem] of cases) {
      const ended = await command("delete", ...args)
      expect([args, ended.code, ended.stdout]).toEqual([args, 2, ""])
      expect(ended.stderr).toContain(problem)
    }
    expect(await listed()).toHaveLength(5)
  })

  it("does not delete a run that another process drives", async () => {
    const { runs, store, waiting } = storeAt(path("driven.db"))
    const { runId, running } = await waiting()
    const ended = await runs("delete", runId, "--json")
    expect([ended.code, parsed(ended).error.tag]).toEqual([1, "RunBusy"])
    expect(ended.stderr).toBe(
      `checkrein: run ${runId} is driven by another process: stop it with \`checkrein runs cancel ${runId} ${store.join(" ")}\` before it is deleted`
    )
    expect(
      parsed(await runs("delete", "--older-than", "0s", "--agent", "waiter", "--json")).deleted
    ).not.toContain(runId)
    await runs("cancel", runId)
    expect((await running.ended).code).toBe(3)
  })
})
