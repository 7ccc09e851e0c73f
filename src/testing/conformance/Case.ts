/** One thing that every store of runs must do, as an effect that fails where a store does not keep the contract. */
import { isDeepStrictEqual } from "node:util"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { RunStore } from "../../store/RunStore.ts"

/** What a store must do. It needs an empty store, no clock and no test runner. */
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

/** Whether two values are the same JSON, in whatever order their fields are. */
export const sameJson = (a: unknown, b: unknown): boolean =>
  isDeepStrictEqual(JSON.parse(JSON.stringify(a)), JSON.parse(JSON.stringify(b)))
