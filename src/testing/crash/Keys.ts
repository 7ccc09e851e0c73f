/**
 * Idempotency keys and ids in what a run says. The turn is in a key, and may be in the id of a call, and a lost model call is
 * a turn: the same call has another key then. And runs that share a store have ids of their own. What says a key is compared
 * by the call that it is the key of, and what says the id of a run by its place. Pure.
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

// A call whose model has given it no id of its own is named by its turn.
const ofTurn = /^\d+\.\d+(?:\.\d+)?$/

/** The ids of calls that are made of a turn. A call of a run and one of its child run may have the same. */
const turnIdsOf = (observation: Observation.Observation): ReadonlyArray<string> =>
  [...Parting.placesOf(observation).values()].flatMap(({ numbers }) =>
    [...numbers.keys()].filter((id) => ofTurn.test(id))
  )

const numeral = /(?<![\w-]|\w[.:])\d+\.\d+(?:\.\d+)?(?![\w-]|[.:]\w)/g

/** The same value with other texts in it. */
const rewritten = <A>(value: A, rewrite: (text: string) => string): A =>
  JSON.parse(JSON.stringify(value), (_, each) => (typeof each === "string" ? rewrite(each) : each))

/** The same message, of the same calls, with other texts in it. */
const inMessage = (message: Message, rewrite: (text: string) => string): Message => {
  if (message.role === "tool") return { ...message, content: rewrite(message.content) }
  if (message.role !== "assistant") return rewritten(message, rewrite)
  const content = message.content.map((part) =>
    part.type === "tool-call"
      ? { ...part, params: rewritten(part.params, rewrite) }
      : rewritten(part, rewrite)
  )
  return { ...message, content }
}

/**
 * The observation, in transcripts and in what took place, with what is meant instead of its keys and ids of runs; and with
 * no ids of calls that are made of a turn, here or in the `other` observation.
 */
export const named = (
  observation: Observation.Observation,
  other: Observation.Observation
): Observation.Observation => {
  const names = [...namesOf(observation)].sort(([a], [b]) => b.length - a.length)
  const turnIds = new Set([observation, other].flatMap(turnIdsOf))
  const rewrite = (text: string): string => {
    const rest = names.reduce((rest, [key, name]) => rest.replaceAll(key, () => name), text)
    return rest.replaceAll(numeral, (id) => (turnIds.has(id) ? "the id of a call" : id))
  }
  const runs = new Map(
    [...observation.runs].map(([id, { events, state }]): [string, Stored] => {
      const messages = state.messages.map((message) => inMessage(message, rewrite))
      return [id, { events, state: { ...state, messages } }]
    })
  )
  const entries = observation.entries.map((entry) =>
    entry._tag === "Happened" ? { ...entry, effect: rewrite(entry.effect) } : entry
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
