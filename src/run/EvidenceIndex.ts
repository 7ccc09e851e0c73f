/**
 * What a run has found, for whoever has not read its transcript: an index of the calls that ran and of what their tools
 * say that they have seen.
 */
import * as Schema from "effect/Schema"
import { CallEffect } from "./Call.ts"
import * as PlainText from "./PlainText.ts"
import type { Evidence } from "./RunEvent.ts"
import { childId, type Finding, type PendingCall, type RunState } from "./RunState.ts"

/** A call, its arguments as JSON text, cut when they are long. */
export const Call = Schema.Struct({ callId: Schema.String, tool: Schema.String, args: Schema.String })
/** A call of the index, its arguments cut when they are long. */
export type Call = typeof Call.Type

/** A root or a revision that was looked at. */
export const Source = Schema.Struct({ name: Schema.String, digest: Schema.optionalKey(Schema.String) })
/** A root or a revision, by its name and digest. */
export type Source = typeof Source.Type

/** A file that was read, by the digest of what was read; `part` says which part, if not all of it. */
export const FileRead = Schema.Struct({
  callId: Schema.String,
  name: Schema.String,
  digest: Schema.optionalKey(Schema.String),
  part: Schema.optionalKey(Schema.String)
})
/** A file, and the call that read it. */
export type FileRead = typeof FileRead.Type

/** A command that came to its end; `outcome` says how, if its tool did. */
export const Command = Schema.Struct({
  callId: Schema.String,
  tool: Schema.String,
  name: Schema.String,
  outcome: Schema.optionalKey(Schema.String),
  digest: Schema.optionalKey(Schema.String)
})
/** A command, and the call that ran it to its end. */
export type Command = typeof Command.Type

/**
 * A call that ran and is not told as a file or a command. `effect` is what such a call may do to the world, `saw` what
 * its tool says that it has seen; without that, `result` is how its result begins, in the words that the model saw.
 * `digest` is that of the result, and `times` counts the calls that brought the very same.
 */
export const Observation = Schema.Struct({
  ...Call.fields,
  effect: CallEffect,
  ok: Schema.Boolean,
  saw: Schema.optionalKey(Schema.String),
  result: Schema.optionalKey(Schema.String),
  digest: Schema.optionalKey(Schema.String),
  times: Schema.Natural
})
/** A call that is neither a read file nor a command, and what it saw. */
export type Observation = typeof Observation.Type

/**
 * A run that a call has started: what it has cost by now (USD), whether it brought an answer, and how that, or what was
 * told in its place, begins. With `unpriced`, some of it has no known price, and counts as free.
 */
export const Child = Schema.Struct({
  runId: Schema.String,
  ...Call.fields,
  costUsd: Schema.Finite,
  unpriced: Schema.optionalKey(Schema.Literal(true)),
  standing: Schema.Literals(["answered", "no_answer", "not_over"]),
  result: Schema.optionalKey(Schema.String)
})
/** A run that a call has started, and what came of it. */
export type Child = typeof Child.Type

/** The index, oldest first. `changes` are the calls that may have changed something, `observations` all others. */
export interface EvidenceIndex {
  readonly sources: ReadonlyArray<Source>
  readonly files: ReadonlyArray<FileRead>
  readonly commands: ReadonlyArray<Command>
  readonly changes: ReadonlyArray<Observation>
  readonly observations: ReadonlyArray<Observation>
  readonly children: ReadonlyArray<Child>
}

const costOf = ({ childCostUsd, childUnpriced }: Pick<Finding, "childCostUsd" | "childUnpriced">) =>
  childCostUsd === undefined
    ? undefined
    : { costUsd: childCostUsd, ...(childUnpriced === undefined ? undefined : { unpriced: childUnpriced }) }

/** A text of at most so many characters; of a longer one its beginning, and how long it is. */
export const cut = (text: string, most: number): string =>
  text.length <= most ? text : `${PlainText.head(text, most)}… (${text.length} characters)`

const most = { args: 200, result: 200, answer: 600 }

/** A call in short. */
export const inShort = ({ args, callId, tool }: Pick<PendingCall, "callId" | "tool" | "args">): Call => ({
  callId,
  tool,
  args: cut(JSON.stringify(args), most.args)
})

const changes = ({ effect }: Observation): boolean => effect !== "read"

/** Which of a call's evidence tells what the call itself has brought: a source is only where it looked. */
const tells = ({ kind }: Evidence): boolean => kind !== "source"

const fileOf = (callId: string, { digest, name, outcome }: Evidence): FileRead => ({
  callId,
  name,
  ...(digest === undefined ? undefined : { digest }),
  ...(outcome === undefined ? undefined : { part: outcome })
})

