import { describe, expect, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as Apply from "../../src/run/Apply.ts"
import { empty, snapshot } from "../../src/run/Draft.ts"
import * as EventCodec from "../../src/run/EventCodec.ts"
import * as Fold from "../../src/run/Fold.ts"
import type * as RunEvent from "../../src/run/RunEvent.ts"
import * as RunState from "../../src/run/RunState.ts"
import {
  asked,
  call,
  decided,
  digestOf,
  estimate,
  journals,
  many,
  ran,
  replied,
  result,
  resumed,
  start,
  started,
  stateOf,
  stopped,
  suspension,
  tools,
  turn,
  written
} from "./events.ts"

const encodeState = Schema.encodeSync(Schema.toCodecJson(RunState.RunState))
const decodeState = Schema.decodeUnknownSync(Schema.toCodecJson(RunState.RunState))
const throughJson = (state: RunState.RunState) => decodeState(JSON.parse(JSON.stringify(encodeState(state))))

describe("folding", () => {
  it.prop(
    "a prefix and then the rest is folding the whole, wherever it is cut",
    { journal: journals() },
    ({ journal: { events } }) => {
      const whole = Fold.fold(events)
      for (let cut = 0; cut <= events.length; cut += 1 + Math.floor(events.length / 8)) {
        const prefix = Fold.fold(events.slice(0, cut))
        expect(Fold.fold(events.slice(cut), prefix)).toStrictEqual(whole)
      }
    },
    many
  )

  it.prop(
    "from a stored state goes on as from the state in memory",
    { journal: journals() },
    ({ journal: { events } }) => {
      const cut = Math.ceil(events.length / 2)
      const prefix = Fold.fold(events.slice(0, cut))
      expect(prefix).toBeDefined()
      expect(Fold.fold(events.slice(cut), throughJson(prefix!))).toStrictEqual(Fold.fold(events))
    },
    many
  )

  it.prop(
    "on from a state, or from a snapshot of a draft, leaves it untouched",
    { journal: journals() },
    ({ journal: { events } }) => {
      const cut = Math.ceil(events.length / 2)
      const state = Fold.fold(events.slice(0, cut))!
      const before = JSON.stringify(state)
      Fold.fold(events.slice(cut), state)
      expect(JSON.stringify(state)).toBe(before)

      const draft = snapshot(state)
      const seen = snapshot(draft)
      for (const event of events.slice(cut)) Apply.apply(draft, event)
      expect(JSON.stringify(seen)).toBe(before)
    },
    many
  )

  it("no event is no state", () => {
    expect(Fold.fold([])).toBeUndefined()
  })

  it.prop(
    "in one go and event by event, as a driver does, come to the same",
    { journal: journals() },
    ({ journal: { events } }) => {
      const draft = empty(events[0]!.runId)
      for (const event of events) Apply.apply(draft, event)
      expect(draft).toStrictEqual(Fold.fold(events))
      expect(draft.seq).toBe(events.length)
    },
    many
  )
})

describe("JSON", () => {
  it.prop(
    "a state goes to JSON and comes back the same, at any point of a run",
    { journal: journals() },
    ({ journal: { events } }) => {
      const draft = empty(events[0]!.runId)
      for (const [index, event] of events.entries()) {
        Apply.apply(draft, event)
        if (index % 7 === 0 || index === events.length - 1) expect(throughJson(draft)).toStrictEqual(draft)
      }
    },
    many
  )

  it("a stored state with a field of the wrong type is refused", () => {
    const good = encodeState(stateOf([started()])) as Record<string, unknown>
    expect(() => decodeState({ ...good, turns: "three" })).toThrow()
    expect(() => decodeState({ ...good, status: "sleeping" })).toThrow()
    expect(() => decodeState({ ...good, messages: [{ role: "nobody", content: "" }] })).toThrow()
    const { pending: _, ...rest } = good
    expect(() => decodeState(rest)).toThrow()
  })

  it.prop(
    "every event is read back as it was written",
    { journal: journals() },
    ({ journal: { events, runId } }) => {
      for (const event of events) {
        const read = EventCodec.decode(runId, event.seq, EventCodec.encode(event))
        expect(read).toMatchObject({ _tag: "Success" })
        if (read._tag === "Success") expect(read.success).toStrictEqual(event)
      }
    },
    many
  )
})

describe("the state of a call", () => {
  const read = call(tools.read, "c1", { path: "a" })
  const put = call(tools.put, "c2", { tag: "x" })
  const remove = call(tools.remove, "c3", { path: "b" })
  const append = call(tools.append, "c4", { row: 1 })
  const statusOf = (state: RunState.RunState) => state.pending.map(({ callId, status }) => [callId, status])

  it("what a dead driver had started may be repeated if it reads or is idempotent; a write is unknown", () => {
    const state = stateOf([
      started(),
      ...turn(1, [read, put, append]),
      start(read),
      start(put),
      start(append),
      resumed
    ])
    expect(statusOf(state)).toEqual([
      ["c1", "waiting"],
      ["c2", "waiting"],
      ["c4", "unknown"]
    ])
  })

  it("stopping lets go of what still runs, in the same way", () => {
    const state = stateOf([
      started(),
      ...turn(1, [read, put, append]),
      start(read),
      start(put),
      start(append),
      stopped("interrupted", "cancelled")
    ])
    expect(statusOf(state)).toEqual([
      ["c1", "waiting"],
      ["c2", "waiting"],
      ["c4", "unknown"]
    ])
    expect(RunState.unknownOutcomes(state).map((call) => call.callId)).toEqual(["c4"])
  })

  it("a cut-off write is unknown, has no result in the transcript, and is not called failed", () => {
    const state = stateOf([
      started(),
      ...turn(1, [append]),
      start(append),
      result(append, { disposition: "unknown", ok: false })
    ])
    expect(statusOf(state)).toEqual([["c4", "unknown"]])
    expect(state.messages.filter((message) => message.role === "tool")).toEqual([])
  })

  it("a started write that a result calls cancelled is never waiting to be started again", () => {
    const state = stateOf([
      started(),
      ...turn(1, [append]),
      start(append),
      result(append, { disposition: "cancelled", ok: false })
    ])
    expect(statusOf(state)).toEqual([["c4", "unknown"]])
  })

  it("an outcome that was found out is the call's one result, in the words given", () => {
    for (const outcome of ["happened", "did_not_happen"] as const) {
      const state = stateOf([
        started(),
        ...turn(1, [append]),
        start(append),
        resumed,
        {
          type: "outcome_resolved",
          callId: "c4",
          tool: "append_row",
          outcome,
          content: "row 1 is there",
          by: "ann"
        }
      ])
      expect(state.pending).toEqual([])
      expect(state.messages.at(-1)).toEqual({
        role: "tool",
        callId: "c4",
        tool: "append_row",
        ok: outcome === "happened",
        content: "row 1 is there"
      })
    }
  })

  it("a decision is about one call, and edited arguments are what was approved", () => {
    const other = call(tools.remove, "c5", { path: "c" })
    const args = { path: "edited" }
    const state = stateOf([
      started(),
      ...turn(1, [remove, other]),
      decided(remove, "approved", { args, argsDigest: digestOf(args) })
    ])
    expect(state.pending.map((call) => [call.callId, call.approval, call.args, call.argsDigest])).toEqual([
      ["c3", "approved", args, digestOf(args)],
      ["c5", "required", { path: "c" }, digestOf({ path: "c" })]
    ])
    expect(RunState.undecided(state).map((call) => call.callId)).toEqual(["c5"])
  })

  it("the reason of a rejection is kept for the words that the model will see", () => {
    const state = stateOf([
      started(),
      ...turn(1, [remove]),
      decided(remove, "rejected", { reason: "not today" })
    ])
    expect(state.pending).toMatchObject([{ callId: "c3", approval: "rejected", rejection: "not today" }])
  })

  it("a suspended child is asked again when the run is resumed", () => {
    const child = call(tools.child, "c6")
    const before = [
      started(),
      ...turn(1, [child]),
      start(child),
      {
        type: "child_suspended",
        callId: "c6",
        suspension: suspension("run/c6", "approval"),
        childCostUsd: 0.01
      }
    ] as const
    expect(stateOf(before).pending).toMatchObject([{ status: "suspended", suspension: { runId: "run/c6" } }])
    const after = stateOf([...before, stopped("interrupted", "approval"), resumed])
    expect(after.pending).toMatchObject([{ status: "waiting", attempts: 1 }])
    expect(after.pending[0]).not.toHaveProperty("suspension")
  })

  it("what goes without saying about a call may also be said", () => {
    const said = { kind: "tool", purpose: "investigate", approval: "none" } as const
    const planned = { callId: "c1", argsDigest: digestOf({ path: "a" }), effect: "read" } as const
    const state = (more: object) =>
      stateOf([started(), asked(1), replied(1, [read], { calls: [{ ...planned, ...more }] })])
    expect(state({}).pending).toMatchObject([said])
    expect(state(said)).toEqual(state({}))
  })

  it("calls of the provider's own tools are never pending, and do not shift the others' names and arguments", () => {
    const own = {
      type: "tool-call",
      id: "p1",
      name: "web_search",
      params: { q: "x" },
      providerExecuted: true
    } as const
    const mine = { type: "tool-call", id: "c1", name: "read_file", params: { path: "a" } } as const
    const state = stateOf([
      started(),
      asked(1),
      replied(1, [read], { message: { role: "assistant", content: [own, mine] } })
    ])
    expect(state.pending).toMatchObject([{ callId: "c1", tool: "read_file", args: { path: "a" } }])
  })
})

describe("the sums of a state", () => {
  it.prop(
    "what a stop says about turns and cost is what the state says after it",
    { journal: journals() },
    ({ journal: { events } }) => {
      const draft = empty(events[0]!.runId)
      for (const event of events) {
        const { costUsd, turns } = RunState.totals(draft)
        Apply.apply(draft, event)
        if (event.type !== "run_stopped") continue
        expect({ turns: draft.turns, costUsd: draft.costUsd }).toEqual({ turns, costUsd })
      }
    },
    many
  )

  it("a model call that never came back counts as a turn and, at its estimate, as spent", () => {
    for (const end of [resumed, stopped("interrupted", "cancelled")]) {
      const state = stateOf([started(), ...turn(1, []), asked(2), end])
      expect(state.turns).toBe(2)
      expect(state.costUsd).toBe(0.002)
      expect(state.usage).toEqual({ promptTokens: 200, completionTokens: 20 })
      expect(state).not.toHaveProperty("claim")
    }
  })

  it("a lost claim is charged once, however often the run is stopped and resumed", () => {
    const state = stateOf([started(), asked(1), stopped("interrupted", "cancelled"), resumed, resumed])
    expect(state.turns).toBe(1)
    expect(state.costUsd).toBe(estimate.costUsd)
  })

  it("a failed attempt costs what its usage says and is no turn", () => {
    const usage = { promptTokens: 7, completionTokens: 3 }
    const failed = { type: "turn_failed", turn: 1, reason: "overloaded", detail: "503" } as const
    const state = stateOf([
      started(),
      asked(1),
      { ...failed, attempt: 1, costUsd: 0.0005, usage },
      asked(1, { attempt: 2 }),
      { ...failed, attempt: 2, costUsd: 0 },
      resumed
    ])
    expect(state.turns).toBe(0)
    expect(state.costUsd).toBe(0.0005)
    expect(state.usage).toEqual(usage)
  })

  it("a child's cost is told as its total: what was told before is not added again", () => {
    const child = call(tools.child, "c1")
    const state = stateOf([
      started(),
      ...turn(1, [child]),
      start(child),
      { type: "child_suspended", callId: "c1", suspension: suspension("run/c1", "input"), childCostUsd: 0.3 },
      resumed,
      start(child, 2),
      result(child, { childCostUsd: 0.4 })
    ])
    expect(state.costUsd).toBe(0.401)
  })

  it("every started call counts, failed attempts included; cached and refused ones do not", () => {
    const [a, b, c] = [call(tools.read, "a"), call(tools.read, "b"), call(tools.read, "c")]
    const state = stateOf([
      started(),
      ...turn(1, [a, b, c]),
      start(a),
      start(a, 2),
      result(a),
      result(b, { disposition: "cached" }),
      result(c, { disposition: "refused", ok: false })
    ])
    expect(state.toolCalls).toBe(2)
  })

  it("time is the time driven, taken from the last event", () => {
    const state = Fold.fold(written([started(), { ...resumed, elapsedMs: 1234.5 }]))
    expect(state?.elapsedMs).toBe(1234.5)
  })
})

describe("endings and what follows", () => {
  it("an answer is the result; in a handoff it is the summary and not a result", () => {
    const done = stateOf([started(), ...turn(1, [])])
    expect(done).toMatchObject({ answered: true, result: "errors.log" })
    const exhausted = { resource: "turns", used: 1, limit: 2 } as const
    const handed = stateOf([started(), { type: "handoff", exhausted }, ...turn(1, [])])
    expect(handed).toMatchObject({ phase: "handoff", summary: "errors.log" })
    expect(handed).not.toHaveProperty("result")
  })

  it("the model is told once that only the reserve is left, by whichever driver; again when there was more room", () => {
    const exhausted = { resource: "turns", used: 1, limit: 2 } as const
    const told: ReadonlyArray<RunEvent.Body> = [
      started(),
      { type: "handoff", exhausted },
      asked(1, { purpose: "handoff" })
    ]
    const again = (...bodies: ReadonlyArray<RunEvent.Body>) =>
      stateOf([...told, ...bodies]).handoffTold !== true
    expect(again()).toBe(false)
    expect(again(resumed)).toBe(false)
    expect(again(stopped("interrupted", "cancelled"), resumed)).toBe(false)
    expect(again(resumed, { type: "limits_changed", limits: { turns: 9 } })).toBe(true)
    expect(again(stopped("max_turns_exceeded", "max_turns"), resumed)).toBe(true)
    expect(again({ ...resumed, messages: [{ role: "user", content: "go on" }] })).toBe(true)
  })

  it("a valid submission is the result, as JSON", () => {
    const submit = call(tools.submit, "c1", { answer: ["errors.log"] })
    expect(stateOf([started(), ...turn(1, [submit]), result(submit)]).result).toEqual({
      answer: ["errors.log"]
    })
    expect(stateOf([started(), ...turn(1, [submit]), result(submit, { ok: false })])).not.toHaveProperty(
      "result"
    )
  })

  it("resuming clears the reason, and keeps the transcript, the sums and the calls", () => {
    const read = call(tools.read, "c1")
    const exhausted = { resource: "turns", used: 1, limit: 1 } as const
    const before = [started(), ...turn(1, [read]), stopped("max_turns_exceeded", "max_turns", { exhausted })]
    const stoppedState = stateOf(before)
    expect(stoppedState).toMatchObject({
      status: "max_turns_exceeded",
      reason: "max_turns",
      detail: "for a reason",
      exhausted
    })
    const state = stateOf([...before, { ...resumed, messages: [{ role: "user", content: "Go on." }] }])
    expect(state.status).toBe("running")
    expect(state).not.toHaveProperty("reason")
    expect(state).not.toHaveProperty("detail")
    expect(state).not.toHaveProperty("exhausted")
    expect(state.messages).toEqual(stoppedState.messages)
    expect(state).toMatchObject({ turns: 1, costUsd: 0.001, pending: [{ callId: "c1", status: "waiting" }] })
  })

  it("the inbox never moves back", () => {
    const remove = call(tools.remove, "c1")
    const state = stateOf([
      started(),
      ...turn(1, [remove]),
      { type: "run_resumed", inbox: 4, messages: [] },
      decided(remove, "approved", { command: 6 }),
      { type: "run_resumed", inbox: 5, messages: [] }
    ])
    expect(state.inbox).toBe(6)
  })

  it("what a person says while calls are open is said after their results, never between", () => {
    const [a, b] = [call(tools.read, "a"), call(tools.read, "b")]
    const said = { role: "user", content: "Go on." } as const
    const before = [started(), ...turn(1, [a, b]), ...ran(a), { ...resumed, messages: [said] }]
    expect(stateOf(before).messages.map((message) => message.role)).toEqual(["user", "assistant", "tool"])
    const roles = stateOf([...before, ...ran(b)]).messages.map((message) => message.role)
    expect(roles).toEqual(["user", "assistant", "tool", "tool", "user"])
  })

  it("an executed call's result is one message, after the reply that asked for it", () => {
    const read = call(tools.read, "c1")
    const state = stateOf([started(), ...turn(1, [read]), ...ran(read, { content: "ERROR timeout" })])
    expect(state.messages.map((message) => message.role)).toEqual(["user", "assistant", "tool"])
    expect(state.messages[2]).toMatchObject({
      callId: "c1",
      tool: "read_file",
      ok: true,
      content: "ERROR timeout"
    })
  })
})
