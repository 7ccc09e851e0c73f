/**
 * Runs that somebody has to drive on: those whose driver has died or was shut down, and those in which all that they wait
 * for has been said, and whoever was to resume them has not. One that waits for more would stop where it stands.
 */
import * as Effect from "effect/Effect"
import type { Command } from "../run/Command.ts"
import {
  type ListOptions,
  type RunNotFound,
  RunStore,
  type RunStoreError,
  type RunSummary,
  rootOf
} from "../store/RunStore.ts"
import { ifStored } from "./Orphans.ts"
import * as Summary from "./Summary.ts"

// A provider that is away is nobody who answers.
const waits = ["approval", "input", "unknown_outcome"] as const

const isWaiting = ({ reason, status }: RunSummary): boolean =>
  status === "interrupted" && waits.some((each) => each === reason)

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

interface Awaited {
  readonly runId: string
  readonly callId: string
  readonly type: Command["type"]
}

/** All that a run waits for, and those below it with it. */
const awaitedBy = Effect.fnUntraced(function* (run: RunSummary) {
  const awaited: Array<Awaited> = []
  for (const { callId, runId } of yield* Summary.waiting(run, "approvals")) {
    awaited.push({ runId, callId, type: "decide" })
  }
  for (const { callId, runId } of yield* Summary.waiting(run, "unknown")) {
    awaited.push({ runId, callId, type: "resolve" })
  }
  if (run.question !== undefined) awaited.push({ ...run.question, type: "answer" })
  return awaited
})

/** Whether all that a run waits for has been said, and nobody has taken it in. */
const isAnswered = Effect.fnUntraced(function* (run: RunSummary) {
  const store = yield* RunStore
  for (const [runId, awaited] of Map.groupBy(yield* awaitedBy(run), (each) => each.runId)) {
    const { inbox } = runId === run.runId ? run : yield* store.summary(runId)
    const said = yield* store.inbox(runId, inbox)
    const isSaid = ({ callId, type }: Awaited) =>
      said.some(({ command }) => command.type === type && "callId" in command && command.callId === callId)
    if (!awaited.every(isSaid)) return false
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
 * Those of the agents that count which are at the top of their tree, the unstopped before the answered, newest first: the run
 * of a sub-agent goes on with the one that has started it. Some may be driven at this moment, or about to be.
 */
export const runs = Effect.fnUntraced(function* (counts: (agent: string) => boolean) {
  const found = new Map<string, RunSummary>()
  for (const run of yield* all({ status: "running" })) {
    if (run.parent === undefined && counts(run.agent)) found.set(run.runId, run)
  }
  const looked = new Set(found.keys())
  for (const reason of waits) {
    for (const run of yield* all({ reason, told: true })) {
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
