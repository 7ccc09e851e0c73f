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

/** A run with all the calls that it waits for, its own and those of the runs below it. */
const withCalls = Effect.fnUntraced(function* (run: RunSummary) {
  const approvals = yield* Summary.waiting(run, "approvals")
  const unknown = yield* Summary.waiting(run, "unknown")
  return { run, approvals, unknown }
})

type WithCalls = Effect.Success<ReturnType<typeof withCalls>>

/** Whether a run waits for something itself that nobody has said, or that somebody may be about to take in. */
const isOpen = Effect.fnUntraced(function* ({ approvals, run, unknown }: WithCalls) {
  const store = yield* RunStore
  const { inbox, question, runId, status } = run
  const said = yield* store.inbox(runId, inbox)
  const at = yield* now
  const isUnsaid = (type: Saying["type"], callId: string, argsDigest?: string) =>
    firstOf(said, type, callId, argsDigest, at) === undefined
  const someUnsaid = (type: Saying["type"], calls: WithCalls["approvals"]) =>
    calls.some((call) => call.runId === runId && isUnsaid(type, call.callId, call.argsDigest))
  // Whatever a run waited for that has come to another end is dropped, but what happened has to be known all the same.
  if (someUnsaid("resolve", unknown)) return true
  if (status !== "running" && !isWaiting(run)) return false
  if (question?.runId === runId && isUnsaid("answer", question.callId)) return true
  return someUnsaid("decide", approvals)
})

/** Whether all that a run waits for has been said, and nobody has taken it in. */
const isAnswered = Effect.fnUntraced(function* (run: RunSummary) {
  const store = yield* RunStore
  const root = yield* withCalls(run)
  if (yield* isOpen(root)) return false
  const awaited = [...root.approvals, ...root.unknown, ...(run.question === undefined ? [] : [run.question])]
  for (const runId of new Set(awaited.map((each) => each.runId))) {
    if (runId === run.runId) continue
    const below = yield* ifStored(store.summary(runId))
    if (below !== undefined && (yield* isOpen(yield* withCalls(below)))) return false
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
