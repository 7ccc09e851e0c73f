/**
 * One driver at a time: what the numbers, the dates and the ends of a journal say.
 */
import { type RunEvent, version, versionOf } from "../../run/RunEvent.ts"
import { broken, type Problem } from "./Law.ts"
import type { Ledger } from "./Ledger.ts"

const isDate = (text: string): boolean => {
  const date = new Date(text)
  return !Number.isNaN(date.getTime()) && date.toISOString() === text
}

function* numbers(before: Ledger, event: RunEvent): Generator<Problem> {
  if (event.seq !== before.next) {
    yield broken(5, `it is numbered ${event.seq}, and the next number is ${before.next}`)
  }
  if (event.runId !== before.runId) {
    yield broken(5, `it is of run ${event.runId}, in the journal of run ${before.runId}`)
  }
  if (event.v < 1 || event.v > version) yield broken(5, `there is no version ${event.v} of events`)
  else if (event.v < versionOf(event)) {
    yield broken(5, `it says what an event of version ${event.v} cannot say`)
  }
  if (before.previous === undefined && event.type !== "run_started") {
    yield broken(5, `a run begins with run_started, and not with ${event.type}`)
  }
  if (before.previous !== undefined && event.type === "run_started") {
    yield broken(5, "the run is started again")
  }
}

function* times(before: Ledger, { at, elapsedMs }: RunEvent): Generator<Problem> {
  // A clock is set back now and then, and no two machines agree to the millisecond: dates have no order.
  if (!isDate(at)) yield broken(5, `its date is ${JSON.stringify(at)}, which is no date in ISO 8601`)
  if (!(elapsedMs >= before.elapsedMs)) {
    yield broken(5, `the run had been driven for ${before.elapsedMs} ms, and now for ${elapsedMs} ms`)
  }
}

function* ends({ stopped }: Ledger, { type }: RunEvent): Generator<Problem> {
  if (stopped === undefined) return
  if (stopped.status === "completed") yield broken(6, `${type} comes after the run has completed`)
  else if (type !== "run_resumed") yield broken(6, `${type} comes after the run has stopped`)
}

/** Commands from outside are read in order, and each is taken in once. */
function* commands(before: Ledger, event: RunEvent): Generator<Problem> {
  if (event.type === "run_resumed" && event.inbox < Math.max(before.inbox, before.command)) {
    const read = Math.max(before.inbox, before.command)
    yield broken(4, `the inbox was read up to command ${read}, and now only up to ${event.inbox}`)
  }
  if ("command" in event && event.command !== undefined && event.command <= before.command) {
    yield broken(4, `command ${event.command} is taken in after command ${before.command}`)
  }
}

/** Numbers, dates, ends, and what was taken in from outside. */
export function* check(before: Ledger, event: RunEvent): Generator<Problem> {
  yield* numbers(before, event)
  yield* times(before, event)
  yield* ends(before, event)
  yield* commands(before, event)
}
