/** SQLite files that something has damaged: what cannot be read is said, and nothing is made worse. */
import { createHash } from "node:crypto"
import { closeSync, copyFileSync, openSync, readFileSync, statSync, truncateSync, writeSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import { Fold } from "../../src/index.ts"
import * as Summary from "../../src/loop/Summary.ts"
import * as EventCodec from "../../src/run/EventCodec.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import { RunStore, RunStoreError } from "../../src/store/RunStore.ts"
import * as SqlRunStore from "../../src/store/SqlRunStore.ts"
import { append } from "../../src/testing/conformance/Samples.ts"
import { runs } from "../testing/audit/journals.ts"
import { folder, inFolder } from "./folders.ts"

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

/** Numbers that are the same each time. */
const random = (seed: string) => {
  let drawn = 0
  return (below: number): number =>
    createHash("sha256").update(`${seed} ${drawn++}`).digest().readUInt32BE() % below
}

const Sqlite = inFolder((folder) =>
  Layer.provideMerge(SqlRunStore.layer, NodeSqlite.layer({ filename: join(folder, "runs.db") }))
)

describe("a journal of which one character is another", () => {
  it.effect("is said to be corrupt, wherever that is, with the run and the event", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      const sql = yield* SqlClient.SqlClient
      const draw = random("one character")
      let changes = 0
      for (const run of runs) {
        const { events } = yield* run
        const state = Fold.fold(events)
        if (state === undefined) continue
        const { runId } = state
        const summary = Summary.of(state)
        yield* store.append({ runId, expected: 0, events, summary, durability: "process" })
        const [{ run_no } = { run_no: 0 }] = yield* sql<{
          run_no: number
        }>`SELECT run_no FROM checkrein_runs WHERE run_id = ${runId}`
        for (const event of events) {
          const { seq } = event
          const body = EventCodec.encode(event)
          const is = sql`run_no = ${run_no} AND seq = ${seq}`
          for (let times = 0; times < 3; times++) {
            const at = draw(body.length)
            const other = String.fromCharCode(32 + ((body.charCodeAt(at) - 31 + draw(94)) % 95))
            const changed = body.slice(0, at) + other + body.slice(at + 1)
            yield* sql`UPDATE checkrein_events SET body = ${changed} WHERE ${is}`
            const error = yield* Effect.flip(store.read(runId, seq))
            const isNewer = /"v":\d{2,}|"v":[2-9]/.test(changed.slice(0, 8))
            expect([changed, error]).toMatchObject([
              changed,
              { _tag: "RunStoreError", kind: isNewer ? expect.any(String) : "corrupt", runId, seq }
            ])
            changes++
          }
          yield* sql`UPDATE checkrein_events SET body = ${body} WHERE ${is}`
        }
        expect(yield* store.read(runId)).toEqual(events)
        yield* store.delete(runId)
      }
      expect(changes).toBeGreaterThan(500)
    }).pipe(Effect.provide(Sqlite))
  )
})
