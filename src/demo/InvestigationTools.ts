/**
 * The investigator's tools, without their handlers: it may read the sources and start their test, and change nothing.
 *
 * What it is to come to is a contract: no text completes its run, only a result with all three parts does.
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Schema from "effect/Schema"
import * as Operation from "../tool/Operation.ts"
import { recoverable, ToolFailure } from "../tool/ToolFailure.ts"
import * as ToolPolicy from "../tool/ToolPolicy.ts"

const File = Schema.Struct({ path: Schema.String })

/** The text of one file. */
export const ReadSource = Tool.make("read_source", {
  description: "Reads one file of the sources.",
  parameters: File,
  success: Schema.String,
  failure: ToolFailure
}).annotate(Tool.Readonly, true)

/** Starts a test, which goes on after the call. Starting it once more is no harm. */
export const StartTest = Tool.make("start_test", {
  description: "Starts a test file. It goes on after this call.",
  parameters: File,
  success: Operation.Started,
  failure: ToolFailure
}).annotate(Tool.Idempotent, true)

/** Waits for a test, for a while, and says how it stands. */
export const ObserveTest = Tool.make("observe_test", {
  description: "Waits for a test that was started, and says what came of it.",
  parameters: Schema.Struct({ id: Schema.String }),
  success: Operation.Observed,
  failure: ToolFailure
})
  .annotate(Tool.Readonly, true)
  .annotate(ToolPolicy.Purpose, "handoff")

const Note = Schema.Struct({ text: Schema.String })

/** Keeps a note for whoever takes the work over. Saving the same note once more changes nothing. */
export const SaveHandoff = Tool.make("save_handoff", {
  description: "Saves a note for whoever goes on with this work.",
  parameters: Note,
  success: Schema.String,
  failure: ToolFailure
})
  .annotate(Tool.Idempotent, true)
  .annotate(ToolPolicy.Purpose, "handoff")

/** The four tools, in the order in which the model is told of them. */
export const toolkit = Toolkit.make(ReadSource, StartTest, ObserveTest, SaveHandoff)

/** What an investigation has to come to. */
export const Diagnosis = Schema.Struct({
  reproduced: Schema.String.annotate({ description: "The failing test, and what it says." }),
  codePath: Schema.String.annotate({ description: "From the entry to the faulty line, file by file." }),
  explanation: Schema.String.annotate({ description: "Why it fails." })
})

/** What the investigator is told before any task. */
export const instructions =
  "You investigate bugs. You may read the sources and start their tests, and you change nothing. You are done when you have reproduced the failure, and can name the code path and explain it."

/** What it is asked. */
export const task =
  "The export of orders is said to lose orders. Find out why. The sources begin with README.md, and the test is test/export.test.js."

/** What a missing file is answered with: informative, so that a model can help itself. */
export const noSuchFile = (path: string, known: Iterable<string>): ToolFailure =>
  recoverable(`no such file: ${path}. The files are: ${[...known].join(", ")}.`)

/** What a test is answered with that nobody has started. */
export const noSuchTest = (id: string): ToolFailure =>
  recoverable(`no test ${id} was started. Call start_test first, and use the id that it returns.`)
