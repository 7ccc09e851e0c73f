/**
 * A log analyst made of rules, in the place of a model where there is none: it lists the files, reads those that the
 * question is about, and answers with the lines that it found. It understands little, but it works on any files, costs
 * nothing and answers the same way each time.
 */
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Script from "../provider/Script.ts"
import type * as Wire from "../provider/Wire.ts"
import * as LogTools from "./LogTools.ts"

/** It does not read more files than this for one question. */
const mostFiles = 20

const Names = Schema.decodeUnknownResult(Schema.fromJsonString(Schema.Array(Schema.String)))
const Arguments = Schema.decodeUnknownResult(Schema.fromJsonString(Schema.Unknown))

/** What the analyst has seen since it was asked. */
interface Evidence {
  readonly names: ReadonlyArray<string> | undefined
  readonly contents: ReadonlyMap<string, string>
  /** The last tool result, for when nothing else makes sense. */
  readonly last: string | undefined
}

const pathsOf = (calls: ReadonlyArray<Wire.ToolCall>) =>
  calls.flatMap((call): ReadonlyArray<readonly [string, string]> => {
    const args = Arguments(call.function.arguments)
    return Result.isSuccess(args) && LogTools.isFile(args.success) ? [[call.id, args.success.path]] : []
  })

const evidenceIn = (messages: ReadonlyArray<Wire.Message>): Evidence => {
  const paths = new Map<string, string>()
  const contents = new Map<string, string>()
  let names: ReadonlyArray<string> | undefined
  let last: string | undefined
  for (const message of messages.slice(messages.findLastIndex(({ role }) => role === "user") + 1)) {
    if (message.role === "assistant") {
      for (const [id, path] of pathsOf(message.tool_calls ?? [])) paths.set(id, path)
    } else if (message.role === "tool" && Predicate.isString(message.content)) {
      last = message.content
      const path = paths.get(message.tool_call_id)
      if (path !== undefined) contents.set(path, last)
      else {
        const listed = Names(last)
        if (Result.isSuccess(listed)) names = listed.success
      }
    }
  }
  return { names, contents, last }
}

const empty = new Set(
  "about after answer does each every file files from have list logs many mention mentions name read says that their them there these they this what when where which with".split(
    " "
  )
)

/** The words that a question is about, cut so that `rotating` finds `rotate`. */
const keywordsOf = (task: string): ReadonlyArray<string> =>
  (task.toLowerCase().match(/\p{L}{4,}/gu) ?? [])
    .filter((word) => !empty.has(word))
    .map((word) => (word.length > 6 ? word.replace(/(ing|ed|es|s|e)$/, "") : word))

const stem = (name: string): string =>
  name
    .toLowerCase()
    .replace(/^.*\//, "")
    .replace(/\.\w+$/, "")

/** The files that a question names, or all. */
const filesFor = (task: string, names: ReadonlyArray<string>): ReadonlyArray<string> => {
  const words = new Set(task.toLowerCase().match(/[\p{L}\p{N}_.-]+/gu) ?? [])
  const named = names.filter((name) => words.has(name.toLowerCase()) || words.has(stem(name)))
  return (named.length > 0 ? named : names).slice(0, mostFiles)
}

const sentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`)

const listed = (names: ReadonlyArray<string>): string =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`

const counted = (names: ReadonlyArray<string>): string =>
  names.length === 1
    ? `There is one file: ${listed(names)}.`
    : `There are ${names.length} files: ${listed(names)}.`

const byLength = (contents: ReadonlyMap<string, string>): string => {
  const [largest] = [...contents].sort(([, a], [, b]) => b.length - a.length)
  return largest === undefined
    ? "There is no file."
    : `The largest file is ${largest[0]}, with ${largest[1].length} characters.`
}

const bySearch = (task: string, contents: ReadonlyMap<string, string>): string => {
  const keywords = keywordsOf(task)
  const finds = [...contents].flatMap(([name, content]) => {
    const line = content
      .split("\n")
      .find((text) => keywords.some((keyword) => text.toLowerCase().includes(keyword)))
    return line === undefined ? [] : [sentence(`${name} mentions it: ${line.trim()}`)]
  })
  return finds.length > 0
    ? finds.join(" ")
    : `None of the files mentions it: ${listed([...contents.keys()])}.`
}

const quoted = (contents: ReadonlyMap<string, string>): string =>
  [...contents].map(([name, content]) => sentence(`${name} says: ${content.trim()}`)).join(" ")

const answer = (task: string, contents: ReadonlyMap<string, string>): string => {
  if (/\b(largest|biggest|longest)\b/i.test(task)) return byLength(contents)
  return /\b(read|says?|summari[sz]e|contents?)\b/i.test(task) ? quoted(contents) : bySearch(task, contents)
}

/**
 * The analyst as a script: what `demo tasks` is put to when no model is configured. `checkrein provider` serves it under
 * the name `analyst`.
 */
export const script = Script.make("analyst", (_, { messages, task }) => {
  const { contents, last, names } = evidenceIn(messages)
  if (names === undefined) return last === undefined ? Script.call("list_files") : Script.text(sentence(last))
  if (/\bhow many\b/i.test(task)) return Script.text(counted(names))
  const unread = filesFor(task, names).filter((name) => !contents.has(name))
  return unread.length > 0
    ? Script.turn(...unread.map((path) => Script.call("read_file", { path })))
    : Script.text(answer(task, contents))
})
