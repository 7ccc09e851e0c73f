/** Watching: what is stored, then what comes, each once and in order. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { type Case, define } from "./Case.ts"
import { same } from "./Expect.ts"
import { append, cancel, eventsFrom } from "./Samples.ts"

/** Starts a watcher; says when it has seen its first item. */
const start = <A, E>(stream: Stream.Stream<A, E>, count: number) =>
  Effect.gen(function* () {
    const first = yield* Deferred.make<void>()
    const watching = stream.pipe(
      Stream.tap(() => Deferred.succeed(first, undefined)),
      Stream.take(count),
      Stream.runCollect
    )
    return { first: Deferred.await(first), fiber: yield* Effect.forkChild(watching) }
  })

/** What watchers have to see. */
export const cases: ReadonlyArray<Case> = [
  define("a watcher sees what is stored, then what comes", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 2))
      const watcher = yield* start(store.watch("a"), 5)
      yield* watcher.first
      yield* store.append(append("b", 0))
      yield* store.append(append("a", 2))
      yield* store.append(append("a", 3, 2))
      same(yield* Fiber.join(watcher.fiber), eventsFrom("a", 0, 5))
    })
  ),
  define("a watcher may start anywhere, past the end too", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 2))
      const middle = yield* start(store.watch("a", 1), 3)
      const ahead = yield* start(store.watch("a", 3), 1)
      yield* middle.first
      yield* store.append(append("a", 2, 2))
      same(yield* Fiber.join(middle.fiber), eventsFrom("a", 1, 3))
      same(yield* Fiber.join(ahead.fiber), eventsFrom("a", 3, 1))
    })
  ),
  define("a watcher that starts before the start starts there", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0, 2))
      yield* store.send("a", cancel("enough"))
      const command = { id: 1, command: cancel("enough") }
      for (const from of [-5, -0.5, Number.NaN]) {
        same(yield* Stream.runCollect(Stream.take(store.watch("a", from), 2)), eventsFrom("a", 0, 2))
        same(yield* Stream.runCollect(Stream.take(store.watchInbox("a", from), 1)), [command])
      }
      same(yield* Stream.runCollect(Stream.take(store.watch("a", 0.5), 1)), eventsFrom("a", 1, 1))
      same(yield* Stream.runCollect(Stream.take(store.watchInbox("a", 0.5), 1)), [command])
    })
  ),
  define("many watchers see all of many appends, in order", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      const watchers = yield* Effect.forEach([1, 2, 3, 4, 5, 6, 7, 8], () => start(store.watch("a"), 200))
      for (let i = 1; i < 200; i++) {
        yield* store.append(append("a", i))
        if (i % 3 === 0) yield* Effect.yieldNow
      }
      for (const { fiber } of watchers) same(yield* Fiber.join(fiber), eventsFrom("a", 0, 200))
    })
  ),
  define("a watcher that stops disturbs nobody", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      const stays = yield* start(store.watch("a"), 3)
      for (let i = 0; i < 20; i++) {
        const goes = yield* start(store.watch("a"), 100)
        yield* goes.first
        yield* Fiber.interrupt(goes.fiber)
      }
      yield* store.append(append("a", 1, 2))
      same(yield* Fiber.join(stays.fiber), eventsFrom("a", 0, 3))
    })
  ),
  define("an inbox is watched likewise, before its run is there too", (store) =>
    Effect.gen(function* () {
      const early = yield* start(store.watchInbox("a", 0), 3)
      yield* Effect.yieldNow
      yield* store.append(append("a", 0))
      yield* store.send("a", cancel("1"))
      yield* early.first
      const late = yield* start(store.watchInbox("a", 1), 2)
      yield* store.send("a", cancel("2"))
      yield* store.send("a", cancel("3"))
      const all = [1, 2, 3].map((id) => ({ id, command: cancel(`${id}`) }))
      same(yield* Fiber.join(early.fiber), all)
      same(yield* Fiber.join(late.fiber), all.slice(1))
    })
  )
]
