/**
 * A model's reply as the turn that it becomes: whether it is whole, what it asks for, and what it has cost.
 */
import type * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Effect from "effect/Effect"
import { callsOf, textOf } from "../run/Message.ts"
import * as Money from "../run/Money.ts"
import type { Job } from "./Job.ts"
import type { Journal } from "./Journal.ts"
import * as Plan from "./Plan.ts"
import { type Reply, readReply } from "./Transcript.ts"
import * as TurnClaim from "./TurnClaim.ts"
import * as Words from "./Words.ts"

/** What came of one attempt: the parts that arrived, and the error that ended them. */
export interface Attempt {
  readonly parts: ReadonlyArray<Response.AnyPart>
  readonly error: AiError.AiError | undefined
}

/** What a usage of a model costs; nothing, and marked so, where nobody knows its price. */
export const costOf = (job: Job, model: string | undefined, usage: Money.Usage) => {
  const price = job.priceOf(model)
  return price === undefined
    ? { costUsd: 0, unpriced: true as const }
    : { costUsd: Money.costOf(price, usage) }
}

/** Whether a reply is whole, so that its calls may run and its text may be the answer. */
const whyIncomplete = (reply: Reply, error: AiError.AiError | undefined): string | undefined => {
  if (error?.reason._tag === "NetworkError") return "the connection broke"
  if (error !== undefined) return "the provider reported an error"
  if (reply.finish === "content-filter") return "the provider's content filter"
  if (reply.finish === "length") return "it reached the output limit"
  return reply.finish === "error" ? "the provider reported an error" : undefined
}

/** Whether a part is of a call that the harness has to run, also of one whose arguments were cut off. */
const asks = (part: Response.AnyPart): boolean =>
  (part.type === "tool-call" || part.type === "tool-params-start") && part.providerExecuted !== true

/**
 * Reads what came of an attempt into the transcript, as a `turn` that goes into the store with whatever comes next. Yields
 * whether the reply goes on in the next one: text that was cut off, or at which the provider has paused. Text beside a
 * call, or beside what the provider runs before it pauses, is said on the way to that, and belongs to no answer.
 */
export const take = Effect.fnUntraced(function* (
  job: Job,
  journal: Journal,
  ids: Plan.Ids,
  attempt: Attempt,
  prompt: Prompt.Prompt,
  ms: number
) {
  const { turns: done, costUsd: before, phase, unfinished } = journal.state()
  const turn = done + 1
  const reply = readReply(attempt.parts)
  const incomplete = whyIncomplete(reply, attempt.error)
  const usage = reply.usage ?? (yield* job.count(prompt, Object.values(job.tools.tools), reply))
  const model = reply.model ?? job.model
  const { costUsd, ...mark } = costOf(job, model, usage)
  const content =
    incomplete === undefined
      ? Plan.withIds(reply.content, turn, ids)
      : reply.content.filter((part) => part.type === "text")
  const message = { role: "assistant" as const, content }
  const asked = callsOf({ role: "assistant", content: reply.content }).length
  const calls = yield* Plan.plan(job, callsOf(message))
  const ends = incomplete === undefined && calls.length === 0 && reply.finish !== "pause"
  const says = textOf(message).trim() !== ""
  const filtered = reply.finish === "content-filter" && attempt.error === undefined
  const paused =
    incomplete === undefined &&
    reply.finish === "pause" &&
    content.every(({ type }) => type === "text" || type === "reasoning")
  const aside = incomplete !== undefined && says && attempt.parts.some(asks)
  const cutOff = says && !aside && (paused || (incomplete !== undefined && !filtered))
  // A model that has nothing to say in a handoff has said it: its turns are not spent on asking again.
  const empty = !says && (paused || (ends && phase === "investigate"))
  const prose = ends && !empty && job.contract !== undefined && phase === "investigate"
  const goesOn = cutOff || (unfinished !== undefined && !aside)
  const note = filtered
    ? Words.filteredNote(asked)
    : incomplete !== undefined
      ? Words.incompleteNote(incomplete, asked, goesOn)
      : empty
        ? Words.emptyNote(goesOn)
        : prose
          ? Words.contractNote
          : undefined
  journal.stage({
    type: "turn",
    turn,
    message,
    calls,
    usage,
    ...(reply.usage === undefined ? { counted: true as const } : undefined),
    ...(TurnClaim.exceeded(journal.state(), usage, costUsd) ? { overHold: true as const } : undefined),
    costUsd,
    totalUsd: Money.add(before, costUsd),
    ...mark,
    ...(model === undefined ? undefined : { model }),
    finish: attempt.error === undefined ? reply.finish.replaceAll("-", "_") : "broken",
    ms,
    answers: ends && note === undefined,
    ...(cutOff ? { cutOff } : undefined),
    ...(attempt.error === undefined
      ? undefined
      : { error: { reason: attempt.error.reason._tag, detail: attempt.error.message } }),
    ...(note === undefined ? undefined : { note })
  })
  return cutOff
})
