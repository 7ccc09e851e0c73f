import { describe, expect, it } from "@effect/vitest"
import { nextStep, type Rules } from "../../src/run/NextStep.ts"
import { repeats } from "../../src/run/Repetition.ts"
import type { Body, Of } from "../../src/run/RunEvent.ts"
import {
  call,
  ran,
  result,
  resumed,
  started,
  stateOf,
  stopped,
  type ToolSpec,
  tools,
  turn
} from "./events.ts"

const rules: Rules = { repetition: { nameAt: 3, stopAt: 5 }, stopWhen: [] }

/** One turn for each: a call of `tool` with `path`, and what came of it. */
const turns = (
  each: ReadonlyArray<{ path: string; tool?: ToolSpec } & Partial<Omit<Of<"tool_result">, "type" | "tool">>>,
  from = 1
): ReadonlyArray<Body> =>
  each.flatMap(({ path, tool = tools.read, ...more }, index) => {
    const asked = call(tool, `c${from + index}`, { path })
    const ends = more.disposition === "cached" ? [result(asked, more)] : ran(asked, more)
    return [...turn(from + index, [asked]), ...ends]
  })

const same = (times: number) => Array.from({ length: times }, () => ({ path: "a" }))

const outcome = (bodies: ReadonlyArray<Body>, by: Rules = rules) => {
  const state = stateOf([started(), ...bodies])
  const step = nextStep(state, by, state.elapsedMs)
  return {
    worst: state.repetition.worst?.count,
    stops: step._tag === "Stop" ? step.ending.reason : undefined,
    step
  }
}

