/**
 * Whether what a run was told of its lost calls is true. A `ToolPolicy.Reconcile` may be wrong, and then the model asks for
 * what has taken place already, or relies on what never has. The witness knows better. Pure.
 */
import { isDeepStrictEqual } from "node:util"
import { callsOf, type ToolCallPart } from "../../run/Message.ts"
import type { RunEvent } from "../../run/RunEvent.ts"
import * as Observation from "./Observation.ts"
import * as Parting from "./Parting.ts"

/** What is not true, of which call; or what was done twice because of it. */
export interface Finding {
  readonly promise: "reported" | "at_most_once"
  readonly runId: string
  readonly callId: string
  readonly problem: string
}

/** What a run was told at last of a call of unknown outcome; `undefined` if nothing was found out. */
const saidOf = (
  events: ReadonlyArray<RunEvent>,
  callId: string
): "happened" | "did_not_happen" | undefined => {
  const last = events.findLast((event) => event.type === "outcome_resolved" && event.callId === callId)
  return last?.type !== "outcome_resolved" || last.outcome === "still_unknown" ? undefined : last.outcome
}

const timesIn = ({ entries }: Observation.Observation, effect: string): number =>
  entries.filter((entry) => entry._tag === "Happened" && entry.effect === effect).length

/** Calls that are said not to have happened, and have. */
function* denied(
  undisturbed: Observation.Observation,
  disturbed: Observation.Observation
): Iterable<Finding> {
  for (const { callId, effects, runId, tool } of Observation.callsIn(disturbed.entries)) {
    if (saidOf(disturbed.runs.get(runId)?.events ?? [], callId) !== "did_not_happen") continue
    for (const effect of new Set(effects)) {
      const name = JSON.stringify(effect)
      const problem = `${tool} is said not to have happened, and ${name} took place`
      yield { promise: "reported", runId, callId, problem }
      const times = timesIn(disturbed, effect)
      if (times <= Math.max(1, timesIn(undisturbed, effect))) continue
      const again = `${name} took place again, ${times} times in all, for the model was told that it had not`
      yield { promise: "at_most_once", runId, callId, problem: again }
    }
  }
}

const askedFor = ({ messages }: Parting.Placed, number: string): ToolCallPart | undefined => {
  for (const message of messages) {
    const call = message.role === "assistant" ? callsOf(message).find(({ id }) => id === number) : undefined
    if (call !== undefined) return call
  }
  return undefined
}

/** Calls that are said to have happened, and of which nothing took place that the same call has done undisturbed. */
function* madeUp(
  undisturbed: Observation.Observation,
  disturbed: Observation.Observation
): Iterable<Finding> {
  const before = Parting.placesOf(undisturbed)
  const did = Observation.callsIn(undisturbed.entries)
  for (const [path, placed] of Parting.placesOf(disturbed)) {
    const then = before.get(path)
    if (then === undefined) continue
    for (const [callId, number] of placed.numbers) {
      if (saidOf(placed.stored.events, callId) !== "happened") continue
      const call = askedFor(placed, number)
      // A run that went another way before may ask for something else here.
      if (call === undefined || !isDeepStrictEqual(call, askedFor(then, number))) continue
      const own = did.find((each) => each.runId === then.runId && then.numbers.get(each.callId) === number)
      if (own === undefined || own.effects.length === 0) continue
      // Another call may have done it: two with one key of their own are one to the world.
      if (own.effects.some((effect) => timesIn(disturbed, effect) > 0)) continue
      const effects = [...new Set(own.effects)].map((effect) => JSON.stringify(effect)).join(", ")
      const problem = `${call.name} is said to have happened, and ${effects} never took place`
      yield { promise: "reported", runId: placed.runId, callId, problem }
    }
  }
}

/** What a run that was stopped was told of its lost calls and is not true. */
export const untrue = (
  undisturbed: Observation.Observation,
  disturbed: Observation.Observation
): ReadonlyArray<Finding> => [...denied(undisturbed, disturbed), ...madeUp(undisturbed, disturbed)]
