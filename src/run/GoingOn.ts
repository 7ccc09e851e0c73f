/**
 * How a run that has stopped goes on: what has to be settled first, and the call that takes it up again.
 */
import * as Schema from "effect/Schema"
import type { Exhausted, Resource } from "./Limits.ts"
import { isAtLimit, type RunState } from "./RunState.ts"
import { approvalsOf, named, questionOf, stoppedWith, suspends, toLookUp, unknownOf } from "./Waiting.ts"

/**
 * One thing to do: in words, as an expression in code, and as commands, each of them another way to do it, where whoever
 * shows the step has commands for it.
 */
export const Step = Schema.Struct({
  what: Schema.String,
  api: Schema.String,
  commands: Schema.optionalKey(Schema.Array(Schema.String))
})
/** A step that a person can take: in words, in code, and as commands. */
export type Step = typeof Step.Type

/** A run that is taken up: which one, with which limit raised (money in USD, time in seconds), and whether by force. */
export interface Resume {
  readonly _tag: "Resume"
  readonly runId: string
  readonly more?: { readonly resource: Resource; readonly amount: number }
  readonly force?: true
}

/** What is to be done: a call is looked up or decided about, a question is answered, or a run is taken up. */
export type Action =
  | {
      readonly _tag: "Resolve" | "Decide"
      readonly runId: string
      readonly callId: string
      readonly tool: string
    }
  | { readonly _tag: "Answer"; readonly runId: string; readonly callId: string }
  | Resume

/** What whoever shows the steps of a run knows, and the run does not. */
export interface Showing {
  /** The run that is resumed when a child is to go on; without it, the child's parent. */
  readonly root?: string
  /** The commands for a step, in the program that shows it. */
  readonly commands?: (action: Action) => ReadonlyArray<string>
}

/** What a limit of nothing is raised to: money in USD, time in milliseconds. */
const some: Record<Resource, number> = { turns: 1, usd: 0.01, tokens: 1, tool_calls: 1, time: 1000 }

/**
 * A limit that leaves room again: twice the one that was reached, or twice what was used where that is far more. Money in
 * USD, time in whole seconds.
 */
export const raised = ({ limit, resource, used }: Exhausted): number => {
  const twice = 2 * (used < 1.5 * limit ? limit : used) || some[resource]
  // To the nano-dollar first: up from the dust of a float would be a micro-dollar too many.
  if (resource === "usd") return Math.max(1e-6, Math.ceil(Math.round(twice * 1e9) / 1000) / 1e6)
  return Math.ceil(resource === "time" ? twice / 1000 : twice)
}

const written: Record<Resource, (amount: number) => string> = {
  turns: (n) => `turns: ${n}`,
  usd: (n) => `usd: ${n}`,
  tokens: (n) => `tokens: ${n}`,
  tool_calls: (n) => `toolCalls: ${n}`,
  time: (n) => `time: "${n} seconds"`
}

const ref = ({ callId, runId }: { readonly callId: string; readonly runId: string }): string =>
  `{ runId: ${JSON.stringify(runId)}, callId: ${JSON.stringify(callId)} }`

/**
 * Whether a child run has ended short of an answer: its parent is told so in words, and does not wait for it, unless
 * somebody has to find out first what became of a call.
 */
export const hasTold = (state: RunState): boolean => {
  const { detail, parent, reason, status } = state
  if (parent === undefined || status === "running" || status === "completed") return false
  if (suspends(reason) || unknownOf(state).length > 0) return false
  return reason !== "cancelled" || detail !== stoppedWith(parent.runId)
}

/** How a run is taken up: a child for which its parent waits goes on with the runs above it, any other by itself. */
export const resumeOf = (state: RunState, root = state.parent?.runId): Resume => {
  const { exhausted, parent, runId, status } = state
  if (parent !== undefined && root !== undefined && !hasTold(state)) return { _tag: "Resume", runId: root }
  if (status === "failed") return { _tag: "Resume", runId, force: true }
  // What a shared budget is short of is no limit of the run's own.
  return isAtLimit(state) && exhausted !== undefined && exhausted.pool === undefined
    ? { _tag: "Resume", runId, more: { resource: exhausted.resource, amount: raised(exhausted) } }
    : { _tag: "Resume", runId }
}

/**
 * What is to be done so that a run goes on, in the order in which it stops for it; last of all, it is taken up. Nothing
 * for one that has completed, and nothing about a call that the run looks up itself once it is taken up.
 */
export const actionsOf = (state: RunState, root?: string): ReadonlyArray<Action> => {
  if (state.status === "completed") return []
  const question = questionOf(state)
  const itself = toLookUp(state).map(({ callId }) => callId)
  const lost = unknownOf(state).filter(
    ({ callId, runId }) => runId !== state.runId || !itself.includes(callId)
  )
  return [
    ...lost.map(({ callId, runId, tool }): Action => ({ _tag: "Resolve", runId, callId, tool })),
    ...approvalsOf(state).map(({ callId, runId, tool }): Action => ({ _tag: "Decide", runId, callId, tool })),
    ...(question === undefined
      ? []
      : [{ _tag: "Answer", runId: question.runId, callId: question.callId } as const]),
    resumeOf(state, root)
  ]
}

const resumed = (state: RunState, { force, more, runId }: Resume): string => {
  const { exhausted, parent, status } = state
  if (hasTold(state))
    return `run ${parent?.runId} is told of this ending and goes on without it; this one can be taken up by itself`
  if (runId !== state.runId) return `resume run ${runId}, under which this one was started`
  if (status === "running") return "resume the run, if nothing drives it any more"
  if (force === true) return "resume the run, once what it failed with is settled"
  if (more !== undefined) return "resume the run with more room, say twice as much"
  return isAtLimit(state) && exhausted?.pool !== undefined
    ? `resume the run, once the budget pool ${exhausted.pool} has room again or is given more; no limit of the run's own was reached`
    : "resume the run"
}

/** What a run does first of all when it is taken up. */
const lookingUp = (state: RunState): string => {
  const calls = toLookUp(state)
  return calls.length === 0
    ? ""
    : `; before all else it has the tool look up whether ${named(calls)} happened`
}

const options = ({ force, more }: Resume): string => {
  if (force === true) return ", { force: true }"
  return more === undefined ? "" : `, { limits: { ${written[more.resource](more.amount)} } }`
}

const stepOf = (state: RunState, action: Action): Step => {
  switch (action._tag) {
    case "Resolve":
      return {
        what: `find out whether ${action.tool} (call ${action.callId}) has happened, and say that it has, or that it has not`,
        api: `Agent.resolve(${ref(action)}, Agent.happened()) // or Agent.didNotHappen`
      }
    case "Decide":
      return {
        what: `decide whether ${action.tool} (call ${action.callId}) may run: approve or reject it`,
        api: `Agent.decide(${ref(action)}, Agent.approve()) // or Agent.reject()`
      }
    case "Answer":
      return {
        what: `answer what run ${action.runId} asks`,
        api: `Agent.answer(${JSON.stringify(action.runId)}, "THE ANSWER")`
      }
    case "Resume":
      return {
        what: `${resumed(state, action)}${lookingUp(state)}`,
        api: `Agent.resume(agent, ${JSON.stringify(action.runId)}${options(action)})`
      }
  }
}

/** The same as steps that can be shown. `agent` in code is the run's agent. */
export const stepsOf = (state: RunState, { commands, root }: Showing = {}): ReadonlyArray<Step> =>
  actionsOf(state, root).map((action) => {
    const shown = commands?.(action) ?? []
    return { ...stepOf(state, action), ...(shown.length === 0 ? undefined : { commands: shown }) }
  })
