/**
 * What people say of the calls of a run: may it run, and did it happen. Part of `Agent`, which is how it is imported.
 */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Command, type Decide, type Numbered } from "../run/Command.ts"
import { isVoid } from "../run/Expiry.ts"
import * as Given from "../run/Given.ts"
import * as Names from "../store/Names.ts"
import { type RunNotFound, RunStore, RunStoreError } from "../store/RunStore.ts"
import * as Digest from "./Digest.ts"
import * as Json from "./Json.ts"
import * as Nesting from "./Nesting.ts"
import { now } from "./Now.ts"
import * as Summary from "./Summary.ts"
import * as Words from "./Words.ts"

/** What a person decides about a call. */
export type Decision =
  | { readonly _tag: "Approve"; readonly args?: Schema.Json; readonly expires?: Duration.Input }
  | { readonly _tag: "Reject"; readonly reason?: string }

/**
 * The call may run; with `args`, with these arguments instead, which then are what was approved. With `expires`, it may
 * start within this time from when the decision is recorded, and from that moment on no more: a call that has not started
 * by then waits for a decision again, and so does one that was started, cut off, and would be repeated. The date is taken
 * from the `Clock` of whoever decides, and held against that of whoever drives the run.
 *
 * @example
 * ```ts
 * import { Agent } from "checkrein"
 *
 * const asAsked = Agent.approve()
 * const elsewhere = Agent.approve({ args: { path: "old.log" } })
 * const soon = Agent.approve({ expires: "1 hour" })
 * ```
 */
export const approve = (
  options: { readonly args?: Schema.Json; readonly expires?: Duration.Input } = {}
): Decision => ({ _tag: "Approve", ...options, ...Given.picked(options, ["args", "expires"]) })

/**
 * The call may not run; the model is told so, with the reason if there is one.
 *
 * @example
 * ```ts
 * import { Agent } from "checkrein"
 *
 * const no = Agent.reject("keep the logs")
 * ```
 */
export const reject = (reason?: string): Decision => ({
  _tag: "Reject",
  ...(reason === undefined ? undefined : { reason })
})

/** The call does not wait for this: it was decided already, it has other arguments by now, or there is no such call. */
export class CallNotPending extends Schema.TaggedError<CallNotPending>()("CallNotPending", {
  runId: Schema.String,
  callId: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    const what = this.callId === "" ? `run ${this.runId}` : `call ${this.callId} of run ${this.runId}`
    return `${what} does not wait for this: ${this.problem}`
  }
}

/** Names a call. With `argsDigest` only the call with these very arguments is meant. */
export interface CallRef {
  readonly runId: string
  readonly callId: string
  readonly argsDigest?: string
}

/** What is said of one call: everything but a Stop. */
export type Saying = Exclude<Command, { readonly type: "cancel" }>

/** The first that counts, at this date, of the commands that say the same sort of thing about a call. */
export const firstOf = (
  commands: ReadonlyArray<Numbered>,
  type: Saying["type"],
  callId: string,
  argsDigest: string | undefined,
  at: string
): (Numbered & { readonly command: Saying }) | undefined => {
  for (const { command, id } of commands) {
    if (command.type === "cancel" || command.type !== type || command.callId !== callId) continue
    const isOfOther = command.type === "decide" && (command.argsDigest ?? argsDigest) !== argsDigest
    if (!isOfOther && !isVoid(command, at)) return { id, command }
  }
  return undefined
}

const isCommand = Schema.is(Command)

type Tagged = { readonly _tag: string }

/** What may be said: what it is called, where it comes from, and what belongs to each sort, by its tag. */
interface Sayings<Said extends Tagged> {
  readonly what: string
  readonly from: string
  readonly kinds: { readonly [Tag in Said["_tag"]]: Given.Kinds<Extract<Said, { readonly _tag: Tag }>> }
}

const decisions: Sayings<Decision> = {
  what: "the decision",
  from: "Agent.approve() or Agent.reject()",
  kinds: {
    Approve: { _tag: Given.text, args: Given.anything, expires: Given.anything },
    Reject: { _tag: Given.text, reason: Given.anything }
  }
}

const resolutions: Sayings<Resolution> = {
  what: "the resolution",
  from: "Agent.happened() or Agent.didNotHappen",
  kinds: {
    Happened: { _tag: Given.text, content: Given.anything },
    DidNotHappen: { _tag: Given.text }
  }
}

const aside: Given.Kinds<{ readonly by?: string }> = { by: Given.text }

/** Who says it, wherever the options have that. */
const sayer = (options: { readonly by?: string }) => Given.picked(options, ["by"])

/**
 * Fails with what is wrong with something that is said, and with who says it. Whatever is not what it seems to be must not
 * count as the other thing: a call that runs where it was rejected, or one that is repeated.
 */
