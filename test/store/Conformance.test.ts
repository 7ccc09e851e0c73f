import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as MemoryRunStore from "../../src/store/MemoryRunStore.ts"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import { RunStore, RunStoreError } from "../../src/store/RunStore.ts"
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

  it.effect("says once what was expected and what came", () =>
    Effect.gen(function* () {
      const problemsOf = Effect.fnUntraced(function* (
        alter: (store: RunStore["Service"]) => Partial<RunStore["Service"]>
      ) {
        const broken = Layer.effect(
          RunStore,
          Effect.map(MemoryRunStore.make, (store) => ({ ...store, ...alter(store) }))
        )
        const failures = yield* StoreConformance.run(broken, { limit: "2 seconds" })
        for (const { problem } of failures) expect(problem).not.toMatch(/undefined|returned false|\n/)
        return new Map(failures.map(({ name, problem }) => [name, problem]))
      })

      const keeping = yield* problemsOf(() => ({ delete: () => Effect.succeed(["a/1", "a/1/1"]) }))
      expect(keeping.get("the run of a sub-agent may be deleted by itself")).toMatch(
        /^expected \["a","a\/2","b"\], and \["a","a\/1","a\/1\/1","a\/2","b"\] came/
      )
      expect(keeping.get("a run that somebody drives is not deleted, nor one that has started it")).toBe(
        'expected RunBusy for a, and it succeeded with ["a/1","a/1/1"]'
      )

      const tagging = yield* problemsOf((store) => ({
        inbox: (runId, after) =>
          Effect.map(store.inbox(runId, after), (all) => all.map((one) => ({ ...one, id: one.id + 1 }))),
        read: (runId, from) =>
          Effect.map(store.read(runId, from), (all) => all.map((event) => ({ ...event, elapsedMs: 0 })))
      }))
      expect(tagging.get("an append of many events")).toMatch(
        /^at \[1\]\.elapsedMs: expected 1, and 0 came \(/
      )
      expect(tagging.get("every command comes back as it was sent")).toMatch(
        /^expected \{"id":1,.*, and \{"id":2,.* came.*; with the input \{/
      )

      // The number is given out first, and the command is put there a moment later.
      const late = yield* problemsOf((store) => {
        const given = new Map<string, number>()
        return {
          send: (runId, command) =>
            Effect.suspend(() => {
              const id = (given.get(runId) ?? 0) + 1
              given.set(runId, id)
              const wait = id % 2 === 0 ? Effect.void : Effect.yieldNow
              return Effect.as(Effect.andThen(wait, store.send(runId, command)), id)
            })
        }
      })
      expect(late.has("an inbox numbers its commands from 1 on and keeps their order")).toBe(false)
      expect(late.get("whoever has sent a command finds every one that was numbered before it")).toMatch(
        /^expected \[1,2\], and \[1\] came/
      )

      const taking = yield* problemsOf((store) => ({
        read: (runId, from) => (runId === "a\ud800" ? Effect.succeed([]) : store.read(runId, from))
      }))
      expect(taking.get("ids, agents and tags that not every database can keep are refused")).toMatch(
        /^expected "read with .*a.*ud800.*: RunStoreError of the kind invalid", and "read with .*: success with \[\]" came/
      )
      const breaking = yield* problemsOf((store) => ({
        isDriven: (runId) =>
          runId.length > 2_000 ? Effect.die(new Error("too long")) : store.isDriven(runId),
        inbox: (runId, after) => (runId === "" ? Effect.never : store.inbox(runId, after))
      }))
      expect(breaking.get("ids, agents and tags that not every database can keep are refused")).toMatch(
        /^expected "isDriven with .* of 2001 bytes: .*, and "isDriven .*: Error: too long" came/
      )

      const refusing = yield* problemsOf(() => ({
        append: ({ runId }) =>
          Effect.fail(new RunStoreError({ runId, kind: "read_only", problem: "it may not be written" }))
      }))
      expect(refusing.get("the first append creates a run")).toBe(
        "expected no failure, and it failed with RunStoreError: the store failed for run a: it may not be written"
      )
    })
  )
})
