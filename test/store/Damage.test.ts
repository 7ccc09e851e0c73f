/** SQLite files that something has damaged: what cannot be read is said, and nothing is made worse. */
import { closeSync, copyFileSync, openSync, readFileSync, statSync, truncateSync, writeSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import { RunStore, RunStoreError } from "../../src/store/RunStore.ts"
import { append } from "../../src/testing/conformance/Samples.ts"
import { folder } from "./folders.ts"

const count = 400
const page = 4096

const overwrite = (file: string, position: number) => {
  const open = openSync(file, "r+")
  writeSync(open, Buffer.alloc(page, 0xa5), 0, page, position)
  closeSync(open)
}

const damages: { readonly [name: string]: (file: string, size: number) => void } = {
  "cut in half": (file, size) => truncateSync(file, Math.floor(size / 2 / page) * page),
  "cut in the middle of a page": (file, size) => truncateSync(file, size - page - 100),
  "with a page overwritten": (file, size) => overwrite(file, Math.floor(size / 2 / page) * page),
  "with its tables' page overwritten": (file) => overwrite(file, page)
}

describe("a file that is", () => {
  for (const [name, damage] of Object.entries(damages)) {
    it.effect(`${name} is said to be damaged, and stays as it is`, () =>
      Effect.gen(function* () {
        const path = yield* folder
        const whole = join(path, "whole.db")
        yield* RunStore.use((store) => store.append(append("a", 0, count))).pipe(
          Effect.provide(NodeSqlite.runStore(whole))
        )
        const file = join(path, "damaged.db")
        copyFileSync(whole, file)
        damage(file, statSync(file).size)
        const before = readFileSync(file)
        const reading = Effect.gen(function* () {
          const store = yield* RunStore
          const events = yield* store.read("a")
          return [events, yield* store.summary("a"), yield* store.list()]
        })
        const error = yield* Effect.flip(Effect.provide(reading, NodeSqlite.runStore(file), { local: true }))
        expect(error).toBeInstanceOf(RunStoreError)
        expect(error).toMatchObject({ kind: "corrupt" })
        expect(error.message).toMatch(/it is damaged|the database is damaged/)
        expect(readFileSync(file).equals(before)).toBe(true)
      })
    )
  }
})
