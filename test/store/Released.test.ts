/** Stores that released versions have made: this one opens them, and goes on with their runs. */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { describe, expect, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/Agent.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import { load, RunStore } from "../../src/store/RunStore.ts"
import * as Audit from "../../src/testing/Audit.ts"
import { folder } from "./folders.ts"

const path = { parameters: Schema.Struct({ path: Schema.String }), success: Schema.String }
const toolkit = Toolkit.make(
  Tool.make("read_file", path).annotate(Tool.Readonly, true),
  Tool.make("delete_file", { ...path, needsApproval: true })
)
const cleaner = Agent.make("cleaner", { toolkit, limits: { turns: 5 } })
// The first two turns were before.
const script = Scripted.make("m", [Scripted.text(""), Scripted.text(""), Scripted.text("cleaned up")])
const usage = { promptTokens: 10, completionTokens: 5 }

const releases = new URL("./released/", import.meta.url)

for (const file of readdirSync(releases)) {
  describe(`a store of version ${file.replace(".sql", "")}`, () => {
    const opened = (damage = "") =>
      Effect.map(folder, (path) => {
        const filename = join(path, "runs.db")
        const db = new DatabaseSync(filename)
        db.exec(readFileSync(new URL(file, releases), "utf8") + damage)
        db.close()
        return NodeSqlite.runStore(filename)
      })

    it.effect("is listed, read and deleted as it was", () =>
      Effect.gen(function* () {
        const layer = yield* opened()
        yield* Effect.gen(function* () {
          const store = yield* RunStore
          expect((yield* store.list()).map(({ runId, status }) => `${runId} ${status}`)).toEqual([
            "p/k completed",
            "p completed",
            "r interrupted"
          ])
          expect((yield* store.list({ reason: "approval" })).map(({ runId }) => runId)).toEqual(["r"])
          expect(
            (yield* store.list({ reason: "answered", agent: "child" })).map(({ runId }) => runId)
          ).toEqual(["p/k"])
          for (const runId of ["r", "p", "p/k"]) {
            const { events, state } = yield* load(runId)
            const summary = yield* store.summary(runId)
            expect(events).toHaveLength(summary.seq)
            expect(state.status).toBe(summary.status)
            expect((yield* Audit.run(runId)).findings).toEqual([])
          }
          yield* store.delete("p")
          expect((yield* store.list()).map(({ runId }) => runId)).toEqual(["r"])
        }).pipe(Effect.provide(layer))
      })
    )

    it.effect("has runs that go on, with what was said to them", () =>
      Effect.gen(function* () {
        const deleted: Array<string> = []
        const handlers = toolkit.toLayer({
          read_file: () => Effect.succeed(""),
          delete_file: ({ path }) =>
            Effect.sync(() => {
              deleted.push(path)
              return "deleted"
            })
        })
        const world = Layer.mergeAll(handlers, Scripted.layer(script, { usage }), yield* opened())
        const { output, run } = yield* Effect.provide(Agent.resume(cleaner, "r"), world)
        expect(output).toBe("cleaned up")
        expect(deleted).toEqual(["a"])
        expect(run.turns).toBe(3)
      })
    )

    it.effect("opens also if one of its runs is damaged", () =>
      Effect.gen(function* () {
        const layer = yield* opened(`UPDATE checkrein_runs SET summary = '{"par' WHERE run_id = 'p/k';`)
        yield* Effect.gen(function* () {
          const store = yield* RunStore
          expect((yield* store.summary("p")).status).toBe("completed")
          expect(yield* Effect.flip(store.summary("p/k"))).toMatchObject({ kind: "corrupt", runId: "p/k" })
        }).pipe(Effect.provide(layer))
      })
    )
  })
}
