/**
 * Appending to a journal in Postgres: one statement, so one round trip, that moves the run's row on, adds its events and
 * wakes who watches.
 *
 * When the connection is lost, nobody knows whether the statement was done. So an append signs the run's row, and is
 * made again: either the row still waits for it, or it bears the signature. What is on its way twice is done once.
 */
import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import { answering, reconnecting } from "./Reconnect.ts"
import type { Append, RunStoreError } from "./RunStore.ts"
import { checksum } from "./SqlEvents.ts"
import { storeError } from "./SqlFailure.ts"
import * as SqlLeases from "./SqlLeases.ts"
import { channel, type News } from "./SqlNews.ts"
import { answerLimit, executeOn, outside, postgresLevels } from "./SqlTransaction.ts"

// The parameters of both: run id, expected event, next event, status, summary, signature, events, durability, news,
// checksums, holder, reason. Without a holder the writer has no lease, and needs none.
const allowed = `($11::text IS NULL OR EXISTS (SELECT 1 FROM checkrein_leases WHERE run_id = $1 AND holder = $11))`
const written = `written AS (
    INSERT INTO checkrein_events (run_no, seq, body, checksum)
    SELECT run.run_no, $2::integer + event.n::integer - 1, event.body, event.checksum
    FROM run, unnest($7::text[], $10::integer[]) WITH ORDINALITY AS event (body, checksum, n)
  )`
const committed = `set_config('synchronous_commit', $8, true), pg_notify('${channel}', $9)`

const create = `WITH run AS (
    INSERT INTO checkrein_runs (run_id, seq, status, reason, summary, writer, agent, started_at, parent)
    SELECT $1, $3::integer, $4, $12, $5, $6, $13, $14, $15 WHERE ${allowed}
    ON CONFLICT (run_id) DO NOTHING RETURNING run_no
  ), ${written}, tagged AS (
    INSERT INTO checkrein_tags (run_no, tag, agent, status, reason, started_at, run_id)
    SELECT run.run_no, tag, $13, $4, $12, $14, $1 FROM run, unnest($16::text[]) AS tag
  )
  SELECT ${committed} FROM run`

const tagged = `, tagged AS (
    UPDATE checkrein_tags SET status = $4, reason = $12 FROM run
    WHERE checkrein_tags.run_no = run.run_no
      AND (checkrein_tags.status <> $4 OR checkrein_tags.reason IS DISTINCT FROM $12)
  )`

/** A lease is renewed if it is due. */
const moving = (now: string, leaseMs: number, rest: string) => `WITH run AS (
    UPDATE checkrein_runs SET seq = $3, status = $4, reason = $12, summary = $5, writer = $6
    WHERE run_id = $1 AND seq = $2::integer AND ${allowed} RETURNING run_no
  ), ${written}, renewed AS (
    UPDATE checkrein_leases SET until_ms = ${now} + ${leaseMs}
    WHERE run_id = $1 AND holder = $11 AND $13::boolean RETURNING run_id
  )${rest}
  SELECT ${committed}, EXISTS (SELECT 1 FROM renewed) AS renewed FROM run`

const find = `SELECT 1 FROM checkrein_runs WHERE run_id = $1 AND seq = $2 AND writer = $3`

/**
 * Says whether the append was made: it was not if the run's next event was not the expected one, or if its writer had the
 * lease of the run and somebody else has taken it. The number alone does not tell a run from another one of its id.
 */
export const make = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  leases: SqlLeases.SqlLeases,
  news: News
) {
  const levels = yield* postgresLevels(sql)
  const move = moving(SqlLeases.nowText(sql), leases.leaseMs, "")
  const moveTagged = moving(SqlLeases.nowText(sql), leases.leaseMs, tagged)
  const store = randomUUID()
  let appends = 0
  const execute = executeOn(sql)

  const append = ({ durability, expected, runId, summary }: Append, bodies: ReadonlyArray<string>) => {
    const next = expected + bodies.length
    const signature = `${store} ${appends++}`
    const { agent, parent, reason = null, startedAt, status, tags = [] } = summary
    const body = JSON.stringify(summary)
    const own = leases.own(runId)
    const common = [
      runId,
      expected,
      next,
      status,
      body,
      signature,
      bodies,
      levels[durability],
      news.payload(`events ${runId}`),
      bodies.map((body) => checksum(runId, body)),
      own?.holder ?? null,
      reason
    ]
    const write =
      expected === 0
        ? execute(create, [...common, agent, startedAt, parent?.runId ?? null, [...new Set(tags)]])
        : execute(tags.length > 0 ? moveTagged : move, [...common, own?.isDue === true])
    const attempt = Effect.gen(function* () {
      const [done] = yield* write
      if (done !== undefined) {
        if (own?.isDue === true && expected > 0) own.settle(done.renewed === true)
        return true
      }
      const [found] = yield* execute(find, [runId, next, signature])
      return found !== undefined
    })
    return attempt.pipe(
      answering(answerLimit),
      reconnecting,
      Effect.mapError((error) => storeError(runId, error, expected))
    )
  }

  return (request: Append, bodies: ReadonlyArray<string>): Effect.Effect<boolean, RunStoreError> =>
    outside(sql, request.runId, () => append(request, bodies))
})
