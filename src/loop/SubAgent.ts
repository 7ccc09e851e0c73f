/**
 * An agent inside a tool call: its run is a child of the caller's, with its own transcript and limits, one Stop for
 * both, and its cost in the caller's.
 */
import * as Effect from "effect/Effect"
import { textOf } from "../run/Message.ts"
import type { LiveEvent, Suspension } from "../run/RunEvent.ts"
import * as RunExit from "../run/RunExit.ts"
import type { RunState } from "../run/RunState.ts"
import { CurrentCall } from "../tool/CurrentCall.ts"
import * as ToolFailure from "../tool/ToolFailure.ts"
import { ChildLink, ChildSuspended } from "./ChildRun.ts"
import type { Definition } from "./Definition.ts"
import * as Runs from "./Runs.ts"
import * as Words from "./Words.ts"

const suspensionReason = {
  ApprovalRequired: "approval",
  InputRequired: "input",
  ProviderUnavailable: "provider",
  OutcomeUnknown: "unknown_outcome"
} as const

const suspends = (tag: RunExit.RunExit["_tag"]): tag is keyof typeof suspensionReason =>
  tag in suspensionReason

const suspensionOf = (run: RunState, tag: keyof typeof suspensionReason): Suspension => {
  const question = RunExit.questionOf(run)
  return {
    runId: run.runId,
    reason: suspensionReason[tag],
    detail: run.detail ?? "",
    approvals: RunExit.approvalsOf(run),
    unknown: RunExit.unknownOf(run),
    ...(question === undefined ? undefined : { question })
  }
}

const lastText = (run: RunState): string => {
  for (const message of run.messages.toReversed()) {
    const text = message.role === "assistant" ? textOf(message) : ""
    if (text !== "") return text
  }
  return ""
}

/**
 * Runs an agent for the tool call that is being executed, or takes its run up again if this call has started it before.
 * What a person has to settle suspends the call; any other ending short of an answer comes back in words.
 */
export const call = (
  definition: Definition,
  input: string
): Effect.Effect<unknown, ToolFailure.ToolFailure, unknown> =>
  Effect.gen(function* () {
    const { callId, runId } = yield* CurrentCall
    const link = yield* ChildLink
    const watcher = (event: LiveEvent): void => {
      if (event.type === "turn") link?.charge(event.totalUsd)
      if (event.type === "run_stopped") link?.charge(event.costUsd)
    }
    const inside = link === undefined ? {} : { runId: `${runId}/${callId}` }
    const parent = link === undefined ? undefined : { runId, callId }
    const { output } = yield* Runs.run(definition, input, inside, { streaming: false, watcher, parent })
    return output
  }).pipe(
    Effect.catchIf(RunExit.isRunExit, (exit) => {
      if (suspends(exit._tag)) return Effect.die(new ChildSuspended(suspensionOf(exit.run, exit._tag)))
      return Effect.fail(
        ToolFailure.recoverable(Words.childEnded(definition.name, exit.message, lastText(exit.run)))
      )
    }),
    Effect.catchIf(
      (error) => !(error instanceof ToolFailure.ToolFailure),
      (error) => Effect.die(error)
    )
  )
