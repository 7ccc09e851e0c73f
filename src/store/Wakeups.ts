/**
 * Who waits for news of a run, and the stream that such a waiter reads.
 *
 * Waking says only that there may be something new; what is new is always read from the store. So a wake-up may come
 * too often and from anywhere, this process or another, and no event can be lost or seen twice.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { RunStore } from "./RunStore.ts"

/** What there may be news of: the journal of a run, or its inbox. */
export type Topic = `${"events" | "inbox"} ${string}`

/** The waiters of one store. */
export interface Wakeups {
  /** Waits until somebody watches anything at all. */
  readonly watched: Effect.Effect<void>
  /** Wakes those who watch this. */
  readonly wake: (topic: Topic) => void
  /** Wakes everybody. */
  readonly wakeAll: Effect.Effect<void>
  /** Waits until it is one's turn to read what was there before: many who have much to read leave time for others so. */
  readonly turn: Effect.Effect<void>
  /** A latch that opens when there may be news; it is forgotten when the scope closes. */
  readonly subscribe: (topic: Topic) => Effect.Effect<Latch.Latch, never, Scope.Scope>
}

/** Nobody waits yet. */
export const make = (): Wakeups => {
  const waiting = new Map<Topic, Set<Latch.Latch>>()
  const watched = Latch.makeUnsafe(false)
  const turns = Semaphore.makeUnsafe(1)
  let waiters = 0
  const wake = (topic: Topic) => {
    const latches = waiting.get(topic)
    if (latches === undefined) return
    for (const latch of latches) latch.openUnsafe()
  }
  return {
    watched: watched.await,
    wake,
    wakeAll: Effect.sync(() => {
      for (const topic of waiting.keys()) wake(topic)
    }),
    // Not held while one reads, for that may take as long as a database does not answer.
    turn: turns.withPermit(Effect.yieldNow),
    subscribe: (topic) =>
      Effect.acquireRelease(
        Effect.sync(() => {
          const latch = Latch.makeUnsafe(false)
          const latches = waiting.get(topic)
          if (latches === undefined) waiting.set(topic, new Set([latch]))
          else latches.add(latch)
          waiters += 1
          watched.openUnsafe()
          return latch
        }),
        (latch) =>
          Effect.sync(() => {
            const latches = waiting.get(topic)
            latches?.delete(latch)
            if (latches?.size === 0) waiting.delete(topic)
            waiters -= 1
            if (waiters === 0) watched.closeUnsafe()
          })
      )
  }
}

/**
 * What `read` has from a position on: first what is there, then whatever comes. `read` is called again after every
 * wake-up, with the position after the last item. Never ends.
 */
export const follow = <A, E>(
  wakeups: Wakeups,
  options: {
    readonly topic: Topic
    readonly from: number
    readonly read: (from: number) => Effect.Effect<ReadonlyArray<A>, E>
    readonly after: (item: A) => number
    /** Whether what is there may be long: then it is read in turn with others. */
    readonly isLong: boolean
  }
): Stream.Stream<A, E> =>
  Stream.unwrap(
    Effect.map(wakeups.subscribe(options.topic), (latch) => {
      let position = options.from
      let isBehind = true
      const next = Effect.gen(function* () {
        while (true) {
          // Closed before the read: what is stored while we read opens it again, so the wait below cannot miss it.
          latch.closeUnsafe()
          if (isBehind && options.isLong) yield* wakeups.turn
          const items = yield* options.read(position)
          isBehind = items.length > 0
          if (Arr.isReadonlyArrayNonEmpty(items)) {
            position = options.after(Arr.lastNonEmpty(items))
            return items
          }
          yield* latch.await
        }
      })
      return Stream.fromPull(Effect.succeed(next))
    })
  )

/** How many events a watcher is given at once: the next are read when it has taken these. */
const pageOfEvents = 500

/** A store with its streams, which it has when it wakes who waits after whatever it writes. */
export const watching = (
  wakeups: Wakeups,
  store: Omit<RunStore["Service"], "watch" | "watchInbox">
): RunStore["Service"] => ({
  ...store,
  watch: (runId, from = 0) =>
    follow(wakeups, {
      topic: `events ${runId}`,
      from,
      read: (position) => store.read(runId, position, pageOfEvents),
      after: ({ seq }) => seq + 1,
      isLong: true
    }),
  watchInbox: (runId, after) =>
    follow(wakeups, {
      topic: `inbox ${runId}`,
      from: after,
      read: (position) => store.inbox(runId, position),
      after: ({ id }) => id,
      isLong: false
    })
})
