/**
 * `--store`: where runs are kept.
 */
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type { RunStore, RunStoreError } from "../store/RunStore.ts"
import { openError } from "../store/SqlFailure.ts"
import { CommandFailed, NoStore, note, self, sentenceOf, UsageError } from "./Output.ts"
import * as Password from "./Password.ts"
import * as ShellWords from "./ShellWords.ts"

/** The store in force when none is named: a SQLite file in the working directory. */
export const defaultFile = ".checkrein/runs.db"

/** `--store`, with what is in force when it is not given. */
export const flagOf = (otherwise: string): Flag.Flag<string> =>
  Flag.String("store").pipe(
    Flag.withDescription(
      `Where runs are kept: a SQLite file, a postgres:// URL (its user and password may be in PGUSER and PGPASSWORD), or \`memory\` (default: ${otherwise})`
    ),
    Flag.withMetavar("STORE"),
    Flag.withDefault(otherwise)
  )

/** `--store`, the same for every command. */
export const flag: Flag.Flag<string> = flagOf(defaultFile)

/** Whether what is kept there ends with the process, so that no other command can have it. */
export const isFleeting = (where: string): boolean => where === "memory" || where === ":memory:"

/** What there is to say about a run that is kept so. */
export const endsHere =
  "The run was kept in memory and ends with this process: --store FILE keeps one that can be resumed."

const scheme = /^([a-z][a-z0-9+.-]*):\/\//i

// Also without its slashes: a file of that name would have the password in it.
const isPostgres = (where: string): boolean => /^postgres(?:ql)?:/i.test(where)

const takes = "--store takes a SQLite file, a postgres:// URL or `memory`"

/** Whether a URL names anything: a host, a database, or either in its parameters. */
const namesSomething = (where: string): boolean => {
  const { host, pathname, search } = new URL(where)
  return host !== "" || pathname.length > 1 || search.length > 1
}

const refusal = (where: string): string | undefined => {
  const url = scheme.exec(where)?.[1]?.toLowerCase()
  if (isPostgres(where))
    return url !== undefined && URL.canParse(where) && namesSomething(where)
      ? undefined
      : "--store is no URL of a Postgres database: write postgres://user@host:port/database"
  if (url !== undefined) return `${takes}, and no ${url} URL`
  if (where.trim() === "") return `${takes}, and was empty`
  // After `--store=` a shell leaves it as it is, and the runs would be in a folder of that name.
  return /^~[^/\\]*[/\\]/.test(where)
    ? `--store ${where} begins with a ~ that the shell has left: write $HOME, or ./${where} if the folder is called so`
    : undefined
}

const ofPostgres = Effect.map(
  Effect.tryPromise({
    try: () => import("./PostgresStore.ts"),
    catch: (error) =>
      new CommandFailed({
        message: `a store on Postgres needs @effect/sql-pg beside checkrein (npm install @effect/sql-pg): ${sentenceOf(error)}`
      })
  }),
  ({ layer }) => layer
)

/** Why a store could not be opened. */
type Unopened = UsageError | CommandFailed | NoStore | RunStoreError

/** The store that `--store` names; a file and its folder, or the tables of a database, are made when they are missing. */
export const layer = (where: string): Layer.Layer<RunStore, Unopened> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const message = refusal(where)
      if (message !== undefined) return yield* new UsageError({ message })
      if (isFleeting(where)) {
        const memory = yield* Effect.promise(() => import("../store/MemoryRunStore.ts"))
        return memory.layer
      }
      if (isPostgres(where)) return (yield* ofPostgres)(where, "made when missing")
      const sqlite = yield* Effect.promise(() => import("../store/NodeSqlite.ts"))
      return sqlite.runStore(where)
    })
  )

/**
 * The store that `--store` names, for a command about runs that exist: what is missing is not made, since a mistyped
 * name would look like a store without runs.
 */
export const existing = (where: string): Layer.Layer<RunStore, Unopened, FileSystem.FileSystem> =>
  Layer.unwrap(
    Effect.gen(function* () {
      if (isFleeting(where))
        return yield* new UsageError({
          message: "a store in memory ends with its process, so there are no stored runs in it"
        })
      if (refusal(where) !== undefined) return layer(where)
      if (isPostgres(where)) return (yield* ofPostgres)(where, "has to be there")
      const { contentOf } = yield* Effect.promise(() => import("../store/SqliteFile.ts"))
      const content = yield* Effect.mapError(contentOf({ filename: where }), openError)
      if (content !== "nothing") return layer(where)
      const files = yield* FileSystem.FileSystem
      const there = yield* Effect.orElseSucceed(files.exists(where), () => false)
      const message = there
        ? `there are no runs in the file ${where}: \`${self} run\` begins with one, and --store names another`
        : `there is no store ${where} here: \`${self} run\` makes one, and --store names another`
      return yield* new NoStore({ message })
    })
  )

/** The same for a command about any number of runs: a store that is missing has none, which is said. */
export const orEmpty = (where: string): Layer.Layer<RunStore, Unopened, FileSystem.FileSystem> =>
  Layer.catchTag(existing(where), "NoStore", ({ message }) =>
    Layer.unwrap(Effect.as(note(`Nothing is stored yet: ${message}.`), layer("memory")))
  )

/** The name of a store as it may be printed. */
export const shown = (where: string): string => (isPostgres(where) ? Password.hidden(where) : where)

/** `--store` in a command that a person is told to run: none for the default, and never with a password. */
const flags = (where: string): ReadonlyArray<string> =>
  where === defaultFile ? [] : ShellWords.flagged("--store", shown(where))

/** The same as a shell takes it, to be put behind a command. */
export const repeated = (where: string): string =>
  flags(where)
    .map((argument) => ` ${ShellWords.quoted(argument)}`)
    .join("")
