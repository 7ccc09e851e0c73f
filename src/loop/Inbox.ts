/**
 * What people and other processes say to a run, taken in by its driver alone.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import type { Decide, Numbered } from "../run/Command.ts"
import * as Expiry from "../run/Expiry.ts"
import type { Ending } from "../run/NextStep.ts"
import type { PendingCall, RunState } from "../run/RunState.ts"
import { approvalsOf, questionOf, unknownOf, waitsForPeople } from "../run/Waiting.ts"
import { RunStore } from "../store/RunStore.ts"
import * as Cancel from "./Cancel.ts"
import * as Digest from "./Digest.ts"
import type { Job } from "./Job.ts"
import type { Journal } from "./Journal.ts"
import * as Nesting from "./Nesting.ts"
import * as Plan from "./Plan.ts"
import { resolutionOf } from "./ToolResult.ts"
import * as ToolRunner from "./ToolRunner.ts"

const shown = (args: PendingCall["args"]): string =>
  Nesting.isTooDeep(args) ? `they are ${Nesting.tooDeep}` : Digest.canonical(args)

const reasonIn = (cause: Cause.Cause<Schema.SchemaError>): string =>
  Option.match(Cause.findErrorOption(cause), {
    onNone: () => "",
    onSome: ({ message }) => ` (${message.trim().replace(/\s*\n\s*/g, " ")})`
  })

/** Why the arguments given with an approval do not fit the tool of its call; `undefined` if they do. */
const misfitOf = (
  job: Job,
  call: PendingCall,
  args: PendingCall["args"]
): Effect.Effect<string | undefined> => {
  const tool = Plan.toolOf(job, call.tool)
  const problem = (why: string) =>
    `the arguments given with the approval do not fit ${call.tool}${why}: ${shown(args)}`
  if (tool === undefined || Nesting.isTooDeep(args)) return Effect.succeed(problem(""))
  return Effect.matchCause(ToolRunner.decode(tool, args), {
    onFailure: (cause) => problem(reasonIn(cause)),
    onSuccess: () => undefined
  })
}

/**
 * The numbers of the commands that give a call arguments which do not fit its tool, with the reason. How long arguments
 * take to be read is up to their schema, so this is asked before anything is staged.
 */
export const misfits = Effect.fnUntraced(function* (
  job: Job,
  { pending }: RunState,
  commands: ReadonlyArray<Numbered>
) {
  const problems = new Map<number, string>()
  for (const { command, id } of commands) {
    if (command.type !== "decide" || command.args === undefined) continue
    const call = pending.find(({ approval, callId }) => approval === "required" && callId === command.callId)
    const problem = call === undefined ? undefined : yield* misfitOf(job, call, command.args)
    if (problem !== undefined) problems.set(id, problem)
  }
  return problems
})

/** Why a decision cannot be used, although the call waits for one. */
const problemOf = (
  call: PendingCall,
  decision: Decide,
  misfit: string | undefined,
  at: string
): string | undefined => {
  const { args, by, expires } = decision
  if (expires !== undefined && Expiry.isVoid(decision, at)) {
    return Expiry.words(call, { at: expires, ...(by === undefined ? undefined : { by }) })
  }
  if (args === undefined || misfit !== undefined) return misfit
  return call.attempts > 0 && Digest.ofArgs(args) !== call.argsDigest
    ? `the call was started before, and may be repeated with the same arguments alone, not with: ${shown(args)}`
    : undefined
}

/**
 * Turns commands from outside into events, and stages them. A decision counts for a call that waits for one and still has
 * the arguments that were decided about; any other is left where it is. One that cannot be used, because it has expired
 * or its arguments do not fit the tool, is answered with the problem, and the call still waits. Says whether anything was
 * settled.
 */
export const takeIn = (
  journal: Journal,
  commands: ReadonlyArray<Numbered>,
  misfits: ReadonlyMap<number, string>
): boolean => {
  let changed = false
  for (const { command, id } of commands) {
    if (command.type === "cancel") continue
    const call = journal.state().pending.find((pending) => pending.callId === command.callId)
    if (call === undefined) continue
    const by = command.by === undefined ? undefined : { by: command.by }
    const { callId } = call
    if (command.type === "answer" && call.kind === "input") {
      journal.stage({
        type: "input_given",
        callId,
        answer: command.answer,
        command: id,
        ...by
      })
    } else if (command.type === "resolve" && call.status === "unknown") {
      const { content, outcome } = command
      journal.stage(resolutionOf(call, { outcome, content, command: id, ...by }))
    } else if (command.type === "decide" && call.approval === "required" && call.status === "waiting") {
      if (command.argsDigest !== undefined && command.argsDigest !== call.argsDigest) continue
      const { args, decision, expires, reason } = command
      const problem = problemOf(call, command, misfits.get(id), journal.date())
      if (problem !== undefined) {
        const { argsDigest, tool } = call
        journal.stage({
          type: "approval_required",
          callId,
          tool,
          args: call.args,
          argsDigest,
          problem,
          command: id
        })
        changed = true
        continue
      }
      const argsDigest = args === undefined ? call.argsDigest : Digest.ofArgs(args)
      journal.stage({
        type: "approval_resolved",
        callId,
        decision,
        argsDigest,
        command: id,
        ...(args === undefined ? undefined : { args }),
        ...(expires === undefined || decision !== "approved" ? undefined : { expires }),
        ...(reason === undefined ? undefined : { reason }),
        ...by
      })
    } else continue
    changed = true
  }
  return changed
}

/** Whether somebody has said meanwhile what the run is about to stop for; interrupts if somebody has stopped it. */
export const somethingArrived = Effect.fnUntraced(function* (job: Job, journal: Journal, { reason }: Ending) {
  if (!waitsForPeople(reason)) return false
  const store = yield* RunStore
  yield* journal.commit()
  const commands = yield* store.inbox(journal.runId, journal.state().inbox)
  const stop = Cancel.among(commands)
  if (stop !== undefined) return yield* Effect.failCause(Cancel.interruption(stop.reason))
  return takeIn(journal, commands, yield* misfits(job, journal.state(), commands))
})

/**
 * What a run that has just stopped was told while it did, and has to be taken up again for: a Stop; and, for one that
 * goes on by itself (`isTop`), what people have answered of what it waits for, in its own inbox and in those of the runs
 * below it. A name for each.
 */
export const unheard = Effect.fnUntraced(
  function* (state: RunState, isTop: boolean) {
    const { reason, runId, status } = state
    if (status !== "interrupted" || reason === "cancelled") return []
    const waits = isTop && waitsForPeople(reason)
    const question = questionOf(state)
    const waiting = waits
      ? [...approvalsOf(state), ...unknownOf(state), ...(question === undefined ? [] : [question])]
      : []
    const store = yield* RunStore
    const said: Array<string> = []
    for (const id of new Set([runId, ...waiting.map((each) => each.runId)])) {
      const { inbox } = id === runId ? state : yield* store.summary(id)
      for (const { command, id: number } of yield* store.inbox(id, inbox)) {
        const counts =
          command.type === "cancel" ||
          waiting.some((each) => each.runId === id && each.callId === command.callId)
        if (counts) said.push(`${id} ${number}`)
      }
    }
    return said
  },
  // The run has stopped, and is as it is whatever the store says now.
  Effect.catch((error) =>
    Effect.as(Effect.logWarning("nobody can tell what the run was told while it stopped", error), [])
  )
)
