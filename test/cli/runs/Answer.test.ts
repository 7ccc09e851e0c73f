import { describe, expect, it } from "vitest"
import { cli, module, noRun, parsed, withoutEndpoint, workshop } from "../support.ts"
import { storeAt } from "./storeAt.ts"

const { path } = workshop()
withoutEndpoint()

const agent = module("asker")

/** A run that asks which account to pay from. */
const asking = async (name: string) => {
  const { runs, store } = storeAt(path(`${name}.db`))
  const { runId } = parsed(await cli("run", ...agent, ...store, "--json", "Pay."))
  await runs("approve", runId, "p1")
  const asks = await runs("approve", runId, "p2", "--resume", ...agent, "--json")
  return { runId, runs, asks: parsed(asks), flags: [...agent, ...store].join(" ") }
}

describe("checkrein runs answer", () => {
  it("records the answer, which counts when the run is resumed", async () => {
    const { asks, flags, runId, runs } = await asking("later")
    expect(asks).toMatchObject({ reason: "input", question: { runId, callId: "q1", text: "Which account?" } })
    expect(asks.next).toEqual([`checkrein runs answer ${runId} 'YOUR ANSWER' --resume ${flags}`])
    const recorded = await runs("answer", runId, "the red one", "--by", "ann", ...agent)
    expect([recorded.code, recorded.stdout]).toEqual([
      0,
      `Recorded: the answer to "Which account?". It counts when the run is resumed:\n  checkrein runs resume ${runId} ${flags}`
    ])
    const { stdout } = await runs("show", runId, ...agent)
    expect(stdout).toContain("call q1: answered by ann; it counts when the run is resumed")
    expect(stdout.slice(stdout.indexOf("To go on"))).toBe(
      `To go on\n  checkrein runs resume ${runId} ${flags}`
    )
    const resumed = await runs("resume", runId, ...agent, "--json")
    expect(parsed(resumed)).toMatchObject({ status: "completed", answer: { done: "the red one" } })
    expect((await runs("show", runId, "--events")).stdout).toContain("✓ answered by ann")
  })

  it("goes on at once with --resume, also with an answer that looks like a flag", async () => {
    const { runId, runs } = await asking("now")
    const store = ["--store", path("now.db")]
    const ended = await cli("runs", "answer", "--resume", ...agent, ...store, "--", runId, "--none--")
    expect([ended.code, JSON.parse(ended.stdout)]).toEqual([0, { done: "--none--" }])
    const late = await runs("answer", runId, "another one")
    expect([late.code, late.stderr]).toEqual([1, `checkrein: run ${runId} has not asked anything`])
  })

  it("takes the first answer, and says so to whoever comes later", async () => {
    const { runId, runs } = await asking("twice")
    const first = await runs("answer", runId, "the red one", "--by", "ann", "--json")
    expect(parsed(first)).toMatchObject({ runId, callId: "q1", recorded: "answered" })
    const second = await runs("answer", runId, "the blue one", "--by", "bob", "--json")
    expect([second.code, parsed(second).error.tag]).toEqual([1, "CallNotPending"])
    expect(second.stderr).toContain("ann was first; resume the run to have it taken in")
    expect((await runs("resume", runId, ...agent)).stdout).toContain("the red one")
  })

  it("does not take an empty answer, nor one to a run that nobody knows", async () => {
    const { runId, runs } = await asking("empty")
    const empty = await runs("answer", runId, " ")
    expect([empty.code, empty.stderr]).toEqual([2, "checkrein: the answer is empty"])
    const without = await runs("answer", runId)
    expect([without.code, without.stdout]).toEqual([2, ""])
    const unknown = await runs("answer", "nope", "x")
    expect([unknown.code, unknown.stderr]).toEqual([1, noRun("nope", path("empty.db"))])
  })
})
