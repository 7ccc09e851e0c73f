/** What a database says when it fails, in the words of a store of runs. */
import * as SqlError from "effect/sql/SqlError"
import { RunStoreError } from "./RunStore.ts"

const advice = {
  full: "there is no space left; free some, then resume the run",
  read_only: "the database cannot be written; give this process permission, then resume the run",
  corrupt: "the database is damaged; restore it from a backup",
  inside_transaction:
    "it was called inside an open transaction, which would take the journal back if it were rolled back; " +
    "run agents outside of transactions"
} as const

const locked = "the database stayed locked by somebody else; try again"

const lost = "the connection to the database is gone, and no other could be made"

// SQLite's numbers as drivers name them, and the states of the SQL standard that Postgres uses.
const kinds: { readonly [code: string]: keyof typeof advice } = {
  "13": "full",
  SQLITE_FULL: "full",
  "53100": "full",
  "8": "read_only",
  SQLITE_READONLY: "read_only",
  "25006": "read_only",
  // Insufficient privilege.
  "42501": "read_only",
  "11": "corrupt",
  SQLITE_CORRUPT: "corrupt",
  "26": "corrupt",
  SQLITE_NOTADB: "corrupt",
  // Damaged pages and indexes.
  XX001: "corrupt",
  XX002: "corrupt"
}

// The server shuts down, crashes or starts, or has no connection left.
const passing = new Set(["57P01", "57P02", "57P03", "53300"])

const codesOf = (cause: unknown): ReadonlyArray<string> => {
  if (typeof cause !== "object" || cause === null) return []
  const codes: Array<string> = []
  // The low byte is the error; what is above it only tells variants apart.
  if ("errno" in cause && typeof cause.errno === "number") codes.push(String(cause.errno & 0xff))
  if ("code" in cause && typeof cause.code === "string") codes.push(cause.code)
  return codes
}

// What SQLite says to a store whose caller has sent a BEGIN of its own.
const insideTransaction = /within a transaction|inside a transaction/

const kindOf = (error: unknown): keyof typeof advice | undefined => {
  if (!SqlError.isSqlError(error)) return undefined
  if (insideTransaction.test(error.message)) return "inside_transaction"
  for (const code of codesOf(error.reason.cause)) {
    const kind = kinds[code]
    if (kind !== undefined) return kind
  }
  return undefined
}

/** Whether a statement failed because its connection did: what it was to do may be done or not. */
const isLost = (error: SqlError.SqlError): boolean =>
  error.reason._tag === "ConnectionError" || codesOf(error.reason.cause).some((code) => passing.has(code))

/** Whether a statement that failed may well succeed when it is made again: its connection was lost, or another was in its way. */
export const isPassing = (error: SqlError.SqlError): boolean =>
  isLost(error) || error.reason._tag === "SerializationError" || error.reason._tag === "DeadlockError"

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const problemOf = (error: unknown): string => {
  const kind = kindOf(error)
  if (kind !== undefined) return advice[kind]
  if (!SqlError.isSqlError(error)) return messageOf(error)
  const { cause } = error.reason
  // A driver's own message may say no more than that there was one.
  const detail = cause instanceof Error && cause.message !== "" ? cause.message : error.message
  if (error.reason._tag === "LockTimeoutError") return locked
  return isLost(error) ? `${lost} (${detail})` : detail
}

const failure = (runId: string, cause: unknown, problem: string, seq?: number) =>
  new RunStoreError({
    runId,
    kind: kindOf(cause) ?? "unavailable",
    problem,
    cause,
    ...(seq === undefined ? undefined : { seq })
  })

/**
 * The failure of a statement for a run (`""` if it was for none) as an error that says what to do, and the event that
 * could not be written if it was to write one.
 */
export const storeError = (runId: string, error: unknown, seq?: number): RunStoreError =>
  failure(runId, error, problemOf(error), seq)

/** The failure to open a database, whose message says already what to do. */
export const openError = (error: SqlError.SqlError): RunStoreError => failure("", error, error.message)

/** Whether it failed for a key that is there already. */
export const isRepeated = ({ cause }: RunStoreError): boolean =>
  SqlError.isSqlError(cause) && cause.reason._tag === "UniqueViolation"

/** A call inside the caller's own transaction. */
export const refuseTransaction = (runId: string): RunStoreError =>
  new RunStoreError({
    runId,
    kind: "inside_transaction",
    problem: advice.inside_transaction
  })
