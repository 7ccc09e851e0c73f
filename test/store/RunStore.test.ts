import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import * as MemoryRunStore from "../../src/store/MemoryRunStore.ts"
import { deleteOlderThan, RunStore } from "../../src/store/RunStore.ts"
import { append } from "../../src/testing/conformance/Samples.ts"
import { describeStores } from "./stores.ts"

const dates = (startedAt: string, updatedAt: string) => ({
  startedAt: `2026-01-${startedAt}T00:00:00.000Z`,
  updatedAt: `2026-01-${updatedAt}T00:00:00.000Z`
})

describe("deleteOlderThan", () => {
  it.effect("goes by when a run was last written to, not by when it was started", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      yield* TestClock.setTime(Date.UTC(2026, 0, 21))
      yield* store.append(append("old", 0, 1, dates("01", "02")))
      yield* store.append(append("resumed", 0, 1, dates("01", "20")))
      yield* store.append(append("new", 0, 1, dates("19", "19")))
      expect(yield* deleteOlderThan("10 days")).toEqual(["old"])
      expect((yield* store.list()).map(({ runId }) => runId)).toEqual(["new", "resumed"])
    }).pipe(Effect.provide(MemoryRunStore.layer))
  )

  it.effect("leaves the runs of sub-agents to the runs that have started them", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      yield* TestClock.setTime(Date.UTC(2026, 0, 21))
      yield* store.append(append("a", 0, 1, dates("01", "20")))
      yield* store.append(append("a/1", 0, 1, { ...dates("01", "02"), parent: { runId: "a", callId: "1" } }))
      expect(yield* deleteOlderThan("10 days")).toEqual([])
      yield* TestClock.adjust("20 days")
      expect(yield* deleteOlderThan("10 days")).toEqual(["a"])
      expect(yield* store.list()).toEqual([])
    }).pipe(Effect.provide(MemoryRunStore.layer))
  )

  it.effect("nothing is older than the clock goes back", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      yield* TestClock.setTime(Date.UTC(2026, 0, 21))
      yield* store.append(append("a", 0, 1, dates("01", "02")))
      for (const age of ["Infinity", "1000000000 days", "30000 days"] as const)
        expect(yield* deleteOlderThan(age)).toEqual([])
      expect(yield* deleteOlderThan("-Infinity")).toEqual(["a"])
    }).pipe(Effect.provide(MemoryRunStore.layer))
  )

  it.effect("deletes as many runs as there are", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      yield* TestClock.setTime(Date.UTC(2026, 0, 21))
      for (let i = 0; i < 1000; i++) yield* store.append(append(`run ${i}`, 0, 1, dates("01", "02")))
      expect(yield* deleteOlderThan("10 days")).toHaveLength(1000)
      expect(yield* store.list()).toEqual([])
    }).pipe(Effect.provide(MemoryRunStore.layer))
  )
})

describeStores((layer) => {
  it.effect("runs that each name the other as the one that has started it are deleted, and that ends", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      for (const [runId, parent] of [
        ["a", "b"],
        ["b", "a"],
        ["c", "c"]
      ] as const)
        yield* store.append(append(runId, 0, 1, { parent: { runId: parent, callId: "c" } }))
      yield* store.delete("a")
      yield* store.delete("c")
      expect(yield* store.list()).toEqual([])
    }).pipe(Effect.provide(layer))
  )
})
