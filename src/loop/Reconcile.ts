/**
 * Calls of unknown outcome whose tool can find out whether they have happened.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type { PendingCall } from "../run/RunState.ts"
import { type Outcome, Reconcile } from "../tool/ToolPolicy.ts"
import * as Author from "./Author.ts"
import type { Job } from "./Job.ts"
import type { Journal } from "./Journal.ts"
import * as Operations from "./Operations.ts"
import * as Patience from "./Patience.ts"
import * as Plan from "./Plan.ts"
import * as Policy from "./Policy.ts"
import { resolutionOf } from "./ToolResult.ts"
import * as Words from "./Words.ts"

/** What looking a call up has brought, and what the model reads of the result, if there is one. */
type Found = Exclude<Outcome, { readonly _tag: "Happened" }> | (Of<"Happened"> & { readonly content: string })

type Of<Tag extends Outcome["_tag"]> = Extract<Outcome, { readonly _tag: Tag }>

const unknown: Found = { _tag: "Unknown" }

const isOutcome = (value: unknown): value is Outcome =>
  Predicate.isTagged(value, "Happened") ||
  Predicate.isTagged(value, "DidNotHappen") ||
  Predicate.isTagged(value, "Unknown")

/** What an answer says, if that can be written down. */
const read = (name: string, answer: unknown): Result.Result<Found, string> =>
  Author.yields({ name, what: "an outcome", is: isOutcome }, () => answer).pipe(
    Result.flatMap((outcome): Result.Result<Found, string> => {
      if (outcome._tag !== "Happened") return Result.succeed(outcome)
      const { result } = outcome
      if (typeof result === "string") return Result.succeed({ ...outcome, content: result })
      const asked = { name: `${name} as a result`, what: "what JSON can carry", is: Predicate.isString }
      return Result.map(
        Author.yields(asked, () => JSON.stringify(result)),
        (content) => ({ ...outcome, content })
      )
    })
  )

const askAbout = (job: Job, journal: Journal, call: PendingCall): Effect.Effect<Found> => {
  const { args, callId, tool: name } = call
  const tool = Plan.toolOf(job, name)
  const ask = tool === undefined ? undefined : Context.get(tool.annotations, Reconcile)
  if (ask === undefined) return Effect.succeed(unknown)
  const { runId } = journal
  const question = Effect.fromResult(Plan.keyOf(job, runId, call)).pipe(
    Effect.flatMap((idempotencyKey) => ask({ runId, callId, tool: name, args, idempotencyKey })),
    Effect.flatMap((answer) => Effect.fromResult(read(`the Reconcile of ${name}`, answer)))
  )
  return Patience.ask<Found, unknown>(question, {
    name: `the look-up of ${name} (${callId}) of run ${runId}`,
    leftMs: Patience.countdown(journal.nowMs, 30_000),
    graceMs: () => Policy.graceMs(job.policy, journal.state().limits),
    otherwise: unknown,
    warning: `looking up ${name} (${callId}) failed`
  })
}

/** Looks up calls of unknown outcome, and writes down what was found. */
export const lookUp = Effect.fnUntraced(function* (
  job: Job,
  journal: Journal,
  calls: ReadonlyArray<PendingCall>
) {
  yield* journal.commit()
  for (const call of calls) {
    const found = yield* askAbout(job, journal, call)
    const base = { by: "reconcile" } as const
    if (found._tag === "Happened") {
      const { result } = found
      const report = Operations.reportOf(result)
      const note = report === undefined ? undefined : Operations.note(job, journal.state(), call, report)
      const content = note?.words ?? found.content
      const resolution = resolutionOf(call, { ...base, outcome: "happened", content })
      yield* journal.commit(...(note?.before ?? []), resolution)
    } else if (found._tag === "DidNotHappen") {
      const content = Words.didNotHappen
      yield* journal.commit(resolutionOf(call, { ...base, outcome: "did_not_happen", content }))
    } else {
      const content = Words.outcomeUnknown(call.tool)
      yield* journal.commit(resolutionOf(call, { ...base, outcome: "still_unknown", content }))
    }
  }
})
