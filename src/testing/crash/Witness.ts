/**
 * What a run has done outside of its journal, written down where no fault of the run can reach it: in the memory of the
 * test, or in a file beside the process that is killed.
 */
import { appendFileSync, existsSync, readFileSync } from "node:fs"
import * as Context from "effect/Context"
import * as Schema from "effect/Schema"
import { CallEffect, RunEvent } from "../../run/RunEvent.ts"

const call = { runId: Schema.String, callId: Schema.String }

/** A tool's handler was entered. */
const Entered = Schema.TaggedStruct("Entered", {
  ...call,
  tool: Schema.String,
  effect: CallEffect,
  key: Schema.String
})

/**
 * A tool's handler was left: with this content for the model, with a failure, or without having done anything, which is
 * what wrong arguments and a failure that vouches for it (`notExecuted`) come to.
 */
const Left = Schema.TaggedStruct("Left", {
  ...call,
  as: Schema.Literals(["result", "failure", "nothing"]),
  content: Schema.optionalKey(Schema.String)
})

/** Something happened in the world, for this call; under a key, if the world takes keys. */
const Happened = Schema.TaggedStruct("Happened", {
  ...call,
  effect: Schema.String,
  key: Schema.optionalKey(Schema.String)
})

/** The store has acknowledged an event. */
const Stored = Schema.TaggedStruct("Stored", { event: RunEvent })

/** One thing that a witness has seen. */
export const Entry = Schema.Union([Entered, Left, Happened, Stored])
export type Entry = typeof Entry.Type

/** The entries of one kind. */
export type Of<Tag extends Entry["_tag"]> = Extract<Entry, { readonly _tag: Tag }>

/** A witness: what it sees is written down at once, and never rewritten. */
export interface Witness {
  readonly write: (entry: Entry) => void
  readonly read: () => ReadonlyArray<Entry>
}

/** A witness in memory. */
export const memory = (): Witness => {
  const entries: Array<Entry> = []
  return { write: (entry) => void entries.push(entry), read: () => entries.slice() }
}

const decode = Schema.decodeUnknownSync(Schema.fromJsonString(Entry))

/** A witness in a file, a line for each entry. What is written is safe from the death of the process when it is written. */
export const file = (path: string): Witness => ({
  write: (entry) => appendFileSync(path, `${JSON.stringify(entry)}\n`),
  read: () =>
    existsSync(path)
      ? readFileSync(path, "utf8")
          .split("\n")
          .filter((line) => line !== "")
          .map((line) => decode(line))
      : []
})

const nowhere: Witness = { write: () => {}, read: () => [] }

/** The witness of the run that is being tested. Elsewhere nothing is kept. */
export const Current: Context.Reference<Witness> = Context.Reference("checkrein/testing/Witness", {
  defaultValue: () => nowhere
})
