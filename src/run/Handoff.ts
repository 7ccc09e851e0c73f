/**
 * What a run leaves to whoever takes the work over: what was looked at, what was found, what still goes on, what is not
 * known, what is missing, and how to go on.
 *
 * It is worked out from the state when it is read, and never stored: the journal has everything in it already.
 */
import * as Schema from "effect/Schema"
import { lastWords } from "./Answer.ts"
import { Question } from "./Call.ts"
import * as EvidenceIndex from "./EvidenceIndex.ts"
import { type Showing, Step, stepsOf } from "./GoingOn.ts"
import { Exhausted } from "./Limits.ts"
import type { Message } from "./Message.ts"
import { Handling, OperationOutcome, Parent, Contract as RunContract } from "./RunEvent.ts"
import * as State from "./RunState.ts"
import { Reason, RunStatus } from "./RunStatus.ts"
import { approvalsOf, questionOf, unknownOf } from "./Waiting.ts"

/** What the lists of a handoff are made of. */
export type { Child, Command, FileRead, Observation, Source } from "./EvidenceIndex.ts"
/** How the ways to go on are told, and to whom. */
export type { Action, Resume, Showing, Step } from "./GoingOn.ts"
/** A handoff in words. */
export { type Section, sections, toMarkdown } from "./HandoffText.ts"

const { Call, cut, inShort } = EvidenceIndex

const CallOfRun = Schema.Struct({ runId: Schema.String, ...Call.fields })

/**
 * Work that still goes on as far as the run knows: with which tool it is looked at, and what was done about it when the
 * run stopped. It has neither succeeded nor failed.
 */
export const LiveOperation = Schema.Struct({
  operationId: Schema.String,
  callId: Schema.String,
  tool: Schema.String,
  label: Schema.String,
  observe: Schema.String,
  handling: Schema.optionalKey(Handling)
})
/** Work that still goes on, and the tool with which it is looked at. */
export type LiveOperation = typeof LiveOperation.Type

/** Work that a call has started and that came to its end. */
export const EndedOperation = Schema.Struct({
  operationId: Schema.String,
  callId: Schema.String,
  tool: Schema.String,
  label: Schema.String,
  outcome: OperationOutcome,
  detail: Schema.String
})
/** Work that is over, and how it ended. */
export type EndedOperation = typeof EndedOperation.Type

/** A call without a result that is taken up when the run is: it runs, is first asked about, or waits for a child run. */
export const Pending = Schema.Struct({
  ...Call.fields,
  standing: Schema.Literals(["will_run", "will_ask", "child_waits", "running"]),
  child: Schema.optionalKey(Schema.String)
})
/** A call without a result, and what becomes of it when the run is taken up. */
export type Pending = typeof Pending.Type

/**
 * What the run has to come to: the tool that takes it, its parameters as a JSON Schema unless that is long, what is still
 * lacking, and why the last submission was not taken.
 */
export const Contract = Schema.Struct({
  ...RunContract.fields,
  lacks: Schema.optionalKey(Schema.String),
  refused: Schema.optionalKey(Schema.String)
})
/** What the run has to come to, and what it still lacks. */
export type Contract = typeof Contract.Type

/**
 * How much of a resource was used, of which limit, and how much of that is kept for a handoff. `unpriced` money counts a
 * model as free whose price is not known.
 */
export const Spent = Schema.Struct({
  used: Schema.Finite,
  limit: Schema.optionalKey(Schema.Finite),
  reserve: Schema.optionalKey(Schema.Finite),
  unpriced: Schema.optionalKey(Schema.Literal(true))
})
/** How much of one resource was used, of which limit. */
export type Spent = typeof Spent.Type

/**
 * A handoff; plain JSON. Its fields in words:
 *
 * - `runId`, `agent`, `parent`, `startedAt`, `stoppedAt` (ISO 8601): which run, and since when it says nothing more
 * - `status`, `reason`, `detail`, `exhausted`: why it stopped
 * - `task`: what it was asked; `summary`: what the model said of it in its handoff, `earlierSummary` in one before the
 *   run was last resumed; `lastWords`: without a summary, what it has said last
 * - `sources`, `files`, `commands`, `changes`, `observations`, `children`: what was looked at, done and found, oldest
 *   first; `changes` are the calls that may have changed something, `observations` the others
 * - `operations`, `endedOperations`: work that goes on, and work that went on
 * - `unknown`: calls that were started and of which nobody can tell whether they happened; none of them has failed
 * - `waiting`: what waits for people, and what is taken up with the run
 * - `refused`: what the model still asked for when it was too late; `contract`: what has to be submitted
 * - `spend`: money in USD, time in milliseconds; `next`: how to go on
 * - `leftOut`: how many of the older entries of a list are not in it; they are in the journal
 */