/** Adds an item unless its like is there already. */
const add = <A>(items: Map<string, A>, key: ReadonlyArray<string | undefined>, item: A): void => {
  const text = JSON.stringify(key)
  if (!items.has(text)) items.set(text, item)
}

/** The results of all calls, in the words that the model saw. */
const resultsOf = ({ given, messages }: RunState): ReadonlyMap<string, string> => {
  const results = new Map<string, string>()
  for (const message of messages.slice(given)) {
    if (message.role === "tool") results.set(message.callId, message.content)
  }
  return results
}

/** What was found, of all calls that ran. A call whose tool has reported nothing is there by the digest of its result. */
export const of = (state: RunState): EvidenceIndex => {
  const sources = new Map<string, Source>()
  const files = new Map<string, FileRead>()
  const observations = new Map<string, Observation>()
  const commands: Array<Command> = []
  const children: Array<Child> = []
  const results = resultsOf(state)
  const begun = new Set(state.operations.map(({ callId }) => callId))

  const observe = (observation: Omit<Observation, "times">): void => {
    const { args, digest, effect, ok, result, saw, tool } = observation
    const key = JSON.stringify([tool, args, effect, ok, saw, digest ?? result])
    const before = observations.get(key)
    observations.set(key, { ...(before ?? observation), times: (before?.times ?? 0) + 1 })
  }
  const report = (callId: string, tool: string, evidence: ReadonlyArray<Evidence>): void => {
    for (const item of evidence) {
      const { digest, kind, name, outcome } = item
      const withDigest = digest === undefined ? undefined : { digest }
      if (kind === "source") add(sources, [name, digest], { name, ...withDigest })
      if (kind === "file") add(files, [name, digest, outcome], fileOf(callId, item))
      if (kind === "command") {
        commands.push({
          callId,
          tool,
          name,
          ...(outcome === undefined ? undefined : { outcome }),
          ...withDigest
        })
      }
    }
  }

  for (const finding of state.findings) {
    const { callId, digest, effect, evidence, ok, tool } = finding
    const cost = costOf(finding)
    const call = inShort(finding)
    report(callId, tool, evidence)
    if (cost !== undefined) {
      const answer = results.get(callId)
      children.push({
        runId: childId(state.runId, callId),
        ...call,
        ...cost,
        standing: ok ? "answered" : "no_answer",
        ...(answer === undefined ? undefined : { result: cut(answer, most.answer) })
      })
      continue
    }
    const what = { ...call, effect, ok, ...(digest === undefined ? undefined : { digest }) }
    for (const { digest: own, kind, name, outcome } of evidence) {
      if (kind !== "observation") continue
      const saw = outcome === undefined ? name : `${name}: ${outcome}`
      observe({ ...what, saw, ...(own === undefined ? undefined : { digest: own }) })
    }
    // A failure is told even if something was seen before it. The start of an operation is told as that operation.
    if (ok && (begun.has(callId) || evidence.some(tells))) continue
    const result = results.get(callId)
    observe({ ...what, ...(result === undefined ? undefined : { result: cut(result, most.result) }) })
  }
  for (const call of state.pending) {
    report(call.callId, call.tool, call.evidence ?? [])
    const cost = costOf(call)
    if (cost === undefined) continue
    children.push({
      runId: call.suspension?.runId ?? childId(state.runId, call.callId),
      ...inShort(call),
      ...cost,
      standing: "not_over"
    })
  }
  for (const observation of ofProvider(state)) observe(observation)
  return {
    sources: [...sources.values()],
    files: [...files.values()],
    commands,
    changes: [...observations.values()].filter(changes),
    observations: [...observations.values()].filter((observation) => !changes(observation)),
    children
  }
}

/** The calls that the provider has executed itself: nobody here knows what they did to the world. */
const ofProvider = ({ given, messages }: RunState): ReadonlyArray<Omit<Observation, "times">> =>
  messages.slice(given).flatMap((message) => {
    if (message.role !== "assistant") return []
    return message.content.flatMap((part) => {
      if (part.type !== "tool-result") return []
      const asked = message.content.find((other) => other.type === "tool-call" && other.id === part.id)
      const args = asked?.type === "tool-call" ? asked.params : null
      const call = inShort({ callId: part.id, tool: part.name, args })
      const result = cut(
        typeof part.result === "string" ? part.result : JSON.stringify(part.result),
        most.result
      )
      return [{ ...call, effect: "write" as const, ok: !part.isFailure, result }]
    })
  })
