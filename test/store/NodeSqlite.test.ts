import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { describe, expect, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as SqlClient from "effect/sql/SqlClient"
import * as NodeSqlite from "../../src/store/NodeSqlite.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import * as SqlRunStore from "../../src/store/SqlRunStore.ts"
import { append } from "../../src/testing/conformance/Samples.ts"
import { folder, inFolder } from "./folders.ts"

const opening = (filename: string) =>
  Effect.flip(Effect.provide(SqlClient.SqlClient.use(Effect.succeed), NodeSqlite.layer({ filename })))

const openingStore = (filename: string) =>
  Effect.flip(Effect.provide(RunStore.use(Effect.succeed), NodeSqlite.runStore(filename)))

/** Permissions do not bind root: for a while this process is somebody else. */
const asNobody = Effect.acquireRelease(
  Effect.sync(() => {
    const uid = process.geteuid?.()
    if (uid === 0) process.seteuid?.(65_534)
    return uid
  }),
  (uid) => Effect.sync(() => (uid === 0 ? process.seteuid?.(uid) : undefined))
)

describe("a file that cannot be used is refused when it is opened", () => {
  it.effect("a file that is no database", () =>
    Effect.gen(function* () {
      const filename = join(yield* folder, "notes.txt")
      writeFileSync(
        filename,
        "these are notes, and rather long ones, so that they might be a header".repeat(20)
      )
      const failure = yield* opening(filename)
      expect(failure._tag).toBe("SqlError")
      expect(failure.message).toBe(`${filename} is not a SQLite database; name another file`)
      expect(yield* openingStore(filename)).toMatchObject({
        _tag: "RunStoreError",
        kind: "corrupt",
        message: `the store failed: ${filename} is not a SQLite database; name another file`
      })
      expect(statSync(filename).size).toBeGreaterThan(1000)
    })
  )

  it.effect("a directory", () =>
    Effect.gen(function* () {
      const filename = yield* folder
      const failure = yield* opening(filename)
      expect(failure.reason._tag).toBe("ConnectionError")
      expect(failure.message).toMatch(/it is a directory, or this process has no permission/)
      expect(yield* openingStore(filename)).toMatchObject({ _tag: "RunStoreError", kind: "unavailable" })
    })
  )

  for (const journal of ["delete", "wal"])
    for (const isOpen of [false, true])
      it.effect(
        `a database of something else, with a journal of the kind ${journal}${isOpen ? " and open" : ""}`,
        () =>
          Effect.gen(function* () {
            const filename = join(yield* folder, "what is it? 100%41 #é.db")
            const db = new DatabaseSync(filename)
            db.exec(
              `PRAGMA journal_mode = ${journal}; CREATE TABLE bookmarks (url); INSERT INTO bookmarks VALUES (1)`
            )
            if (!isOpen) db.close()
            const before = [readFileSync(filename), readdirSync(dirname(filename))]
            expect(yield* openingStore(filename)).toMatchObject({
              _tag: "RunStoreError",
              kind: "invalid",
              problem: `${filename} is a database of something else, and has no runs; name another file`
            })
            expect([readFileSync(filename), readdirSync(dirname(filename))]).toEqual(before)
            if (isOpen) db.close()
          })
      )

  it.effect("a folder that is a file", () =>
    Effect.gen(function* () {
      const file = join(yield* folder, "file")
      writeFileSync(file, "")
      const failure = yield* opening(join(file, "runs.db"))
      expect(failure.message).toMatch(/^cannot open the database .*runs\.db: /)
    })
  )

  for (const [where, mode] of [
    ["in a folder of others", 0o755],
    ["in a folder that may be written", 0o777]
  ] as const)
    it.effect(`a file that may only be read, ${where}`, () =>
      Effect.gen(function* () {
        const path = yield* folder
        const filename = join(path, "runs.db")
        yield* Effect.provide(
          RunStore.use((store) => store.append(append("a", 0))),
          NodeSqlite.runStore(filename)
        )
        chmodSync(path, mode)
        chmodSync(filename, 0o444)
        yield* asNobody
        const failure = yield* opening(filename)
        expect(failure.message).toMatch(
          mode === 0o777 ? /it is read-only; give/ : /no permission|it is read-only/
        )
        expect(yield* openingStore(filename)).toMatchObject({ _tag: "RunStoreError" })
      }).pipe(Effect.scoped)
    )

  it.effect("a folder in which nothing may be made", () =>
    Effect.gen(function* () {
      const path = join(yield* folder, "closed")
      mkdirSync(path)
      chmodSync(join(path, ".."), 0o755)
      chmodSync(path, 0o555)
      yield* asNobody
      expect((yield* opening(join(path, "runs.db"))).message).toMatch(/no permission/)
      expect((yield* opening(join(path, "deeper/runs.db"))).message).toMatch(/permission denied/)
    }).pipe(Effect.scoped)
  )
})

describe("a store of runs is opened in a file", () => {
  const stored = (filename: string) =>
    Effect.provide(
      RunStore.use((store) => Effect.andThen(store.append(append("a", 0)), store.list())),
      NodeSqlite.runStore(filename)
    )

  for (const [name, make] of [
    ["that is empty", (file: string) => writeFileSync(file, "")],
    ["that has no tables", (file: string) => new DatabaseSync(file).exec("PRAGMA user_version = 1")]
  ] as const)
    it.effect(name, () =>
      Effect.gen(function* () {
        const filename = join(yield* folder, "runs.db")
        make(filename)
        expect(yield* stored(filename)).toHaveLength(1)
      })
    )

  it.effect("that has tables of yours beside those of the runs", () =>
    Effect.gen(function* () {
      const filename = join(yield* folder, "app.db")
      const shared = Layer.provideMerge(SqlRunStore.layer, NodeSqlite.layer({ filename }))
      yield* Effect.provide(
        SqlClient.SqlClient.use((sql) => sql`CREATE TABLE orders (id INTEGER)`),
        NodeSqlite.layer({ filename })
      )
      yield* Effect.provide(SqlClient.SqlClient.use(Effect.succeed), shared)
      expect(yield* stored(filename)).toHaveLength(1)
    })
  )
})

describe("a store whose file is removed while it is open", () => {
  const another = (filename: string) =>
    Effect.provide(
      RunStore.use((store) => store.append(append("b", 0))),
      NodeSqlite.runStore(filename)
    )

  it.effect.each([
    ["says so", () => Effect.void],
    ["says so, although there is another one of its name,", another]
  ] as const)("%s at the next append that has to last, and before that at none", ([, andThen]) =>
    Effect.gen(function* () {
      const path = yield* folder
      const filename = join(path, "runs.db")
      const body = Effect.gen(function* () {
        const store = yield* RunStore
        yield* store.append(append("a", 0, 1, {}, "power"))
        for (const name of readdirSync(path)) rmSync(join(path, name))
        yield* andThen(filename)
        yield* store.append(append("a", 1))
        expect(yield* Effect.flip(store.append(append("a", 2, 1, {}, "power")))).toMatchObject({
          _tag: "RunStoreError",
          kind: "unavailable",
          runId: "a",
          problem: expect.stringContaining(`the file ${filename} was removed or replaced`)
        })
      })
      yield* Effect.provide(body, NodeSqlite.runStore(filename))
    })
  )

  it.effect("does not make it again when it is closed", () =>
    Effect.gen(function* () {
      const filename = join(yield* folder, "runs.db")
      const removed = RunStore.use(() => Effect.sync(() => rmSync(filename)))
      yield* Effect.provide(removed, NodeSqlite.runStore(filename))
      expect(existsSync(filename)).toBe(false)
    })
  )
})

describe("an option that is misspelt or none", () => {
  const refusal = <A, E>(layer: Layer.Layer<A, E>) =>
    Effect.map(Effect.exit(Effect.scoped(Layer.build(layer))), String)

  it.effect.each([
    [{ busyTimeout: Number.NaN }, "options.busyTimeout is NaN, and must be a duration of at least 0"],
    [JSON.parse('{ "busyTimout": "1 minute" }'), 'options has no "busyTimout"']
  ] as const)("is refused, and no file is made: %j", ([options, problem]) =>
    Effect.gen(function* () {
      const filename = join(yield* folder, "runs.db")
      expect(yield* refusal(NodeSqlite.layer({ ...options, filename }))).toContain(problem)
      expect(yield* refusal(NodeSqlite.runStore(filename, options))).toContain(problem)
      expect(existsSync(filename)).toBe(false)
    })
  )
})

describe("the client", () => {
  const withClient = <A, E>(body: (sql: SqlClient.SqlClient) => Effect.Effect<A, E>) =>
    Effect.gen(function* () {
      const filename = join(yield* folder, "app.db")
      return yield* Effect.provide(SqlClient.SqlClient.use(body), NodeSqlite.layer({ filename }))
    })

  it.effect("reads and writes every type that SQLite has", () =>
    withClient((sql) =>
      Effect.gen(function* () {
        yield* sql`CREATE TABLE t (id INTEGER PRIMARY KEY, v)`
        const values = ["text", 1.5, null, new Uint8Array([1, 2]), true, new Date(0), undefined]
        for (const v of values) yield* sql`INSERT INTO t (v) VALUES (${v})`
        const rows = yield* sql<{ v: unknown }>`SELECT v FROM t ORDER BY id`
        expect(rows.map((row) => row.v)).toEqual([
          "text",
          1.5,
          null,
          new Uint8Array([1, 2]),
          1,
          "1970-01-01T00:00:00.000Z",
          null
        ])
        expect(yield* sql`SELECT id, v FROM t WHERE id < 3`.values).toEqual([
          [1, "text"],
          [2, 1.5]
        ])
        expect(yield* Stream.runCollect(sql`SELECT id FROM t WHERE id < 3`.stream)).toEqual([
          { id: 1 },
          { id: 2 }
        ])
        expect(yield* sql`DELETE FROM t WHERE id < 3`.raw).toMatchObject({ changes: 2 })
        const [large] = yield* Effect.provideService(
          sql`SELECT 9007199254740993 AS n`,
          SqlClient.SafeIntegers,
          true
        )
        expect(large).toEqual({ n: 9007199254740993n })
      })
    )
  )

  it.effect("fails with what was wrong", () =>
    withClient((sql) =>
      Effect.gen(function* () {
        yield* sql`CREATE TABLE t (id INTEGER PRIMARY KEY, u TEXT UNIQUE, r INTEGER REFERENCES t (id))`
        yield* sql`INSERT INTO t VALUES (1, 'a', NULL)`
        const reasonOf = <A, R>(
          statement: Effect.Effect<A, { readonly reason: { readonly _tag: string } }, R>
        ) => Effect.map(Effect.flip(statement), (error) => error.reason._tag)
        expect(yield* reasonOf(sql`INSERT INTO t VALUES (1, 'b', NULL)`)).toBe("UniqueViolation")
        expect(yield* reasonOf(sql`INSERT INTO t VALUES (2, 'a', NULL)`)).toBe("UniqueViolation")
        expect(yield* reasonOf(sql`INSERT INTO t VALUES (3, 'c', 99)`)).toBe("ConstraintError")
        expect(yield* reasonOf(sql`SELECT ${{ no: "such type" }}`)).toBe("UnknownError")
        expect((yield* Effect.flip(sql`SELEC 1`)).message).toMatch(/syntax error/)
      })
    )
  )

  it.effect("takes a transaction back when it fails or is interrupted", () =>
    withClient((sql) =>
      Effect.gen(function* () {
        yield* sql`CREATE TABLE t (id INTEGER)`
        yield* Effect.flip(
          sql.withTransaction(Effect.andThen(sql`INSERT INTO t VALUES (1)`, Effect.fail("no")))
        )
        const fiber = yield* Effect.forkChild(
          sql.withTransaction(Effect.andThen(sql`INSERT INTO t VALUES (2)`, Effect.never))
        )
        yield* Effect.yieldNow
        yield* Fiber.interrupt(fiber)
        yield* sql.withTransaction(
          Effect.andThen(
            sql`INSERT INTO t VALUES (3)`,
            Effect.ignore(
              sql.withTransaction(Effect.andThen(sql`INSERT INTO t VALUES (4)`, Effect.fail("no")))
            )
          )
        )
        expect(yield* sql`SELECT id FROM t`).toEqual([{ id: 3 }])
      })
    )
  )

  it.effect("folds the WAL into the file when it closes", () =>
    Effect.gen(function* () {
      const filename = join(yield* folder, "runs.db")
      yield* Effect.gen(function* () {
        const store = yield* RunStore
        yield* store.append(append("a", 0, 50))
        expect(statSync(`${filename}-wal`).size).toBeGreaterThan(0)
      }).pipe(Effect.provide(NodeSqlite.runStore(filename)))
      expect(existsSync(`${filename}-wal`)).toBe(false)
    })
  )

  /** A store, and another connection to its file. */
  const beside = (busyTimeout: Duration.Input) =>
    inFolder((path) => {
      const filename = join(path, "runs.db")
      return Layer.mergeAll(NodeSqlite.runStore(filename, { busyTimeout }), NodeSqlite.layer({ filename }))
    })

  it.live("waits for another connection's transaction without blocking the process", () =>
    Effect.gen(function* () {
      const other = yield* SqlClient.SqlClient
      const store = yield* RunStore
      const locked = yield* Deferred.make<void>()
      const unlock = yield* Deferred.make<void>()
      const holding = yield* Effect.forkChild(
        other.withTransaction(
          Effect.andThen(
            Deferred.succeed(locked, undefined),
            Effect.andThen(Deferred.await(unlock), other`SELECT 1`)
          )
        )
      )
      yield* Deferred.await(locked)
      const writing = yield* Effect.forkChild(store.append(append("a", 0)))
      // Were the append blocking the process, nobody would come to let it go on.
      for (let i = 0; i < 50; i++) yield* Effect.yieldNow
      expect(writing.pollUnsafe()).toBeUndefined()
      yield* Deferred.succeed(unlock, undefined)
      yield* Fiber.join(holding)
      yield* Fiber.join(writing)
      expect((yield* store.summary("a")).seq).toBe(1)
    }).pipe(Effect.provide(beside("20 seconds")))
  )

  // Under the test's clock, which stands still: how long others write is no matter of the program's own time.
  it.effect("gives up on another connection's transaction after its time, in words", () =>
    Effect.gen(function* () {
      const filename = join(yield* folder, "runs.db")
      const layer = NodeSqlite.runStore(filename, { busyTimeout: "30 millis" })
      const other = new DatabaseSync(filename)
      yield* Effect.addFinalizer(() => Effect.sync(() => other.close()))
      const whileLocked = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
        Effect.acquireUseRelease(
          Effect.sync(() => other.exec("BEGIN EXCLUSIVE")),
          () => Effect.flip(effect),
          () => Effect.sync(() => other.exec("ROLLBACK"))
        )
      const failure = yield* whileLocked(Effect.provide(RunStore.use(Effect.succeed), layer))
      expect(failure).toMatchObject({ _tag: "RunStoreError", kind: "unavailable" })
      expect(failure.message).toMatch(/another process keeps it locked; try again, or end that process/)
      yield* Effect.gen(function* () {
        const store = yield* RunStore
        const writes: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
          store.append(append("a", 0)),
          Effect.scoped(store.lease("a")),
          store.send("a", { type: "cancel", reason: "stop" }),
          store.delete("a")
        ]
        for (const write of writes) {
          const failure = yield* whileLocked(write)
          expect(failure).toMatchObject({ _tag: "RunStoreError", kind: "unavailable" })
          expect(String(failure)).toMatch(/stayed locked by somebody else; try again/)
        }
        yield* store.append(append("a", 0))
      }).pipe(Effect.provide(layer))
    })
  )
})
