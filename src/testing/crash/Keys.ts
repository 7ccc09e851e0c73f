/**
 * Idempotency keys and ids of runs in what a run says. The turn is in a key, and a lost model call is a turn: the same call
 * has another key then. And runs that share a store have ids of their own. What says a key is compared by the call that it
 * is the key of, and what says the id of a run by its place. Pure.
 */
import type { Message } from "../../run/Message.ts"
import type { Stored } from "../../store/RunStore.ts"
import type * as Observation from "./Observation.ts"
import * as Parting from "./Parting.ts"

// A shorter one may stand in a text by chance.
const shortest = 8

/** The calls that there are keys of, by their place and number, which are the same in every run that makes them. */
const keysOf = (observation: Observation.Observation): ReadonlyMap<string, string> => {
  const keys = new Map<string, string>()
  for (const [path, { numbers, stored }] of Parting.placesOf(observation)) {
    for (const event of stored.events) {
      if (event.type !== "tool_start" || event.idempotencyKey.length < shortest) continue
      const number = numbers.get(event.callId)
      if (number !== undefined) keys.set(`${path}/${number}`, event.idempotencyKey)
    }
  }
  return keys
}

/** What a key, or the id of a run, is called instead. */
const namesOf = (observation: Observation.Observation): ReadonlyMap<string, string> => {
  const names = new Map<string, string>()
  for (const [path, { runId }] of Parting.placesOf(observation)) {
    if (runId.length >= shortest) names.set(runId, `the id of the run ${path || "at the top"}`)
  }
  for (const [place, key] of keysOf(observation)) {
    // Calls may share a key of their tool's own: to the world they are the first of them.
    if (!names.has(key)) names.set(key, `the key of call ${place}`)
  }
  return names
}

const replaced = (text: string, names: ReadonlyArray<readonly [key: string, name: string]>): string =>
  names.reduce((rest, [key, name]) => rest.replaceAll(key, () => name), text)

/** The observation with what its keys and ids of runs stand for instead of them, in transcripts and in what took place. */
export const named = (observation: Observation.Observation): Observation.Observation => {
  const names = [...namesOf(observation)].sort(([a], [b]) => b.length - a.length)
  const escaped = names.map(([key, name]) => [JSON.stringify(key).slice(1, -1), name] as const)
  const inMessages = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> => {
    const text = JSON.stringify(messages)
    return escaped.some(([key]) => text.includes(key)) ? JSON.parse(replaced(text, escaped)) : messages
  }
  const runs = new Map(
    [...observation.runs].map(([id, { events, state }]): [string, Stored] => [
      id,
      { events, state: { ...state, messages: inMessages(state.messages) } }
    ])
  )
  const entries = observation.entries.map((entry) =>
    entry._tag === "Happened" ? { ...entry, effect: replaced(entry.effect, names) } : entry
  )
  return { ...observation, runs, entries }
}

// A shorter one may well stand in both texts by chance.
const shortestPart = 4

/**
 * Why two texts of the same place differ, if the one has a part of an idempotency key where the other has that part of the
 * same call's key: a part is not known for the key that it is of. Else nothing.
 */
export const ofPart = (
  undisturbed: Observation.Observation,
  disturbed: Observation.Observation
): ((was: string, is: string) => string) => {
  const before = keysOf(undisturbed)
  const changed = [...keysOf(disturbed)].flatMap(([place, key]) => {
    const then = before.get(place)
    return then === undefined || then === key ? [] : [[then, key] as const]
  })
  const shares = (was: string, is: string) =>
    changed.some(([then, key]) => {
      for (let at = 0; at + shortestPart <= key.length; at++) {
        const [part, other] = [key.slice(at, at + shortestPart), then.slice(at, at + shortestPart)]
        if (part !== other && is.includes(part) && was.includes(other)) return true
      }
      return false
    })
  return (was, is) =>
    shares(was, is)
      ? " (a part of an idempotency key is in it, which is another one after a lost model call: say the whole key)"
      : ""
}
