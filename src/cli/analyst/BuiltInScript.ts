/**
 * The model of `checkrein run` where no endpoint is named: a script that knows how to find a word in the files of a
 * directory. It makes the command work out of the box, without a key; it does not understand anything.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Scripted from "../../provider/Scripted.ts"

/** The name under which the script is served and priced. */
export const name = "built-in"

/** Made-up prices, in USD per million tokens, so that a money limit can be tried. */
export const price = { input: 2, output: 12 } as const

/** More than any of its replies has, so that `--money hold` can be tried too. */
export const maxOutputTokens = 2_000

/** As many files are named in one answer. */
const mostNamed = 20

const common = new Set(
  [
    "about any are contain contains directory does file files find folder from give have how log logs look many mention",
    "mentions name please read say search show tell that the there these this those what when where which with word"
  ]
    .join(" ")
    .split(" ")
)

/** The word that a task is about: what stands in quotes, or else its longest word that is not a common one. */
const wordOf = (task: string): string => {
  const quoted = /["'“‘`]([^"'”’`]+)["'”’`]/.exec(task)?.[1]
  if (quoted !== undefined) return quoted
  const words = task.match(/[\p{L}\p{N}_.-]*[\p{L}\p{N}]/gu) ?? []
  const telling = words.filter((word) => word.length > 2 && !common.has(word.toLowerCase()))
  return telling.reduce((longest, word) => (word.length > longest.length ? word : longest), "")
}

const decoded = <S extends Schema.Codec<unknown, unknown>>(schema: S) => {
  const decode = Schema.decodeUnknownOption(Schema.fromJsonString(schema))
  return (text: string) => decode(text)
}

const Listing = Schema.Struct({
  files: Schema.Array(Schema.Struct({ path: Schema.String })),
  note: Schema.optionalKey(Schema.String)
})
const listingOf = decoded(Listing)
const searchOf = decoded(
  Schema.Struct({
    searched: Schema.Natural,
    found: Schema.Array(
      Schema.Struct({
        path: Schema.String,
        lines: Schema.Natural,
        first: Schema.String
      })
    ),
    note: Schema.optionalKey(Schema.String)
  })
)

/** What is missing from an answer, behind it. */
const noted = (answer: string, note: string | undefined): string =>
  note === undefined ? answer : `${answer} ${note}`

const asksToDelete = (task: string): boolean => /\b(delete|remove)\b/i.test(task)

const second = (transcript: Scripted.Transcript): Scripted.Reply => {
  const { task } = transcript
  const listing = listingOf(transcript.toolResults[0] ?? "")
  const { files: listed, note } = Option.getOrElse(listing, (): typeof Listing.Type => ({ files: [] }))
  const files = listed.map(({ path }) => path)
  if (asksToDelete(task)) {
    const named = files.find((path) => task.includes(path))
    return named === undefined
      ? Scripted.text("The task names no file that exists, so I delete nothing.")
      : Scripted.call("delete_file", { path: named })
  }
  const word = wordOf(task)
  return word === "" || /\bhow many files\b/i.test(task)
    ? Scripted.text(noted(files.length === 1 ? "There is 1 file." : `There are ${files.length} files.`, note))
    : Scripted.call("scan_archive", { text: word })
}

const third = (transcript: Scripted.Transcript): Scripted.Reply => {
  const { lastToolResult, task } = transcript
  if (asksToDelete(task)) {
    const declined = lastToolResult.startsWith("Declined")
    return Scripted.text(declined ? "I did not delete anything: you declined." : lastToolResult)
  }
  const search = searchOf(lastToolResult)
  if (search._tag === "None") return Scripted.text(`I could not search the files: ${lastToolResult}`)
  const [most, ...others] = search.value.found
  const { note } = search.value
  if (most === undefined) {
    return Scripted.text(
      noted(`None of the ${search.value.searched} text files mentions "${wordOf(task)}".`, note)
    )
  }
  const more = others.length > mostNamed ? ` and ${others.length - mostNamed} more` : ""
  const also =
    others.length === 0
      ? ""
      : `; so do ${others
          .slice(0, mostNamed)
          .map(({ path }) => path)
          .join(", ")}${more}`
  return Scripted.text(
    `${most.path} mentions "${wordOf(task)}": ${most.first}${also}${note === undefined ? "" : `. ${note}`}`
  )
}

/** What is said where the task may not go on: the harness asks for a handoff in a message of its own. */
const handoff = ({ toolResults }: Scripted.Transcript): Scripted.Reply => {
  const last = toolResults.findLast((result) => !result.startsWith("Not run"))
  return Scripted.text(
    last === undefined
      ? "I had to stop before I had looked at anything."
      : `I had to stop before I had an answer. The last that I saw: ${last.slice(0, 500)}`
  )
}

const needed = ["list_files", "scan_archive"]

/** What is said to an agent that is none of the log analyst's kind. */
const elsewhere = (tools: ReadonlyArray<string>): Scripted.Reply =>
  Scripted.text(
    `I am a script that searches files with ${needed.join(" and ")}, and this agent has ${tools.length === 0 ? "no tools" : `other tools (${tools.join(", ")})`}. LLM_MODEL=plan answers whatever it is asked.`
  )

/** The script: lists the files, then searches them for the word that the task is about, or deletes the one it names. */
export const script: Scripted.Script = Scripted.make(name, (_, transcript) => {
  if (/\bWrite a handoff\b/.test(transcript.task)) return handoff(transcript)
  // Counted from the last question, so that a run which was resumed with a message begins anew.
  const since = transcript.messages.findLastIndex((message) => message.role === "user")
  const turn = transcript.messages.slice(since).filter((message) => message.role === "assistant").length
  if (turn === 0 && !needed.every((tool) => transcript.tools.includes(tool)))
    return elsewhere(transcript.tools)
  if (turn === 0) return Scripted.call("list_files", {})
  return turn === 1 ? second(transcript) : third(transcript)
})
