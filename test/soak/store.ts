/**
 * The store that all processes share: a Postgres URL or a SQLite file.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { LeaseTime, type RunStore, type RunStoreError } from "../../src/store/RunStore.ts"

/** The store. A run that its process has left may be taken over after three seconds. */
export const storeAt = (where: string): Layer.Layer<RunStore, RunStoreError> =>
  Layer.unwrap(
    Effect.promise(async () =>
      /^postgres(ql)?:/.test(where)
        ? (await import("../../src/store/Postgres.ts")).runStore({ url: where })
        : (await import("../../src/store/NodeSqlite.ts")).runStore(where, { busyTimeout: "30 seconds" })
    )
  ).pipe(Layer.provide(Layer.succeed(LeaseTime, "3 seconds")))
