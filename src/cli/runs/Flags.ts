/**
 * The arguments and flags of the commands of `checkrein runs`, and what each of them is given.
 */
import * as Argument from "effect/cli/Argument"
import type { Command } from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Option from "effect/Option"
import { Reason, RunStatus } from "../../run/RunStatus.ts"
import * as Amount from "../Amount.ts"
import * as LimitFlags from "../LimitFlags.ts"
import * as Output from "../Output.ts"
import { agent, model, trace } from "../RunCommand.ts"
import * as Store from "../Store.ts"

/** Where the runs are, and for whom the result is. */
const common = { store: Store.flag, json: Output.json }

/** A flag that takes a text, and need not be given. */
const text = (name: string, metavar: string, what: string) =>
  Flag.optional(Flag.String(name).pipe(Flag.withMetavar(metavar), Flag.withDescription(what)))

/** A flag that is given or not. */
const yes = (name: string, what: string) =>
  Flag.Boolean(name).pipe(Flag.withDescription(what), Flag.withDefault(false))

/** The run that is meant. */
const id = Argument.String("id").pipe(Argument.withDescription("The run's id"))

/** With what a run is driven on. */
const driving = { agent, model, ...LimitFlags.flags, ...common, trace }

/** Which runs are meant, by what they are. */
const filters = {
  status: Flag.Literals("status", RunStatus.literals).pipe(
    Flag.withDescription("Only runs that stand there"),
    Flag.optional
  ),
  of: text("agent", "NAME", "Only runs of the agent with this name"),
  tag: text("tag", "TAG", "Only runs that were started with this tag")
}

const age: Amount.Kind = { ...Amount.time, expected: 'an age such as 12h, 30d or "2 weeks"' }

/** Of `checkrein runs list`. */
export const list = {
  ...filters,
  reason: Flag.Literals("reason", Reason.literals).pipe(
    Flag.withDescription("Only runs that have stopped for it, such as approval"),
    Flag.optional
  ),
  olderThan: Amount.optional(
    "older-than",
    age,
    "Only runs that were started longer ago than this, such as 30d"
  ),
  newerThan: Amount.optional("newer-than", age, "Only runs that were started since, such as 12h"),
  after: text("after", "ID", "Only runs that come after this one in the list"),
  limit: Amount.flag("limit", Amount.positive, "How many runs (default: 50)").pipe(Flag.withDefault(50)),
  ...common
}
export interface List extends Command.Config.Infer<typeof list> {}

/** Of `checkrein runs show`. */
export const show = {
  id,
  events: yes("events", "Show the journal as well"),
  full: yes("full", "Show every message in full"),
  handoff: yes("handoff", "Print what the run hands over, and nothing else, as Markdown"),
  follow: yes(
    "follow",
    "Show what happens, as it comes, until the run stops; with --json each stored event on a line of its own"
  ),
  agent,
  ...common
}
export interface Show extends Command.Config.Infer<typeof show> {}

/** Of `checkrein runs audit`. */
export const audit = { id, ...common }
export interface Audit extends Command.Config.Infer<typeof audit> {}

/** Of `checkrein runs resume`. */
export const resume = {
  id,
  message: text("message", "TEXT", "The answer to the run's question, or something to tell the model"),
  force: yes("force", "Take up a run that has failed"),
  ...driving
}
export interface Resume extends Command.Config.Infer<typeof resume> {}

/** Of `checkrein runs recover`. */
export const recover = {
  concurrency: Amount.flag(
    "concurrency",
    Amount.positive,
    "How many runs to drive at a time (default: 16)"
  ).pipe(Flag.withDefault(16)),
  ...driving
}
export interface Recover extends Command.Config.Infer<typeof recover> {}

/** Of `checkrein runs cancel`. */
export const cancel = {
  id,
  reason: Flag.String("reason").pipe(
    Flag.withMetavar("TEXT"),
    Flag.withDescription("Why, for the record"),
    Flag.withDefault("cancelled from the command line")
  ),
  ...common
}
export interface Cancel extends Command.Config.Infer<typeof cancel> {}

/** Of `checkrein runs delete`. */
export const remove = {
  id: id.pipe(Argument.optional),
  olderThan: Amount.optional(
    "older-than",
    age,
    "All runs that nothing has happened to for longer than this, such as 30d"
  ),
  all: yes("all", "All runs that the other flags name, of any age"),
  ...filters,
  ...common
}
export interface Delete extends Command.Config.Infer<typeof remove> {}

const call = Argument.String("call").pipe(
  Argument.withDescription("The call's id; not needed when exactly one waits"),
  Argument.optional
)

const by = text("by", "NAME", "Who decides (default: the user of the operating system)")

const resumeToo = yes("resume", "Resume the run at once")

const saying = { by, resume: resumeToo, ...driving }

/** Who says something to which run, and with what that is driven on. */
export interface Said extends Command.Config.Infer<typeof saying> {
  readonly id: string
}

const deciding = { id, call, ...saying }

// Nothing starts in no time.
const lifetime: Amount.Kind = {
  ...Amount.time,
  expected: 'a duration such as 90s, 30m or "2 hours"',
  parse: (text) => Option.filter(Amount.time.parse(text), (ms) => ms > 0)
}

/** Of `checkrein runs approve`. */
export const approve = {
  ...deciding,
  args: text("args", "JSON", "Run the call with these arguments instead"),
  expires: Amount.optional(
    "expires",
    lifetime,
    "How long the call may take to start: after that, it waits for a decision again"
  )
}
export interface Approve extends Command.Config.Infer<typeof approve> {}

/** Of `checkrein runs reject`. */
export const reject = {
  ...deciding,
  reason: text("reason", "TEXT", "What the model is told")
}
export interface Reject extends Command.Config.Infer<typeof reject> {}

/** Of `checkrein runs answer`. */
export const answer = {
  id,
  text: Argument.String("text").pipe(Argument.withDescription("The answer")),
  ...saying,
  by: by.pipe(Flag.withDescription("Who answers (default: the user of the operating system)"))
}
export interface Answer extends Command.Config.Infer<typeof answer> {}

/** Of `checkrein runs resolve`. */
export const resolve = {
  ...deciding,
  call: Argument.String("call").pipe(Argument.withDescription("The call's id")),
  outcome: Argument.Literals("outcome", ["happened", "did-not-happen"]).pipe(
    Argument.withDescription("What became of it: happened or did-not-happen")
  ),
  result: text("result", "TEXT", "What the call has brought, for the model")
}
export interface Resolve extends Command.Config.Infer<typeof resolve> {}
