/**
 * Runs that somebody has to drive on: those whose driver has died or was shut down, and those in which all that they wait
 * for has been said, and whoever was to resume them has not. One that waits for more would stop where it stands.
 */
import * as Effect from "effect/Effect"
import { forPeople, waitsForPeople } from "../run/Waiting.ts"
import {
  type ListOptions,
  type RunNotFound,
  RunStore,
  type RunStoreError,
  type RunSummary,
  rootOf
} from "../store/RunStore.ts"
import { firstOf, type Saying } from "./Decision.ts"
import { now } from "./Now.ts"
import { ifStored } from "./Orphans.ts"
import * as Summary from "./Summary.ts"

const isWaiting = ({ reason, status }: RunSummary): boolean =>
  status === "interrupted" && waitsForPeople(reason)

/** All pages of a list. */
const all = Effect.fnUntraced(function* (options: ListOptions) {
  const store = yield* RunStore
  const found: Array<RunSummary> = []
  let before: RunSummary | undefined
  do {
    const page: ReadonlyArray<RunSummary> = yield* store.list({ ...options, before })
    found.push(...page)
    before = page.at(-1)
  } while (before !== undefined)
  return found
})

type Sort = "approvals" | "unknown"

/** The runs whose calls and questions a run waits for: itself, and those below it. */
const awaitedIn = Effect.fnUntraced(function* (run: RunSummary) {
  const { question } = run
  const calls = [...(yield* Summary.waiting(run, "approvals")), ...(yield* Summary.waiting(run, "unknown"))]
  return new Set([...calls, ...(question === undefined ? [] : [question])].map(({ runId }) => runId))
})

/** Whether a run waits for something itself that nobody has said, or that somebody may be about to take in. */
const isOpen = Effect.fnUntraced(function* (run: RunSummary) {
  const store = yield* RunStore
  const { inbox, question, runId, status } = run
  const said = yield* store.inbox(runId, inbox)
  const at = yield* now
  const isSaid = (type: Saying["type"], callId: string, argsDigest?: string) =>
    firstOf(said, type, callId, argsDigest, at) !== undefined
  const unsaid = Effect.fnUntraced(function* (sort: Sort, type: Saying["type"]) {
    const own = (yield* Summary.waiting(run, sort)).filter((call) => call.runId === runId)
    return !own.every(({ argsDigest, callId }) => isSaid(type, callId, argsDigest))
  })
  // Whatever a run waited for that has come to another end is dropped, but what happened has to be known all the same.
  if (yield* unsaid("unknown", "resolve")) return true
  if (status !== "running" && !isWaiting(run)) return false
  if (question?.runId === runId && !isSaid("answer", question.callId)) return true
  return yield* unsaid("approvals", "decide")
})

/** Whether all that a run waits for has been said, and nobody has taken it in. */
const isAnswered = Effect.fnUntraced(function* (run: RunSummary) {
  const store = yield* RunStore
  if (yield* isOpen(run)) return false
  for (const runId of yield* awaitedIn(run)) {
    if (runId === run.runId) continue
    const below = yield* ifStored(store.summary(runId))
    if (below !== undefined && (yield* isOpen(below))) return false
  }
  return true
})

/** A run that is gone, or cannot be read, does not keep the others from being taken up. */
const ifReadable = <A, R>(runId: string, effect: Effect.Effect<A, RunNotFound | RunStoreError, R>) =>
  ifStored(effect).pipe(
    Effect.catchIf(
      ({ kind }) => kind === "corrupt" || kind === "newer_version",
      ({ message }) => Effect.as(Effect.logWarning(`run ${runId} is not looked at: ${message}`), undefined)
    )
  )

/**
 * Those of the agents that count which are at the top of their tree: the run of a sub-agent goes on with the one that
 * has started it. Some may be driven at this moment, or about to be.
 */
export const runs = Effect.fnUntraced(function* (counts: (agent: string) => boolean) {
  const found = new Map<string, RunSummary>()
  for (const run of yield* all({ status: "running" })) {
    if (run.parent === undefined && counts(run.agent)) found.set(run.runId, run)
  }
  const looked = new Set(found.keys())
  // What a sub-agent's run that was cancelled has left unknown holds up the one above it.
  for (const reason of [...forPeople, "cancelled"] as const) {
    for (const run of yield* all({ reason, told: true })) {
      if (reason === "cancelled" && run.parent === undefined) continue
      const root = run.parent === undefined ? run : yield* ifReadable(run.runId, rootOf(run.runId))
      if (root === undefined || looked.has(root.runId) || !counts(root.agent)) continue
      looked.add(root.runId)
      // One above it that was stopped, or has come to another end, is not taken up for what was said below it.
      if (isWaiting(root) && (yield* ifReadable(root.runId, isAnswered(root))) === true)
        found.set(root.runId, root)
    }
  }
  return [...found.values()]
})