const checkSaid = <Said extends Tagged>(
  runId: string,
  said: unknown,
  { from, kinds, what }: Sayings<Said>,
  options: { readonly by?: string }
): Effect.Effect<void, RunStoreError> => {
  const tag = Given.isRecord(said) ? said._tag : undefined
  const known = new Map<unknown, Given.Kinds<Tagged>>(Object.entries(kinds)).get(tag)
  const problem =
    known === undefined
      ? `${what} is ${Given.shown(said)}, and must be what ${from} makes`
      : Given.problemOf(said, what, known)
  const wrong = problem === undefined ? Names.refusedOptions(runId, options, aside) : invalid(runId, problem)
  return wrong === undefined ? Effect.void : Effect.fail(wrong)
}

const invalid = (runId: string, problem: string) => new RunStoreError({ runId, kind: "invalid", problem })

/**
 * Puts a command about a call into the inbox of its run, where nobody has said the same sort of thing since it was last
 * looked into up to number `after`. The inbox is looked into once more afterwards, for others may have done so at the
 * same moment: of all of them the one with the lowest number was first, and only that one succeeds.
 */
const say = Effect.fnUntraced(function* (runId: string, after: number, said: Saying, argsDigest?: string) {
  const store = yield* RunStore
  const command = Json.kept(said)
  // Whoever is not held by the compiler may say anything, and an inbox has to be read again.
  if (!isCommand(command)) return yield* invalid(runId, "a reason, an answer and a result have to be texts")
  const { callId, type } = said
  const first = Effect.flatMap(now, (at) =>
    Effect.map(store.inbox(runId, after), (commands) => firstOf(commands, type, callId, argsDigest, at))
  )
  const who = ({ by }: Saying) => by ?? "somebody"
  const before = yield* first
  if (before !== undefined) {
    const problem = `${who(before.command)} was first; resume the run to have it taken in`
    return yield* new CallNotPending({ runId, callId, problem })
  }
  const id = yield* store.send(runId, command)
  const winner = yield* first
  if (winner === undefined || winner.id >= id) return
  const problem = `${who(winner.command)} was first, at the same moment; this counts only if that turns out to be of no use`
  return yield* new CallNotPending({ runId, callId, problem })
})

/** The call that is meant, if it waits for such a command, and the last command that its run has taken in. */
const waiting = Effect.fnUntraced(function* (ref: CallRef, type: "decide" | "resolve") {
  const { callId, runId } = ref
  const refuse = (problem: string) => new CallNotPending({ runId, callId, problem })
  const store = yield* RunStore
  const summary = yield* store.summary(runId)
  const { inbox } = summary
  const sort = type === "decide" ? "approvals" : "unknown"
  const isMeant = (each: CallRef) => each.callId === callId && each.runId === runId
  const call = summary[sort].find(isMeant) ?? (yield* Summary.waiting(summary, sort)).find(isMeant)
  if (call === undefined) return yield* refuse("it is not among those that wait")
  if (ref.argsDigest !== undefined && ref.argsDigest !== call.argsDigest) {
    return yield* refuse("its arguments are not the ones that were looked at")
  }
  // Who decides has seen these arguments, and decides by the digest.
  if (call.args !== undefined && Digest.ofArgs(call.args) !== call.argsDigest) {
    const problem = `its summary shows other arguments of call ${callId} than the call has`
    return yield* new RunStoreError({ runId, kind: "corrupt", problem })
  }
  return { argsDigest: call.argsDigest, inbox }
})

/** The last moment that a date can name, in milliseconds since 1970. */
const lastMs = 8.64e15

/** The date at which an approval expires that is given now, if ever; fails with what is wrong with `expires`. */
const expiryOf = Effect.fnUntraced(function* (
  expires: Duration.Input
): Effect.fn.Return<{ readonly expires?: string }, string> {
  const ms = Given.millisOf(expires)
  if (ms === undefined) {
    return yield* Effect.fail(
      `${Given.shown(expires)} is no duration that it could expire after, as "1 hour" is`
    )
  }
  if (ms === 0) return yield* Effect.fail("an approval that expires at once is of no use")
  // Rounded up: a millisecond is the shortest that a date can tell.
  const until = Math.ceil((yield* Clock.currentTimeMillis) + ms)
  return until > lastMs ? {} : { expires: new Date(until).toISOString() }
})

/**
 * Records a decision about a call that waits for one; the run is resumed separately. A decision is used once, however
 * many people decide, be it at the same moment: the first counts, and whoever comes later is told so with
 * `CallNotPending`. An approval that has expired before the call starts counts for nothing, and the call waits again; one
 * that would expire at once, and arguments nested deeper than a call's may be or that JSON cannot carry, are refused
 * (`RunStoreError`, `invalid`). The cost does not depend on the length of the run.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent } from "checkrein"
 *
 * declare const cleaner: Agent.Agent<string>
 *
 * const program = Agent.run(cleaner, "Free some space.").pipe(
 *   Effect.catchTag("ApprovalRequired", ({ calls, run }) =>
 *     Effect.forEach(calls, (call) => Agent.decide(call, Agent.reject("keep the logs"), { by: "ann" })).pipe(
 *       Effect.andThen(Agent.resume(cleaner, run.runId))
 *     )
 *   )
 * )
 * ```
 */
