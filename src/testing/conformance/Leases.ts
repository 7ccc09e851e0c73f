/** Leases: one driver at a time, and none that keeps what it does not use. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { type Case, define, tagOf } from "./Case.ts"
import { same } from "./Expect.ts"
import { append, eventsFrom, summary } from "./Samples.ts"

/** What the right to drive a run has to be. */
export const cases: ReadonlyArray<Case> = [
  define("one drives a run at a time", (store) =>
    Effect.gen(function* () {
      const first = yield* Scope.make()
      yield* Scope.provide(store.lease("a"), first)
      same(yield* tagOf(Effect.scoped(store.lease("a"))), "RunBusy")
      // The refused attempt must not have taken the lease with it when its own scope closed.
      same(yield* tagOf(Effect.scoped(store.lease("a"))), "RunBusy")
      same(yield* tagOf(Effect.scoped(store.lease("b"))), "success")
      yield* Scope.close(first, Exit.void)
      same(yield* tagOf(Effect.scoped(store.lease("a"))), "success")
    })
  ),
  define("drivers write to a run one after another, and to one that is started under its id again", (store) =>
    Effect.gen(function* () {
      const drive = (expected: number) =>
        Effect.scoped(Effect.andThen(store.lease("a"), store.append(append("a", expected))))
      for (const time of ["first", "second"]) {
        for (let expected = 0; expected < 3; expected++) yield* drive(expected)
        same(yield* tagOf(drive(2)), "StaleWriter")
        // What has no driver is written by whoever names the next event.
        yield* store.append(append("a", 3, 1, { detail: time }))
        same(yield* store.summary("a"), summary("a", 4, { detail: time }))
        same(yield* store.read("a"), eventsFrom("a", 0, 4))
        yield* store.delete("a")
      }
    })
  ),
  define("says whether somebody drives a run, and asking takes it from nobody", (store) =>
    Effect.gen(function* () {
      const first = yield* Scope.make()
      same(yield* store.isDriven("a"), false)
      yield* Scope.provide(store.lease("a"), first)
      same(yield* store.isDriven("a"), true)
      same(yield* store.isDriven("b"), false)
      same(yield* tagOf(Effect.scoped(store.lease("a"))), "RunBusy")
      yield* Scope.close(first, Exit.void)
      same(yield* store.isDriven("a"), false)
      same(yield* tagOf(Effect.scoped(store.lease("a"))), "success")
    })
  ),
  define("of 64 drivers at once one gets the run", (store) =>
    Effect.gen(function* () {
      const all = Array.from({ length: 64 }, (_, i) => i)
      const tags = yield* Effect.forEach(all, () => tagOf(store.lease("a")), { concurrency: "unbounded" })
      same(tags.filter((tag) => tag === "success").length, 1)
      same(tags.filter((tag) => tag === "RunBusy").length, 63)
    })
  ),
  define("a driver that fails or is interrupted lets go of its run", (store) =>
    Effect.gen(function* () {
      yield* Effect.exit(Effect.scoped(Effect.andThen(store.lease("a"), Effect.die("broken"))))
      const leased = yield* Deferred.make<void>()
      const driver = yield* Effect.forkChild(
        store
          .lease("a")
          .pipe(
            Effect.andThen(Deferred.succeed(leased, undefined)),
            Effect.andThen(Effect.never),
            Effect.scoped
          )
      )
      yield* Deferred.await(leased)
      yield* Fiber.interrupt(driver)
      same(yield* tagOf(store.lease("a")), "success")
    })
  )
]
