/**
 * How a run that has stopped goes on: what has to be settled first, and the call that takes it up again.
 */
import * as Schema from "effect/Schema"
import type { Exhausted, Resource } from "./Limits.ts"
import type { RunState } from "./RunState.ts"
import { approvalsOf, questionOf, suspends, unknownOf } from "./Waiting.ts"

/**
 * One thing to do: in words, as an expression in code, and as commands, each of them another way to do it, where whoever
 * shows the step has commands for it.
 */
export const Step = Schema.Struct({
  what: Schema.String,
  api: Schema.String,
  commands: Schema.optionalKey(Schema.Array(Schema.String))
})
export type Step = typeof Step.Type

/** What a step is about: a call to be decided about or to be looked up, a question to be answered, or the run itself. */
export type Todo =
  | { readonly do: "decide" | "resolve"; readonly runId: string; readonly callId: string }
  | { readonly do: "answer"; readonly runId: string }
  | { readonly do: "resume" }

/** What whoever shows the steps of a run knows, and the run does not. */
export interface Showing {
  /** The run that is resumed when a child is to go on; without it, the child's parent. */
  readonly root?: string
  /** The commands for a step, in the program that shows it. */
  readonly commands?: (todo: Todo) => ReadonlyArray<string>
}

/** What a limit of nothing is raised to: money in USD, time in milliseconds. */
const some: Record<Resource, number> = { turns: 1, usd: 0.01, tokens: 1, tool_calls: 1, time: 1000 }

/**
 * A limit that leaves room again: twice the one that was reached, or twice what was used where that is far more. Money in
 * USD, time in whole seconds.
 */
export const raised = ({ limit, resource, used }: Exhausted): number => {
  const twice = 2 * (used < 2 * limit ? limit : used) || some[resource]
  if (resource === "usd") return Number(twice.toFixed(6))
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

const resume = (what: string, runId: string, options?: string): Step => ({
  what,
  api: `Agent.resume(agent, ${[JSON.stringify(runId)].concat(options ?? []).join(", ")})`
})

const isAtLimit = ({ reason }: RunState): boolean => reason === "max_turns" || reason === "max_budget"

/** How a run is taken up by itself. */
const taken = (state: RunState): Step => {
  const { exhausted, runId, status } = state
  if (status === "running") return resume("resume the run, if nothing drives it any more", runId)
  if (status === "failed")
    return resume("resume the run, once what it failed with is settled", runId, "{ force: true }")
  if (isAtLimit(state) && exhausted?.pool !== undefined)
    return resume(
      `resume the run, once the budget pool ${exhausted.pool} has room again or is given more; no limit of the run's own was reached`,
      runId
    )
  if (isAtLimit(state) && exhausted !== undefined) {
    const limits = `{ limits: { ${written[exhausted.resource](raised(exhausted))} } }`
    return resume("resume the run with more room, say twice as much", runId, limits)
  }
  return resume("resume the run", runId)
}

/** Whether a child run has ended short of an answer: its parent was told so in words, and does not wait for it. */
export const hasTold = ({ parent, reason, status }: RunState): boolean =>
  parent !== undefined &&
  status !== "running" &&
  status !== "completed" &&
  reason !== "cancelled" &&
  !suspends(reason)

/** What can be done about a child run that nobody waits for. */
const toldOf = (state: RunState): Step => ({
  what: `run ${state.parent?.runId} was told of this ending and goes on without it; this one can be taken up by itself`,
  api: taken(state).api
})

/** How a run is taken up: a child goes on with the runs above it, which wait for it. */
const takenWith = (state: RunState, root = state.parent?.runId): Step =>
  state.parent === undefined || root === undefined
    ? taken(state)
    : resume(`resume run ${root}, under which this one was started`, root)

/** What to do, in this order, so that a run goes on; nothing for one that has completed. `agent` in code is its agent. */
export const stepsOf = (state: RunState, { commands, root }: Showing = {}): ReadonlyArray<Step> => {
  if (state.status === "completed") return []
  const step = (todo: Todo, { api, what }: Step): Step => {
    const shown = commands?.(todo) ?? []
    return { what, api, ...(shown.length === 0 ? undefined : { commands: shown }) }
  }
  const decisions = approvalsOf(state).map(({ callId, runId, tool }) =>
    step(
      { do: "decide", runId, callId },
      {
        what: `decide whether ${tool} (call ${callId}) may run: approve or reject it`,
        api: `Agent.decide(${ref({ runId, callId })}, Agent.approve()) // or Agent.reject()`
      }
    )
  )
  const resolutions = unknownOf(state).map(({ callId, runId, tool }) =>
    step(
      { do: "resolve", runId, callId },
      {
        what: `find out whether ${tool} (call ${callId}) has happened, and say that it has, or that it has not`,
        api: `Agent.resolve(${ref({ runId, callId })}, Agent.happened()) // or Agent.didNotHappen`
      }
    )
  )
  const question = questionOf(state)
  const answers =
    question === undefined
      ? []
      : [
          step(
            { do: "answer", runId: question.runId },
            {
              what: `answer what run ${question.runId} asks`,
              api: `Agent.answer(${JSON.stringify(question.runId)}, "THE ANSWER")`
            }
          )
        ]
  const last = hasTold(state) ? toldOf(state) : step({ do: "resume" }, takenWith(state, root))
  return [...decisions, ...resolutions, ...answers, last]
}
