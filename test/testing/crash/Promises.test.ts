/**
 * Each promise, broken by hand: what was observed of a run is altered in one place, and that promise is named.
 */
import { assert, describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { MemoryRunStore } from "../../../src/index.ts"
import type { RunEvent } from "../../../src/run/RunEvent.ts"
import type { Stored } from "../../../src/store/RunStore.ts"
import type { Observation } from "../../../src/testing/crash/Observation.ts"
import * as Promises from "../../../src/testing/crash/Promises.ts"
import type { Strike } from "../../../src/testing/crash/Saboteur.ts"
import * as Subject from "../../../src/testing/crash/Subject.ts"
import * as Witness from "../../../src/testing/crash/Witness.ts"
import { agent, call, done, handlers, model } from "../agents.ts"

const subject = Subject.make({
  agent: agent(),
  input: "Go.",
  layer: Layer.merge(handlers, model([call("read"), call("put"), call("write"), done]))
})

const observed = Effect.gen(function* () {
  const store = yield* MemoryRunStore.make
  const witness = Witness.memory()
  const run = {
    store,
    runId: "r",
    witness,
    clock: "test",
    telling: new Set<string>(),
    orphaned: false
  } as const
  return (yield* subject.observe(run)).observation
})

const withEntries = (
  observation: Observation,
  alter: (entry: Witness.Entry) => ReadonlyArray<Witness.Entry>
): Observation => ({ ...observation, entries: observation.entries.flatMap(alter) })

const withRun = (observation: Observation, alter: (run: Stored) => Stored): Observation => ({
  ...observation,
  runs: new Map([...observation.runs].map(([id, run]) => [id, alter(run)]))
})

const withEvents = (observation: Observation, alter: (event: RunEvent) => RunEvent): Observation =>
  withRun(observation, ({ events, state }) => ({ events: events.map(alter), state }))

/** The last tool message, that of `write`, with other words. */
const withOtherWords = (observation: Observation): Observation =>
  withRun(observation, ({ events, state }) => ({
    events,
    state: {
      ...state,
      messages: state.messages.map((message) =>
        message.role === "tool" && message.tool === "write" ? { ...message, content: "other words" } : message
      )
    }
  }))

/** What somebody has found out about a call, before the run goes on to its end. */
const withResolution = (
  observation: Observation,
  callId: string,
  outcome: "happened" | "did_not_happen" | "still_unknown"
): Observation =>
  withRun(observation, ({ events, state }) => ({
    events: events.flatMap((event) =>
      event.type === "tool_result" && event.callId === callId
        ? [{ ...event, type: "outcome_resolved", tool: "write", outcome, content: "" } as const, event]
        : [event]
    ),
    state
  }))

/** The id of the call of `write`. */
const writeOf = ({ entries }: Observation): string => {
  const entered = entries.find((entry) => entry._tag === "Entered" && entry.tool === "write")
  assert(entered?._tag === "Entered")
  return entered.callId
}

type Alter = (observation: Observation, callId: string) => Observation

/** What is altered, and which promise it breaks. */
const broken: { readonly [what: string]: readonly [promise: Promises.Name, alter: Alter] } = {
  "a write that was started twice": [
    "at_most_once",
    (run, id) =>
      withEntries(run, (entry) =>
        entry._tag === "Entered" && entry.callId === id ? [entry, entry] : [entry]
      )
  ],
  "an effect that took place twice": [
    "at_most_once",
    (run) => withEntries(run, (entry) => (entry._tag === "Happened" ? [entry, entry] : [entry]))
  ],
  "an effect that never took place": [
    "at_least_once",
    (run) => withEntries(run, (entry) => (entry._tag === "Happened" ? [] : [entry]))
  ],
  "a call that was never started": [
    "at_least_once",
    (run) => withEntries(run, (entry) => (entry._tag === "Entered" && entry.tool === "read" ? [] : [entry]))
  ],
  "a call under two keys": [
    "same_key",
    (run) =>
      withEntries(run, (entry) =>
        entry._tag === "Entered" && entry.tool === "put" ? [entry, { ...entry, key: "another" }] : [entry]
      )
  ],
  "a result that nobody gave": [
    "reported",
    (run, id) => withEntries(run, (entry) => (entry._tag === "Left" && entry.callId === id ? [] : [entry]))
  ],
  "a look-up that denies what took place": [
    "reported",
    (run, id) => withResolution(run, id, "did_not_happen")
  ],
  "a look-up that makes up what never took place": [
    "reported",
    (run, id) =>
      withEntries(withResolution(run, id, "happened"), (entry) =>
        entry._tag === "Happened" && entry.callId === id ? [] : [entry]
      )
  ],
  "an event that is gone": [
    "journal",
    (run) => withRun(run, ({ events, state }) => ({ events: events.slice(0, -1), state }))
  ],
  "an event that is another one": [
    "journal",
    (run) => withEvents(run, (event) => (event.type === "tool_result" ? { ...event, content: "x" } : event))
  ],
  "a journal that cannot be read": [
    "journal",
    (run) => ({ ...run, unreadable: new Map([["r", "a bit fell over"]]) })
  ],
  "a journal that breaks a law": [
    "laws",
    (run) => withEvents(run, (event) => (event.type === "run_stopped" ? { ...event, turns: 99 } : event))
  ],
  "a transcript with other words": ["transcript", withOtherWords],
  "a turn that cost more": [
    "cost",
    (run) => withEvents(run, (event) => (event.type === "turn" ? { ...event, costUsd: 1 } : event))
  ],
  "another ending": [
    "ending",
    (run) => ({ ...run, ending: { tag: "RunFailed", reason: "defect", problem: "it broke" } })
  ],
  "no ending": ["ending", (run) => ({ ...run, ending: { tag: "RunBusy", reason: undefined, problem: "" } })]
}

describe("a promise is broken by", () => {
  it.effect("nothing in a run that is as it was", () =>
    Effect.gen(function* () {
      expect(Promises.judge(yield* observed, yield* observed, [])).toEqual({ broken: [], parted: [] })
    })
  )

  for (const [what, [promise, alter]] of Object.entries(broken)) {
    it.effect(what, () =>
      Effect.gen(function* () {
        const run = yield* observed
        const verdict = Promises.judge(run, alter(run, writeOf(run)), [])
        expect(verdict.broken.map((each) => each.promise)).toContain(promise)
        expect(verdict.broken[0]).not.toHaveProperty("fault")
      })
    )
  }
})

describe("what is said of a lost call", () => {
  const reported = (run: Observation, told: Observation) =>
    Promises.judge(run, told, []).broken.filter(({ promise }) => promise === "reported")

  it.effect("is kept if it is what took place, or says nothing", () =>
    Effect.gen(function* () {
      const run = yield* observed
      for (const outcome of ["happened", "still_unknown"] as const)
        expect(reported(run, withResolution(run, writeOf(run), outcome))).toEqual([])
    })
  )

  it.effect("is what took place, even if another call has done it", () =>
    Effect.gen(function* () {
      const run = yield* observed
      const callId = writeOf(run)
      const elsewhere = withEntries(withResolution(run, callId, "happened"), (entry) =>
        entry._tag === "Happened" && entry.callId === callId ? [{ ...entry, callId: "another" }] : [entry]
      )
      expect(reported(run, elsewhere)).toEqual([])
    })
  )
})

describe("another way is free to", () => {
  const strike = (way: Strike["fault"]["way"], callId: string): Strike => ({
    fault: { seam: { point: "in tool", nth: 3, what: "write" }, way },
    runId: "r",
    callId
  })

  it.effect("a run whose tool was broken, from that call on", () =>
    Effect.gen(function* () {
      const run = yield* observed
      const verdict = Promises.judge(run, withOtherWords(run), [strike("defect", writeOf(run))])
      expect(verdict).toMatchObject({ broken: [], parted: [expect.stringContaining("write")] })
    })
  )

  it.effect("no run that was stopped in another way, or at another call", () =>
    Effect.gen(function* () {
      const run = yield* observed
      for (const other of [strike("crash", writeOf(run)), strike("defect", "another")]) {
        const { broken } = Promises.judge(run, withOtherWords(run), [other])
        expect(broken).toMatchObject([{ promise: "transcript", fault: other.fault }])
      }
    })
  )
})
