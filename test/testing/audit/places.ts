/**
 * Events in their journals, and what can be read off the ones around them: what a verdict on a mutant is made of.
 */
import type { Of, PlannedCall, RunEvent } from "../../../src/run/RunEvent.ts"

/** What an audit has to say of a mutant. */
export type Verdict = "breaks" | "harmless" | "open"

/** A journal with one fault. */
export interface Mutant {
  readonly kind: "drop" | "repeat" | "reorder" | "alter"
  /** The type of the event that was touched, and what was altered about it. */
  readonly what: string
  readonly seq: number
  readonly verdict: Verdict
  readonly events: ReadonlyArray<RunEvent>
}

/** An event in its journal. */
export interface Place {
  readonly events: ReadonlyArray<RunEvent>
  readonly index: number
  readonly before: ReadonlyArray<RunEvent>
  readonly rest: ReadonlyArray<RunEvent>
}

/** Every place of a journal. */
export const placesOf = (events: ReadonlyArray<RunEvent>): ReadonlyArray<Place> =>
  events.map((_, index) => ({
    events,
    index,
    before: events.slice(0, index),
    rest: events.slice(index + 1)
  }))

export const breaksIf = (broken: boolean): Verdict => (broken ? "breaks" : "harmless")

/** The first of these events to come that is of one of these types. */
export const next = (
  rest: ReadonlyArray<RunEvent>,
  ...types: ReadonlyArray<RunEvent["type"]>
): RunEvent | undefined => rest.find(({ type }) => types.includes(type))

export const has = (rest: ReadonlyArray<RunEvent>, ...types: ReadonlyArray<RunEvent["type"]>): boolean =>
  next(rest, ...types) !== undefined

/** The events until the run is taken up again. */
export const untilResumed = (rest: ReadonlyArray<RunEvent>): ReadonlyArray<RunEvent> => {
  const end = rest.findIndex(({ type }) => type === "run_resumed")
  return end < 0 ? rest : rest.slice(0, end)
}

/** The events about a call. */
export const about = (rest: ReadonlyArray<RunEvent>, callId: string): ReadonlyArray<RunEvent> =>
  rest.filter((event) => "callId" in event && event.callId === callId)

/** The plan of a call, as its turn has it. */
export const planOf = (events: ReadonlyArray<RunEvent>, callId: string): PlannedCall | undefined =>
  events.flatMap((event) => (event.type === "turn" ? event.calls : [])).find((call) => call.callId === callId)

/** Whether a person is asked about a call again, because its approval has expired. */
export const asksAgain = (event: RunEvent, { before }: Place): boolean => {
  if (event.type !== "approval_required") return false
  const last = about(before, event.callId).findLast(({ type }) => type.startsWith("approval_"))
  return last?.type === "approval_resolved" && last.decision === "approved"
}

export const isEnd = (event: RunEvent): boolean =>
  event.type === "run_stopped" && event.status === "completed"

/** Whether the model is asked, or the run completes, so that no call may be without a result. */
export const needsResults = (rest: ReadonlyArray<RunEvent>): boolean =>
  has(rest, "turn_started") || rest.some(isEnd)

/** Whether something says what the run has cost. */
export const tellsCost = (rest: ReadonlyArray<RunEvent>): boolean => has(rest, "turn", "run_stopped")

/** Whether something says how many turns there were. */
export const tellsTurns = (rest: ReadonlyArray<RunEvent>): boolean => has(rest, "turn_started", "run_stopped")

const executions: ReadonlySet<string> = new Set(["executed", "cancelled", "unknown"])

/** Whether an event shows that its call had been started. */
export const showsStart = (event: RunEvent): boolean =>
  event.type === "tool_start" ||
  event.type === "child_suspended" ||
  event.type === "outcome_resolved" ||
  event.type === "operation_started" ||
  (event.type === "tool_result" && executions.has(event.disposition))

/** Whether an event is the result of an execution. */
export const isExecuted = (event: RunEvent): boolean =>
  event.type === "tool_result" && event.disposition === "executed"

/** Whether an event gives its call the one result that it has. */
export const settles = (event: RunEvent): boolean =>
  event.type === "input_given" ||
  (event.type === "outcome_resolved" && event.outcome !== "still_unknown") ||
  (event.type === "tool_result" && event.disposition !== "cancelled" && event.disposition !== "unknown")

/** What a child had told before that it has cost. */
export const toldBefore = (before: ReadonlyArray<RunEvent>, callId: string): number =>
  about(before, callId).reduce(
    (told, event) => ("childCostUsd" in event ? (event.childCostUsd ?? told) : told),
    0
  )

type Telling = Of<"tool_result"> | Of<"child_suspended">

/** Whether something says what the run has cost before this call tells again what its child has cost. */
export const countsChild = (rest: ReadonlyArray<RunEvent>, { callId }: Telling): boolean => {
  const again = rest.findIndex(
    (event) => "childCostUsd" in event && event.childCostUsd !== undefined && event.callId === callId
  )
  return tellsCost(again < 0 ? rest : rest.slice(0, again))
}

/** Whether without this event the run would have told another cost. */
export const changesCost = ({ before, rest }: Place, event: Telling): boolean =>
  event.childCostUsd !== undefined &&
  event.childCostUsd !== toldBefore(before, event.callId) &&
  countsChild(rest, event)

/** Whether an event says of a limit that it is used up. */
export const namesLimit = (event: RunEvent): boolean =>
  "exhausted" in event || (event.type === "tool_result" && event.short !== undefined)

/** Whether an event tells that an operation has ended, or what was done about it. */
export const isAboutOperation = (event: RunEvent, { operationId }: Of<"operation_started">): boolean =>
  (event.type === "operation_ended" && event.operationId === operationId) ||
  (event.type === "run_stopped" && event.operations?.some((one) => one.operationId === operationId) === true)

export const countsCalls = (event: RunEvent): boolean =>
  ("exhausted" in event && event.exhausted?.resource === "tool_calls") ||
  (event.type === "tool_result" && event.short === "tool_calls")
