/**
 * The events of a run as rows: each is a text with its checksum. They are by the run's number and theirs on Postgres, by
 * one key made of both on SQLite.
 *
 * A table of SQLite is a tree by its integer key, and a key of two columns is a second tree beside it. With the one key
 * an append writes two pages, that of the run and that of its events, instead of three.
 */
import { crc32 } from "node:zlib"
import * as Result from "effect/Result"
import type * as SqlClient from "effect/sql/SqlClient"
import type * as Statement from "effect/sql/Statement"
import * as EventCodec from "../run/EventCodec.ts"
import type { RunEvent } from "../run/RunEvent.ts"
import { type Append, RunNotFound, RunStoreError } from "./RunStore.ts"

// As many events as an INTEGER of Postgres counts; the other bits are for the number of the run.
const bits = 31

/** The key of a run's event 0 in SQLite, given an expression for the run's number. Those of its others follow on it. */
export const firstKey = (run: string): string => `((${run}) << ${bits})`

/** The number of the run, given an expression for a key in SQLite. */
export const runOf = (key: string): string => `(${key} >> ${bits})`

/** The key of SQLite's table, and what it is made of. */
export const keyColumns = `id INTEGER PRIMARY KEY,
    run_no INTEGER GENERATED ALWAYS AS ${runOf("id")} VIRTUAL,
    seq INTEGER GENERATED ALWAYS AS (id & ${2 ** bits - 1}) VIRTUAL`

/** How many bytes of events a page has: whoever reads on holds no more, but for one event that is longer by itself. */
const pageBytes = 262_144

/**
 * The events of a run from a number on, as rows: all of them, or at most so many, and fewer if they are long. How long they
 * are is known from the table alone, so that nothing is read to be left out.
 */
export const rows = (
  sql: SqlClient.SqlClient,
  runId: string,
  from: number,
  limit: number | undefined
): Statement.Statement<Row> => {
  const { by, on, upTo } = sql.onDialectOrElse({
    pg: () => ({
      by: sql`e.seq`,
      on: sql`e.run_no = r.run_no AND e.seq >= ${from}`,
      upTo: sql`e.run_no = r.run_no AND e.seq >= ${from} AND e.seq <= page.last`
    }),
    orElse: () => {
      const [first, end] = [sql.literal(firstKey("r.run_no")), sql.literal(firstKey("r.run_no + 1"))]
      return {
        by: sql`e.id`,
        on: sql`e.id >= ${first} + ${from} AND e.id < ${end}`,
        upTo: sql`e.id >= ${first} + ${from} AND e.id <= ${first} + page.last`
      }
    }
  })
  const columns = sql.literal("r.seq AS total, e.seq AS seq, e.body AS body, e.checksum AS checksum")
  return limit === undefined
    ? sql<Row>`SELECT ${columns} FROM checkrein_runs r LEFT JOIN checkrein_events e ON ${on}
        WHERE r.run_id = ${runId} ORDER BY ${by}`
    : sql<Row>`WITH next AS (
          SELECT e.seq AS seq, octet_length(e.body) AS bytes
          FROM checkrein_runs r JOIN checkrein_events e ON ${on}
          WHERE r.run_id = ${runId} ORDER BY ${by} LIMIT ${limit}
        ), summed AS (
          SELECT seq, SUM(bytes) OVER (ORDER BY seq) - bytes AS before FROM next
        ), page AS (
          SELECT MAX(seq) AS last FROM summed WHERE before < ${pageBytes}
        )
        SELECT ${columns} FROM checkrein_runs r CROSS JOIN page LEFT JOIN checkrein_events e ON ${upTo}
        WHERE r.run_id = ${runId} ORDER BY ${by}`
}

/**
 * A number of 32 bits that another text hardly ever has, however little it differs, nor the same text in another run: by
 * it a stored event is known again. It is no seal: whoever may write to the database can make another.
 */
export const checksum = (runId: string, text: string): number => crc32(text, crc32(runId)) | 0

/** Whether a text is the one that was stored; `undefined` if it is from before there were checksums. */
const isIntact = (runId: string, text: string, stored: number | null): boolean | undefined =>
  // The first checksums were of the text alone.
  stored === null ? undefined : stored === checksum(runId, text) || stored === (crc32(text) | 0)

/** The most bytes of a text that V8 makes a string of when it is read. */
const longest = 2 ** 29 - 24

/** The texts of events, as they are stored; not of one that could not be read again. */
export const encode = ({ events, runId }: Append): Result.Result<ReadonlyArray<string>, RunStoreError> => {
  const bodies = events.map(EventCodec.encode)
  // A character takes 3 bytes at most: what is surely short enough is not measured.
  const at = bodies.findIndex((body) => body.length * 3 > longest && Buffer.byteLength(body) > longest)
  const event = events[at]
  if (event === undefined) return Result.succeed(bodies)
  const problem = `event ${event.seq} takes more than the ${longest} bytes that can be read again; have its tool yield less`
  return Result.fail(new RunStoreError({ runId, kind: "invalid", problem, seq: event.seq }))
}

const corrupt = (runId: string, problem: string, seq: number) =>
  Result.fail(new RunStoreError({ runId, kind: "corrupt", problem, seq }))

/** An event as it is read, beside what the run's row says of how many there are. */
export interface Row {
  readonly total: number
  readonly seq: number | null
  readonly body: string | null
  readonly checksum: number | null
}

/**
 * The events of a run from a number on, none missing and none too many, of no rows if there is no run. A page may end
 * before the run does: what is missing then, the next one does not begin with.
 */
export const decode = (
  runId: string,
  from: number,
  rows: ReadonlyArray<Row>,
  limit: number | undefined
): Result.Result<ReadonlyArray<RunEvent>, RunNotFound | RunStoreError> => {
  const total = rows[0]?.total
  if (total === undefined) return Result.fail(new RunNotFound({ runId }))
  const missing = (seq: number) => corrupt(runId, `event ${seq} is missing`, seq)
  const events: Array<RunEvent> = []
  let next = from
  for (const { body, checksum: stored, seq } of rows) {
    if (seq === null || body === null) break
    if (seq !== next) return missing(next)
    if (seq >= total) return corrupt(runId, `event ${seq} is one more than its summary counts`, seq)
    const event = EventCodec.decode(runId, seq, body, isIntact(runId, body, stored))
    if (Result.isFailure(event)) {
      const { kind, message } = event.failure
      return Result.fail(
        new RunStoreError({
          runId,
          kind,
          seq,
          problem: message,
          cause: event.failure
        })
      )
    }
    events.push(event.success)
    next += 1
  }
  const isPage = limit !== undefined && (events.length > 0 || limit === 0)
  return next < total && !isPage ? missing(next) : Result.succeed(events)
}
