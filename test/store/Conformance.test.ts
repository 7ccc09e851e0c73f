import { join } from "node:path"
import { describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import type { RunStore, RunStoreError } from "../../src/store/RunStore.ts"
import * as SqlRunStore from "../../src/store/SqlRunStore.ts"
import { cases } from "./conformance.ts"
import { inFolder } from "./folders.ts"
import { describeStores } from "./stores.ts"

const conforms = (layer: Layer.Layer<RunStore, RunStoreError>) => {
  for (const { check, name } of cases) it.effect(name, () => Effect.provide(check, layer))
}

describeStores(conforms)

describe("SQLite in memory", () => conforms(NodeSqlite.runStore(":memory:")))

describe("SQLite with a client of one's own", () =>
  conforms(
    inFolder((folder) =>
      SqlRunStore.layer.pipe(
        Layer.provide(NodeSqlite.layer({ filename: join(folder, "app.db") })),
        Layer.orDie
      )
    )
  ))
