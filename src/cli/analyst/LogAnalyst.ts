/**
 * The agent of `checkrein run`: it answers questions about the files below one directory, and deletes one if a person
 * approves.
 *
 * Its name says which directory it works in, so that a stored run tells with which agent it is taken up again, and a run
 * is never continued on another directory than the one that it has looked at.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Agent from "../../Agent.ts"
import type { Evidence } from "../../run/RunEvent.ts"
import { CurrentCall } from "../../tool/CurrentCall.ts"
import { ToolFailure } from "../../tool/ToolFailure.ts"
import * as ToolPolicy from "../../tool/ToolPolicy.ts"
import type { CommandFailed } from "../Output.ts"
import * as Directory from "./Directory.ts"

const prefix = "log-analyst@"

/** The directory of a stored run of this agent; `undefined` for a run of another agent. */
export const rootOf = (agent: string): string | undefined =>
  agent.startsWith(prefix) ? agent.slice(prefix.length) : undefined

const instructions = [
  "You answer questions about the files of one directory.",
  "Look into the files before you answer, and name the file that an answer comes from.",
  "Paths are relative to the directory."
].join(" ")

const path = Schema.String.annotate({
  description: "The path, as list_files shows it."
})

const ListFiles = Tool.make("list_files", {
  description:
    "Lists the files of the directory or of one of its folders, with all folders below, and their sizes.",
  parameters: Schema.Struct({
    folder: Schema.optionalKey(
      Schema.String.annotate({
        description: "The folder; without it the whole directory."
      })
    )
  }),
  success: Schema.Struct({
    files: Schema.Array(Schema.Struct({ path: Schema.String, bytes: Schema.Finite })),
    note: Schema.optionalKey(Schema.String)
  }),
  failure: ToolFailure
}).annotate(Tool.Readonly, true)

const ReadFile = Tool.make("read_file", {
  description: "Reads a text file. A large one comes in pages; each page says how to get the next.",
  parameters: Schema.Struct({
    path,
    offset: Schema.optionalKey(
      Schema.Natural.annotate({
        description: "The byte to begin at; without it the beginning."
      })
    )
  }),
  success: Schema.String,
  failure: ToolFailure
}).annotate(Tool.Readonly, true)

const ScanArchive = Tool.make("scan_archive", {
  description:
    "Searches all files for a text, in any case, and says in how many lines of which files it occurs.",
  parameters: Schema.Struct({ text: Schema.NonEmptyString }),
  success: Schema.Struct({
    searched: Schema.Natural,
    skipped: Schema.Natural,
    found: Schema.Array(
      Schema.Struct({
        path: Schema.String,
        lines: Schema.Natural,
        first: Schema.String
      })
    ),
    note: Schema.optionalKey(Schema.String)
  }),
  failure: ToolFailure
}).annotate(Tool.Readonly, true)

const DeleteFile = Tool.make("delete_file", {
  description: "Deletes one file for good. A person is asked first.",
  parameters: Schema.Struct({ path }),
  success: Schema.String,
  failure: ToolFailure,
  needsApproval: true
})

const hasPath = Schema.is(Schema.Struct({ path: Schema.String }))

/** What became of a deletion that was cut off: the file is gone, or it is not. */
const lookUp = (directory: Directory.Directory) => (call: ToolPolicy.Call) =>
  hasPath(call.args)
    ? Effect.map(directory.has(call.args.path), (there) =>
        there ? ToolPolicy.didNotHappen : ToolPolicy.happened("The file is gone.")
      )
    : Effect.succeed(ToolPolicy.unknown)

/** Tells where was looked and what was seen, for whoever takes the run over. */
const told = ({ root }: Directory.Directory, ...items: ReadonlyArray<Evidence>): Effect.Effect<void> =>
  Effect.flatMap(CurrentCall, ({ evidence }) =>
    Effect.forEach([{ kind: "source" as const, name: root }, ...items], evidence, { discard: true })
  )

const fileRead = ({ digest, part, path }: Directory.Page): Evidence => ({
  kind: "file",
  name: path,
  digest,
  ...(part === undefined ? undefined : { outcome: part })
})

const searched = (text: string, { found, searched }: Directory.Search): Evidence => {
  const where = found.map(({ lines, path }) => `${path} (${lines})`).join(", ")
  const outcome =
    where === "" ? `in none of ${searched} text files` : `in ${where}, of ${searched} text files`
  return { kind: "observation", name: `searched for ${JSON.stringify(text)}`, outcome }
}

/** The agent for a directory. Fails if there is no such directory. */
export const make = (
  root: string,
  repetition: "on" | "off" = "on"
): Effect.Effect<
  Agent.Agent<string, never, LanguageModel.LanguageModel>,
  CommandFailed,
  FileSystem.FileSystem | Path.Path
> =>
  Effect.map(Directory.open(root), (directory) => {
    const deleteFile = DeleteFile.annotate(ToolPolicy.Reconcile, lookUp(directory))
    const toolkit = Toolkit.make(ListFiles, ReadFile, ScanArchive, deleteFile)
    const handlers = toolkit.toLayer({
      list_files: ({ folder }) => Effect.andThen(told(directory), directory.list(folder ?? "")),
      read_file: ({ offset, path }) =>
        told(directory).pipe(
          Effect.andThen(directory.read(path, offset ?? 0)),
          Effect.tap((page) => told(directory, fileRead(page))),
          Effect.map(({ text }) => text)
        ),
      scan_archive: ({ text }) =>
        Effect.flatMap(CurrentCall, ({ progress }) =>
          directory.search(text, (done, total) =>
            progress(`scanned ${done} of ${total} files`, { done, total })
          )
        ).pipe(Effect.tap((search) => told(directory, searched(text, search)))),
      delete_file: ({ path }) => Effect.andThen(told(directory), directory.remove(path))
    })
    return Agent.make(`${prefix}${directory.root}`, {
      instructions,
      toolkit,
      limits: { turns: 20, time: "10 minutes" },
      policy: repetition === "off" ? { repetition } : {}
    }).pipe(Agent.provide(handlers))
  })
