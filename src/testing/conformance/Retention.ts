/** Deleting: whole runs with those that they have started, never a driven one, and nothing else. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { RunStore } from "../../store/RunStore.ts"
import { type Case, define, tagOf } from "./Case.ts"
import { failureOf, same } from "./Expect.ts"
import { append, cancel, eventsFrom, second, summary } from "./Samples.ts"

const ids = (store: RunStore["Service"]) =>
  Effect.map(store.list(), (runs) => runs.map(({ runId }) => runId).toSorted())

/** `a` has started `a/1`, and that `a/1/1`; `b` has started nothing. */
const families = (store: RunStore["Service"]) =>
  Effect.gen(function* () {
    for (const [runId, parent] of [["a"], ["a/1", "a"], ["a/1/1", "a/1"], ["b"], ["a/2"]]) {
      const rest = parent === undefined ? {} : { parent: { runId: parent, callId: "c" } }
      yield* store.append(append(runId ?? "", 0, 3, { tags: ["t"], ...rest }))
      yield* store.send(runId ?? "", cancel("stop"))
    }
  })

/** How runs have to be deleted. */
export const cases: ReadonlyArray<Case> = [
  define("a run is deleted whole, with the runs that it has started, and no other", (store) =>
    Effect.gen(function* () {
      yield* families(store)
      const gone = yield* store.delete("a")
      same([gone[0], gone.toSorted()], ["a", ["a", "a/1", "a/1/1"]])
      for (const id of gone) {
        same(yield* tagOf(store.read(id)), "RunNotFound")
        same(yield* tagOf(store.summary(id)), "RunNotFound")
        same(yield* tagOf(store.send(id, cancel("late"))), "RunNotFound")
        same(yield* tagOf(Stream.runDrain(store.watch(id))), "RunNotFound")
        same(yield* store.inbox(id, 0), [])
      }
      same(yield* ids(store), ["a/2", "b"])
      same((yield* store.list({ tag: "t" })).length, 2)
      same(yield* store.read("b"), eventsFrom("b", 0, 3))
      same((yield* store.inbox("b", 0)).length, 1)
      same(yield* tagOf(store.delete("a")), "RunNotFound")
    })
  ),
  define("the id of a deleted run may be used again", (store) =>
    Effect.gen(function* () {
      yield* families(store)
      yield* store.delete("a")
      same(yield* tagOf(store.append(append("a", 3))), "StaleWriter")
      yield* store.append(append("a", 0))
      same(yield* store.read("a"), eventsFrom("a", 0, 1))
      same(yield* store.summary("a"), summary("a", 1))
      same(yield* store.send("a", cancel("again")), 1)
      same(yield* tagOf(store.summary("a/1")), "RunNotFound")
    })
  ),
  define("a run that somebody drives is not deleted, nor one that has started it", (store) =>
    Effect.gen(function* () {
      yield* families(store)
      for (const driven of ["a", "a/1/1"]) {
        const scope = yield* Scope.make()
        yield* Scope.provide(store.lease(driven), scope)
        const refused = yield* failureOf(store.delete("a"), `RunBusy for ${driven}`)
        same({ _tag: refused._tag, runId: refused.runId }, { _tag: "RunBusy", runId: driven })
        same((yield* ids(store)).length, 5)
        same(yield* store.read("a"), eventsFrom("a", 0, 3))
        yield* Scope.close(scope, Exit.void)
      }
      yield* store.delete("a")
      same(yield* ids(store), ["a/2", "b"])
    })
  ),
  define("the run of a sub-agent may be deleted by itself", (store) =>
    Effect.gen(function* () {
      yield* families(store)
      same(yield* store.delete("a/1"), ["a/1", "a/1/1"])
      same(yield* ids(store), ["a", "a/2", "b"])
    })
  ),
  define("a run that is to be deleted if it is old stays if it or one below it has gone on", (store) =>
    Effect.gen(function* () {
      yield* families(store)
      const stays = (untouchedSince: string) =>
        Effect.gen(function* () {
          same(yield* store.delete("a", { untouchedSince }), [])
          same((yield* ids(store)).length, 5)
          same(yield* store.read("a"), eventsFrom("a", 0, 3))
          same((yield* store.inbox("a", 0)).length, 1)
        })
      yield* stays(second(3))
      yield* store.append(append("a/1/1", 3, 1, { parent: { runId: "a/1", callId: "c" } }))
      yield* stays(second(4))
      same((yield* store.delete("a", { untouchedSince: second(5) })).length, 3)
      same(yield* ids(store), ["a/2", "b"])
      same(yield* tagOf(store.delete("a", { untouchedSince: second(5) })), "RunNotFound")
    })
  )
]
