/** The stores that what is promised of every store is tested on. Each build of a layer is an empty store of its own. */
import { join } from "node:path"
import { describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as MemoryRunStore from "../../src/store/MemoryRunStore.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as Postgres from "../../src/store/Postgres.ts"
import type { RunStore, RunStoreError } from "../../src/store/RunStore.ts"
import { folder, inFolder } from "./folders.ts"
import { describePostgres, inSchema, url } from "./postgres.ts"

type Store = Layer.Layer<RunStore, RunStoreError>

const sqlite: Store = inFolder((folder) => NodeSqlite.runStore(join(folder, "runs.db")))
const postgres: Store = inSchema((url) => Postgres.runStore({ url }))

/** Describes the same for every store; without a server the part on Postgres is skipped. */
export const describeStores = (
  body: (layer: Store, name: "memory" | "SQLite" | "Postgres") => void
): void => {
  describe("memory", () => body(MemoryRunStore.layer, "memory"))
  describe("SQLite", () => body(sqlite, "SQLite"))
  describePostgres("Postgres", () => body(postgres, "Postgres"))
}

/** Describes the same for each database that processes can share; `where` is the name of an empty one, for `opening.ts`. */
export const describeShared = (body: (where: Effect.Effect<string, never, Scope.Scope>) => void): void => {
  describe("SQLite", () => body(Effect.map(folder, (path) => join(path, "runs.db"))))
  describePostgres("Postgres", () => body(url))
}
