import { describe, expect, it } from "@effect/vitest"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import * as MemoryRunStore from "../../src/store/MemoryRunStore.ts"
import {
  type DeleteOptions,
  deleteOlderThan,
  type ListOptions,
  RunStore,
  rootOf
} from "../../src/store/RunStore.ts"
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
      expect(yield* deleteOlderThan("10 days")).toEqual(["a", "a/1"])
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
      expect(yield* deleteOlderThan(0)).toEqual(["a"])
    }).pipe(Effect.provide(MemoryRunStore.layer))
  )

  it.effect.each<readonly [unknown, object, string]>([
    [Number.NaN, {}, "the age is NaN, and must be a duration of at least 0"],
    [-1, {}, "the age is -1"],
    ["-1 day", {}, 'the age is "-1 day"'],
    ["-Infinity", {}, 'the age is "-Infinity"'],
    ["30", {}, 'the age is "30"'],
    [{ day: 30 }, {}, "the age is an object"],
    [undefined, {}, "the age is undefined"],
    [0, { Status: "completed" }, 'options has no "Status": there are status, reason'],
    [0, { tag: null }, "options.tag is null, and must be a text"]
  ])("refuses what is no age or no filter, and deletes nothing: %j", ([age, filter, problem]) =>
    Effect.gen(function* () {
      const store = yield* RunStore
      yield* TestClock.setTime(Date.UTC(2026, 0, 21))
      yield* store.append(append("a", 0, 1, dates("01", "02")))
      const refused = yield* Effect.flip(deleteOlderThan(age as Duration.Input, filter))
      expect(refused).toMatchObject({ _tag: "RunStoreError", kind: "invalid" })
      expect(refused.message).toContain(`refused: ${problem}`)
      expect(yield* store.list()).toHaveLength(1)
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
  const noDates = [
    ...["", "soon", "1", "2026-1-1", "2026-13-01", "2026-02-30", "2026-01-01T00:00", "Jan 1 2026", null, 0],
    // Compared as a text it would come before all others.
    "+012099-01-01"
  ]
  it.effect("a date that is none is refused, and so is an option that is misspelt", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      yield* store.append(append("a", 0, 1, dates("01", "02")))
      const asked: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
        ...noDates.flatMap((date) => [
          store.list({ since: date as string }),
          store.list({ until: date as string }),
          store.list({ before: { startedAt: date as string, runId: "a" } }),
          store.delete("a", { untouchedSince: date as string })
        ]),
        store.list({ agents: "a" } as ListOptions),
        store.delete("a", { untouchedsince: "2026-01-02" } as DeleteOptions)
      ]
      for (const ask of asked)
        expect(yield* Effect.flip(ask)).toMatchObject({ _tag: "RunStoreError", kind: "invalid" })
      expect(yield* store.list()).toHaveLength(1)
    }).pipe(Effect.provide(layer))
  )

  it.effect("a filter counts wherever an object has it", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      yield* store.append(append("a", 0, 1, { ...dates("01", "02"), tags: ["x"] }))
      yield* store.append(append("b", 0, 1, { ...dates("03", "04"), tags: ["y"], status: "failed" }))
      class Written {
        get tag() {
          return "y"
        }
      }
      const before = Object.create({ startedAt: "2026-01-02T00:00:00.000Z", runId: "a" })
      const filters: ReadonlyArray<readonly [ListOptions, ReadonlyArray<string>]> = [
        [new Written(), ["b"]],
        [Object.create({ status: "failed" }), ["b"]],
        [Object.create({ until: "2026-01-02" }), ["a"]],
        [Object.create({ since: "2026-01-02" }), ["b"]],
        [Object.create({ before }), ["a"]],
        [Object.create({ limit: 1 }), ["b"]]
      ]
      for (const [filter, ids] of filters)
        expect((yield* store.list(filter)).map(({ runId }) => runId)).toEqual(ids)
      yield* TestClock.setTime(Date.UTC(2026, 0, 21))
      expect(yield* deleteOlderThan("1 day", new Written())).toEqual(["b"])
    }).pipe(Effect.provide(layer))
  )

  it.effect("a date is the moment that it names, however it is written", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      yield* store.append(append("a", 0, 1, dates("01", "02")))
      const midnight = ["2026", "2026-01", "2026-01-01", "2026-01-01T00:00Z", "2026-01-01T02:00:00.000+02:00"]
      for (const moment of [...midnight, "+002026-01-01T00:00:00Z"]) {
        expect(yield* store.list({ since: moment })).toHaveLength(1)
        expect(yield* store.list({ until: moment })).toHaveLength(0)
      }
      expect(yield* store.list({ since: "2026-01-01T00:00:00.001Z" })).toHaveLength(0)
      expect(yield* store.list({ until: "2026-01-01T01:00:00.001+01:00" })).toHaveLength(1)
      expect(yield* store.delete("a", { untouchedSince: "2026-01-02" })).toEqual([])
      expect(yield* store.delete("a", { untouchedSince: "2026-01-02T00:00:00.001Z" })).toEqual(["a"])
    }).pipe(Effect.provide(layer))
  )

  it.effect("a run that has gone on since it was found to be old is not deleted", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      // It is 1970.
      const [longAgo, later] = ["1969-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z"]
      const old = { startedAt: longAgo, updatedAt: longAgo }
      const below = (parent: string) => ({ parent: { runId: parent, callId: "1" } })
      for (const runId of ["resumed", "above", "again", "old"]) yield* store.append(append(runId, 0, 1, old))
      for (const parent of ["above", "old"])
        yield* store.append(append(`${parent}/1`, 0, 1, { ...old, ...below(parent) }))
      // Somebody takes a run up, or begins another one under its id, and is done with it before it is its turn.
      let isListed = false
      const goOn = Effect.gen(function* () {
        if (isListed) return
        isListed = true
        yield* store.append(append("resumed", 1, 1, { ...old, updatedAt: later }))
        yield* store.append(append("above/1", 1, 1, { ...old, updatedAt: later, ...below("above") }))
        yield* store.delete("again")
        yield* store.append(append("again", 0, 1, { ...old, updatedAt: later }))
      }).pipe(Effect.orDie)
      const between = { ...store, list: (options?: ListOptions) => Effect.tap(store.list(options), goOn) }
      const deleted = yield* Effect.provideService(deleteOlderThan("0 seconds"), RunStore, between)
      expect(deleted).toEqual(["old", "old/1"])
      expect((yield* store.list()).map(({ runId }) => runId).toSorted()).toEqual([
        "above",
        "above/1",
        "again",
        "resumed"
      ])
    }).pipe(Effect.provide(layer))
  )

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

