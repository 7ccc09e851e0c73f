/** Inboxes: commands are numbered, kept in order and apart from the journal. */
import { deepStrictEqual, fail, strictEqual } from "node:assert"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import { Command } from "../../run/Command.ts"
import { type Case, define, sameJson } from "./Case.ts"
import { append, cancel, eventsFrom } from "./Samples.ts"

/** What an inbox has to do. */
export const cases: ReadonlyArray<Case> = [
  define("an inbox numbers its commands from 1 on and keeps their order", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* store.append(append("b", 0))
      strictEqual(yield* store.send("a", cancel("first")), 1)
      strictEqual(yield* store.send("b", cancel("elsewhere")), 1)
      strictEqual(yield* store.send("a", cancel("second")), 2)
      deepStrictEqual(yield* store.inbox("a", 0), [
        { id: 1, command: cancel("first") },
        { id: 2, command: cancel("second") }
      ])
      deepStrictEqual(yield* store.inbox("a", 1), [{ id: 2, command: cancel("second") }])
      deepStrictEqual(yield* store.inbox("a", 2), [])
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
      deepStrictEqual(
        received.map(({ id }) => id),
        all.map((i) => i + 1)
      )
      for (const { command, id } of received) deepStrictEqual(command, cancel(`${ids.indexOf(id)}`))
    })
  ),
  define("every command comes back as it was sent", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      const result = yield* Arbitrary.checkEffect(Arbitrary.schema(Command), (command) =>
        Effect.gen(function* () {
          const id = yield* store.send("a", command)
          const [received] = yield* store.inbox("a", id - 1)
          return sameJson(received, { id, command })
        })
      )
      const failure = Arbitrary.formatCheckFailure(result)
      if (failure !== undefined) fail(failure)
    })
  ),
  define("an inbox does not touch the journal", (store) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* store.send("a", cancel("stop"))
      yield* store.append(append("a", 1))
      deepStrictEqual(yield* store.read("a"), eventsFrom("a", 0, 2))
    })
  )
]
