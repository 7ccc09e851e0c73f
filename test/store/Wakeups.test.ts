import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as MemoryRunStore from "../../src/store/MemoryRunStore.ts"
import * as Wakeups from "../../src/store/Wakeups.ts"
import { append, eventsFrom } from "../../src/testing/conformance/Samples.ts"

const isWatched = (wakeups: Wakeups.Wakeups) =>
  Effect.raceFirst(
    Effect.as(wakeups.watched, true),
    Effect.as(Effect.andThen(Effect.yieldNow, Effect.yieldNow), false)
  )

/** A watcher of a growing list, and how often it has read. */
const following = (wakeups: Wakeups.Wakeups, items: ReadonlyArray<number>) => {
  const reads: Array<number> = []
  const stream = Wakeups.follow(wakeups, {
    topic: "events a",
    from: 0,
    read: (from) =>
      Effect.sync(() => {
        reads.push(from)
        return items.slice(from)
      }),
    after: (item) => item + 1,
    isLong: true
  })
  return { reads, stream }
}

const settle = Effect.forEach(Array.from({ length: 20 }), () => Effect.yieldNow, { discard: true })

describe("Wakeups", () => {
  it.effect("a watcher that stops, ends or fails leaves nothing behind", () =>
    Effect.gen(function* () {
      const wakeups = Wakeups.make()
      const { stream } = following(wakeups, [0, 1])
      expect(yield* isWatched(wakeups)).toBe(false)
      const fiber = yield* Effect.forkChild(Stream.runDrain(stream))
      yield* settle
      expect(yield* isWatched(wakeups)).toBe(true)
      yield* Fiber.interrupt(fiber)
      expect(yield* isWatched(wakeups)).toBe(false)
      yield* Stream.runDrain(Stream.take(stream, 1))
      expect(yield* isWatched(wakeups)).toBe(false)
      yield* Effect.flip(Stream.runDrain(Stream.mapEffect(stream, () => Effect.fail("no"))))
      expect(yield* isWatched(wakeups)).toBe(false)
    })
  )

  it.effect("is watched as long as one of several watches", () =>
    Effect.gen(function* () {
      const wakeups = Wakeups.make()
      const { stream } = following(wakeups, [])
      const first = yield* Effect.forkChild(Stream.runDrain(stream))
      const second = yield* Effect.forkChild(Stream.runDrain(stream))
      yield* settle
      yield* Fiber.interrupt(first)
      expect(yield* isWatched(wakeups)).toBe(true)
      yield* Fiber.interrupt(second)
      expect(yield* isWatched(wakeups)).toBe(false)
    })
  )

  it.effect("reads again only when woken for what it watches", () =>
    Effect.gen(function* () {
      const wakeups = Wakeups.make()
      const items = [0]
      const { reads, stream } = following(wakeups, items)
      const seen: Array<number> = []
      yield* Effect.forkChild(Stream.runForEach(stream, (item) => Effect.sync(() => seen.push(item))))
      yield* settle
      expect(reads).toEqual([0, 1])
      wakeups.wake("inbox a")
      wakeups.wake("events b")
      yield* settle
      expect(reads).toEqual([0, 1])
      items.push(1, 2)
      wakeups.wake("events a")
      yield* settle
      expect(seen).toEqual([0, 1, 2])
      expect(reads).toEqual([0, 1, 1, 3])
      yield* wakeups.wakeAll
      yield* settle
      expect(reads).toEqual([0, 1, 1, 3, 3])
    })
  )

  it.effect("reads a page when the one before it was taken, and none ahead", () =>
    Effect.gen(function* () {
      const stored = yield* MemoryRunStore.make
      yield* stored.append(append("a", 0, 2_000))
      const pages: Array<number> = []
      const store = Wakeups.watching(Wakeups.make(), {
        ...stored,
        read: (runId, from, limit) =>
          Effect.tap(stored.read(runId, from, limit), ({ length }) => Effect.sync(() => pages.push(length)))
      })
      const pull = yield* Stream.toPull(store.watch("a"))
      const first = yield* pull
      yield* settle
      expect(pages).toEqual([first.length])
      expect(first.length).toBeLessThan(1_000)
      yield* pull
      yield* settle
      expect(pages).toHaveLength(2)
      expect(yield* Stream.runCollect(Stream.take(store.watch("a"), 2_000))).toEqual(
        eventsFrom("a", 0, 2_000)
      )
      const whole = Wakeups.watching(Wakeups.make(), {
        ...stored,
        read: (runId, from) => stored.read(runId, from)
      })
      expect(yield* Stream.runCollect(Stream.take(whole.watch("a"), 2_000))).toHaveLength(2_000)
    }).pipe(Effect.scoped)
  )

  it.effect("many that have much to read leave time for others", () =>
    Effect.gen(function* () {
      const wakeups = Wakeups.make()
      let reads = 0
      const stream = Wakeups.follow(wakeups, {
        topic: "events a",
        from: 0,
        read: (from) =>
          Effect.sync(() => {
            reads++
            return [from]
          }),
        after: (item) => item + 1,
        isLong: true
      })
      const readers = Array.from({ length: 40 }, () => Stream.runDrain(Stream.take(stream, 25)))
      const fiber = yield* Effect.forkChild(Effect.all(readers, { concurrency: "unbounded" }))
      let most = 0
      while (fiber.pollUnsafe() === undefined) {
        const before = reads
        yield* Effect.yieldNow
        most = Math.max(most, reads - before)
      }
      expect(reads).toBe(40 * 25)
      expect(most).toBeLessThan(8)
    })
  )

  it.effect("what comes while it reads is not missed", () =>
    Effect.gen(function* () {
      const wakeups = Wakeups.make()
      const items: Array<number> = []
      const stream = Wakeups.follow(wakeups, {
        topic: "events a",
        from: 0,
        read: (from) =>
          Effect.gen(function* () {
            const found = items.slice(from)
            if (items.length < 3) {
              items.push(items.length)
              wakeups.wake("events a")
            }
            yield* Effect.yieldNow
            return found
          }),
        after: (item) => item + 1,
        isLong: true
      })
      expect(yield* Stream.runCollect(Stream.take(stream, 3))).toEqual([0, 1, 2])
    })
  )
})
