/**
 * An agent inside a tool call: its run is a child of the caller's, with its own transcript and limits, one Stop for
 * both, and its cost in the caller's.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { lastWords } from "../run/Answer.ts"
import * as PlainText from "../run/PlainText.ts"
import type { Suspension } from "../run/RunEvent.ts"
import * as RunExit from "../run/RunExit.ts"
import * as RunState from "../run/RunState.ts"
import * as Waiting from "../run/Waiting.ts"
import { BudgetPoolError } from "../store/BudgetPool.ts"
import { load, RunBusy, RunStore, RunStoreError } from "../store/RunStore.ts"
import { CurrentCall } from "../tool/CurrentCall.ts"
import * as ToolFailure from "../tool/ToolFailure.ts"
import { ChildLink, type ChildOutcome, ChildSignal, useOf } from "./ChildRun.ts"
import type { Definition } from "./Definition.ts"
import { Drain, isRequested } from "./Drain.ts"
import type { Watcher } from "./Journal.ts"
import * as LeftUnknown from "./LeftUnknown.ts"
import { ifStored } from "./Orphans.ts"
import * as PoolClaims from "./PoolClaims.ts"
import { isRefused } from "./Refused.ts"
import * as Runs from "./Runs.ts"
import { alone } from "./Surroundings.ts"
import * as Words from "./Words.ts"

const suspensionOf = (run: RunState.RunState, reason: Suspension["reason"]): Suspension => {
  const question = Waiting.questionOf(run)
  return {
    runId: run.runId,
    reason,
    detail: run.detail ?? "",
    approvals: Waiting.approvalsOf(run),
    unknown: Waiting.unknownOf(run),
    ...(question === undefined ? undefined : { question })
  }
}

const short = (text: string): string => (text.length <= 500 ? text : `${PlainText.head(text, 500)} …`)

const resultsTold = 3

/** What a run without an answer had found: its last words, or else what its tools last brought. */
const found = (run: RunState.RunState): string => {
  const text = lastWords(run)
  if (text !== "") return text
  const results = run.messages.flatMap((message) =>
    message.role === "tool" && message.ok ? [`${message.tool}: ${short(message.content)}`] : []
  )
  const before = results.length - resultsTold
  const told = results.slice(-resultsTold).join("; ")
  return before > 0 ? `the last ${resultsTold} of ${results.length} results: ${told}` : told
}

const signal = (outcome: ChildOutcome) => Effect.die(new ChildSignal(outcome))

/** What it means for the call that a child was not driven to its end. */
const raise = Effect.fnUntraced(function* (runId: string, error: unknown) {
  if (error instanceof RunBusy || error instanceof RunStoreError)
    return yield* signal({ _tag: "ChildStuck", error })
  // A pool that the agent brings along fails where it is made, before the run is begun or taken up.
  if (error instanceof BudgetPoolError) {
    return yield* signal({ _tag: "ChildStuck", error: PoolClaims.stopped(runId)(error) })
  }
  if (!isRefused(error)) return yield* Effect.die(error)
  const store = yield* RunStore
  const begun = yield* Effect.catch(ifStored(store.summary(runId)), (error) =>
    signal({ _tag: "ChildStuck", error })
  )
  return yield* signal(
    begun === undefined ? { _tag: "ChildRefused", problem: error.message } : { _tag: "ChildStuck", error }
  )
})

/**
 * Why a child ended, without its insides: what failed in it is in its own journal. What a tool has failed with for good
 * was worded for a model.
 */
const reasonOf = (exit: RunExit.RunExit | Cancelled): string => {
  if (exit._tag === "Cancelled") return Words.childCancelled(exit.run.detail ?? "")
  return exit._tag === "RunFailed" && exit.reason !== "tool_permanent"
    ? Words.childFailure[exit.reason]
    : (exit.run.detail ?? exit._tag)
}

/** A child run that was stopped, and its parent was not. */
interface Cancelled {
  readonly _tag: "Cancelled"
  readonly run: RunState.RunState
  readonly message: string
}

/** What has interrupted a child run from inside, if that was a Stop of it. */
const cancelled = Effect.fnUntraced(function* (runId: string) {
  const { state: run } = yield* load(runId)
  if (run.reason !== "cancelled") return undefined
  const message = `run ${runId} was cancelled: ${run.detail}`
  return { _tag: "Cancelled", run, message } satisfies Cancelled
}, ifStored)

/**
 * Runs an agent for the tool call that is being executed, or takes its run up again if this call has started it before.
 * What a person has to settle suspends the call, and so does an unknown outcome that an ending has left; any other
 * ending short of an answer comes back in words. Outside a run, where nothing could be suspended, all of these are
 * failures of the tool.
 */
export const call = (
  definition: Definition,
  input: string
): Effect.Effect<unknown, ToolFailure.ToolFailure, unknown> =>
  Effect.gen(function* () {
    const { callId, runId } = yield* CurrentCall
    const link = yield* ChildLink
    const drain = yield* Drain
    // While it runs, so that a Stop finds what was spent; and at its end, for a run that had ended before is not driven.
    const watcher: Watcher = (_, child) => link?.charge(useOf(child))
    const inside = link === undefined ? {} : { runId: RunState.childId(runId, callId) }
    const parent = link === undefined ? undefined : { runId, callId }
    const drive = Runs.run(definition, input, inside, {
      ...alone,
      watcher,
      parent,
      allowance: link?.allowance
    }).pipe(
      Effect.catchIf(RunExit.isRunExit, (exit) => Effect.succeed(exit)),
      Effect.catchCauseIf(Cause.hasInterruptsOnly, (cause) =>
        Effect.gen(function* () {
          const stopped = inside.runId === undefined ? undefined : yield* cancelled(inside.runId)
          if (stopped !== undefined) return stopped
          return yield* isRequested(drain) ? signal({ _tag: "ChildLeftOff" }) : Effect.failCause(cause)
        })
      )
    )
    const settled = Effect.gen(function* () {
      const first = yield* drive
      // It was stopped in the middle of these calls, and nobody has looked them up yet.
      const isOpen = first._tag === "Cancelled" && Waiting.toLookUp(first.run).length > 0
      const ending = isOpen ? yield* drive : first
      const waits = link === undefined || ending._tag === "Completed" || Waiting.suspends(ending.run.reason)
      return { ending, left: waits ? undefined : yield* LeftUnknown.suspensionOf(ending.run) }
    })
    const { ending, left } = yield* Effect.catch(settled, (error) =>
      inside.runId === undefined ? Effect.die(error) : raise(inside.runId, error)
    )
    link?.charge(useOf(ending.run))
    if (ending._tag === "Completed") return ending.output
    const words = Words.childEnded(definition.name, reasonOf(ending), found(ending.run))
    if (link === undefined) return yield* ToolFailure.recoverable(words)
    const { reason } = ending.run
    const suspension = left ?? (Waiting.suspends(reason) ? suspensionOf(ending.run, reason) : undefined)
    return yield* signal(
      suspension === undefined
        ? { _tag: "ChildEnded", content: words, detail: ending.message }
        : { _tag: "Suspended", suspension }
    )
  })
