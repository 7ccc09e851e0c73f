/**
 * The log analyst's tools, without their handlers: `Fixture` serves them from three files in memory, `checkrein run`
 * from a real directory.
 *
 * The words are chosen with care: with them the first request of every scenario counts 204 prompt tokens, as in the
 * published measurements that the demo reproduces.
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Schema from "effect/Schema"
import { ToolFailure } from "../tool/ToolFailure.ts"

const File = Schema.Struct({ path: Schema.String })

/** Whether a call's arguments name a file. */
export const isFile = Schema.is(File)

/** The names of all files. */
export const ListFiles = Tool.make("list_files", {
  description: "Lists the log files.",
  success: Schema.Array(Schema.String),
  failure: ToolFailure
}).annotate(Tool.Readonly, true)

/** The content of one file. */
export const ReadFile = Tool.make("read_file", {
  description: "Reads one file.",
  parameters: File,
  success: Schema.String,
  failure: ToolFailure
}).annotate(Tool.Readonly, true)

/** Deletes a file, if a person approves. Deleting a file that is gone succeeds. */
export const DeleteFile = Tool.make("delete_file", {
  description: "Deletes one file for good.",
  parameters: File,
  success: Schema.String,
  failure: ToolFailure,
  needsApproval: true
})

/** Takes its time, and tells how far it has come. */
export const ScanArchive = Tool.make("scan_archive", {
  description: "Scans the archive of old logs, which is slow.",
  success: Schema.String,
  failure: ToolFailure
}).annotate(Tool.Readonly, true)

/** The four tools, in the order in which the model is told of them. */
export const toolkit = Toolkit.make(ListFiles, ReadFile, DeleteFile, ScanArchive)

/** What the analyst is told before any task. */
export const instructions =
  "You are a log analyst. Look into the files before you answer, and answer in one sentence that names the file."

/** The task of every scenario. */
export const task = "Which log file mentions a timeout?"

/** What a missing file is answered with: informative, so that a model can help itself. */
export const noSuchFile = (path: string): ToolFailure =>
  new ToolFailure({
    kind: "recoverable",
    message: `no such file: ${path}. Call list_files to see what exists.`
  })

/** What a file that nobody may read is answered with: no further attempt will change that. */
export const permissionDenied = (path: string): ToolFailure =>
  new ToolFailure({ kind: "permanent", message: `permission denied: ${path}` })
