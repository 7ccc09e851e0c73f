/**
 * What every `RunStore` must do, to certify a store of your own: what it has to keep, to list, to show to watchers and to
 * refuse. `run` certifies a store, and needs no test runner; in one, each of the `cases` is a test.
 *
 * It has one store, in one process that lives, so it cannot see what becomes of others: that the lease of a driver that
 * died comes free, that one that was held up past it (`SIGSTOP` does that) finds it lost and can write no more, also not
 * to a run that was deleted and started again under its id meanwhile, that what another process appends and sends is
 * noticed, and that what was stored with the durability `power` survives a power cut. Test that with a process of its own.
 *
 * @example
 * ```ts
 * import { it } from "@effect/vitest"
 * import * as Effect from "effect/Effect"
 * import { MemoryRunStore } from "checkrein/store"
 * import { StoreConformance } from "checkrein/testing"
 *
 * // Your own layer here; each build of it has to be an empty store.
 * const MyStore = MemoryRunStore.layer
 *
 * for (const { check, name } of StoreConformance.cases) {
 *   it.effect(name, () => Effect.provide(check, MyStore))
 * }
 * ```
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import type { RunStore } from "../store/RunStore.ts"
import { atMost, inWorldTime } from "../store/TimeLimit.ts"
import type { Case } from "./conformance/Case.ts"
import { problemOf } from "./conformance/Expect.ts"
import * as Inbox from "./conformance/Inbox.ts"
import * as Journal from "./conformance/Journal.ts"
import * as Leases from "./conformance/Leases.ts"
import * as Listing from "./conformance/Listing.ts"
import * as Retention from "./conformance/Retention.ts"
import * as Watching from "./conformance/Watching.ts"

export type { Case } from "./conformance/Case.ts"

/**
 * All that a store must do, to make each a test of its own: `run` does it without a test runner, and is what certifies a
 * store. Each case needs an empty store of its own, and yields nothing or fails.
 */
export const cases: ReadonlyArray<Case> = [
  ...Journal.cases,
  ...Listing.cases,
  ...Retention.cases,
  ...Inbox.cases,
  ...Watching.cases,
  ...Leases.cases
]

/** Something that a store does not do: what was expected, and what came. */
export interface Failure {
  readonly name: string
  readonly problem: string
}

/**
 * Runs all cases one after another, each on a store that is built for it, and yields those that fail: none, if the store
 * does all that it must.
 *
 * @example
 * ```ts
 * import * as Console from "effect/Console"
 * import * as Effect from "effect/Effect"
 * import * as NodeSqlite from "checkrein/sqlite"
 * import { StoreConformance } from "checkrein/testing"
 *
 * const program = Effect.gen(function* () {
 *   for (const { name, problem } of yield* StoreConformance.run(NodeSqlite.runStore(":memory:"))) {
 *     yield* Console.log(`${name}: ${problem}`)
 *   }
 * })
 * ```
 */
export const run = <E, R>(
  store: Layer.Layer<RunStore, E, R>,
  {
    limit = "30 seconds"
  }: {
    /** How long a case may take, by the clock of the world. Default 30 seconds. */
    readonly limit?: Duration.Input | undefined
  } = {}
): Effect.Effect<ReadonlyArray<Failure>, never, R> =>
  Effect.gen(function* () {
    const failures: Array<Failure> = []
    const tooLong = () =>
      Effect.die(new Error(`there was no end within ${Duration.format(Duration.fromInputUnsafe(limit))}`))
    for (const { check, name } of cases) {
      const one = Effect.scoped(Effect.provide(check, Layer.fresh(store)))
      const exit = yield* Effect.exit(inWorldTime(atMost(limit, tooLong)(one)))
      if (Exit.isFailure(exit)) failures.push({ name, problem: problemOf(exit.cause) })
    }
    return failures
  })
