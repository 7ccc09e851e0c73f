/** Going on after a lost connection: a server that restarts is back within seconds, and no run need stop for that. */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { ConnectionError, isSqlError, SqlError } from "effect/sql/SqlError"
import type { RunStoreError } from "./RunStore.ts"
import { isPassing } from "./SqlFailure.ts"
import { atMost, inWorldTime } from "./TimeLimit.ts"

const again = Schedule.min([Schedule.exponential("50 millis"), Schedule.spaced("1 second")]).pipe(
  Schedule.upTo({ duration: "10 seconds" })
)

const noAnswer = new SqlError({
  reason: new ConnectionError({
    message: "the database does not answer",
    operation: "execute",
    cause: undefined
  })
})

const isAway = (error: SqlError | RunStoreError): boolean => {
  const failure = error._tag === "SqlError" ? error : error.cause
  return isSqlError(failure) && isPassing(failure)
}

/** Does something again on another connection when its own is lost, for 10 seconds; so it must bear being done twice. */
export const reconnecting = <A, E extends SqlError | RunStoreError, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> => inWorldTime(Effect.retry(effect, { while: isAway, schedule: again }))

/** Takes a connection on which nothing comes back for lost. */
export const answering = (
  limit: Duration.Input
): (<A, R>(effect: Effect.Effect<A, SqlError, R>) => Effect.Effect<A, SqlError, R>) =>
  atMost(limit, () => Effect.fail(noAnswer))
