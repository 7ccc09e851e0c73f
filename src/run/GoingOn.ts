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

/** What a limit of nothing is raised to: money in USD, time in milliseconds. */
const some: Record<Resource, number> = { turns: 1, usd: 0.01, tokens: 1, tool_calls: 1, time: 1000 }

/** A limit that leaves room again: twice the one that was reached, or twice what was used where that is far more. */
export const raised = ({ limit, resource, used }: Exhausted): Raised => {
  const twice = 2 * (used < 2 * limit ? limit : used) || some[resource]
  if (resource === "usd") return written.usd(Number(twice.toFixed(6)))
  return written[resource](Math.ceil(resource === "time" ? twice / 1000 : twice))
}

const quoted = (argument: string): string =>
  /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`

/** What a command line knows of a run that the run does not: its flags, and the run at the top of its tree. */
export interface CommandLine {
  /** How it is called; `checkrein` by default. */
  readonly program?: string
  /** Repeated in every command, such as `--store` and its value. */
  readonly flags?: ReadonlyArray<string>
  /** The run that is resumed when a child is to go on; without it, the child's parent. */
  readonly root?: string
}

/** A command about runs. An id that looks like a flag is none behind `--`. */
const command = (
  { flags = [], program = "checkrein" }: CommandLine,
  verb: string,
  ids: ReadonlyArray<string>,
  ...options: ReadonlyArray<string>
): string => {
  const all = ids.some((id) => id.startsWith("-"))
    ? [...options, ...flags, "--", ...ids]
    : [...ids, ...options, ...flags]
  return `${program} runs ${[verb, ...all].map(quoted).join(" ")}`
}

const ref = ({ callId, runId }: { readonly callId: string; readonly runId: string }): string =>
  `{ runId: ${JSON.stringify(runId)}, callId: ${JSON.stringify(callId)} }`

const resume = (
  line: CommandLine,
  what: string,
  runId: string,
  options: { readonly code?: string; readonly flags?: ReadonlyArray<string> } = {}
): Step => ({
  what,
  api: `Agent.resume(agent, ${[runId]
    .map((id) => JSON.stringify(id))
    .concat(options.code ?? [])
    .join(", ")})`,
  command: command(line, "resume", [runId], ...(options.flags ?? []))
})

const isAtLimit = ({ reason }: RunState): boolean => reason === "max_turns" || reason === "max_budget"

/** How a run is taken up by itself. */
const taken = (state: RunState, line: CommandLine): Step => {
  const { exhausted, runId, status } = state
  if (status === "running") return resume(line, "resume the run, if nothing drives it any more", runId)
  if (status === "failed") {
    const by = { code: "{ force: true }", flags: ["--force"] }
    return resume(line, "resume the run, once what it failed with is settled", runId, by)
  }
  if (isAtLimit(state) && exhausted !== undefined) {
    const { code, flag } = raised(exhausted)
    const by = { code: `{ limits: { ${code} } }`, flags: flag }
    return resume(line, "resume the run with more room, say twice as much", runId, by)
  }
  if (questionOf(state) !== undefined) {
    const by = { code: '{ message: "THE ANSWER" }', flags: ["--message", "THE ANSWER"] }
    return resume(line, "resume the run with the answer", runId, by)
  }
  return resume(line, "resume the run", runId)
}

/**
 * How a child run goes on: with the runs above it, as long as they wait for it. One that has ended short of an answer was
 * told to its parent in words, and goes on by itself.
 */
const takenWith = (parent: NonNullable<RunState["parent"]>, state: RunState, line: CommandLine): Step => {
  if (state.status === "failed" || isAtLimit(state)) {
    const { api } = taken(state, line)
    const what = `run ${parent.runId} was told of this ending and goes on without it; this one can be taken up by itself`
    return { what, api }
  }
  const root = line.root ?? parent.runId
  return resume(line, `resume run ${root}, under which this one was started`, root)
}

/** What to do, in this order, so that a run goes on; nothing for one that has completed. `agent` in code is its agent. */
export const stepsOf = (state: RunState, line: CommandLine = {}): ReadonlyArray<Step> => {
  if (state.status === "completed") return []
  const decisions = approvalsOf(state).map((call) => ({
    what: `decide whether ${call.tool} (call ${call.callId}) may run: approve or reject it`,
    api: `Agent.decide(${ref(call)}, Agent.approve())`,
    command: command(line, "approve", [call.runId, call.callId])
  }))
  const resolutions = unknownOf(state).map((call) => ({
    what: `find out whether ${call.tool} (call ${call.callId}) has happened, and say so: happened or did-not-happen`,
    api: `Agent.resolve(${ref(call)}, Agent.happened())`,
    command: command(line, "resolve", [call.runId, call.callId, "happened"])
  }))
  const { parent } = state
  return [
    ...decisions,
    ...resolutions,
    parent === undefined ? taken(state, line) : takenWith(parent, state, line)
  ]
}
