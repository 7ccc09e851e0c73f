/**
 * Where the transcript of a run that was stopped parts from that of the undisturbed run, and whether it may: its model
 * was told something else of a call, or a limit came earlier. Pure.
 */
import { isDeepStrictEqual } from "node:util"
import { callsOf, type Message } from "../../run/Message.ts"
import type { RunEvent } from "../../run/RunEvent.ts"
import { childId } from "../../run/RunState.ts"
import type { Stored } from "../../store/RunStore.ts"
import * as Observation from "./Observation.ts"
import type { Strike } from "./Saboteur.ts"

/** A run in the tree of runs, with its transcript in a form that can be compared. */
export interface Placed {
  readonly runId: string
  readonly stored: Stored
  /** The number of each call, counted in the order in which the model has asked for them. */
  readonly numbers: ReadonlyMap<string, string>
  readonly messages: ReadonlyArray<Message>
}

const numbersOf = (messages: ReadonlyArray<Message>): ReadonlyMap<string, string> => {
  const numbers = new Map<string, string>()
  for (const message of messages) {
    if (message.role !== "assistant") continue
    for (const { id } of callsOf(message)) numbers.set(id, `#${numbers.size + 1}`)
  }
  return numbers
}

/**
 * The transcript with numbers for the ids of calls, for an id may be made of the turn, and a lost turn counts; and with
 * the results of a turn in the order of its calls, for calls that run at the same time may end in any order.
 */
const comparable = (
  messages: ReadonlyArray<Message>,
  numbers: ReadonlyMap<string, string>
): ReadonlyArray<Message> => {
  const order = [...numbers.values()]
  const result: Array<Message> = []
  for (const message of messages) {
    if (message.role === "assistant") {
      const content = message.content.map((part) =>
        part.type === "tool-call" ? { ...part, id: numbers.get(part.id) ?? part.id } : part
      )
      result.push({ ...message, content })
    } else if (message.role === "tool") {
      const callId = numbers.get(message.callId) ?? message.callId
      const position = order.indexOf(callId)
      let at = result.length
      for (; at > 0; at--) {
        const before = result[at - 1]
        if (before?.role !== "tool" || order.indexOf(before.callId) < position) break
      }
      result.splice(at, 0, { ...message, callId })
    } else result.push(message)
  }
  return result
}

/** The runs of an observation by their place: the path of call numbers that leads to each, empty for the root. */
export const placesOf = ({ runId, runs }: Observation.Observation): ReadonlyMap<string, Placed> => {
  const places = new Map<string, Placed>()
  const place = (id: string, path: string): void => {
    const stored = runs.get(id)
    if (stored === undefined) return
    const { messages } = stored.state
    const numbers = numbersOf(messages)
    places.set(path, { runId: id, stored, numbers, messages: comparable(messages, numbers) })
    for (const [callId, number] of numbers) place(`${id}/${callId}`, `${path}/${number}`)
  }
  place(runId, "")
  return places
}

/** Whether somebody, or the tool itself, had to find out what became of a call. */
export const wasUnknown = (events: ReadonlyArray<RunEvent>, callId: string): boolean =>
  events.some((event) => event.type === "outcome_resolved" && event.callId === callId)

const cameToLimit = (events: ReadonlyArray<RunEvent>): boolean =>
  events.some(
    (event) =>
      event.type === "handoff" ||
      (event.type === "run_stopped" && event.exhausted !== undefined) ||
      (event.type === "tool_result" && event.short !== undefined)
  )

/** What was spent of the limits and came to nothing: lost turns, and claimed tool calls without a result. */
const wastedIn = ({ runs }: Observation.Observation): number => {
  let wasted = 0
  for (const { events } of runs.values()) {
    wasted += Observation.spentIn(events).lostTurns
    for (const event of events) {
      if (event.type === "tool_start") wasted++
      else if (event.type === "tool_result" && event.disposition === "executed") wasted--
    }
  }
  return wasted
}

/** How one run differs from the undisturbed one, at which message. */
export interface Difference {
  readonly runId: string
  readonly at: number
  readonly is: Message | undefined
  readonly was: Message | undefined
}

/** Which runs went another way and why they may, by their place, and the differences that nothing excuses. */
export interface Parting {
  readonly parted: ReadonlyMap<string, string>
  readonly differences: ReadonlyArray<Difference>
}

const within = (runId: string, ancestor: string): boolean =>
  runId === ancestor || runId.startsWith(`${ancestor}/`)

/** Compares the transcripts of two observations. */
export const compare = (
  undisturbed: Observation.Observation,
  disturbed: Observation.Observation,
  strikes: ReadonlyArray<Strike>
): Parting => {
  const parted = new Map<string, string>()
  const broken = strikes.filter(({ fault }) => fault.way === "defect")
  const brokenCalls = broken.flatMap(({ callId, runId }) =>
    callId === undefined ? [] : [childId(runId, callId)]
  )
  const wastedMore = wastedIn(disturbed) > wastedIn(undisturbed)

  const excuse = (path: string, { numbers, runId, stored }: Placed, is: Message | undefined) => {
    if (is?.role === "tool") {
      const callId = [...numbers].find(([, number]) => number === is.callId)?.[0] ?? is.callId
      const call = `${is.tool} (${callId})`
      const child = childId(runId, callId)
      if (wasUnknown(stored.events, callId)) return `the outcome of ${call} was unknown`
      if (brokenCalls.includes(child)) return `${call} was broken`
      if (parted.has(`${path}/${is.callId}`) || broken.some(({ runId }) => within(runId, child)))
        return `the run of ${call} went another way`
    }
    if (path !== "" && broken.some((strike) => strike.runId === runId))
      return "it was broken, and a child run is not taken up by force"
    if (brokenCalls.some((call) => within(runId, call))) return "the call that it serves was broken"
    return wastedMore && cameToLimit(stored.events) ? "its limit came earlier" : undefined
  }

  const before = placesOf(undisturbed)
  const unexcused = new Map<string, Difference>()
  // Child runs first: where one of them went another way, so may its parent.
  const deepestFirst = [...placesOf(disturbed)].sort(([a], [b]) => b.length - a.length)
  for (const [path, placed] of deepestFirst) {
    const then = before.get(path)
    if (then === undefined) continue
    const { messages, runId } = placed
    for (let at = 0; at < Math.max(messages.length, then.messages.length); at++) {
      const [is, was] = [messages[at], then.messages[at]]
      if (isDeepStrictEqual(is, was)) continue
      const why = excuse(path, placed, is)
      if (why === undefined) unexcused.set(path, { runId, at, is, was })
      else parted.set(path, why)
      break
    }
  }
  // And a parent that went another way may leave a child run where it is, or have asked it something else. Its parent first.
  for (const [path, { is, was }] of [...unexcused].reverse()) {
    const parent = path.slice(0, Math.max(0, path.lastIndexOf("/")))
    const isOther = is === undefined || (is.role === "user" && was?.role === "user")
    if (path === "" || !isOther || !parted.has(parent)) continue
    parted.set(path, "its parent went another way")
    unexcused.delete(path)
  }
  return { parted, differences: [...unexcused.values()] }
}
