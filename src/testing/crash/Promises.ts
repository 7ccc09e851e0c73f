/**
 * What a run that was stopped and taken up again has to keep, held against the same run undisturbed. Pure.
 */
import { isDeepStrictEqual } from "node:util"
import * as Audit from "../Audit.ts"
import * as Keys from "./Keys.ts"
import * as Observation from "./Observation.ts"
import * as Outcomes from "./Outcomes.ts"
import * as Parting from "./Parting.ts"
import type { Strike } from "./Saboteur.ts"
import type * as Seam from "./Seam.ts"

/**
 * The promises:
 *
 * - `at_most_once`: no call is started twice that may not be repeated, and nothing takes place twice
 * - `at_least_once`: no call is lost that the undisturbed run has made, and nothing that took place there is missing
 * - `same_key`: every attempt of a call has the same idempotency key
 * - `reported`: what was cut off and may not be repeated has no result that nobody gave, and what is said of it, by
 *   `ToolPolicy.Reconcile` above all, is what took place
 * - `journal`: what the store has acknowledged is there, unaltered
 * - `laws`: the journals keep the laws that `Audit` knows
 * - `transcript`, `cost`, `ending`: those of the undisturbed run, apart from what was lost with the fault
 * - `repeatable`: undisturbed, the run does the same each time, and so comes to every seam again; else nothing can be told.
 *   A fake world that is kept in a module outlives a run, and breaks this: it has to be made in `layer`
 * - `observed`: whatever tool has given a result and is not read-only tells of what takes place, with `happened`; else it
 *   cannot be told whether that is once
 */
export type Name =
  | "at_most_once"
  | "at_least_once"
  | "same_key"
  | "reported"
  | "journal"
  | "laws"
  | "transcript"
  | "cost"
  | "ending"
  | "repeatable"
  | "observed"

/** A promise that was broken: after which fault (none: in an undisturbed run), by which run and call, and how. */
export interface Broken {
  readonly promise: Name
  readonly fault?: Seam.Fault
  readonly runId: string
  readonly callId?: string
  readonly problem: string
}

/** Why the runs that went another way than the undisturbed ones may do so, and what was broken. */
export interface Verdict {
  readonly parted: ReadonlyArray<string>
  readonly broken: ReadonlyArray<Broken>
}

type Find = Omit<Broken, "fault">

/** Why a run may do other things than the one before it, although nothing is wrong with it. */
export const stateOutside = "(is there state outside of `layer`?)"

/** The same of one that has seen something else of an operation. */
const afterLook = "(it goes another way since it has seen something else of its operation)"

/** Whether a difference is between two looks at an operation, which goes on while its run is stopped. */
const isOfLook = (disturbed: Observation.Observation, { is, runId, was }: Parting.Difference): boolean => {
  const { operations = [] } = disturbed.runs.get(runId)?.state ?? {}
  return (
    is?.role === "tool" &&
    was?.role === "tool" &&
    operations.some(({ observe }) => observe === is.tool && observe === was.tool)
  )
}

const fakedByClock =
  " (a look at an operation, which goes on while its run is stopped, and a look may be made again: have its fake end it before the first look)"

const shortly = (value: unknown): string => {
  const text = JSON.stringify(value) ?? "nothing"
  return text.length <= 300 ? text : `${text.slice(0, 300)} …`
}

const times = (count: number): string => (count === 0 ? "never" : count === 1 ? "once" : `${count} times`)

/** What was acknowledged is there, and what is there can be read and is lawful. */
function* journals({ entries, runId, runs, unreadable }: Observation.Observation): Iterable<Find> {
  for (const [id, problem] of unreadable) yield { promise: "journal", runId: id, problem }
  for (const entry of entries) {
    if (entry._tag !== "Stored") continue
    const { event } = entry
    const found = runs.get(event.runId)?.events[event.seq]
    if (isDeepStrictEqual(found, event)) continue
    const which = `event ${event.seq} (${event.type})`
    const problem =
      found === undefined
        ? `${which} was acknowledged, and is gone`
        : `${which} was acknowledged, and is another one: ${shortly(found)}`
    yield { promise: "journal", runId: event.runId, problem }
  }
  const root = runs.get(runId)
  if (root === undefined) return
  const children = [...runs].filter(([id]) => id !== runId).map(([, { events }]) => events)
  for (const finding of Audit.audit(root.events, { children })) {
    const problem = `event ${finding.seq} breaks the law ${finding.law}: ${finding.problem}`
    yield { promise: "laws", runId: finding.runId, problem }
  }
}

/** Each call by itself: how often it was started, under which keys, and who gave its result. */
function* calls({ entries, runs }: Observation.Observation): Iterable<Find> {
  for (const call of Observation.callsIn(entries)) {
    const { callId, effect, keys, runId, tool } = call
    const say = (promise: Name, problem: string): Find => ({ promise, runId, callId, problem })
    if (effect === "write" && call.times > 1)
      yield say("at_most_once", `${tool} was started ${times(call.times)}`)
    if (keys.length > 1) yield say("same_key", `${tool} was started under the keys ${keys.join(", ")}`)
    if (effect !== "write" || call.times === 0) continue
    const events = runs.get(runId)?.events ?? []
    if (Parting.wasUnknown(events, callId)) continue
    const result = events.findLast((event) => event.type === "tool_result" && event.callId === callId)
    const left = entries.some(
      (entry) => entry._tag === "Left" && entry.runId === runId && entry.callId === callId
    )
    if (result?.type === "tool_result" && result.ok && !left)
      yield say("reported", `${tool} was cut off, and yet has the result ${shortly(result.content)}`)
  }
}

