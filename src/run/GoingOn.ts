/**
 * How a run that has stopped goes on: what has to be settled first, and the call and the command that take it up again.
 */
import * as Schema from "effect/Schema"
import type { Exhausted, Resource } from "./Limits.ts"
import type { RunState } from "./RunState.ts"
import { approvalsOf, questionOf, unknownOf } from "./Waiting.ts"

/** One thing to do, in words, as an expression in code, and at the command line where there is a command for it. */
export const Step = Schema.Struct({
  what: Schema.String,
  api: Schema.String,
  command: Schema.optionalKey(Schema.String)
})
export type Step = typeof Step.Type

/** A limit, as it is written in code and as a flag of the command line. */
export interface Raised {
  readonly code: string
  readonly flag: readonly [name: string, value: string]
}

const written: Record<Resource, (amount: number) => Raised> = {
  turns: (n) => ({ code: `turns: ${n}`, flag: ["--max-turns", String(n)] }),
  usd: (n) => ({ code: `usd: ${n}`, flag: ["--max-usd", String(n)] }),
  tokens: (n) => ({ code: `tokens: ${n}`, flag: ["--max-tokens", String(n)] }),
  tool_calls: (n) => ({ code: `toolCalls: ${n}`, flag: ["--max-calls", String(n)] }),
  time: (n) => ({ code: `time: "${n} seconds"`, flag: ["--max-time", `${n}s`] })
}

/** The least that a limit of nothing is raised to: money in USD, time in milliseconds. */
const least: Record<Resource, number> = { turns: 1, usd: 0.01, tokens: 1, tool_calls: 1, time: 1000 }

/** A limit that leaves room again: twice the one that was reached, or twice what was used where that is far more. */
export const raised = ({ limit, resource, used }: Exhausted): Raised => {
  const twice = Math.max(least[resource], 2 * (used < 2 * limit ? limit : used))
  if (resource === "usd") return written.usd(Number(twice.toFixed(6)))
  return written[resource](Math.ceil(resource === "time" ? twice / 1000 : twice))
}

const quoted = (argument: string): string =>
  /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`

/** A command about runs. An id that looks like a flag is none behind `--`. */
const command = (verb: string, ids: ReadonlyArray<string>, ...options: ReadonlyArray<string>): string => {
  const all = ids.some((id) => id.startsWith("-")) ? [...options, "--", ...ids] : [...ids, ...options]
  return `checkrein runs ${[verb, ...all].map(quoted).join(" ")}`
}

const ref = ({ callId, runId }: { readonly callId: string; readonly runId: string }): string =>
  `{ runId: ${JSON.stringify(runId)}, callId: ${JSON.stringify(callId)} }`

const resume = (runId: string, options: ReadonlyArray<string>, ...flags: ReadonlyArray<string>) => ({
  api: `Agent.resume(agent, ${[JSON.stringify(runId), ...options].join(", ")})`,
  command: command("resume", [runId], ...flags)
})

const taken = (state: RunState): Step => {
  const { exhausted, runId } = state
  if (state.status === "running") {
    return { what: "resume the run, if nothing drives it any more", ...resume(runId, []) }
  }
  if (state.status === "failed") {
    return {
      what: "resume the run, once what it failed with is settled",
      ...resume(runId, ["{ force: true }"], "--force")
    }
  }
  if (state.reason === "max_turns" || state.reason === "max_budget") {
    if (exhausted === undefined) return { what: "resume the run with more room", ...resume(runId, []) }
    const { code, flag } = raised(exhausted)
    const options = [`{ limits: { ${code} } }`]
    return { what: "resume the run with more room, say twice as much", ...resume(runId, options, ...flag) }
  }
  if (questionOf(state) !== undefined) {
    const answer = "THE ANSWER"
    const options = [`{ message: ${JSON.stringify(answer)} }`]
    return { what: "resume the run with the answer", ...resume(runId, options, "--message", answer) }
  }
  return { what: "resume the run", ...resume(runId, []) }
}

/**
 * How a child run goes on: with its parent, as long as that waits for it. One that has ended short of an answer was told
 * to its parent in words, and goes on by itself.
 */
const takenByParent = (state: RunState, parent: NonNullable<RunState["parent"]>): Step => {
  const ended = state.status === "failed" || state.reason === "max_turns" || state.reason === "max_budget"
  if (!ended) {
    return {
      what: `resume run ${parent.runId}, whose call ${parent.callId} has started this one`,
      ...resume(parent.runId, [])
    }
  }
  const { api } = taken(state)
  return {
    what: `run ${parent.runId} was told of this ending and goes on without it; this one can be taken up by itself`,
    api
  }
}

/** What to do, in this order, so that a run goes on; nothing for one that has completed. `agent` in code is its agent. */
export const stepsOf = (state: RunState): ReadonlyArray<Step> => {
  if (state.status === "completed") return []
  const decisions = approvalsOf(state).map((call) => ({
    what: `decide whether ${call.tool} (call ${call.callId}) may run: approve or reject it`,
    api: `Agent.decide(${ref(call)}, Agent.approve())`,
    command: command("approve", [call.runId, call.callId])
  }))
  const resolutions = unknownOf(state).map((call) => ({
    what: `find out whether ${call.tool} (call ${call.callId}) has happened, and say so: happened or did-not-happen`,
    api: `Agent.resolve(${ref(call)}, Agent.happened())`,
    command: command("resolve", [call.runId, call.callId, "happened"])
  }))
  const { parent } = state
  return [...decisions, ...resolutions, parent === undefined ? taken(state) : takenByParent(state, parent)]
}
