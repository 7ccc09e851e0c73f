import { join } from "node:path"
import { describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as MemoryRunStore from "../../src/store/MemoryRunStore.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import * as SqlRunStore from "../../src/store/SqlRunStore.ts"
import { cases } from "./conformance.ts"
import { inFolder } from "./folders.ts"

const stores = {
  memory: MemoryRunStore.layer,
  "SQLite in memory": NodeSqlite.runStore(":memory:"),
  "SQLite file": inFolder((folder) => NodeSqlite.runStore(join(folder, "runs.db"))),
  "SQLite client of one's own": inFolder((folder) =>
    SqlRunStore.layer.pipe(Layer.provide(NodeSqlite.layer({ filename: join(folder, "app.db") })))
  )
}

for (const [name, layer] of Object.entries(stores)) {
  describe(name, () => {
    for (const { check, name } of cases) it.effect(name, () => Effect.provide(check, layer))
  })
}
