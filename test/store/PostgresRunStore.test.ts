/** What a store on Postgres says when the server refuses to write, and what its commits wait for. */
import { randomBytes } from "node:crypto"
import { expect, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as Postgres from "../../src/store/Postgres.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import * as SqlBudgetPool from "../../src/store/SqlBudgetPool.ts"
import * as SqlRunStore from "../../src/store/SqlRunStore.ts"
import { append, cancel, event, eventsFrom, summary } from "../../src/testing/conformance/Samples.ts"
import { describePostgres, url } from "./postgres.ts"

const clientOf = (url: string) =>
  Effect.map(Layer.build(Layer.fresh(Postgres.layer({ url }))), (context) =>
    Context.get(context, SqlClient.SqlClient)
  )

const storeOn = (sql: SqlClient.SqlClient) =>
  Effect.provideService(SqlRunStore.make, SqlClient.SqlClient, sql)

/** A URL whose connections have this setting. */
const withSetting = (url: string, setting: string): string => {
  const changed = new URL(url)
  changed.searchParams.set("options", `${changed.searchParams.get("options")} -c ${setting}`)
  return changed.href
}

const test = (
  name: string,
  body: (
    store: RunStore["Service"],
    sql: SqlClient.SqlClient,
    at: string
  ) => Effect.Effect<void, unknown, Scope.Scope>
) =>
  it.effect(name, () =>
    Effect.gen(function* () {
      const at = yield* url
      const sql = yield* clientOf(at)
      yield* body(yield* storeOn(sql), sql, at)
    })
  )

describePostgres("a server that refuses to write", () => {
  const refusals = [
    { state: "53100", kind: "full", advice: /no space left; free some, then resume/ },
    { state: "25006", kind: "read_only", advice: /cannot be written; give this process permission/ },
    { state: "42501", kind: "read_only", advice: /cannot be written; give this process permission/ },
    { state: "XX001", kind: "corrupt", advice: /damaged; restore it from a backup/ },
    { state: "58030", kind: "unavailable", advice: /as the test wants it/ }
  ]
  for (const { advice, kind, state } of refusals) {
    test(`with ${state} is ${kind}: nothing of the append is there, and all of it later`, (store, sql) =>
      Effect.gen(function* () {
        yield* store.append(append("a", 0, 2))
        yield* store.send("a", cancel("before"))
        yield* sql.unsafe(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN RAISE EXCEPTION 'as the test wants it' USING ERRCODE = '${state}'; END $$`)
        yield* sql.unsafe(`CREATE TRIGGER refuse BEFORE INSERT ON checkrein_events
          FOR EACH ROW WHEN (NEW.seq = 3) EXECUTE FUNCTION refuse()`)
        for (const durability of ["process", "power"] as const) {
          const failure = yield* Effect.flip(store.append(append("a", 2, 2, {}, durability)))
          expect(failure).toMatchObject({ _tag: "RunStoreError", runId: "a", kind, seq: 2 })
          expect(failure.message).toMatch(advice)
        }
        expect(yield* store.read("a")).toEqual(eventsFrom("a", 0, 2))
        expect(yield* store.summary("a")).toEqual(summary("a", 2))
        yield* sql.unsafe("DROP TRIGGER refuse ON checkrein_events")
        yield* store.append(append("a", 2, 2))
        expect(yield* store.read("a")).toEqual(eventsFrom("a", 0, 4))
      }))
  }

  test("because it is set to read-only says so to whoever writes, and is read", (store, _, at) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      const readOnly = yield* storeOn(yield* clientOf(withSetting(at, "default_transaction_read_only=on")))
      for (const effect of [
        readOnly.append(append("a", 1)),
        readOnly.send("a", cancel("stop")),
        readOnly.delete("a"),
        Effect.scoped(Effect.asVoid(readOnly.lease("a")))
      ]) {
        const failure = yield* Effect.flip<unknown, unknown, never>(effect)
        expect(failure).toMatchObject({ _tag: "RunStoreError", runId: "a", kind: "read_only" })
      }
      expect(yield* readOnly.read("a")).toEqual(eventsFrom("a", 0, 1))
    }))

  test("because it is set to read-only cannot make its tables", (_, sql, at) =>
    Effect.gen(function* () {
      for (const table of ["runs", "events", "commands", "leases", "tags", "migrations"])
        yield* sql.unsafe(`DROP TABLE checkrein_${table}`)
      const opening = Effect.flatMap(clientOf(withSetting(at, "default_transaction_read_only=on")), storeOn)
      expect(yield* Effect.flip(Effect.asVoid(opening))).toMatchObject({ kind: "read_only" })
    }))

  test("because a table is gone says which", (store, sql) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* sql`ALTER TABLE checkrein_events RENAME TO elsewhere`
      const failure = yield* Effect.flip(store.append(append("a", 1)))
      expect(failure).toMatchObject({
        kind: "unavailable",
        problem: expect.stringMatching(/checkrein_events/)
      })
      expect((yield* store.summary("a")).seq).toBe(1)
    }))

  test("because its tables are of a newer build says so", (_, sql) =>
    Effect.gen(function* () {
      yield* sql`INSERT INTO checkrein_migrations (migration_id, name) VALUES (99, 'future')`
      const failure = yield* Effect.flip(storeOn(sql))
      expect(failure).toMatchObject({ _tag: "RunStoreError", kind: "newer_version" })
    }))
})

describePostgres("somebody who reads all tables for a long time, as a backup does", () => {
  test("holds up neither a store that is opened nor a pool", (store, sql, at) =>
    Effect.gen(function* () {
      yield* Effect.provideService(SqlBudgetPool.make("team", { usd: 1 }), SqlClient.SqlClient, sql)
      const reader = yield* clientOf(at)
      const opened = Effect.gen(function* () {
        for (const table of ["migrations", "runs", "events", "pool_migrations", "pools"]) {
          yield* reader.unsafe(`LOCK TABLE checkrein_${table} IN ACCESS SHARE MODE`)
        }
        // Whoever has to wait for the reader fails instead.
        const hasty = yield* clientOf(withSetting(at, "lock_timeout=1s"))
        const pool = Effect.provideService(SqlBudgetPool.make("team", { usd: 1 }), SqlClient.SqlClient, hasty)
        const claim = { key: "k", purpose: "investigate" as const }
        yield* Effect.flatMap(pool, ({ claimCall }) => claimCall(claim))
        yield* Effect.flatMap(storeOn(hasty), (second) => second.append(append("a", 0)))
      })
      yield* reader.withTransaction(opened)
      expect((yield* store.summary("a")).seq).toBe(1)
    }))
})

describePostgres("what an append has to survive", () => {
  /** What each commit of a store has waited for, on a server with this setting. */
  const observe = (setting: string) =>
    Effect.gen(function* () {
      const sql = yield* clientOf(withSetting(yield* url, `synchronous_commit=${setting}`))
      const store = yield* storeOn(sql)
      yield* sql`CREATE TABLE waited (n SERIAL, level TEXT)`
      yield* sql.unsafe(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO waited (level) VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$`)
      // Deferred, so that it sees what is in force at the commit.
      for (const table of ["checkrein_events", "checkrein_commands"]) {
        yield* sql.unsafe(`CREATE CONSTRAINT TRIGGER note AFTER INSERT ON ${table}
          DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note()`)
      }
      yield* store.append(append("a", 0, 1, {}, "process"))
      yield* store.append(append("a", 1, 1, {}, "power"))
      yield* store.append(append("a", 2, 1, {}, "process"))
      yield* store.send("a", cancel("stop"))
      const rows = yield* sql<{ level: string }>`SELECT level FROM waited ORDER BY n`
      const after = yield* sql`SHOW synchronous_commit`
      expect(after).toEqual([{ synchronous_commit: setting }])
      return rows.map(({ level }) => level)
    })

  it.effect("is waited for, whatever the server does otherwise", () =>
    Effect.gen(function* () {
      expect(yield* observe("on")).toEqual(["off", "on", "off", "on"])
      expect(yield* observe("off")).toEqual(["off", "on", "off", "on"])
      expect(yield* observe("local")).toEqual(["off", "local", "off", "local"])
    })
  )
})

describePostgres("a database", () => {
  /** The URL of a database in this encoding. */
  const encoded = Effect.fnUntraced(function* (encoding: string) {
    const at = new URL(yield* url)
    const name = `checkrein_${randomBytes(6).toString("hex")}`
    const server = at.href
    const execute = (statement: string) =>
      Effect.orDie(
        Effect.provide(
          SqlClient.SqlClient.use((sql) => sql.unsafe(statement)),
          Postgres.layer({ url: server }),
          { local: true }
        )
      )
    const how = `TEMPLATE template0 ENCODING '${encoding}' LC_COLLATE 'C' LC_CTYPE 'C'`
    yield* Effect.acquireRelease(execute(`CREATE DATABASE ${name} ${how}`), () =>
      execute(`DROP DATABASE ${name} WITH (FORCE)`)
    )
    at.pathname = `/${name}`
    at.searchParams.delete("options")
    return at.href
  })
  const opened = (where: string) =>
    Effect.provide(
      RunStore.use((store) =>
        Effect.andThen(
          store.append({ ...append("письмо 🗑", 0), events: [event("письмо 🗑", 0, "отправлено 🗑")] }),
          store.read("письмо 🗑")
        )
      ),
      Postgres.runStore({ url: where })
    )

  it.live("whose encoding has not every letter is refused when it is opened", () =>
    Effect.gen(function* () {
      expect(yield* Effect.flip(opened(yield* encoded("LATIN1")))).toMatchObject({
        _tag: "RunStoreError",
        kind: "unavailable",
        problem: expect.stringContaining("encoded in LATIN1")
      })
    })
  )

  it.live("that keeps the bytes as they are keeps every letter", () =>
    Effect.gen(function* () {
      expect(yield* opened(yield* encoded("SQL_ASCII"))).toMatchObject([{ content: "отправлено 🗑" }])
    })
  )
})
