/**
 * Who is attached to the runs that a host drives, and what they see besides the stored events: text as the model writes
 * it, and the progress of tools.
 *
 * Both are kept for each reader until it has read the events before them, with the number of the event that comes next: so
 * they stand in their place among what is read from the store, whoever is faster.
 */
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Stream from "effect/Stream"
import type { Ephemeral, LiveEvent, RunEvent } from "../run/RunEvent.ts"
import type { Watcher } from "./Journal.ts"

/** How much of this is kept for a reader; of more the oldest is lost to it, and nobody waits for it. */
const most = 1_000

interface Reader {
  readonly kept: Array<{ readonly event: Ephemeral; readonly before: number }>
  readonly news: Latch.Latch
}

/** The readers of one host. */
export interface Live {
  /** Whether anybody is attached to a run, or expected to be. */
  readonly isAttached: (runId: string) => boolean
  /** Whoever is the first to attach sees what is said from now on, up to the end of a turn. */
  readonly expect: (runId: string) => void
  /** Nobody is expected any more. */
  readonly forget: (runId: string) => void
  /** Tells those who are attached. Costs one look-up where nobody is. */
  readonly watcher: Watcher
  /** The stored events of a run from this number on, with what is said between them from now on. */
  readonly among: <E>(
    stored: Stream.Stream<RunEvent, E>,
    runId: string,
    from: number
  ) => Stream.Stream<LiveEvent, E>
}

/** Nobody is attached yet. */
export const make = (): Live => {
  const readers = new Map<string, Set<Reader>>()
  const expected = new Map<string, Reader>()

  const add = (runId: string): Reader => {
    const reader: Reader = { kept: [], news: Latch.makeUnsafe(false) }
    const others = readers.get(runId)
    if (others === undefined) readers.set(runId, new Set([reader]))
    else others.add(reader)
    return reader
  }

  const remove = (runId: string, reader: Reader): void => {
    const left = readers.get(runId)
    left?.delete(reader)
    if (left?.size === 0) readers.delete(runId)
  }

  const forget = (runId: string): void => {
    const reader = expected.get(runId)
    if (reader === undefined) return
    expected.delete(runId)
    remove(runId, reader)
  }

  const attach = (runId: string): Reader => {
    const reader = expected.get(runId)
    expected.delete(runId)
    return reader ?? add(runId)
  }

  return {
    isAttached: (runId) => readers.has(runId),
    expect: (runId) => {
      if (!expected.has(runId)) expected.set(runId, add(runId))
    },
    forget,
    watcher: (event, { seq }) => {
      const attached = readers.get(event.runId)
      if (attached === undefined) return
      if ("seq" in event) {
        if (event.type === "turn") forget(event.runId)
        return
      }
      for (const { kept, news } of attached) {
        if (kept.length === most) kept.shift()
        kept.push({ event, before: seq })
        news.openUnsafe()
      }
    },
    among: (stored, runId, from) =>
      Stream.unwrap(
        Effect.map(
          Effect.acquireRelease(
            Effect.sync(() => attach(runId)),
            (reader) => Effect.sync(() => remove(runId, reader))
          ),
          ({ kept, news }) => {
            // Whoever begins at no number begins at the first.
            let next = Number.isNaN(from) ? 0 : Math.max(0, Math.ceil(from))
            /** What was said before the event that comes next. Of what the reader has passed by it hears no more. */
            const said = (): ReadonlyArray<Ephemeral> => {
              const due: Array<Ephemeral> = []
              for (let [first] = kept; first !== undefined && first.before <= next; [first] = kept) {
                kept.shift()
                if (first.before === next) due.push(first.event)
              }
              return due
            }
            const told = Stream.fromEffectRepeat(
              Effect.andThen(
                news.await,
                Effect.sync(() => news.closeUnsafe())
              )
            )
            return Stream.merge(stored, told, { haltStrategy: "left" }).pipe(
              Stream.map((event): ReadonlyArray<LiveEvent> => {
                if (typeof event !== "object") return said()
                const before = said()
                next = event.seq + 1
                return [...before, event, ...said()]
              }),
              Stream.flattenIterable
            )
          }
        )
      )
  }
}
