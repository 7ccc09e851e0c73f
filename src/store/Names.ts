/**
 * What runs, agents, tags and pools may be called by: what every database gives back as it was. Postgres takes no NUL in a
 * text, and half of a surrogate pair becomes another letter on its way into SQLite, so that two ids would be one. What
 * else a run says is stored as JSON, which writes both in other letters. And a text that is looked up by has to fit into
 * an index, which on Postgres has room for 2,704 bytes an entry. Beside that, what the options of a caller may be called.
 */
import * as Given from "../run/Given.ts"
import { RunStoreError } from "./RunStore.ts"

/**
 * How long what something is called by may be, in bytes of UTF-8. The widest index has an agent, a tag, a status, a time and
 * a run id, which take 2,554 bytes and some thirty around them; of a pool it has its name and the key of a claim. What a
 * run is called by whoever starts it leaves room for the runs of its sub-agents, each of which is called by the one above
 * it and its call, in 129 bytes at most: eleven one below the other.
 */
export const mostBytes = { givenId: 512, id: 2_000, name: 256, key: 2_300 } as const

/**
 * What is wrong with a text that something is to be called by; `undefined` if nothing is. It may have `most` bytes, by
 * default as many as the id of a run.
 */
export const problemOf = (text: string, most: number = mostBytes.id): string | undefined => {
  const bytes = 3 * text.length <= most ? 0 : Buffer.byteLength(text)
  if (bytes > most)
    return `${JSON.stringify(text.slice(0, 40))}… has ${bytes} bytes, and more than ${most} are not kept: take a shorter one`
  return text.isWellFormed() && !text.includes("\0")
    ? undefined
    : `${JSON.stringify(text)} has a NUL or half of a surrogate pair in it, which not every database can keep: take another one`
}

const invalid = (runId: string, what: string, problem: string) =>
  new RunStoreError({ runId, kind: "invalid", problem: `${what} ${problem}` })

/** Why something that names these is refused, if it is. */
export const refusal = (
  runId: string,
  what: string,
  texts: ReadonlyArray<string | undefined>,
  most?: number
): RunStoreError | undefined => {
  for (const text of texts) {
    const problem = text === undefined ? undefined : problemOf(text, most)
    if (problem !== undefined) return invalid(runId, what, problem)
  }
  return undefined
}

/**
 * Why a run cannot have this id, of so many bytes at most, if it cannot. An empty one is none: all who left theirs empty
 * would share one run, and its answer.
 */
export const refusedId = (runId: string, most: number = mostBytes.id): RunStoreError | undefined =>
  runId === "" ? invalid(runId, "the id of the run", "is empty") : refusal(runId, "the id", [runId], most)

// Holes are no texts either.
const areTexts = (value: unknown): value is ReadonlyArray<string> =>
  Array.isArray(value) && Array.from(value).every((each) => typeof each === "string")

/**
 * Why a run cannot have these tags, if it cannot. What is no list of texts would be kept by some stores, and could not be
 * read again.
 */
export const refusedTags = (runId: string, tags: unknown): RunStoreError | undefined => {
  if (tags === undefined) return undefined
  return areTexts(tags)
    ? refusal(runId, "its tag", tags, mostBytes.name)
    : invalid(runId, "its tags", "have to be a list of texts")
}

/** Why options are refused, if they are: one that is misspelt, or a date that is none, would be no condition. */
export const refusedOptions = <Options>(runId: string, options: Options, kinds: Given.Kinds<Options>) => {
  const problem = Given.problemOf(options, "options", kinds)
  return problem === undefined ? undefined : new RunStoreError({ runId, kind: "invalid", problem })
}
