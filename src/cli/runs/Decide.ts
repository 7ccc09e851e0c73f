/**
 * `checkrein runs approve | reject | answer | resolve`: what a person says about a call, or to a question.
 */

import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as Agent from "../../Agent.ts"
import * as Nesting from "../../loop/Nesting.ts"
import * as Summary from "../../loop/Summary.ts"
import { plain } from "../../run/PlainText.ts"
import { load, RunStore, type RunSummary, rootOf } from "../../store/RunStore.ts"
import * as AgentOf from "../AgentOf.ts"
import * as Ending from "../Ending.ts"
import { osUser } from "../OsUser.ts"
import * as Output from "../Output.ts"
import type * as Flags from "./Flags.ts"
import * as Resume from "./Resume.ts"
import * as StoredRun from "./StoredRun.ts"

type Call = RunSummary["approvals"][number]

const naming = (calls: ReadonlyArray<Call>): string =>
  calls.map(({ callId, runId, tool }) => `${callId} (${tool}, of run ${runId})`).join(", ")

/** What a call may wait for. */
const waits = { approvals: "a decision", unknown: "a resolution" } as const

/** The call that is meant: the one that is named, or the only one that waits. */
const meant = Effect.fnUntraced(function* (
  summary: RunSummary,
  of: keyof typeof waits,
  named: Option.Option<string>
) {
  const calls = yield* Summary.waiting(summary, of)
  const what = waits[of]
  const { runId } = summary
  const failed = (message: string) => Effect.fail(new Output.CommandFailed({ message }))
  const matching = Option.isSome(named) ? calls.filter(({ callId }) => callId === named.value) : calls
  // A child's call may have the same id as one of its parent's; the run that was named is meant.
  const own = matching.filter((call) => call.runId === runId)
  const [only, another] = own.length === 1 ? own : matching
  if (only !== undefined && another === undefined) return only
  if (calls.length === 0) return yield* failed(`no call of run ${runId} waits for ${what}`)
  if (matching.length === 0)
    return yield* failed(
      `call ${Option.getOrElse(named, () => "")} of run ${runId} does not wait for ${what}; those that do: ${naming(calls)}`
    )
  return yield* failed(
    `${matching.length} calls of run ${runId} wait for ${what}, so name one of them: ${naming(matching)}`
  )
})

/**
 * Looks whether the run can be resumed, as far as that can be told before anything is said about it: what is recorded
 * stays so, and whoever asks for both wants both.
 */
const ready = Effect.fnUntraced(function* (input: Flags.Said) {
  if (input.resume) yield* AgentOf.ofRun(yield* rootOf(input.id), input.agent)
})

/** What was recorded stays so although the run could not be resumed, for the reason in the message. */
class NotResumed extends Data.TaggedError("NotResumed")<{
  readonly message: string
}> {}

const notResumed = (error: unknown): unknown =>
  error instanceof Output.Quit
    ? error
    : new NotResumed({ message: `recorded, but not resumed: ${Output.sentenceOf(error)}` })

/** What was recorded, and about which call. */
interface Recorded {
  readonly runId: string
  readonly callId: string
  /** What was said, as a program reads it. */
  readonly recorded: string
  /** The same for people. */
  readonly text: string
}

/** Says what was recorded, and how to resume, or resumes. */
const afterwards = (input: Flags.Said, { callId, recorded, runId, text }: Recorded) =>
  Effect.gen(function* () {
    const where = yield* AgentOf.whereOf(runId, input)
    if (input.resume) {
      yield* Output.note(`Recorded: ${plain(text)}.`)
      const resuming = Resume.resume({ ...input, id: where.root, force: false, message: Option.none() })
      return yield* Effect.mapError(resuming, notResumed)
    }
    const { state } = yield* Effect.mapError(load(where.root), notResumed)
    const next = Ending.goOn(state, where)
    yield* Output.result(
      input.json,
      { runId, callId, recorded, next: [next] },
      `Recorded: ${plain(text)}. It counts when the run is resumed:\n  ${next}`
    )
  })

/** Who decides: the user of the operating system, if nobody is named. */
const byWhom = ({ by }: Flags.Said) => Effect.sync(() => Option.getOrUndefined(by) ?? osUser() ?? "unknown")

/** Says something about a call, of those that wait for it. */
const aboutCall = <E, R>(
  input: Flags.Said & { readonly call: Option.Option<string> },
  of: keyof typeof waits,
  recorded: string,
  say: (call: Call, by: { readonly by: string }) => Effect.Effect<unknown, E, R>
) =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const call = yield* meant(yield* store.summary(input.id), of, input.call)
    yield* ready(input)
    yield* say(call, { by: yield* byWhom(input) })
    const { callId, runId, tool } = call
    yield* afterwards(input, { runId, callId, recorded, text: `${recorded} ${tool} (call ${callId})` })
  })

/** Arguments as they were typed. */
const readArgs = Effect.fnUntraced(function* (text: string) {
  const args = yield* Effect.try({
    try: (): Schema.Json => JSON.parse(text),
    catch: () => new Output.UsageError({ message: `--args is not JSON: ${text}` })
  })
  if (Nesting.isTooDeep(args))
    return yield* new Output.UsageError({ message: `--args is ${Nesting.tooDeep}` })
  return args
})

/** Approves a call, with other arguments if some are given; `expires` is how long it may take to start, in milliseconds. */
export const approve = (input: Flags.Approve) =>
  Effect.gen(function* () {
    const args = Option.isNone(input.args) ? undefined : yield* readArgs(input.args.value)
    const expires = Option.getOrUndefined(input.expires)
    const decision = Agent.approve({
      ...(args === undefined ? undefined : { args }),
      ...(expires === undefined ? undefined : { expires })
    })
    const recorded = args === undefined ? "approved" : "approved with other arguments"
    yield* aboutCall(input, "approvals", recorded, (call, by) => Agent.decide(call, decision, by))
  }).pipe(StoredRun.inStore(input.store))

/** Rejects a call; the model is told the reason. */
export const reject = (input: Flags.Reject) =>
  aboutCall(input, "approvals", "rejected", (call, by) =>
    Agent.decide(call, Agent.reject(Option.getOrUndefined(input.reason)), by)
  ).pipe(StoredRun.inStore(input.store))

/** Answers the question of a run, or of one that it has started. */
export const answer = (input: Flags.Answer) =>
  Effect.gen(function* () {
    if (input.text.trim() === "") return yield* new Output.UsageError({ message: "the answer is empty" })
    const store = yield* RunStore
    const { question } = yield* store.summary(input.id)
    if (question === undefined)
      return yield* new Output.CommandFailed({ message: `run ${input.id} has not asked anything` })
    const { callId, runId, text } = question
    yield* ready(input)
    yield* Agent.answer(runId, input.text, { by: yield* byWhom(input) })
    const said = `the answer to ${JSON.stringify(text)}`
    yield* afterwards(input, { runId, callId, recorded: "answered", text: said })
  }).pipe(StoredRun.inStore(input.store))

/** Says what became of a call of unknown outcome. */
export const resolve = (input: Flags.Resolve) => {
  const { call, outcome, result, store } = input
  const resolution =
    outcome === "happened" ? Agent.happened(Option.getOrUndefined(result)) : Agent.didNotHappen
  return aboutCall(
    { ...input, call: Option.some(call) },
    "unknown",
    outcome.replaceAll("-", " "),
    (call, by) => Agent.resolve(call, resolution, by)
  ).pipe(StoredRun.inStore(store))
}
