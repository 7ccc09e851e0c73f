/**
 * What people say of the calls of a run: may it run, and did it happen. Part of `Agent`, which is how it is imported.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Nesting from "./loop/Nesting.ts"
import * as Words from "./loop/Words.ts"
import { type RunNotFound, RunStore, type RunStoreError } from "./store/RunStore.ts"

/** What a person decides about a call. */
export type Decision =
  | { readonly _tag: "Approve"; readonly args?: Schema.Json }
  | { readonly _tag: "Reject"; readonly reason?: string }

/**
 * The call may run; with `args`, with these arguments instead, which then are what was approved.
 *
 * @example
 * ```ts
 * import { Agent } from "checkrein"
 *
 * const asAsked = Agent.approve()
 * const elsewhere = Agent.approve({ args: { path: "old.log" } })
 * ```
 */
export const approve = (options: { readonly args?: Schema.Json } = {}): Decision => ({
  _tag: "Approve",
  ...options
})

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

/**
 * The call does not wait for this: it was decided already, it has other arguments by now, or there is no such call; or
 * the arguments given with an approval are nested deeper than a call's may be.
 */
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

/** The call that is meant, if it waits for such a command and none has come yet. */
const waiting = Effect.fnUntraced(function* (ref: CallRef, type: "decide" | "resolve") {
  const { callId, runId } = ref
  const refuse = (problem: string) => new CallNotPending({ runId, callId, problem })
  const store = yield* RunStore
  const { approvals, inbox, unknown } = yield* store.summary(runId)
  const call = (type === "decide" ? approvals : unknown).find(
    (each) => each.callId === callId && each.runId === runId
  )
  if (call === undefined) return yield* refuse("it is not among those that wait")
  if (ref.argsDigest !== undefined && ref.argsDigest !== call.argsDigest) {
    return yield* refuse("its arguments are not the ones that were looked at")
  }
  const before = (yield* store.inbox(runId, inbox)).find(
    ({ command }) => command.type === type && command.callId === callId
  )
  if (before === undefined) return call
  const by = "by" in before.command ? before.command.by : undefined
  return yield* refuse(`${by ?? "somebody"} was first; resume the run to have it taken in`)
})

/**
 * Records a decision about a call that waits for one; the run is resumed separately. A decision is used once, however
 * many people decide: the first counts, and whoever comes later is told so with `CallNotPending`. The cost does not depend on the length of the run.
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
    const store = yield* RunStore
    const { argsDigest, callId } = yield* waiting(call, "decide")
    const { _tag, ...rest } = decision
    if ("args" in rest && rest.args !== undefined && Nesting.isTooDeep(rest.args)) {
      const problem = `the arguments given with the approval are ${Nesting.tooDeep}`
      return yield* new CallNotPending({ runId: call.runId, callId, problem })
    }
    const verdict = _tag === "Approve" ? "approved" : "rejected"
    yield* store.send(call.runId, {
      type: "decide",
      callId,
      argsDigest,
      decision: verdict,
      ...rest,
      ...options
    })
  })

/**
 * Records the answer to the question that a run, or a sub-agent of it, has stopped for; the run is resumed separately.
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
    const store = yield* RunStore
    const { question } = yield* store.summary(runId)
    if (question === undefined)
      return yield* new CallNotPending({ runId, callId: "", problem: "it has not asked anything" })
    const { callId } = question
    const taken = (yield* store.summary(question.runId)).inbox
    const before = (yield* store.inbox(question.runId, taken)).find(
      ({ command }) => command.type === "answer" && command.callId === callId
    )
    if (before !== undefined) {
      const problem = "somebody has answered; resume the run to have it taken in"
      return yield* new CallNotPending({ runId: question.runId, callId, problem })
    }
    yield* store.send(question.runId, { type: "answer", callId, answer: text, ...options })
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
 * Records what became of a call of unknown outcome; the run is resumed separately.
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
    const store = yield* RunStore
    const { callId } = yield* waiting(call, "resolve")
    yield* store.send(call.runId, {
      type: "resolve",
      callId,
      outcome: resolution._tag === "Happened" ? "happened" : "did_not_happen",
      content: resolution._tag === "Happened" ? resolution.content : Words.didNotHappen,
      ...options
    })
  })
