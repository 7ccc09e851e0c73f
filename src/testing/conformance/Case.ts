/** One thing that every store of runs must do, as an effect that fails where a store does not keep the contract. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { RunStore } from "../../store/RunStore.ts"

/**
 * What a store must do, as an effect that fails where the store does not do it. It needs an empty store, no clock and no
 * test runner; in one, each case is a test.
 *
 * @example
 * ```ts
 * import { it } from "@effect/vitest"
 * import * as Effect from "effect/Effect"
 * import { MemoryRunStore } from "checkrein/store"
 * import { StoreConformance } from "checkrein/testing"
 *
 * const MyStore = MemoryRunStore.layer
 *
 * const asTest = ({ check, name }: StoreConformance.Case) =>
 *   it.effect(name, () => Effect.provide(check, MyStore), 30_000)
 *
 * StoreConformance.cases.forEach(asTest)
 * ```
 */
export interface Case {
  readonly name: string
  readonly check: Effect.Effect<void, unknown, RunStore | Scope.Scope>
}

/** A case: what is looked at, and the look, given the store. */
export const define = (
  name: string,
  check: (store: RunStore["Service"]) => Effect.Effect<void, unknown, Scope.Scope>
): Case => ({ name, check: Effect.flatMap(RunStore, check) })

/** How an effect ends: with this failure, or `"success"`. */
export const tagOf = <A, E extends { readonly _tag: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.match(effect, { onFailure: (error) => error._tag, onSuccess: () => "success" })
