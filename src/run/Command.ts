/**
 * What people and other processes say to a run. A command goes to the run's inbox; only its driver turns it into an
 * event, so nobody outside can knock out a running driver.
 */
import * as Schema from "effect/Schema"

/**
 * Approves or rejects one call. With `argsDigest`, only if the call still has those very arguments; an approval with
 * `expires` (ISO 8601) only until then.
 */
export const Decide = Schema.Struct({
  type: Schema.Literal("decide"),
  callId: Schema.String,
  decision: Schema.Literals(["approved", "rejected"]),
  argsDigest: Schema.optionalKey(Schema.String),
  args: Schema.optionalKey(Schema.Json),
  expires: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(Schema.String),
  by: Schema.optionalKey(Schema.String)
})
/** A decision about one call. */
export type Decide = typeof Decide.Type

/** Answers the question that a run stopped for. */
export const Answer = Schema.Struct({
  type: Schema.Literal("answer"),
  callId: Schema.String,
  answer: Schema.String,
  by: Schema.optionalKey(Schema.String)
})
/** The answer to the question that a run stopped for. */
export type Answer = typeof Answer.Type

/** Says what became of a call whose outcome was unknown. */
export const Resolve = Schema.Struct({
  type: Schema.Literal("resolve"),
  callId: Schema.String,
  outcome: Schema.Literals(["happened", "did_not_happen"]),
  content: Schema.String,
  by: Schema.optionalKey(Schema.String)
})
/** What became of a call whose outcome was unknown: whether it happened, and what the model is told of it. */
export type Resolve = typeof Resolve.Type

/** Stops the run; `reason` becomes the detail of its ending. */
export const Cancel = Schema.Struct({
  type: Schema.Literal("cancel"),
  reason: Schema.String
})
/** A Stop, and why. */
export type Cancel = typeof Cancel.Type

/** One command. */
export const Command = Schema.Union([Decide, Answer, Resolve, Cancel])
/** A command to a run: a decision, an answer, what became of a call, or a Stop. */
export type Command = typeof Command.Type

/** A command in a run's inbox. Numbers rise within a run, starting with 1. */
export interface Numbered {
  readonly id: number
  readonly command: Command
}
