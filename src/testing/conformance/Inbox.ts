/** Inboxes: commands are numbered, kept in order and apart from the journal. */
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import { Command } from "../../run/Command.ts"
import { type Case, define } from "./Case.ts"
import { forAll, same, sameJson } from "./Expect.ts"
import { append, cancel, eventsFrom } from "./Samples.ts"

/** What an inbox has to do. */
export const cases: ReadonlyArray<Case> = [
  define("an inbox numbers its commands from 1 on and keeps their order", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* store.append(append("b", 0))
      same(yield* store.send("a", cancel("first")), 1)
      same(yield* store.send("b", cancel("elsewhere")), 1)
      same(yield* store.send("a", cancel("second")), 2)
      same(yield* store.inbox("a", 0), [
        { id: 1, command: cancel("first") },
        { id: 2, command: cancel("second") }
      ])
      same(yield* store.inbox("a", 1), [{ id: 2, command: cancel("second") }])
      same(yield* store.inbox("a", 2), [])
      for (const before of [-1, -0.5, 0.5, Number.NaN]) same((yield* store.inbox("a", before)).length, 2)
      same(yield* store.inbox("a", Number.POSITIVE_INFINITY), [])
    })
  ),
  define("of commands sent at once each has its own number", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      const all = Array.from({ length: 32 }, (_, i) => i)
      const ids = yield* Effect.forEach(all, (i) => store.send("a", cancel(`${i}`)), {
        concurrency: "unbounded"
      })
      const received = yield* store.inbox("a", 0)
      same(
        received.map(({ id }) => id),
        all.map((i) => i + 1)
      )
      for (const { command, id } of received) same(command, cancel(`${ids.indexOf(id)}`))
    })
  ),
  define("whoever has sent a command finds every one that was numbered before it", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      const send = Effect.gen(function* () {
        const id = yield* store.send("a", cancel("now"))
        const before = (yield* store.inbox("a", 0)).slice(0, id)
        same(
          before.map((each) => each.id),
          Array.from({ length: id }, (_, i) => i + 1)
        )
      })
      yield* Effect.all(
        Array.from({ length: 32 }, () => send),
        { concurrency: "unbounded", discard: true }
      )
    })
  ),
  define("every command comes back as it was sent", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* forAll(Arbitrary.schema(Command), (command) =>
        Effect.gen(function* () {
          const id = yield* store.send("a", command)
          const [received] = yield* store.inbox("a", id - 1)
          sameJson(received, { id, command })
        })
      )
    })
  ),
  define("an inbox does not touch the journal", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* store.send("a", cancel("stop"))
      yield* store.append(append("a", 1))
      same(yield* store.read("a"), eventsFrom("a", 0, 2))
    })
  )
]