export const Handoff = Schema.Struct({
  runId: Schema.String,
  agent: Schema.String,
  parent: Schema.optionalKey(Parent),
  startedAt: Schema.String,
  stoppedAt: Schema.String,
  status: RunStatus,
  reason: Schema.optionalKey(Reason),
  detail: Schema.optionalKey(Schema.String),
  exhausted: Schema.optionalKey(Exhausted),
  task: Schema.String,
  summary: Schema.optionalKey(Schema.String),
  earlierSummary: Schema.optionalKey(Schema.String),
  lastWords: Schema.optionalKey(Schema.String),
  sources: Schema.Array(EvidenceIndex.Source),
  files: Schema.Array(EvidenceIndex.FileRead),
  commands: Schema.Array(EvidenceIndex.Command),
  changes: Schema.Array(EvidenceIndex.Observation),
  observations: Schema.Array(EvidenceIndex.Observation),
  children: Schema.Array(EvidenceIndex.Child),
  operations: Schema.Array(LiveOperation),
  endedOperations: Schema.Array(EndedOperation),
  unknown: Schema.Array(CallOfRun),
  waiting: Schema.Struct({
    approvals: Schema.Array(CallOfRun),
    question: Schema.optionalKey(Question),
    calls: Schema.Array(Pending)
  }),
  refused: Schema.Array(Call),
  contract: Schema.optionalKey(Contract),
  spend: Schema.Struct({
    turns: Spent,
    usd: Spent,
    tokens: Spent,
    toolCalls: Spent,
    timeMs: Spent,
    deadline: Schema.optionalKey(Schema.String)
  }),
  next: Schema.Array(Step),
  leftOut: Schema.Struct({
    sources: Schema.Natural,
    files: Schema.Natural,
    commands: Schema.Natural,
    changes: Schema.Natural,
    observations: Schema.Natural,
    children: Schema.Natural,
    endedOperations: Schema.Natural,
    refused: Schema.Natural
  })
})
/** What a run leaves to whoever takes the work over: plain JSON, as `of` makes it. */
export type Handoff = typeof Handoff.Type

/** The most entries of a list, and characters of a text. */
const most = { entries: 200, task: 4000, words: 8000, refused: 1000 }

const taskOf = ({ given, messages }: State.RunState): string => {
  const asked = messages.slice(0, given).findLast((message) => message.role === "user")
  return asked === undefined ? "" : cut(saidBy(asked), most.task)
}

const saidBy = ({ content }: Extract<Message, { role: "user" }>): string =>
  typeof content === "string"
    ? content
    : content
        .map((part) => (part.type === "text" ? part.text : `[${part.fileName ?? part.mediaType}]`))
        .join("\n")

/** What the model has said: in this handoff, in an earlier one, or else last of all. */
const wordsOf = (state: State.RunState) => {
  const { answered, phase, status, summary } = state
  if (summary !== undefined) {
    const words = cut(summary, most.words)
    return phase === "handoff" && answered ? { summary: words } : { earlierSummary: words }
  }
  if (status === "completed") return undefined
  const text = lastWords(state)
  return text === "" ? undefined : { lastWords: cut(text, most.words) }
}

const standingOf = ({ approval, expires, status }: State.PendingCall): Pending["standing"] => {
  if (status === "suspended") return "child_waits"
  if (status === "running") return "running"
  // By then an approval may have expired.
  return approval === "ask" || expires !== undefined ? "will_ask" : "will_run"
}

/** What is taken up with the run: neither what waits for people, nor what they have declined. */
const pendingOf = ({ pending }: State.RunState): ReadonlyArray<Pending> =>
  pending
    .filter(
      ({ approval, kind, status }) =>
        kind === "tool" && status !== "unknown" && approval !== "required" && approval !== "rejected"
    )
    .map((call) => ({
      ...inShort(call),
      standing: standingOf(call),
      ...(call.suspension === undefined ? undefined : { child: call.suspension.runId })
    }))

const contractOf = ({ contract, messages, pending, status }: State.RunState): Contract | undefined => {
  if (contract === undefined) return undefined
  if (status === "completed") return contract
  if (pending.some(({ kind }) => kind === "submit")) {
    return {
      ...contract,
      lacks: "a valid result was submitted; it is taken once the calls beside it have run"
    }
  }
  const last = messages.findLast((message) => message.role === "tool" && message.tool === contract.tool)
  const lacks = `no valid result was submitted with ${contract.tool}`
  return last?.role === "tool" && !last.ok
    ? { ...contract, lacks, refused: cut(last.content, most.refused) }
    : { ...contract, lacks }
}

