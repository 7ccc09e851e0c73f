/**
 * What can be seen of a run when it is over: how it ended, the journals, and what the witness says.
 */

import * as Effect from "effect/Effect"
import * as Money from "../../run/Money.ts"
import type { Reason, RunEvent } from "../../run/RunEvent.ts"
import { childId } from "../../run/RunState.ts"
import { load, RunStore, type Stored } from "../../store/RunStore.ts"
import * as Descendants from "../Descendants.ts"
import type * as Witness from "./Witness.ts"

/** How a run ended for good: the tag of its exit and its reason, or what is outside any run, with what was said of it. */
export interface Ending {
  readonly tag: string
  readonly reason: Reason | undefined
  readonly problem: string
}

/** A run that is over. */
export interface Observation {
  readonly runId: string
  readonly ending: Ending
  /** What it was stopped by on the way, in order. */
  readonly stops: ReadonlyArray<string>
  /** Its journal and those of its child runs, by id. */
  readonly runs: ReadonlyMap<string, Stored>
  /** The journals that could not be read, with the reason. */
  readonly unreadable: ReadonlyMap<string, string>
  readonly entries: ReadonlyArray<Witness.Entry>
}

/** Reads what there is of a run and of its child runs. */
export const read = Effect.fnUntraced(function* (
  store: RunStore["Service"],
  runId: string,
  ended: Pick<Observation, "ending" | "stops">,
  witness: Witness.Witness
) {
  const runs = new Map<string, Stored>()
  const unreadable = new Map<string, string>()
  yield* Descendants.walk([runId], (id) =>
    Effect.match(Effect.provideService(load(id), RunStore, store), {
      // A call may have ended before its child run began.
      onFailure: (error) => {
        if (id === runId || error._tag !== "RunNotFound") unreadable.set(id, error.message)
        return []
      },
      onSuccess: (stored) => {
        runs.set(id, stored)
        return stored.events
      }
    })
  )
  const observation: Observation = { runId, ...ended, runs, unreadable, entries: witness.read() }
  return observation
})

/** What a run has spent on answers that it got, and how many of its model calls never came back. */
export interface Spent {
  readonly turns: number
  readonly usd: number
  readonly lostTurns: number
}

/** Adds up what a journal says. */
export const spentIn = (events: ReadonlyArray<RunEvent>): Spent => {
  let claimed = false
  let [turns, usd, lostTurns] = [0, 0, 0]
  for (const event of events) {
    switch (event.type) {
      case "turn_started":
        if (claimed) lostTurns++
        claimed = true
        break
      case "turn":
      case "turn_failed":
        if (event.type === "turn") turns++
        usd = Money.add(usd, event.costUsd)
        claimed = false
        break
      case "run_resumed":
      case "run_stopped":
      case "handoff":
        if (claimed) lostTurns++
        claimed = false
        break
      default:
    }
  }
  return { turns, usd, lostTurns }
}

/** What the witness says of one call. */
export interface CallCount {
  readonly runId: string
  readonly callId: string
  readonly tool: string
  readonly effect: Witness.Of<"Entered">["effect"]
  /** How often its handler was entered, apart from the times of which it vouched that it did nothing. */
  readonly times: number
  /** The idempotency keys under which it was entered. */
  readonly keys: ReadonlyArray<string>
  /** What took place in the world, once for each time. */
  readonly effects: ReadonlyArray<string>
}

/**
 * The first call of each tool that has given a result and is not read-only, if none of its calls has told of anything
 * that took place. A call that is a run of its own is left out: the tools of that run tell.
 */
export const silentIn = ({ entries, runs }: Observation): ReadonlyArray<Witness.Of<"Entered">> => {
  const idOf = ({ callId, runId }: { readonly callId: string; readonly runId: string }) =>
    childId(runId, callId)
  const told = new Set(entries.flatMap((entry) => (entry._tag === "Happened" ? [idOf(entry)] : [])))
  const done = new Set(
    entries.flatMap((entry) => (entry._tag === "Left" && entry.as === "result" ? [idOf(entry)] : []))
  )
  const entered = entries.filter((entry) => entry._tag === "Entered")
  const telling = new Set(entered.flatMap((entry) => (told.has(idOf(entry)) ? [entry.tool] : [])))
  const silent = new Map<string, Witness.Of<"Entered">>()
  for (const entry of entered) {
    if (entry.effect === "read" || telling.has(entry.tool) || silent.has(entry.tool)) continue
    if (done.has(idOf(entry)) && !runs.has(idOf(entry))) silent.set(entry.tool, entry)
  }
  return [...silent.values()]
}

/** Counts what the witness says of each call, in the order in which they began. */
export const callsIn = (entries: ReadonlyArray<Witness.Entry>): ReadonlyArray<CallCount> => {
  const calls = new Map<string, CallCount>()
  const change = (runId: string, callId: string, by: (call: CallCount) => CallCount) => {
    const id = `${runId}/${callId}`
    const call = calls.get(id)
    if (call !== undefined) calls.set(id, by(call))
  }
  for (const entry of entries) {
    switch (entry._tag) {
      case "Entered": {
        const { callId, effect, key, runId, tool } = entry
        const id = `${runId}/${callId}`
        const call = calls.get(id) ?? { runId, callId, tool, effect, times: 0, keys: [], effects: [] }
        const keys = call.keys.includes(key) ? call.keys : [...call.keys, key]
        calls.set(id, { ...call, times: call.times + 1, keys })
        break
      }
      case "Left":
        if (entry.as === "nothing")
          change(entry.runId, entry.callId, (call) => ({ ...call, times: call.times - 1 }))
        break
      case "Happened":
        change(entry.runId, entry.callId, (call) => ({ ...call, effects: [...call.effects, entry.effect] }))
        break
      case "Stored":
        break
    }
  }
  return [...calls.values()]
}
