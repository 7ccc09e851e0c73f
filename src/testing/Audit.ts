/**
 * Holds stored runs to the laws by which runs are driven, and names the event that breaks one.
 *
 * An audit reads a journal, and of a stored run what the store says of it beside that. It counts for itself what the run
 * has used, who has decided what and which calls were started, and holds every event against what came before it. It says
 * nothing about whether an answer is right.
 *
 * @example
 * ```ts
 * import * as Console from "effect/Console"
 * import * as Effect from "effect/Effect"
 * import { Audit } from "checkrein/testing"
 *
 * const program = Effect.gen(function* () {
 *   const { findings } = yield* Audit.run("night-shift")
 *   for (const { law, problem, seq } of findings) yield* Console.log(`event ${seq} breaks law ${law}: ${problem}`)
 * })
 * ```
 */

import * as Effect from "effect/Effect"
import type { RunEvent } from "../run/RunEvent.ts"
import { type RunNotFound, RunStore, type RunStoreError } from "../store/RunStore.ts"
import * as Beside from "./audit/Beside.ts"
import * as Calls from "./audit/Calls.ts"
import * as Children from "./audit/Children.ts"
import * as Endings from "./audit/Endings.ts"
import type { Problem } from "./audit/Law.ts"
import * as Ledger from "./audit/Ledger.ts"
import * as Operations from "./audit/Operations.ts"
import * as Room from "./audit/Room.ts"
import * as Sequence from "./audit/Sequence.ts"
import * as Turns from "./audit/Turns.ts"
import * as Descendants from "./Descendants.ts"

export type { Finding } from "./audit/Children.ts"
export { type Law, laws } from "./audit/Law.ts"

/** How strict an audit is, and what it may look at besides the journal. */
export interface Options {
  /**
   * The journals of the runs that this one has started, and of those that they have started, in any order. With them the
   * costs that were told are held against what the children have cost; without them they are taken as they were told.
   */
  readonly children?: ReadonlyArray<ReadonlyArray<RunEvent>> | undefined
  /**
   * How much later than its time limit something may be dated that was begun in time, in milliseconds (default 100): a
   * process may be held up between the decision and the event.
   */
  readonly graceMs?: number | undefined
}

/** What an audit has looked at, and what it has found. */
export interface Report {
  readonly runId: string
  /** How many events the run has. */
  readonly events: number
  /** How many runs it has started, those that they have started included. */
  readonly children: number
  /** Nothing, if no law is broken. */
  readonly findings: ReadonlyArray<Children.Finding>
}

/**
 * Audits a journal: every event that breaks a law, in order, and after them those of its children. A journal may end
 * anywhere, for a process may die at any time; one without any event breaks no law.
 *
 * @example
 * ```ts
 * import type { RunEvent } from "checkrein"
 * import { Audit } from "checkrein/testing"
 *
 * declare const events: ReadonlyArray<RunEvent.RunEvent>
 *
 * const isLawful = Audit.audit(events).length === 0
 * ```
 */
export const audit = (
  events: ReadonlyArray<RunEvent>,
  options: Options = {}
): ReadonlyArray<Children.Finding> => {
  const [first] = events
  if (first === undefined) return []
  const { runId } = first
  const { children: journals, graceMs = 100 } = options
  const checks: ReadonlyArray<(before: Ledger.Ledger, event: RunEvent) => Iterable<Problem>> = [
    Sequence.check,
    Turns.check,
    Calls.check,
    Operations.check,
    Room.check(graceMs),
    Endings.check
  ]
  const findings: Array<Children.Finding> = []
  const ledger = Ledger.empty(runId)
  for (const event of events) {
    for (const check of checks) {
      for (const problem of check(ledger, event)) findings.push({ ...problem, runId, seq: event.seq })
    }
    Ledger.record(ledger, event)
  }
  if (journals === undefined) return findings
  const children = Children.childrenOf(runId, journals)
  const below = [...Children.check(events, children)]
  findings.push(...below.filter((finding) => finding.runId === runId))
  findings.sort((a, b) => a.seq - b.seq)
  findings.push(...below.filter((finding) => finding.runId !== runId))
  for (const child of children.values()) findings.push(...audit(child, options))
  return findings
}

/**
 * Audits a stored run and every run below it, and holds what the store says of them beside their journals, which is what
 * people decide by, against the journals. Fails with `RunNotFound` if there is no such run, and with `RunStoreError` if the
 * store cannot be read, or an event in it cannot: the error names the run and the event.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Audit } from "checkrein/testing"
 *
 * const broken = Effect.map(Audit.run("night-shift"), ({ findings }) => findings)
 * ```
 */
export const run = (
  runId: string,
  options: Pick<Options, "graceMs"> = {}
): Effect.Effect<Report, RunNotFound | RunStoreError, RunStore> =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const events = yield* store.read(runId)
    const children = yield* Descendants.read(events)
    const beside = yield* Effect.forEach([events, ...children], Beside.check)
    const findings = [...audit(events, { ...options, children }), ...beside.flat()]
    return { runId, events: events.length, children: children.length, findings }
  })
