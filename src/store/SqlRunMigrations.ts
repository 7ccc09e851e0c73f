/**
 * The tables of a store of runs, as migrations.
 *
 * A migration that was released is never changed; what the tables need next is another migration.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import { Reason } from "../run/RunEvent.ts"
import type { RunStoreError } from "./RunStore.ts"
import * as SqlEvents from "./SqlEvents.ts"
import * as SqlMigrations from "./SqlMigrations.ts"

/** The types of columns that the databases name differently. Postgres sorts text by language unless told not to. */
const typesOf = (sql: SqlClient.SqlClient) =>
  sql.onDialectOrElse({
    pg: () => ({
      serial: sql.literal("BIGINT GENERATED ALWAYS AS IDENTITY"),
      number: sql.literal("BIGINT"),
      text: sql.literal('TEXT COLLATE "C"')
    }),
    orElse: () => ({
      serial: sql.literal("INTEGER"),
      number: sql.literal("INTEGER"),
      text: sql.literal("TEXT")
    })
  })

const runs = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { number, serial, text } = typesOf(sql)
  // The events of a run name it by number: the text of its id in each of them would be a quarter of a short journal.
  yield* sql`CREATE TABLE checkrein_runs (
    run_no ${serial} PRIMARY KEY,
    run_id ${text} NOT NULL UNIQUE,
    agent ${text} NOT NULL,
    status ${text} NOT NULL,
    started_at ${text} NOT NULL,
    seq INTEGER NOT NULL,
    summary TEXT NOT NULL
  )`
  // One for each way to list: a page is then a walk along an index, however many runs there are.
  yield* sql`CREATE INDEX checkrein_runs_newest ON checkrein_runs (started_at, run_id)`
  yield* sql`CREATE INDEX checkrein_runs_status ON checkrein_runs (status, started_at, run_id)`
  yield* sql`CREATE INDEX checkrein_runs_agent ON checkrein_runs (agent, started_at, run_id)`
  yield* sql`CREATE INDEX checkrein_runs_agent_status ON checkrein_runs (agent, status, started_at, run_id)`
  yield* sql`CREATE TABLE checkrein_events (
    run_no ${number} NOT NULL,
    seq INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run_no, seq)
  )`
  yield* sql`CREATE TABLE checkrein_commands (
    run_id ${text} NOT NULL,
    id INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run_id, id)
  )`
})

/** What several processes need to share runs. */
const sharing = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { number, text } = typesOf(sql)
  yield* sql`CREATE TABLE checkrein_leases (
    run_id ${text} PRIMARY KEY,
    holder TEXT NOT NULL,
    until_ms ${number} NOT NULL
  )`
  // Which append was a run's last, so that one whose connection was lost can be found.
  yield* sql.onDialectOrElse({
    pg: () => Effect.asVoid(sql`ALTER TABLE checkrein_runs ADD COLUMN writer TEXT`),
    orElse: () => Effect.void
  })
})

/** Runs by their tags: what a list asks for is beside each tag, so that a page of it is a walk along an index, too. */
const tags = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { number, text } = typesOf(sql)
  yield* sql`CREATE TABLE checkrein_tags (
    run_no ${number} NOT NULL,
    tag ${text} NOT NULL,
    agent ${text} NOT NULL,
    status ${text} NOT NULL,
    started_at ${text} NOT NULL,
    run_id ${text} NOT NULL,
    PRIMARY KEY (run_no, tag)
  )`
  yield* sql`CREATE INDEX checkrein_tags_newest ON checkrein_tags (tag, started_at, run_id)`
  yield* sql`CREATE INDEX checkrein_tags_status ON checkrein_tags (tag, status, started_at, run_id)`
  yield* sql`CREATE INDEX checkrein_tags_agent ON checkrein_tags (tag, agent, started_at, run_id)`
  yield* sql`CREATE INDEX checkrein_tags_agent_status ON checkrein_tags (tag, agent, status, started_at, run_id)`
})

