/**
 * Calls of unknown outcome whose tool can find out whether they have happened.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { PendingCall } from "../run/RunState.ts"
import { type Outcome, Reconcile, unknown } from "../tool/ToolPolicy.ts"
import type { Job } from "./Job.ts"
import type { Journal } from "./Journal.ts"
import * as Operations from "./Operations.ts"
import * as Patience from "./Patience.ts"
import * as Plan from "./Plan.ts"
import * as Policy from "./Policy.ts"
import { resolutionOf } from "./ToolResult.ts"
import * as Words from "./Words.ts"

const askAbout = (job: Job, journal: Journal, call: PendingCall): Effect.Effect<Outcome> => {
  const { args, callId, tool: name } = call
  const tool = Plan.toolOf(job, name)
  const ask = tool === undefined ? undefined : Context.get(tool.annotations, Reconcile)
  if (ask === undefined) return Effect.succeed(unknown)
  const { runId } = journal
  const question = Effect.suspend(() =>
    ask({ runId, callId, tool: name, args, idempotencyKey: Plan.keyOf(job, runId, call) })
  )
  return Patience.ask(question, {
    name: `the look-up of ${name} (${callId}) of run ${runId}`,
    limitMs: 30_000,
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
      const content = note?.words ?? (typeof result === "string" ? result : JSON.stringify(result))
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
