/**
 * What a store says of a run beside its journal. People decide by its summary, and look for it in lists, and neither
 * reads the journal.
 */
import * as Effect from "effect/Effect"
import * as Struct from "effect/Struct"
import * as Digest from "../../loop/Digest.ts"
import * as Summary from "../../loop/Summary.ts"
import { cut } from "../../run/EvidenceIndex.ts"
import * as Fold from "../../run/Fold.ts"
import * as Names from "../../store/Names.ts"
import { RunStore, RunSummary } from "../../store/RunStore.ts"
import type { Finding, Journal } from "./Children.ts"
import { broken } from "./Law.ts"

const names = Struct.keys(RunSummary.fields)

/** What the first builds did not say in a summary, so that its absence says nothing. */
const younger: ReadonlySet<keyof RunSummary> = new Set(["unpriced"])

const most = 120

/** A value as text, the same for equal values. */
const textOf = (value: unknown): string =>
  value === undefined ? "nothing" : Digest.canonical(JSON.parse(JSON.stringify(value)))

/** Where a summary says something else than what it has to. */
function* differences(says: RunSummary, is: RunSummary): Generator<string> {
  for (const name of names) {
    if (says[name] === undefined && younger.has(name)) continue
    const [said, right] = [textOf(says[name]), textOf(is[name])]
    if (said !== right) {
      yield `the summary of the run says ${cut(said, most)} for its ${name}, and the journal ${cut(right, most)}`
    }
  }
}

/** The lists of the store in which a run is missing. */
const missing = Effect.fnUntraced(function* ({ agent, reason, runId, startedAt, status, tags }: RunSummary) {
  const store = yield* RunStore
  // No id comes between one and this. After the longest there can be none, so nobody can be asked for it.
  const before = { startedAt, runId: `${runId}\u0001` }
  if (Names.refusedId(before.runId) !== undefined) return []
  const lists: Array<string> = []
  for (const tag of [undefined, ...(tags ?? [])]) {
    const options = { agent, status, reason, tag, since: startedAt, before, limit: 1 }
    const [found] = yield* store.list(options)
    if (found?.runId === runId) continue
    const stands = reason === undefined ? status : `${status} (${reason})`
    const of = tag === undefined ? "" : ` with the tag ${JSON.stringify(tag)}`
    lists.push(`the run is not listed as one of ${agent}${of} that began at ${startedAt} and is ${stands}`)
  }
  return lists
})

/** Law 9, for a run of which this is the journal, or was when it was read. */
export const check = Effect.fnUntraced(function* (journal: Journal) {
  const store = yield* RunStore
  const [first] = journal
  if (first === undefined) return []
  const { runId } = first
  const summary = yield* store.summary(runId)
  // Its driver may have written since.
  const events = summary.seq > journal.length ? (yield* store.read(runId)).slice(0, summary.seq) : journal
  const state = Fold.fold(events)
  if (state === undefined) return []
  const is = Summary.of(state)
  const problems = [...differences(summary, is)]
  const unlisted = yield* missing(is)
  if (unlisted.length > 0 && (yield* store.summary(runId)).seq === summary.seq) problems.push(...unlisted)
  return problems.map((problem): Finding => ({ ...broken(9, problem), runId, seq: state.seq - 1 }))
})
