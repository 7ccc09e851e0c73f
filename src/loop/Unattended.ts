/**
 * Runs that somebody has to drive on: those whose driver has died or was shut down, and those in which people have answered
 * what they waited for, and whoever was to resume them has not.
 */
import * as Effect from "effect/Effect"
import { type ListOptions, RunStore, type RunSummary, rootOf } from "../store/RunStore.ts"
import { ifStored } from "./Orphans.ts"

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

/** The run with which a waiting one goes on, if people have said something to that which its last driver has not taken in. */
const answered = (run: RunSummary) =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const commands = yield* store.inbox(run.runId, run.inbox)
    if (commands.every(({ command }) => command.type === "cancel")) return undefined
    const root = yield* rootOf(run.runId)
    // One above it that was stopped, or has come to another end, is not taken up for what was said below it.
    return isWaiting(root) ? root : undefined
  }).pipe(
    ifStored,
    // The others are taken up all the same.
    Effect.catchIf(
      ({ kind }) => kind === "corrupt" || kind === "newer_version",
      ({ message }) =>
        Effect.as(Effect.logWarning(`run ${run.runId} is not looked at: ${message}`), undefined)
    )
  )

/**
 * Those at the top of each tree, the unstopped before the answered, newest first: the run of a sub-agent goes on with the one
 * that has started it. Some may be driven at this moment, or about to be.
 */
export const runs = Effect.gen(function* () {
  const found = new Map<string, RunSummary>()
  for (const run of yield* all({ status: "running" })) {
    if (run.parent === undefined) found.set(run.runId, run)
  }
  for (const reason of waits) {
    for (const run of yield* all({ reason, told: true })) {
      const root = yield* answered(run)
      if (root !== undefined && !found.has(root.runId)) found.set(root.runId, root)
    }
  }
  return [...found.values()]
})
