/**
 * A `RunStore` in memory, for tests, scripts and runs that need not outlive their process.
 *
 * It keeps the very objects that it is given: nothing is copied or encoded. Runs stay until the store is dropped.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Numbered } from "../run/Command.ts"
import type { RunEvent } from "../run/RunEvent.ts"
import * as Keepable from "./Keepable.ts"
import {
  type Lease,
  type ListOptions,
  RunBusy,
  RunNotFound,
  RunStore,
  type RunSummary,
  StaleWriter
} from "./RunStore.ts"
import * as Wakeups from "./Wakeups.ts"

interface Stored {
  readonly events: Array<RunEvent>
  commands: ReadonlyArray<Numbered>
  summary: RunSummary
}

type Position = Pick<RunSummary, "startedAt" | "runId">

const isBefore = (a: Position, b: Position): boolean =>
  a.startedAt === b.startedAt ? a.runId < b.runId : a.startedAt < b.startedAt

/** How many runs started before this position; `runs` is sorted, oldest first. */
const countBefore = (runs: ReadonlyArray<Stored>, position: Position): number => {
  let high = runs.length
  // A run that begins now comes last, or among the few that begin in this millisecond.
  for (const nearby = Math.max(0, high - 8); high > nearby; high--) {
    const run = runs[high - 1]
    if (run === undefined || isBefore(run.summary, position)) return high
  }
  let low = 0
  while (low < high) {
    const middle = (low + high) >>> 1
    const run = runs[middle]
    if (run !== undefined && isBefore(run.summary, position)) low = middle + 1
    else high = middle
  }
  return low
}

const matches = ({ commands, summary }: Stored, options: ListOptions): boolean =>
  (options.told !== true || commands.length > summary.inbox) &&
  (options.status === undefined || summary.status === options.status) &&
  (options.reason === undefined || summary.reason === options.reason) &&
  (options.agent === undefined || summary.agent === options.agent) &&
  (options.tag === undefined || summary.tags?.includes(options.tag) === true)

const none: ReadonlyArray<Numbered> = []

// Nothing can take it away.
const lease: Lease = { check: Effect.void, lost: Effect.never }

/**
 * Makes an empty store.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { MemoryRunStore } from "checkrein/store"
 *
 * const program = Effect.map(MemoryRunStore.make, (store) => store.list({ status: "running" }))
 * ```
 */
export const make: Effect.Effect<RunStore["Service"]> = Effect.sync(() => {
  const runs = new Map<string, Stored>()
  const oldestFirst: Array<Stored> = []
  const wakeups = Wakeups.make()
  const driven = new Set<string>()

  const find = (runId: string): Effect.Effect<Stored, RunNotFound> => {
    const run = runs.get(runId)
    return run === undefined ? Effect.fail(new RunNotFound({ runId })) : Effect.succeed(run)
  }

  const store = Wakeups.watching(wakeups, {
    append: ({ events, expected, runId, summary }) =>
      Effect.suspend(() => {
        const run = runs.get(runId)
        if ((run?.events.length ?? 0) !== expected) return Effect.fail(new StaleWriter({ runId, expected }))
        if (run === undefined) {
          const created: Stored = {
            events: [...events],
            commands: none,
            summary
          }
          runs.set(runId, created)
          oldestFirst.splice(countBefore(oldestFirst, summary), 0, created)
        } else {
          for (const event of events) run.events.push(event)
          run.summary = summary
        }
        wakeups.wake(`events ${runId}`)
        return Effect.void
      }),
    read: (runId, from = 0, limit = Number.POSITIVE_INFINITY) =>
      Effect.suspend(() => Effect.map(find(runId), (run) => run.events.slice(from, from + limit))),
    summary: (runId) => Effect.suspend(() => Effect.map(find(runId), (run) => run.summary)),
    list: (options = {}) =>
      Effect.sync(() => {
        const { before, limit = 50, since, until } = options
        const page: Array<RunSummary> = []
        const upTo = (position: Position | undefined) =>
          position === undefined ? oldestFirst.length : countBefore(oldestFirst, position)
        const end = Math.min(
          upTo(before),
          upTo(until === undefined ? until : { startedAt: until, runId: "" })
        )
        const start = since === undefined ? 0 : upTo({ startedAt: since, runId: "" })
        for (let i = end - 1; i >= start && page.length < limit; i--) {
          const run = oldestFirst[i]
          if (run !== undefined && matches(run, options)) page.push(run.summary)
        }
        return page
      }),
    delete: (runId, { untouchedSince } = {}) =>
      Effect.gen(function* () {
        const family = new Set([yield* find(runId)])
        for (const { summary } of family) {
          if (driven.has(summary.runId)) return yield* new RunBusy({ runId: summary.runId })
          if (untouchedSince !== undefined && summary.updatedAt >= untouchedSince) return []
          for (const run of oldestFirst) if (run.summary.parent?.runId === summary.runId) family.add(run)
        }
        for (const { summary } of family) {
          runs.delete(summary.runId)
          oldestFirst.splice(countBefore(oldestFirst, summary), 1)
          wakeups.wake(`events ${summary.runId}`)
        }
        return [...family].map(({ summary }) => summary.runId)
      }),
    send: (runId, command) =>
      Effect.suspend(() =>
        Effect.map(find(runId), (run) => {
          const id = run.commands.length + 1
          run.commands = [...run.commands, { id, command }]
          wakeups.wake(`inbox ${runId}`)
          return id
        })
      ),
    inbox: (runId, after) => Effect.sync(() => (runs.get(runId)?.commands ?? none).slice(after)),
    lease: (runId) =>
      Effect.acquireRelease(
        Effect.suspend(() => {
          if (driven.has(runId)) return Effect.fail(new RunBusy({ runId }))
          driven.add(runId)
          return Effect.succeed(lease)
        }),
        () => Effect.sync(() => driven.delete(runId))
      ),
    isDriven: (runId) => Effect.sync(() => driven.has(runId))
  })
  return Keepable.only(store)
})

/**
 * An empty store. Each build of the layer has its own.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { MemoryRunStore, RunStore } from "checkrein/store"
 *
 * const program = Effect.gen(function* () {
 *   const store = yield* RunStore.RunStore
 *   return yield* store.list()
 * }).pipe(Effect.provide(MemoryRunStore.layer))
 * ```
 */
export const layer: Layer.Layer<RunStore> = Layer.effect(RunStore, make)
