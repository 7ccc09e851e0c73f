import { describe, expect, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as Fold from "../../src/run/Fold.ts"
import { nextStep } from "../../src/run/NextStep.ts"
import type { Reason, RunStatus } from "../../src/run/RunEvent.ts"
import * as RunExit from "../../src/run/RunExit.ts"
import * as RunState from "../../src/run/RunState.ts"
import {
  call,
  digestOf,
  journals,
  many,
  ran,
  resumed,
  start,
  started,
  stateOf,
  stopped,
  suspension,
  tools,
  turn,
  type Written
} from "./events.ts"

const read = call(tools.read, "c1")
const remove = call(tools.remove, "c2", { path: "access.log" })
const append = call(tools.append, "c3", { row: 1 })
const input = call(tools.input, "c4", { question: "Which day?" })
const child = call(tools.child, "c5")
const rules = { repetition: { nameAt: 2, stopAt: 3 }, stopWhen: [] }

/** Takes these events to the stop that the core then decides on, with as much written down as a driver writes. */
const stops = (bodies: ReadonlyArray<Written>): RunState.RunState => {
  const state = stateOf(bodies)
  const step = nextStep(state, rules, state.elapsedMs)
  if (step._tag !== "Stop") throw new Error(`the run does not stop but wants to ${step._tag}`)
  return stateOf([...bodies, { type: "run_stopped", ...step.ending, ...RunState.totals(state) }])
}

const by = (status: Exclude<RunStatus, "running">, reason: Reason, detail: string) =>
  stateOf([started(), ...turn(1, []), stopped(status, reason, { detail })])

const suspendedFor = (reason: Parameters<typeof suspension>[1]) =>
  stops([
    started(),
    ...turn(1, [child]),
    start(child),
    { type: "child_suspended", callId: "c5", suspension: suspension("run/c5", reason), childCostUsd: 0.01 }
  ])

const same = ["a", "b", "c"].flatMap((id, index) => {
  const again = call(tools.read, id, { path: "same" })
  return [...turn(index + 1, [again]), ...ran(again)]
})

const exits = {
  turns: stops([started({ turns: 1 }), ...turn(1, [read])]),
  usd: stops([started({ usd: 0.0005 }), ...turn(1, [read])]),
  tokens: stops([started({ tokens: 110 }), ...turn(1, [read])]),
  time: stops([started({ timeMs: 2 }), ...turn(1, [read])]),
  approval: stops([started(), ...turn(1, [remove])]),
  childApproval: suspendedFor("approval"),
  input: stops([started(), ...turn(1, [input])]),
  childInput: suspendedFor("input"),
  provider: by("interrupted", "provider", "the model is away (503)"),
  childProvider: suspendedFor("provider"),
  unknown: stops([started(), ...turn(1, [append]), start(append), resumed]),
  childUnknown: suspendedFor("unknown_outcome"),
  stalled: stops([started(), ...same]),
  condition: by("interrupted", "stop_condition", "three files were read"),
  refused: by("failed", "provider_refused", "401: bad key"),
  fatal: by("failed", "tool_fatal", "the disk is gone"),
  permanent: by("failed", "tool_permanent", "permission denied"),
  defect: by("failed", "defect", "x is not a function")
} as const

const exitOf = (name: keyof typeof exits) => {
  const exit = RunExit.fromState(exits[name])
  if (exit === undefined) throw new Error(`no exit for ${name}`)
  return exit
}

const names = Object.keys(exits) as Array<keyof typeof exits>

describe("the exit that a stopped run stands for", () => {
  it("turns", () => {
    expect(exitOf("turns")).toMatchObject({
      _tag: "MaxTurnsExceeded",
      status: "max_turns_exceeded",
      resumable: true,
      limit: 1
    })
  })

  it("a budget, with the resource, what was used and the limit", () => {
    const budget = { _tag: "BudgetExceeded", status: "budget_exceeded", resumable: true }
    expect(exitOf("usd")).toMatchObject({ ...budget, resource: "usd", used: 0.001, limit: 0.0005 })
    expect(exitOf("tokens")).toMatchObject({ ...budget, resource: "tokens", used: 110, limit: 110 })
    expect(exitOf("time")).toMatchObject({ ...budget, resource: "time", used: 2, limit: 2 })
  })

  it("approvals, with every call that waits, under the run that it belongs to", () => {
    const required = { _tag: "ApprovalRequired", status: "interrupted", resumable: true }
    expect(exitOf("approval")).toMatchObject({
      ...required,
      calls: [
        {
          runId: "run",
          callId: "c2",
          tool: "delete_file",
          args: { path: "access.log" },
          argsDigest: digestOf({ path: "access.log" })
        }
      ]
    })
    expect(exitOf("childApproval")).toMatchObject({ ...required, calls: [{ runId: "run/c5", callId: "x1" }] })
    const both = stops([
      started(),
      ...turn(1, [child, remove]),
      start(child),
      { type: "child_suspended", callId: "c5", suspension: suspension("run/c5", "approval"), childCostUsd: 0 }
    ])
    expect(RunExit.fromState(both)).toMatchObject({ calls: [{ runId: "run" }, { runId: "run/c5" }] })
  })

  it("a question, with its text, under the run that asked it", () => {
    const required = { _tag: "InputRequired", status: "interrupted", resumable: true }
    expect(exitOf("input")).toMatchObject({ ...required, runId: "run", callId: "c4", question: "Which day?" })
    expect(exitOf("childInput")).toMatchObject({
      ...required,
      runId: "run/c5",
      question: "Which of the two?"
    })
  })

  it("a provider that is away", () => {
    for (const name of ["provider", "childProvider"] as const) {
      expect(exitOf(name)).toMatchObject({
        _tag: "ProviderUnavailable",
        status: "interrupted",
        resumable: true
      })
    }
  })

  it("unknown outcomes, with the calls", () => {
    const unknown = { _tag: "OutcomeUnknown", status: "interrupted", resumable: true }
    expect(exitOf("unknown")).toMatchObject({
      ...unknown,
      calls: [{ runId: "run", callId: "c3", tool: "append_row" }]
    })
    expect(exitOf("childUnknown")).toMatchObject({ ...unknown, calls: [{ runId: "run/c5", callId: "x1" }] })
  })

  it("a run that stalled, with the tool and the count", () => {
    const stalled = {
      _tag: "RunStalled",
      status: "interrupted",
      resumable: true,
      tool: "read_file",
      count: 3
    }
    expect(exitOf("stalled")).toMatchObject(stalled)
  })

  it("a stop condition, with what it said", () => {
    const met = {
      _tag: "StopConditionMet",
      status: "interrupted",
      resumable: true,
      condition: "three files were read"
    }
    expect(exitOf("condition")).toMatchObject(met)
  })

  it("failures, with the reason and the detail; they are not resumable", () => {
    const reasons = {
      refused: "provider_refused",
      fatal: "tool_fatal",
      permanent: "tool_permanent",
      defect: "defect"
    } as const
    for (const name of ["refused", "fatal", "permanent", "defect"] as const) {
      expect(exitOf(name)).toMatchObject({
        _tag: "RunFailed",
        status: "failed",
        resumable: false,
        reason: reasons[name],
        detail: exits[name].detail
      })
    }
  })

  it("none for a run that completed, that was cancelled, or that has not stopped", () => {
    expect(RunExit.fromState(stops([started(), ...turn(1, [])]))).toBeUndefined()
    expect(RunExit.fromState(by("completed", "submitted", "done"))).toBeUndefined()
    expect(RunExit.fromState(by("interrupted", "cancelled", "user pressed Stop"))).toBeUndefined()
    expect(RunExit.fromState(stateOf([started()]))).toBeUndefined()
    expect(
      RunExit.fromState(
        stateOf([
          started({ turns: 1 }),
          ...turn(1, [read]),
          stopped("max_turns_exceeded", "max_turns"),
          resumed
        ])
      )
    ).toBeUndefined()
  })
})

describe("every exit", () => {
  it.each(names)("%s carries the state itself, not a copy, and its status is the state's", (name) => {
    const exit = exitOf(name)
    expect(exit.run).toBe(exits[name])
    expect(exit.status).toBe(exits[name].status)
    expect(exit).toBeInstanceOf(Error)
    expect(RunExit.isRunExit(exit)).toBe(true)
  })

  it.each(names)("%s has a message that is a sentence about this run", (name) => {
    const { message } = exitOf(name)
    expect(message).toMatch(/^run run \w+: \S/)
    expect(message).not.toMatch(/undefined|NaN|\[object|\n/)
  })

  it.each(names)("%s goes to JSON and comes back as the same exit", (name) => {
    const codec = Schema.toCodecJson(RunExit.RunExit)
    const exit = exitOf(name)
    const json: unknown = JSON.parse(JSON.stringify(Schema.encodeSync(codec)(exit)))
    const back = Schema.decodeUnknownSync(codec)(json)
    expect(back).toBeInstanceOf(Error)
    expect({ ...back, status: back.status, message: back.message }).toEqual({
      ...exit,
      status: exit.status,
      message: exit.message
    })
    expect(back.run).toStrictEqual({ ...exit.run })
  })

  it("that is damaged does not come back", () => {
    const codec = Schema.toCodecJson(RunExit.RunExit)
    const json = Schema.encodeSync(codec)(exitOf("turns")) as { readonly run: object }
    expect(() => Schema.decodeUnknownSync(codec)({ ...json, run: { ...json.run, turns: -1 } })).toThrow()
    expect(() => Schema.decodeUnknownSync(codec)({ ...json, _tag: "RunVanished" })).toThrow()
  })

  it("nothing else is taken for one", () => {
    expect(RunExit.isRunExit(new Error("x"))).toBe(false)
    expect(RunExit.isRunExit({ _tag: "RunFailed" })).toBe(false)
    expect(RunExit.isRunExit(undefined)).toBe(false)
  })
})

describe("over generated runs", () => {
  it.prop(
    "a stopped run is its exit, unless it completed or was cancelled; a running one has none",
    { journal: journals() },
    ({ journal: { events } }) => {
      const state = Fold.fold(events)!
      const exit = RunExit.fromState(state)
      const none = state.status === "running" || state.status === "completed" || state.reason === "cancelled"
      expect(exit === undefined).toBe(none)
      if (exit === undefined) return
      expect(exit.status).toBe(state.status)
      expect(exit.resumable).toBe(state.status !== "failed")
      const codec = Schema.toCodecJson(RunExit.RunExit)
      const back = Schema.decodeUnknownSync(codec)(JSON.parse(JSON.stringify(Schema.encodeSync(codec)(exit))))
      expect(back._tag).toBe(exit._tag)
      expect(back.run).toStrictEqual(state)
    },
    many
  )

  it.prop(
    "an exit for approval names every undecided call and nothing that was decided",
    { journal: journals() },
    ({ journal: { events } }) => {
      const state = Fold.fold(events)!
      const exit = RunExit.fromState(state)
      if (exit?._tag !== "ApprovalRequired") return
      const own = exit.calls.filter((call) => call.runId === state.runId).map((call) => call.callId)
      expect(own).toEqual(RunState.undecided(state).map((call) => call.callId))
      for (const call of state.pending) {
        for (const request of call.suspension?.approvals ?? []) expect(exit.calls).toContainEqual(request)
      }
    },
    many
  )
})