const spentOf = (state: State.RunState): Handoff["spend"] => {
  const used = State.used(state)
  const { deadline, reserve, ...limits } = state.limits
  const spent = (name: keyof typeof used): Spent => {
    const limit = limits[name]
    const kept = reserve?.[name]
    return {
      used: used[name],
      ...(limit === undefined ? undefined : { limit }),
      ...(kept === undefined ? undefined : { reserve: kept })
    }
  }
  return {
    turns: spent("turns"),
    usd: { ...spent("usd"), ...(state.unpriced === undefined ? undefined : { unpriced: true }) },
    tokens: spent("tokens"),
    toolCalls: spent("toolCalls"),
    timeMs: spent("timeMs"),
    ...(deadline === undefined ? undefined : { deadline })
  }
}

const operationsOf = ({ operations }: State.RunState) => {
  const live: Array<LiveOperation> = []
  const over: Array<EndedOperation> = []
  for (const { callId, ended, handling, label, observe, operationId, tool } of operations) {
    const operation = { operationId, callId, tool, label }
    if (ended !== undefined) over.push({ ...operation, ...ended })
    else live.push({ ...operation, observe, ...(handling === undefined ? undefined : { handling }) })
  }
  return { live, over }
}

const newest = <A>(items: ReadonlyArray<A>): ReadonlyArray<A> => items.slice(-most.entries)

const leftOutOf = (items: ReadonlyArray<unknown>): number => Math.max(0, items.length - most.entries)

/**
 * The handoff of a run, whatever it has stopped for. Pure, and worked out anew each time: a run that goes on has another
 * one afterwards. Lists hold their newest 200 entries, and `leftOut` counts the others; what waits, what goes on and
 * what is unknown is always there in full. `showing` is for a program that shows it, and has commands for what is to be done.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Handoff } from "checkrein"
 * import { RunStore } from "checkrein/store"
 *
 * declare const analyst: Agent.Agent<string>
 *
 * const program = Agent.run(analyst, "Why does the export lose its last row?").pipe(
 *   Effect.map(({ output }) => output),
 *   Effect.catchTag("BudgetExceeded", ({ handoff }) => Effect.succeed(Handoff.toMarkdown(handoff)))
 * )
 * const later = Effect.map(RunStore.load("night-shift"), ({ state }) => Handoff.of(state))
 * ```
 */
export const of = (state: State.RunState, showing: Showing = {}): Handoff => {
  const { agent, detail, exhausted, parent, reason, runId, startedAt, status, updatedAt } = state
  const { changes, children, commands, files, observations, sources } = EvidenceIndex.of(state)
  const { live, over } = operationsOf(state)
  const refused = state.refused.map(inShort)
  const question = questionOf(state)
  const contract = contractOf(state)
  const ofRun = (call: { readonly runId: string } & Parameters<typeof inShort>[0]) => ({
    runId: call.runId,
    ...inShort(call)
  })
  return {
    runId,
    agent,
    ...(parent === undefined ? undefined : { parent }),
    startedAt,
    stoppedAt: updatedAt,
    status,
    ...(reason === undefined ? undefined : { reason }),
    ...(detail === undefined ? undefined : { detail }),
    ...(exhausted === undefined ? undefined : { exhausted }),
    task: taskOf(state),
    ...wordsOf(state),
    sources: newest(sources),
    files: newest(files),
    commands: newest(commands),
    changes: newest(changes),
    observations: newest(observations),
    children: newest(children),
    operations: live,
    endedOperations: newest(over),
    unknown: unknownOf(state).map(ofRun),
    waiting: {
      approvals: approvalsOf(state).map(ofRun),
      ...(question === undefined ? undefined : { question }),
      calls: pendingOf(state)
    },
    refused: newest(refused),
    ...(contract === undefined ? undefined : { contract }),
    spend: spentOf(state),
    next: stepsOf(state, showing),
    leftOut: {
      sources: leftOutOf(sources),
      files: leftOutOf(files),
      commands: leftOutOf(commands),
      changes: leftOutOf(changes),
      observations: leftOutOf(observations),
      children: leftOutOf(children),
      endedOperations: leftOutOf(over),
      refused: leftOutOf(refused)
    }
  }
}
