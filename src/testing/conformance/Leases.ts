/** Leases: one driver at a time, and none that keeps what it does not use. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { type Case, define, tagOf } from "./Case.ts"
import { same } from "./Expect.ts"

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
