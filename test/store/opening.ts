/** A store by a name that one process can tell another. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { RunStore, RunStoreError } from "../../src/store/RunStore.ts"

/** The store at a URL of Postgres, or in a file. */
export const open = (where: string): Layer.Layer<RunStore, RunStoreError> =>
  Layer.unwrap(
    Effect.promise(async () =>
      where.startsWith("postgres:")
        ? (await import("../../src/store/Postgres.ts")).runStore({ url: where })
        : (await import("../../src/store/NodeSqlite.ts")).runStore(where, { busyTimeout: "30 seconds" })
    )
  )
