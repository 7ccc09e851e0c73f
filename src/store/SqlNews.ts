/**
 * How a store hears of what other processes write: SQLite is asked a cheap question every now and then, Postgres tells.
 *
 * News only wakes who watches; what is new is read from the tables. So news may come twice, or of nothing at all, and
 * what gets lost is made up for by looking.
 */
import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { inWorldTime, unattended } from "./TimeLimit.ts"
import type { Topic, Wakeups } from "./Wakeups.ts"

/** How often to look where nobody tells, while somebody watches. */
const pollInterval = "250 millis"

/** How long to trust in being told. */
const trust = "30 seconds"

const echoLimit = "2 seconds"
const listenAgainAfter = "1 second"

/** The channel on which Postgres tells. */
export const channel = "checkrein"

/** Tells: the channel, and the payload. */
export const tellText = "SELECT pg_notify($1, $2)"

/** What a store of runs tells and hears. */
export interface News {
  /** What to send on the channel about this. A store does not wake for what it has sent itself. */
  readonly payload: (topic: Topic) => string
  /** Wakes who watches, for ever. */
  readonly follow: Effect.Effect<never>
}

/** SQLite says with one cheap number whether any other connection has written. */
const poll = (sql: SqlClient.SqlClient, wakeups: Wakeups): Effect.Effect<never> =>
  Effect.gen(function* () {
    let seen: number | undefined
    while (true) {
      yield* wakeups.watched
      yield* Effect.sleep(pollInterval)
      const asked = Effect.map(
        sql<{ data_version: number }>`PRAGMA data_version`,
        ([row]) => row?.data_version
      )
      // Whoever watches a database that is gone finds out by reading it.
      const now = yield* Effect.orElseSucceed(asked, () => undefined)
      if (now !== undefined && now === seen) continue
      seen = now
      yield* wakeups.wakeAll
    }
  })

interface Notification {
  readonly payload: string
}

/** A client that can listen, as that of `@effect/sql-pg`; a store asks for no more than `SqlClient`. */
interface Listening extends SqlClient.SqlClient {
  readonly listen: (
    channel: string
  ) => Effect.Effect<Queue.Dequeue<Notification, SqlError>, SqlError, Scope.Scope>
  readonly config: { readonly maxConnections?: number | undefined }
}

/** Listening takes a connection for itself, so it has to be one of several. */
const canListen = (sql: SqlClient.SqlClient): sql is Listening =>
  "listen" in sql &&
  typeof sql.listen === "function" &&
  "config" in sql &&
  typeof sql.config === "object" &&
  sql.config !== null &&
  !("maxConnections" in sql.config && sql.config.maxConnections === 1)

const isTopic = (text: string): text is Topic => text.startsWith("events ") || text.startsWith("inbox ")

const listen = (sql: SqlClient.SqlClient, wakeups: Wakeups, store: string): Effect.Effect<never> => {
  let hears = false

  const hear = ({ payload }: Notification): void => {
    const space = payload.indexOf(" ")
    const topic = payload.slice(space + 1)
    if (payload.slice(0, space) !== store && isTopic(topic)) wakeups.wake(topic)
  }

  const follow = Effect.fnUntraced(
    function* (sql: Listening) {
      const queue = yield* sql.listen(channel)
      // Behind a pooler that lends connections by the transaction, listening succeeds and nothing is ever heard.
      const echo = `${store} echo`
      yield* sql`SELECT pg_notify(${channel}, ${echo})`
      while (true) {
        const heard = yield* Effect.timeoutOption(Queue.takeAll(queue), hears ? trust : echoLimit)
        if (Option.isSome(heard)) {
          for (const notification of heard.value) hear(notification)
          if (hears || heard.value.every(({ payload }) => payload !== echo)) continue
          hears = true
        } else if (!hears) return
        yield* wakeups.wakeAll
      }
    },
    Effect.scoped,
    Effect.ensuring(
      Effect.sync(() => {
        hears = false
      })
    )
  )

  const looking = Effect.gen(function* () {
    while (true) {
      yield* wakeups.watched
      if (!hears) yield* wakeups.wakeAll
      yield* Effect.sleep(pollInterval)
    }
  })
  if (!canListen(sql)) return looking
  const listening = Effect.gen(function* () {
    while (true) {
      yield* wakeups.watched
      // A connection on which nothing comes back cannot be asked to stop listening either.
      yield* Effect.ignore(unattended(follow(sql)))
      yield* Effect.sleep(listenAgainAfter)
    }
  })
  return Effect.raceFirst(looking, listening)
}

/** How a store on this client tells and hears. */
export const make = (sql: SqlClient.SqlClient, wakeups: Wakeups): News => {
  const store = randomUUID()
  const follow = sql.onDialectOrElse({
    pg: () => listen(sql, wakeups, store),
    orElse: () => poll(sql, wakeups)
  })
  return {
    payload: (topic) => `${store} ${topic}`,
    follow: Effect.withTracerEnabled(inWorldTime(follow), false)
  }
}
