/**
 * A file of SQLite: what is in it, how it is opened, and why it cannot be.
 */
import { mkdirSync, statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { pathToFileURL } from "node:url"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as SqlError from "effect/sql/SqlError"
import { inWorldTime } from "./TimeLimit.ts"

/** How to open a database. */
export interface Options {
  /** The file; its folder is made when it is missing. `":memory:"` for a database that lives as long as the layer. */
  readonly filename: string
  /** How long to wait while another process or connection writes, without blocking this one. Default 5 seconds. */
  readonly busyTimeout?: Duration.Input | undefined
  /**
   * What a commit waits for: `full` (default) survives a power cut, `normal` survives only the process. A store of
   * runs asks for what each of its writes needs, whatever this says.
   */
  readonly synchronous?: "full" | "normal" | undefined
}

// SQLite itself waits by blocking the process; what takes longer than this is waited for on the clock.
const engineWait = Duration.millis(10)

const errcodeOf = (cause: unknown): number | undefined =>
  cause instanceof Error && "errcode" in cause && typeof cause.errcode === "number"
    ? cause.errcode
    : undefined

const primaryKeyViolation = 1555
const uniqueViolation = 2067

/** A failure of SQLite as an error of a client. */
export const sqlError = (cause: unknown, operation: string, message: string): SqlError.SqlError => {
  const errcode = errcodeOf(cause)
  // The classifier looks for `errno`, and knows a repeated key by one of its two numbers only.
  const errno = errcode === primaryKeyViolation ? uniqueViolation : errcode
  if (cause instanceof Error && errno !== undefined) Object.assign(cause, { errno })
  return new SqlError.SqlError({
    reason: SqlError.classifySqliteError(cause, { message, operation })
  })
}

/** What SQLite says of a failure. */
export const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))

const whyNotOpened = (cause: unknown): string => {
  switch ((errcodeOf(cause) ?? 0) & 0xff) {
    case 14:
      return "it is a directory, or this process has no permission to open it and to write in its folder"
    case 8:
      return "it is read-only; give this process permission to write it and its folder"
    case 5:
    case 6:
      return "another process keeps it locked; try again, or end that process"
    case 11:
      return "it is damaged; restore it from a backup"
    default:
      return messageOf(cause)
  }
}

const notADatabase = 26

/** Why a database could not be opened, with its name. */
const notOpened = (filename: string, cause: unknown): string =>
  ((errcodeOf(cause) ?? 0) & 0xff) === notADatabase
    ? `${filename} is not a SQLite database; name another file`
    : `cannot open the database ${filename}: ${whyNotOpened(cause)}`

const isFile = (filename: string) =>
  filename !== "" && filename !== ":memory:" && !filename.startsWith("file:")

const openNow = (options: Options): DatabaseSync => {
  if (isFile(options.filename)) mkdirSync(dirname(options.filename), { recursive: true })
  const db = new DatabaseSync(options.filename, {
    timeout: Duration.toMillis(engineWait),
    enableForeignKeyConstraints: true
  })
  try {
    // Of a new file: a table or an index takes a page at least, and there are some twenty of them.
    db.exec("PRAGMA page_size = 2048")
    db.exec("PRAGMA journal_mode = WAL")
    db.exec(`PRAGMA synchronous = ${options.synchronous === "normal" ? "NORMAL" : "FULL"}`)
    // On macOS an ordinary fsync leaves the data in the drive's cache.
    db.exec("PRAGMA fullfsync = ON")
    // Writes something and takes it back, so that a file that may only be read is refused now and not in mid-run. A
    // bare BEGIN IMMEDIATE would not do: on such a file SQLite begins a reading transaction instead.
    db.exec("BEGIN IMMEDIATE; PRAGMA user_version = 1; ROLLBACK")
    return db
  } catch (cause) {
    db.close()
    throw cause
  }
}

/**
 * What is in a file: the tables of runs, among others or not; nothing yet, be it that there is none; those of something else
 * alone. What cannot be looked at is unknown, and for SQLite to explain.
 */
export type Content = "runs" | "nothing" | "another's" | "unknown"

/** How long a file is: 0 without one, `undefined` if it is none or cannot be looked at. */
const sizeOf = (filename: string): number | undefined => {
  try {
    const stats = statSync(filename, { throwIfNoEntry: false })
    if (stats === undefined) return 0
    return stats.isFile() ? stats.size : undefined
  } catch {
    return undefined
  }
}

/** Which file there is of a name; `undefined` if there is none, or it cannot be looked at. */
const identityOf = (filename: string): bigint | undefined => {
  try {
    return statSync(filename, { bigint: true, throwIfNoEntry: false })?.ino
  } catch {
    return undefined
  }
}

/**
 * Asks whether the file that is there now is still there, and no other one of its name. Whatever is written to one that was
 * removed is gone when it is closed.
 */
export const presence = (filename: string): Effect.Effect<boolean> => {
  if (!isFile(filename)) return Effect.succeed(true)
  const path = resolve(filename)
  const opened = identityOf(path)
  return Effect.sync(() => opened !== undefined && identityOf(path) === opened)
}

const isBusy = (error: SqlError.SqlError) => error.reason._tag === "LockTimeoutError"

/** How long whatever finds a database busy is tried again. */
export interface Patience {
  readonly while: (error: SqlError.SqlError) => boolean
  readonly schedule: Schedule.Schedule<unknown>
}

/** Waits as long as the options say. */
export const patienceOf = ({ busyTimeout = "5 seconds" }: Pick<Options, "busyTimeout">): Patience => ({
  while: isBusy,
  schedule: Schedule.spaced(engineWait).pipe(Schedule.upTo({ duration: busyTimeout }))
})

const opening = <A>(
  filename: string,
  patience: Patience,
  open: () => A
): Effect.Effect<A, SqlError.SqlError> => {
  const opened = Effect.try({
    try: open,
    catch: (cause) => sqlError(cause, "open", notOpened(filename, cause))
  })
  return inWorldTime(Effect.retry(opened, patience))
}

const look = (filename: string): Content => {
  const size = isFile(filename) ? sizeOf(filename) : undefined
  if (size === undefined) return "unknown"
  if (size === 0) return "nothing"
  const url = pathToFileURL(filename)
  // Otherwise SQLite makes a WAL beside a file that had one, or asks to put right what a crash has left.
  if (sizeOf(`${filename}-wal`) === 0) url.searchParams.set("immutable", "1")
  const db = new DatabaseSync(url, { readOnly: true, timeout: Duration.toMillis(engineWait) })
  try {
    const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all()
    const names = tables.map(({ name }) => String(name))
    if (names.includes("checkrein_runs")) return "runs"
    return names.length === 0 || names.some((name) => name.startsWith("checkrein_")) ? "nothing" : "another's"
  } finally {
    db.close()
  }
}

/** Opens a database to write to it. */
export const open = (options: Options, patience: Patience): Effect.Effect<DatabaseSync, SqlError.SqlError> =>
  opening(options.filename, patience, () => openNow(options))

/** Looks what is in a file, and writes nothing: neither to the file nor beside it. */
export const contentOf = (options: Options): Effect.Effect<Content, SqlError.SqlError> =>
  opening(options.filename, patienceOf(options), () => look(options.filename))
