/**
 * The store on Postgres that `--store` names. Loading this fails where `@effect/sql-pg`, which is optional, is missing.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import * as Postgres from "../store/Postgres.ts"
import type { RunStore, RunStoreError } from "../store/RunStore.ts"
import { openError } from "../store/SqlFailure.ts"
import * as SqlRunStore from "../store/SqlRunStore.ts"
import { NoStore, self } from "./Output.ts"
import * as Password from "./Password.ts"

/** Whether the tables of runs may be missing. */
export type Tables = "made when missing" | "has to be there"

const refuseMissing = Effect.fnUntraced(function* (where: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* Effect.mapError(
    sql<{ missing: boolean }>`SELECT to_regclass('checkrein_runs') IS NULL AS missing`,
    openError
  )
  if (row?.missing !== true) return
  const message = `there are no runs in the database ${Password.hidden(where)}: \`${self} run\` begins with one, and --store names another`
  return yield* new NoStore({ message })
})

/** The store in the database of this URL. */
export const layer = (where: string, tables: Tables): Layer.Layer<RunStore, NoStore | RunStoreError> => {
  const url = Redacted.make(Password.supplied(where, process.env))
  const database = Postgres.layer({ url }).pipe(
    Layer.catch((error) => Layer.effect(SqlClient.SqlClient, Effect.fail(openError(error))))
  )
  const checked = tables === "has to be there" ? Layer.effectDiscard(refuseMissing(where)) : Layer.empty
  return SqlRunStore.layer.pipe(Layer.provide(checked), Layer.provide(database))
}