describe("repetition", () => {
  it("the same call with the same result is counted, and stops the run at the fifth", () => {
    for (const times of [1, 2, 3, 4]) {
      expect(outcome(turns(same(times)))).toMatchObject({ worst: times, stops: undefined })
    }
    const { step, worst } = outcome(turns(same(5)))
    expect(worst).toBe(5)
    expect(step).toMatchObject({ _tag: "Stop", ending: { status: "interrupted", reason: "stalled" } })
    if (step._tag === "Stop") expect(step.ending.detail).toMatch(/read_file.*5/)
  })

  it("the state names the tool and the count that a driver says to the model", () => {
    expect(stateOf([started(), ...turns(same(3))]).repetition.worst).toEqual({ tool: "read_file", count: 3 })
  })

  it("stops where the rule says, and nowhere when it is switched off", () => {
    expect(outcome(turns(same(2)), { ...rules, repetition: { nameAt: 1, stopAt: 2 } }).stops).toBe("stalled")
    expect(outcome(turns(same(9)), { ...rules, repetition: undefined }).stops).toBeUndefined()
  })

  it("counts within one turn as well as over many", () => {
    const calls = ["a", "b", "c", "d", "e"].map((id) => call(tools.read, id, { path: "same" }))
    expect(outcome([...turn(1, calls), ...calls.flatMap((asked) => ran(asked))]).stops).toBe("stalled")
  })

  it("new evidence resets it: another result of the same call", () => {
    const steps = [...same(4), { path: "a", digest: "changed" }, ...same(1)]
    expect(outcome(turns(steps))).toMatchObject({ worst: 1, stops: undefined })
    expect(outcome(turns([...steps, ...same(3)])).stops).toBeUndefined()
    expect(outcome(turns([...steps, ...same(4)])).stops).toBe("stalled")
  })

  it("new evidence resets it: another call", () => {
    expect(outcome(turns([...same(4), { path: "b" }, ...same(4)]))).toMatchObject({
      worst: 4,
      stops: undefined
    })
    expect(outcome(turns([...same(4), { path: "b" }, ...same(5)])).stops).toBe("stalled")
  })

  it("evidence that was seen before is not new: going round in circles is repetition", () => {
    const circle = ["a", "b", "a", "b", "a", "b", "a", "b", "a", "b", "a"].map((path) => ({ path }))
    expect(outcome(turns(circle)).stops).toBe("stalled")
  })

  it("the same failure is the same result", () => {
    const failing = Array.from({ length: 5 }, () => ({ path: "a", ok: false, digest: "no such file" }))
    expect(outcome(turns(failing)).stops).toBe("stalled")
  })

  it("cached, refused and rejected results do not count", () => {
    for (const disposition of ["cached", "refused", "rejected"] as const) {
      const more = Array.from({ length: 9 }, () => ({ path: "a", disposition }))
      expect(outcome(turns([...same(2), ...more]))).toMatchObject({ worst: 2, stops: undefined })
    }
  })

  it("observations do not count, nor are they new evidence", () => {
    const polling = Array.from({ length: 9 }, () => ({ path: "a", tool: tools.observe }))
    expect(outcome(turns(polling))).toMatchObject({ worst: undefined, stops: undefined })
    expect(outcome(turns([...same(4), ...polling, ...same(1)])).stops).toBe("stalled")
  })

  it("wrong arguments count per tool, whatever the arguments were and whatever was said about them", () => {
    const wrong = ["a", "b", "c", "d", "e"].map((path) => ({
      path,
      ok: false,
      digest: `wrong ${path}`,
      wrongArguments: true as const
    }))
    expect(outcome(turns(wrong)).stops).toBe("stalled")
    expect(outcome(turns(wrong.slice(0, 4)))).toMatchObject({ worst: 4, stops: undefined })
    const others = wrong.map((step, index) => ({ ...step, tool: index % 2 === 0 ? tools.read : tools.put }))
    expect(outcome(turns(others)).stops).toBeUndefined()
  })

  it("wrong arguments are no new evidence about anything else", () => {
    const wrong = { path: "x", ok: false, digest: "wrong", wrongArguments: true as const, tool: tools.put }
    expect(outcome(turns([...same(4), wrong, ...same(1)])).stops).toBe("stalled")
  })

  it("a driver that asks beforehand how often this will have been hears what is counted afterwards", () => {
    const state = stateOf([
      started(),
      ...turns([...same(3), { path: "b" }, ...same(2)]),
      ...turn(7, [call(tools.read, "c7", { path: "a" }), call(tools.observe, "c8", { path: "a" })])
    ])
    const [read, observe] = state.pending
    expect(repeats(state.repetition, read!, "some text")).toBe(3)
    expect(repeats(state.repetition, read!, "something new")).toBe(1)
    expect(repeats(state.repetition, read!, "anything", true)).toBe(1)
    expect(repeats(state.repetition, observe!, "some text")).toBe(0)
    expect(outcome(turns([...same(3), { path: "b" }, ...same(3)])).worst).toBe(3)
  })

  const stalled = stopped("interrupted", "stalled")

  it("a run that has stopped for it begins to count anew when it is resumed", () => {
    expect(outcome([...turns(same(5)), stalled, resumed]).stops).toBeUndefined()
    expect(outcome([...turns(same(5)), stalled, resumed, ...turns(same(4), 6)])).toMatchObject({
      worst: 4,
      stops: undefined
    })
  })

  it("so does one that somebody has said something to", () => {
    const told: Body = { ...resumed, messages: [{ role: "user", content: "look elsewhere" }] }
    expect(outcome([...turns(same(4)), told, ...turns(same(1), 5)]).worst).toBe(1)
  })

  it("another driver goes on counting, whatever the run had stopped for", () => {
    const stops: ReadonlyArray<ReadonlyArray<Body>> = [
      [],
      [stopped("interrupted", "cancelled")],
      [stopped("interrupted", "approval")],
      [stopped("interrupted", "provider")]
    ]
    for (const stop of stops) {
      expect(outcome([...turns(same(4)), ...stop, resumed, ...turns(same(1), 5)])).toMatchObject({
        worst: 5,
        stops: "stalled"
      })
    }
  })
})
