/**
 * Whether calls need a person: asked once, for all calls of a turn, before any of them starts.
 */
import type * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Expiry from "../run/Expiry.ts"
import { callsOf } from "../run/Message.ts"
import type { Body } from "../run/RunEvent.ts"
import type { PendingCall, RunState } from "../run/RunState.ts"
import { ambient } from "./Ambient.ts"
import * as Digest from "./Digest.ts"
import type { Job } from "./Job.ts"
import type { Journal } from "./Journal.ts"
import type { Conversation } from "./ModelCall.ts"
import * as Patience from "./Patience.ts"
import * as Plan from "./Plan.ts"
import * as Policy from "./Policy.ts"
import * as TimeLeft from "./TimeLeft.ts"

/** What the tool says of the need for a person: the answer, or a question that takes its time. */
const questionOf = (
  { needsApproval }: Tool.Any,
  toolCallId: string,
  args: unknown,
  messages: ReadonlyArray<Prompt.Message>
): unknown => {
  if (typeof needsApproval !== "function") return needsApproval
  try {
    return needsApproval(args, { toolCallId, messages })
  } catch (error) {
    return Effect.die(error)
  }
}

/** The answer to a question. One that fails, or is not answered in time, means yes. */
const answerOf = (
  { policy }: Job,
  journal: Journal,
  name: string,
  question: Effect.Effect<unknown, unknown, unknown>
): Effect.Effect<unknown> => {
  const { limits } = journal.state()
  return Patience.ask(ambient(question), {
    name: `needsApproval of ${name}`,
    leftMs: () => TimeLeft.ms(journal, "handoff"),
    graceMs: () => Policy.graceMs(policy, limits),
    otherwise: true,
    warning: `needsApproval of ${name} failed, so a person is asked`
  })
}

/**
 * Asks each tool whether the call needs a person, before any of them starts. Whatever goes wrong with the question
 * means yes; arguments that do not fit need nobody, for they cannot run.
 */
export const check = Effect.fnUntraced(function* (
  job: Job,
  journal: Journal,
  conversation: Conversation,
  calls: ReadonlyArray<PendingCall>
) {
  yield* journal.commit()
  const messages = conversation.mirror.of(journal.state().messages).content
  // How long arguments take to be read is up to their schema, so it is done before anything is staged.
  const read = yield* Effect.forEach(calls, (call) => {
    const tool = Plan.toolOf(job, call.tool)
    const decoded = tool === undefined ? Effect.succeedNone : Plan.decodeArgs(tool, call.args)
    return Effect.map(decoded, (decoded) => ({ call, tool, decoded }))
  })
  for (const { call, decoded, tool } of read) {
    const { args, argsDigest, callId, tool: name } = call
    if (tool === undefined || Option.isNone(decoded)) {
      const reason = "the arguments do not fit the tool, so it will not run"
      journal.stage({
        type: "approval_resolved",
        callId,
        decision: "not_required",
        argsDigest,
        reason
      })
      continue
    }
    const question = questionOf(tool, callId, decoded.value, messages)
    // Whoever is to be asked about a call must not wait for what others have to find out first.
    if (Effect.isEffect(question)) yield* journal.commit()
    const answer = Effect.isEffect(question) ? yield* answerOf(job, journal, name, question) : question
    journal.stage(
      answer === false
        ? {
            type: "approval_resolved",
            callId,
            decision: "not_required",
            argsDigest
          }
        : { type: "approval_required", callId, tool: name, args, argsDigest }
    )
  }
  yield* journal.commit()
})

/** What is asked about a call: what the model asked for, or what was started already, which is repeated with no other. */
const asked = (state: RunState, call: PendingCall): Pick<PendingCall, "args" | "argsDigest"> => {
  if (call.edited !== true || call.attempts > 0) return call
  for (const message of state.messages.toReversed()) {
    if (message.role !== "assistant") continue
    const part = callsOf(message).find(({ id }) => id === call.callId)
    if (part !== undefined) return { args: part.params, argsDigest: Digest.ofArgs(part.params) }
  }
  return call
}

/** Asks once more about a call whose approval has expired: that one, and the arguments given with it, are not used. */
export const again = (state: RunState, call: PendingCall): Body => {
  const { callId, expires, tool } = call
  const { args, argsDigest } = asked(state, call)
  const base = { type: "approval_required", callId, tool, args, argsDigest } as const
  return expires === undefined ? base : { ...base, problem: Expiry.words(call, expires) }
}
