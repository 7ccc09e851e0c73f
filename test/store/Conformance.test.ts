import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as MemoryRunStore from "../../src/store/MemoryRunStore.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import { RunStore, type RunStoreError } from "../../src/store/RunStore.ts"
import * as SqlRunStore from "../../src/store/SqlRunStore.ts"
import * as StoreConformance from "../../src/testing/StoreConformance.ts"
import { inFolder } from "./folders.ts"
import { describeStores } from "./stores.ts"

const conforms = (layer: Layer.Layer<RunStore, RunStoreError>) => {
  for (const { check, name } of StoreConformance.cases) it.effect(name, () => Effect.provide(check, layer))
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

describe("StoreConformance.run", () => {
  it.effect("finds nothing in a store that conforms, and names what a broken one does not do", () =>
    Effect.gen(function* () {
      expect(yield* StoreConformance.run(MemoryRunStore.layer)).toEqual([])
      const broken = Layer.effect(
        RunStore,
        Effect.map(MemoryRunStore.make, (store) => ({
          ...store,
          list: () => Effect.succeed([]),
          watchInbox: () => Stream.never
        }))
      )
      const failures = yield* StoreConformance.run(broken, { limit: "2 seconds" })
      const problems = new Map(failures.map(({ name, problem }) => [name, problem]))
      expect(problems.has("runs are listed by status and by agent")).toBe(true)
      expect(problems.has("the first append creates a run")).toBe(false)
      expect(problems.get("an inbox is watched likewise, before its run is there too")).toMatch(
        /no end within 2s/
      )
      for (const { problem } of failures) expect(problem).not.toBe("")
    })
  )
})
