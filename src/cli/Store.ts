/**
 * `--store`: where runs are kept.
 */
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type { RunStore, RunStoreError } from "../store/RunStore.ts"
import { CommandFailed, plain, UsageError } from "./Output.ts"

/** The store in force when none is named: a SQLite file in the working directory. */
export const defaultFile = ".checkrein/runs.db"

/** `--store`, the same for every command. */
export const flag: Flag.Flag<string> = Flag.String("store").pipe(
  Flag.withDescription(`Where runs are kept: a SQLite file, or \`memory\` (default: ${defaultFile})`),
  Flag.withMetavar("FILE"),
  Flag.withDefault(defaultFile)
)

const scheme = /^([a-z][a-z0-9+.-]*):\/\//i

const refusal = (where: string): string | undefined => {
  const url = scheme.exec(where)?.[1]?.toLowerCase()
  if (url === "postgres" || url === "postgresql")
    return "this version keeps runs in SQLite or in memory only: --store takes a file or `memory`, and no Postgres URL yet"
  if (url !== undefined) return `--store takes a file or \`memory\`, and no ${url} URL`
  return where.trim() === "" ? "--store takes a file or `memory`, and was empty" : undefined
}

/** The store that `--store` names; a file and its folder are made when they are missing. */
export const layer = (where: string): Layer.Layer<RunStore, UsageError | RunStoreError> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const message = refusal(where)
      if (message !== undefined) return yield* new UsageError({ message })
      if (where === "memory") {
        const memory = yield* Effect.promise(() => import("../store/MemoryRunStore.ts"))
        return memory.layer
      }
      const sqlite = yield* Effect.promise(() => import("../store/NodeSqlite.ts"))
      return sqlite.runStore(where)
    })
  )

/**
 * The store that `--store` names, for a command about runs that exist: a file that is missing is not made, since a
 * mistyped name would look like a store without runs.
 */
export const existing = (
  where: string
): Layer.Layer<RunStore, UsageError | CommandFailed | RunStoreError, FileSystem.FileSystem> =>
  Layer.unwrap(
    Effect.gen(function* () {
      if (where === "memory")
        return yield* new UsageError({
          message: "a store in memory ends with its process, so there are no stored runs in it"
        })
      if (refusal(where) !== undefined) return layer(where)
      const files = yield* FileSystem.FileSystem
      // A file that cannot be looked at is for SQLite to explain.
      const there = yield* Effect.orElseSucceed(files.exists(where), () => true)
      return there
        ? layer(where)
        : yield* new CommandFailed({
            message: `there is no store ${where} here: \`checkrein run\` makes one, and --store names another`
          })
    })
  )

/** `--store` as it is repeated in a command that a person is told to run: empty for the default. */
export const repeated = (where: string): string =>
  where === defaultFile ? "" : ` ${flagged("--store", where).map(quoted).join(" ")}`

const escaped = (character: string): string => {
  const code = character.charCodeAt(0)
  return code < 0x80 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`
}

/** An argument as a shell takes it; what could move the cursor is written as an escape. */
export const quoted = (argument: string): string => {
  if (/^[\w@%+=:,./-]+$/.test(argument)) return argument
  if (plain(argument) === argument) return `'${argument.replaceAll("'", "'\\''")}'`
  const inner = argument.replace(/['\\]/g, "\\$&")
  return `$'${Array.from(inner, (character) => (plain(character) === character ? character : escaped(character))).join("")}'`
}

/** A flag with its value, also a value that looks like a flag. */
export const flagged = (name: string, value: string): ReadonlyArray<string> =>
  value.startsWith("-") ? [`${name}=${value}`] : [name, value]