const counted = (effects: ReadonlyArray<string>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const effect of effects) counts.set(effect, (counts.get(effect) ?? 0) + 1)
  return counts
}

/** The calls by their place and number, which the undisturbed run has too. */
const numberedCalls = (observation: Observation.Observation): ReadonlyMap<string, Observation.CallCount> => {
  const numbered = new Map<string, Observation.CallCount>()
  const all = Observation.callsIn(observation.entries)
  for (const [path, { numbers, runId }] of Parting.placesOf(observation)) {
    for (const call of all) {
      const number = numbers.get(call.callId)
      if (call.runId === runId && number !== undefined) numbered.set(`${path}/${number}`, call)
    }
  }
  return numbered
}

/**
 * What took place, call by call. A run that went another way may have left calls out, and made others of which the
 * undisturbed run knows nothing.
 */
function* effects(
  undisturbed: Observation.Observation,
  disturbed: Observation.Observation,
  alike: boolean,
  whyNot: string,
  ofPart: ReturnType<typeof Keys.ofPart>
): Iterable<Find> {
  const now = numberedCalls(disturbed)
  for (const [path, then] of numberedCalls(undisturbed)) {
    const call = now.get(path)
    const { callId, runId, tool } = call ?? { ...then, runId: disturbed.runId }
    const say = (promise: Name, problem: string): Find => ({ promise, runId, callId, problem })
    if (alike && then.times > 0 && (call === undefined || call.times === 0))
      yield say("at_least_once", `${tool} was never started ${whyNot}`)
    const before = counted(then.effects)
    const after = counted(call?.effects ?? [])
    const part = ofPart(then.effects.join(), call?.effects.join() ?? "")
    for (const effect of new Set([...before.keys(), ...after.keys()])) {
      const [is, was] = [after.get(effect) ?? 0, before.get(effect) ?? 0]
      const problem = `${JSON.stringify(effect)} took place ${times(is)} instead of ${times(was)}${part}`
      // It may have been told something else, and do something else for that; but not twice.
      if (is > (alike ? was : Math.max(1, was))) yield say("at_most_once", problem)
      if (is < was && alike) yield say("at_least_once", problem)
    }
  }
}

/** Whether two transcripts have the same letters: another key has another number of tokens, which cost something else. */
const sameLetters = (is: Parting.Placed, was: Parting.Placed): boolean =>
  isDeepStrictEqual(is.messages, was.messages) &&
  isDeepStrictEqual([...is.numbers.keys()], [...was.numbers.keys()])

/**
 * What was paid for answers that came back, as they were before anything in them was named. What was lost is on top of it,
 * and `laws` sees that it is counted.
 */
function* costs(undisturbed: Observation.Observation, disturbed: Observation.Observation): Iterable<Find> {
  const before = Parting.placesOf(undisturbed)
  for (const [path, placed] of Parting.placesOf(disturbed)) {
    const then = before.get(path)
    if (then === undefined) continue
    const { runId, stored } = placed
    const is = Observation.spentIn(stored.events)
    const was = Observation.spentIn(then.stored.events)
    if (is.turns === was.turns && (is.usd === was.usd || !sameLetters(placed, then))) continue
    const paid = ({ turns, usd }: Observation.Spent) => `$${usd} for ${turns} turns`
    const problem = `it paid ${paid(is)} instead of ${paid(was)}, lost model calls apart`
    yield { promise: "cost", runId, problem }
  }
}

const inWords = ({ reason, tag }: Observation.Ending) => (reason === undefined ? tag : `${tag} (${reason})`)

function* endings(
  undisturbed: Observation.Observation,
  { ending, runId }: Observation.Observation,
  alike: boolean
): Iterable<Find> {
  const [is, was] = [inWords(ending), inWords(undisturbed.ending)]
  const why = ending.problem === "" ? "" : `: ${ending.problem}`
  // A run that went another way may end in any way that a run may end in.
  if (ending.tag !== "Completed" && ending.reason === undefined)
    yield { promise: "ending", runId, problem: `it has not ended: ${is}${why}` }
  else if (alike && is !== was)
    yield { promise: "ending", runId, problem: `it ended as ${is} instead of ${was}${why}` }
}

/** Holds a run against the undisturbed one. */
export const judge = (
  before: Observation.Observation,
  after: Observation.Observation,
  strikes: ReadonlyArray<Strike>
): Verdict => {
  const [undisturbed, disturbed] = [Keys.named(before, after), Keys.named(after, before)]
  const { differences, parted } = Parting.compare(undisturbed, disturbed, strikes)
  const [first] = strikes
  const alike = parted.size === 0
  const ofPart = Keys.ofPart(before, after)
  const found: Array<Find> = differences.map((difference) => {
    const { at, is, runId, was } = difference
    const part = ofPart(`${JSON.stringify(was)}`, `${JSON.stringify(is)}`)
    const why = part === "" && isOfLook(disturbed, difference) ? fakedByClock : part
    const problem = `message ${at} is ${shortly(is)} instead of ${shortly(was)}${why}`
    return { promise: "transcript", runId, problem }
  })
  const whyNot = differences.some((each) => isOfLook(disturbed, each)) ? afterLook : stateOutside
  found.push(
    ...journals(disturbed),
    ...calls(disturbed),
    ...effects(undisturbed, disturbed, alike, whyNot, ofPart),
    ...Outcomes.untrue(undisturbed, disturbed),
    ...(alike ? costs(before, after) : []),
    ...endings(undisturbed, disturbed, alike)
  )
  return {
    parted: [...parted.values()],
    broken: found.map((each) => (first === undefined ? each : { ...each, fault: first.fault }))
  }
}