export const decide = (
  call: CallRef,
  decision: Decision,
  options: { readonly by?: string } = {}
): Effect.Effect<void, RunNotFound | RunStoreError | CallNotPending, RunStore> =>
  Effect.gen(function* () {
    const { callId, runId } = call
    yield* checkSaid(runId, decision, decisions, options)
    const { argsDigest, inbox } = yield* waiting(call, "decide")
    const refused = (problem: string) => invalid(runId, problem)
    const record = (said: Pick<Decide, "decision" | "args" | "expires" | "reason">) =>
      say(runId, inbox, { type: "decide", callId, argsDigest, ...said, ...sayer(options) }, argsDigest)
    if (decision._tag === "Reject") {
      const { reason } = decision
      return yield* record({ decision: "rejected", ...(reason === undefined ? undefined : { reason }) })
    }
    const { args, expires } = decision
    if (args !== undefined && Nesting.isTooDeep(args)) {
      return yield* refused(`the arguments given with the approval are ${Nesting.tooDeep}`)
    }
    const json = Json.kept(args)
    if (args !== undefined && json === undefined) {
      return yield* refused("the arguments given with the approval are what JSON cannot carry")
    }
    const until = expires === undefined ? undefined : yield* Effect.mapError(expiryOf(expires), refused)
    yield* record({ decision: "approved", ...(json === undefined ? undefined : { args: json }), ...until })
  })

/**
 * Records the answer to the question that a run, or a sub-agent of it, has stopped for; the run is resumed separately.
 * Of many who answer, be it at the same moment, the first counts, and the others are told so with `CallNotPending`.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent } from "checkrein"
 *
 * declare const analyst: Agent.Agent<string>
 *
 * const goOn = Agent.answer("night-shift", "the one from May", { by: "ann" }).pipe(
 *   Effect.andThen(Agent.resume(analyst, "night-shift"))
 * )
 * ```
 */
export const answer = (
  runId: string,
  text: string,
  options: { readonly by?: string } = {}
): Effect.Effect<void, RunNotFound | RunStoreError | CallNotPending, RunStore> =>
  Effect.gen(function* () {
    const wrong = Names.refusedOptions(runId, options, aside)
    if (wrong !== undefined) return yield* wrong
    const store = yield* RunStore
    const { question } = yield* store.summary(runId)
    if (question === undefined)
      return yield* new CallNotPending({ runId, callId: "", problem: "it has not asked anything" })
    const { callId } = question
    const { inbox } = yield* store.summary(question.runId)
    yield* say(question.runId, inbox, { type: "answer", callId, answer: text, ...sayer(options) })
  })

/** What became of a call whose outcome was unknown. */
export type Resolution =
  | { readonly _tag: "Happened"; readonly content: string }
  | { readonly _tag: "DidNotHappen" }

/**
 * It happened, with this result in words for the model.
 *
 * @example
 * ```ts
 * import { Agent } from "checkrein"
 *
 * const sent = Agent.happened("The mail is in the outbox.")
 * ```
 */
export const happened = (content: string = Words.happened): Resolution => ({
  _tag: "Happened",
  content
})

/**
 * It did not happen. The model is told so, and may call again.
 *
 * @example
 * ```ts
 * import { Agent } from "checkrein"
 *
 * const lost = Agent.resolve({ runId: "night-shift", callId: "c1" }, Agent.didNotHappen)
 * ```
 */
export const didNotHappen: Resolution = { _tag: "DidNotHappen" }

/**
 * Records what became of a call of unknown outcome; the run is resumed separately. Of many who say so, be it at the same
 * moment, the first counts, and the others are told so with `CallNotPending`.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent } from "checkrein"
 *
 * declare const mailer: Agent.Agent<string>
 *
 * const program = Agent.run(mailer, "Tell them.").pipe(
 *   Effect.catchTag("OutcomeUnknown", ({ calls, run }) =>
 *     Effect.forEach(calls, (call) => Agent.resolve(call, Agent.didNotHappen, { by: "ann" })).pipe(
 *       Effect.andThen(Agent.resume(mailer, run.runId))
 *     )
 *   )
 * )
 * ```
 */
export const resolve = (
  call: CallRef,
  resolution: Resolution,
  options: { readonly by?: string } = {}
): Effect.Effect<void, RunNotFound | RunStoreError | CallNotPending, RunStore> =>
  Effect.gen(function* () {
    yield* checkSaid(call.runId, resolution, resolutions, options)
    const { inbox } = yield* waiting(call, "resolve")
    yield* say(call.runId, inbox, {
      type: "resolve",
      callId: call.callId,
      outcome: resolution._tag === "Happened" ? "happened" : "did_not_happen",
      content: resolution._tag === "Happened" ? resolution.content : Words.didNotHappen,
      ...sayer(options)
    })
  })
