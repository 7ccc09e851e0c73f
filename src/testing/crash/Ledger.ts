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

/** One line of a ledger. */
export const Entry = Schema.Union([Entered, Left, Happened, Stored])
export type Entry = typeof Entry.Type

/** The entries of one kind. */
export type Of<Tag extends Entry["_tag"]> = Extract<Entry, { readonly _tag: Tag }>

/** A ledger: written at once, and never rewritten. */
export interface Ledger {
  readonly write: (entry: Entry) => void
  readonly read: () => ReadonlyArray<Entry>
}

/** A ledger in memory. */
export const memory = (): Ledger => {
  const entries: Array<Entry> = []
  return { write: (entry) => void entries.push(entry), read: () => entries.slice() }
}

const decode = Schema.decodeUnknownSync(Schema.fromJsonString(Entry))

/** A ledger in a file, a line for each entry. What is written is safe from the death of the process when it is written. */
export const file = (path: string): Ledger => ({
  write: (entry) => appendFileSync(path, `${JSON.stringify(entry)}\n`),
  read: () =>
    existsSync(path)
      ? readFileSync(path, "utf8")
          .split("\n")
          .filter((line) => line !== "")
          .map((line) => decode(line))
      : []
})

const nowhere: Ledger = { write: () => {}, read: () => [] }

/** The ledger of the run that is being tested. Elsewhere nothing is kept. */
export const Current: Context.Reference<Ledger> = Context.Reference("checkrein/testing/Ledger", {
  defaultValue: () => nowhere
})