/** Which run has started a run: they are deleted together. */
const parents = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { text } = typesOf(sql)
  yield* sql`ALTER TABLE checkrein_runs ADD COLUMN parent ${text}`
  // Only SQLite has runs that are older than this. A summary that cannot be read is for its reader to complain of.
  yield* sql.onDialectOrElse({
    pg: () => Effect.void,
    orElse: () =>
      Effect.asVoid(sql`UPDATE checkrein_runs SET parent = json_extract(summary, '$.parent.runId')
        WHERE CASE WHEN json_valid(summary) THEN json_type(summary, '$.parent.runId') = 'text' END`)
  })
  yield* sql`CREATE INDEX checkrein_runs_parent ON checkrein_runs (parent) WHERE parent IS NOT NULL`
})

/** By which an event is known to be as it was written. */
const checksums = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE checkrein_events ADD COLUMN checksum INTEGER`
})

/** On SQLite one key of an event instead of a row and an index entry beside it. */
const packed = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql.onDialectOrElse({
    pg: () => Effect.void,
    orElse: () =>
      Effect.gen(function* () {
        yield* sql`ALTER TABLE checkrein_events RENAME TO checkrein_events_before`
        yield* sql`CREATE TABLE checkrein_events (
    ${sql.literal(SqlEvents.keyColumns)},
    body TEXT NOT NULL,
    checksum INTEGER
  )`
        yield* sql`INSERT INTO checkrein_events (id, body, checksum)
    SELECT ${sql.literal(SqlEvents.firstKey("run_no"))} + seq, body, checksum
    FROM checkrein_events_before ORDER BY run_no, seq`
        yield* sql`DROP TABLE checkrein_events_before`
      })
  })
})

const decodeReason = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({ reason: Reason })))

interface Summarized {
  readonly run_no: unknown
  readonly summary: string
}

/** Says why runs have stopped that have done so already. One whose summary cannot be read is in no list anyhow. */
const sayReasons = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  let last: unknown = 0
  while (true) {
    const rows: ReadonlyArray<Summarized> = yield* sql<Summarized>`SELECT run_no, summary FROM checkrein_runs
      WHERE run_no > ${last} ORDER BY run_no LIMIT 500`
    const byReason = Map.groupBy(rows, ({ summary }) => Option.getOrUndefined(decodeReason(summary))?.reason)
    for (const [reason, runs] of byReason) {
      if (reason === undefined) continue
      const are = sql.in(
        "run_no",
        runs.map(({ run_no }) => run_no)
      )
      yield* sql`UPDATE checkrein_runs SET reason = ${reason} WHERE ${are}`
    }
    const end = rows.at(-1)
    if (end === undefined) break
    last = end.run_no
  }
  yield* sql`UPDATE checkrein_tags SET reason =
    (SELECT reason FROM checkrein_runs WHERE checkrein_runs.run_no = checkrein_tags.run_no)`
})

/**
 * Why runs have stopped. A run that goes on is in none of these indexes, so an append costs what it did before: only the
 * one with which a run stops, and the first after that, have to change them.
 */
const reasons = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { text } = typesOf(sql)
  // Whoever writes waits behind whoever waits for a table: for less than an append has, so that no run ends for it.
  yield* sql.onDialectOrElse({
    pg: () => Effect.asVoid(sql`SET LOCAL lock_timeout = '3s'`),
    orElse: () => Effect.void
  })
  yield* sql`ALTER TABLE checkrein_runs ADD COLUMN reason ${text}`
  yield* sql`ALTER TABLE checkrein_tags ADD COLUMN reason ${text}`
  yield* sayReasons(sql)
  for (const [name, on] of [
    ["runs_reason", "runs (reason, started_at, run_id)"],
    ["runs_agent_reason", "runs (agent, reason, started_at, run_id)"],
    ["tags_reason", "tags (tag, reason, started_at, run_id)"],
    ["tags_agent_reason", "tags (tag, agent, reason, started_at, run_id)"]
  ] as const)
    yield* sql.unsafe(`CREATE INDEX checkrein_${name} ON checkrein_${on} WHERE reason IS NOT NULL`)
})

const migrations = {
  "1_runs": runs,
  "2_sharing": sharing,
  "3_tags": tags,
  "4_parents": parents,
  "5_checksums": checksums,
  "6_packed": packed,
  "7_reasons": reasons
}

/** Makes or updates the tables. */
export const migrate: Effect.Effect<void, RunStoreError, SqlClient.SqlClient> = SqlMigrations.run(
  "checkrein_migrations",
  migrations
)
