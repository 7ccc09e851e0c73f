/**
 * Where the events of a run are: by its number and theirs on Postgres, by one key made of both on SQLite.
 *
 * A table of SQLite is a tree by its integer key, and a key of two columns is a second tree beside it. With the one key
 * an append writes two pages, that of the run and that of its events, instead of three.
 */
import type * as SqlClient from "effect/sql/SqlClient"
import type * as Statement from "effect/sql/Statement"

// As many events as an INTEGER of Postgres counts; the other bits are for the number of the run.
const bits = 31

/** The key of a run's event 0 in SQLite, given an expression for the run's number. Those of its others follow on it. */
export const firstKey = (run: string): string => `((${run}) << ${bits})`

/** The key of SQLite's table, and what it is made of. */
export const keyColumns = `id INTEGER PRIMARY KEY,
    run_no INTEGER GENERATED ALWAYS AS (id >> ${bits}) VIRTUAL,
    seq INTEGER GENERATED ALWAYS AS (id & ${2 ** bits - 1}) VIRTUAL`

/** What to join on: the events `e` of the run `r` from a number on, and the column that they are sorted by. */
export const following = (
  sql: SqlClient.SqlClient,
  from: number
): { readonly on: Statement.Fragment; readonly by: Statement.Fragment } =>
  sql.onDialectOrElse({
    pg: () => ({ on: sql`e.run_no = r.run_no AND e.seq >= ${from}`, by: sql`e.seq` }),
    orElse: () => {
      const [first, end] = [sql.literal(firstKey("r.run_no")), sql.literal(firstKey("r.run_no + 1"))]
      return { on: sql`e.id >= ${first} + ${from} AND e.id < ${end}`, by: sql`e.id` }
    }
  })
