/**
 * The models of the demo: what each scenario's model answers, as a pure function of the transcript.
 */
import * as Script from "../provider/Script.ts"
import * as ExportTree from "./ExportTree.ts"

const list = (id: string) => Script.call("list_files", {}, { id })
const read = (path: string, id: string) => Script.call("read_file", { path }, { id })
const remove = (path: string, id: string) => Script.call("delete_file", { path }, { id })

const found = "errors.log mentions a timeout."

/** Looks, reads and answers: what a good run looks like. */
export const plan = Script.make("plan", [
  list("c1"),
  read("errors.log", "c2"),
  Script.text("errors.log mentions a timeout: worker 7 timed out after 30000 ms.")
])

/** Lists the files again and again. */
export const runaway = Script.make("runaway", (turn) => list(`c${turn}`))

/** Guesses a file name, and recovers if the error says how. */
export const recover = Script.make("recover", (turn, { saw }) => {
  if (turn === 0) return read("timeout.log", "c1")
  if (!saw("Call list_files")) return Script.text("I could not read the file, so I do not know.")
  if (turn === 1) return list("c2")
  return turn === 2 ? read("errors.log", "c3") : Script.text(found)
})

/** Asks for a file that it may not read, whatever it is told. */
export const denied = Script.make("denied", (turn) => read("private/audit.log", `c${turn}`))

/** Reads the same file twice. */
export const repeat = Script.make("repeat", [
  read("errors.log", "c1"),
  read("errors.log", "c2"),
  Script.text(found)
])

/** Reads it once: what `repeat` is compared with. */
export const repeatBaseline = Script.make("repeat-baseline", [read("errors.log", "c1"), Script.text(found)])

/** Wants to delete a file, and believes that it did unless it is told otherwise. */
export const destructive = Script.make("destructive", [
  list("c1"),
  remove("access.log", "c2"),
  ({ lastToolResult }) =>
    Script.text(
      /declined/i.test(lastToolResult)
        ? "I did not delete anything: you declined the deletion."
        : "Deleted access.log to free space."
    )
])

/** Deletes the same file twice, for good reason or not. */
export const doubleDelete = Script.make("double-delete", [
  remove("access.log", "c1"),
  remove("access.log", "c2"),
  Script.text("Deleted access.log.")
])

/** Starts a slow tool. */
export const slow = Script.make("slow", [
  Script.call("scan_archive", {}, { id: "c1" }),
  Script.text("No file in the archive mentions a timeout.")
])

const fault = "src/pages.js"
const codePath = `src/export.js (exportOrders) → ${fault} (pagesOf): from + size <= rows`
const explanation = "the last page is left out if it is not full"

const noteOf = (reproduced: string | undefined): string =>
  reproduced === undefined
    ? "Looked at the sources. The test has not come to its end, so nothing is reproduced yet."
    : `Reproduced: ${reproduced}. Suspect: ${codePath}, so that ${explanation}. Open: look at ${fault} once more, and submit.`

/**
 * Reads everything there is, starts the test, waits for it and saves a note; with room for more it looks at the faulty
 * file once more, and submits. The useful file comes last. Told to hand over, it goes straight to what a handoff needs.
 */
export const investigate = Script.make("investigate", (turn, { lastToolResult, task, toolResults }) => {
  const call = (name: string, args: object) => Script.call(name, args, { id: `c${turn}` })
  const times = (text: string) => toolResults.filter((content) => content === text).length
  const [unread] = [...ExportTree.files].filter(([, text]) => times(text) === 0)
  const started = toolResults.some((content) => content.startsWith("Started: "))
  const [reproduced] = toolResults.flatMap(
    (content) => /\d+ of \d+ tests failed: .+/.exec(content)?.[0] ?? []
  )
  const handsOver = /\bWrite a handoff\b/.test(task)

  if (unread !== undefined && !handsOver) return call("read_source", { path: unread[0] })
  if (!started && !handsOver) return call("start_test", { path: ExportTree.test })
  if (started && reproduced === undefined) return call("observe_test", { id: "test-1" })
  if (times("Saved.") === 0) return call("save_handoff", { text: noteOf(reproduced) })
  const looks = times(ExportTree.files.get(fault) ?? "")
  if (looks < 2 && !lastToolResult.startsWith("Not run")) return call("read_source", { path: fault })
  return reproduced === undefined
    ? Script.text(noteOf(reproduced))
    : call("submit_result", { reproduced, codePath, explanation })
})