describe("rootOf", () => {
  const circles: ReadonlyArray<readonly [string, { readonly [runId: string]: string }]> = [
    ["that says that it has started itself", { a: "a" }],
    ["whose parents go in a circle", { a: "b", b: "c", c: "a" }],
    ["above which they do", { a: "b", b: "c", c: "b" }]
  ]
  for (const [name, parents] of circles) {
    it.effect(`of a run ${name} is said to be corrupt`, () =>
      Effect.gen(function* () {
        const store = yield* RunStore
        for (const [runId, parent] of Object.entries(parents))
          yield* store.append(append(runId, 0, 1, { parent: { runId: parent, callId: "c" } }))
        const error = yield* Effect.flip(rootOf("a"))
        expect(error).toMatchObject({ _tag: "RunStoreError", kind: "corrupt" })
        expect(error.message).toMatch(/was started by [abc], which it has started/)
      }).pipe(Effect.provide(MemoryRunStore.layer))
    )
  }

  it.effect("is the run that nobody has started, however deep the tree is", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      yield* store.append(append("0", 0))
      for (let depth = 1; depth <= 50; depth++)
        yield* store.append(
          append(String(depth), 0, 1, { parent: { runId: String(depth - 1), callId: "c" } })
        )
      expect((yield* rootOf("50")).runId).toBe("0")
    }).pipe(Effect.provide(MemoryRunStore.layer))
  )
})
