/**
 * What the types of a host come to, without an annotation anywhere. Checked by `tsc`; nothing here is run.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Stream from "effect/Stream"
import type * as SqlClient from "effect/sql/SqlClient"
import { Agent, type RunEvent, RunHost, type RunStore } from "../src/index.ts"
import { type BudgetPool, SqlBudgetPool } from "../src/store/index.ts"

type Eq<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const ok = <T extends true>(): T | undefined => undefined

type Host = RunHost.RunHost["Service"]
class Tenants extends Context.Service<
  Tenants,
  { readonly pool: (tenant: string) => Effect.Effect<BudgetPool.BudgetPool["Service"]> }
>()("types/Tenants") {}

const poet = Agent.make("poet")
type Model = LanguageModel.LanguageModel

// --- layer

export const bare = RunHost.layer([poet])
ok<Eq<typeof bare, Layer.Layer<RunHost.RunHost, never, RunStore.RunStore | Model>>>()
export const busy = RunHost.layer([poet], { concurrency: 2, shutdown: { running: "interrupt" } })
ok<Eq<typeof busy, typeof bare>>()

// What a budget is made of is needed as well, and what there may be of it need not be there.
export const sql = RunHost.layer([poet], {
  budget: ({ tags: [tenant = "nobody"] }) => SqlBudgetPool.make(tenant, { usd: 5 })
})
ok<Eq<typeof sql, Layer.Layer<RunHost.RunHost, never, RunStore.RunStore | Model | SqlClient.SqlClient>>>()
export const some = RunHost.layer([poet], {
  budget: ({ runId }) =>
    Effect.gen(function* () {
      const tenants = yield* Tenants
      return runId.startsWith("free") ? undefined : yield* tenants.pool(runId)
    })
})
ok<Eq<typeof some, Layer.Layer<RunHost.RunHost, never, RunStore.RunStore | Model | Tenants>>>()
// @ts-expect-error: how a budget is found may fail only as one does
RunHost.layer([poet], { budget: () => Effect.fail("no") })
// @ts-expect-error: how getting an agent's tools may fail is settled before
RunHost.layer([Agent.make("late", { toolkit: Effect.fail("no tools") })])

// --- attach

ok<
  Eq<
    ReturnType<Host["attach"]>,
    Stream.Stream<RunEvent.LiveEvent, RunStore.RunNotFound | RunStore.RunStoreError>
  >
>()

// --- start, resume

ok<Eq<ReturnType<Host["start"]>, Effect.Effect<string, RunHost.Failure>>>()
ok<Eq<ReturnType<Host["resume"]>, Effect.Effect<void, RunHost.Failure>>>()
