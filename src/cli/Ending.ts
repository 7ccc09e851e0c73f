/**
 * How a run that is not running is told: in a sentence, as JSON, and with the commands by which it goes on.
 */
import { raised } from "../run/GoingOn.ts"
import type { Handoff } from "../run/Handoff.ts"
import { textOf } from "../run/Message.ts"
import type { Reason } from "../run/RunEvent.ts"
import * as RunExit from "../run/RunExit.ts"
import type { RunState } from "../run/RunState.ts"
import * as HandoffScreen from "./HandoffScreen.ts"
import * as Output from "./Output.ts"
import * as ShellWords from "./ShellWords.ts"
import * as Store from "./Store.ts"

/** How a command about a run is repeated: its store, the module of its agent, and the run that is to be resumed. */
export interface Where {
  readonly store: string
  readonly agent: string | undefined
  /** The run itself, or for a child the run at the top. */
  readonly root: string
}

/** A status or reason in words. */
export const words = (name: string): string => name.replaceAll("_", " ")

/** Where a run stands, in words. */
export const standing = ({
  detail,
  reason,
  status
}: Pick<RunState, "status" | "reason" | "detail">): string =>
  reason === undefined
    ? words(status)
    : `${words(status)} (${words(reason)})${status === "completed" || detail === undefined ? "" : `: ${Output.oneLine(detail)}`}`

const { quoted } = ShellWords

/** A command about runs. An id that looks like a flag is none behind `--`, and then the flags come before it. */
const command = (
  where: Where,
  verb: string,
  ids: ReadonlyArray<string>,
  ...flags: ReadonlyArray<string>
): string => {
  const said = (args: ReadonlyArray<string>) => args.map((arg) => ` ${quoted(arg)}`).join("")
  const options = `${said(flags)}${Store.repeated(where.store)}`
  return ids.some((id) => id.startsWith("-"))
    ? `${Output.self} runs ${verb}${options} --${said(ids)}`
    : `${Output.self} runs ${verb}${said(ids)}${options}`
}

const agentFlag = ({ agent }: Where): ReadonlyArray<string> =>
  agent === undefined ? [] : ShellWords.flagged("--agent", agent)

/** The command that prints the whole handoff of a run. */
const show = (where: Where, run: RunState): string => command(where, "show", [run.runId], "--handoff")

/** The command that resumes a run. */
export const resume = (where: Where, ...args: ReadonlyArray<string>): string =>
  command(where, "resume", [where.root], ...args, ...agentFlag(where))

/** The command that watches a run, wherever it is driven. */
export const follow = (where: Where): string => command(where, "show", [where.root], "--follow")

/** The command that stops a run, wherever it is driven. */
export const cancel = (where: Where): string => command(where, "cancel", [where.root])

const decide = (where: Where, { callId, runId }: { readonly callId: string; readonly runId: string }) => {
  const with_ = (verb: string) => command(where, verb, [runId, callId], "--resume", ...agentFlag(where))
  return [with_("approve"), with_("reject")]
}

const resolve = (where: Where, { callId, runId }: { readonly callId: string; readonly runId: string }) => [
  command(where, "resolve", [runId, callId, "happened"]),
  command(where, "resolve", [runId, callId, "did-not-happen"])
]

const answer = (where: Where, { runId }: { readonly runId: string }): string =>
  command(where, "answer", [runId, "YOUR ANSWER"], "--resume", ...agentFlag(where))

const more = ({ exhausted }: RunState): ReadonlyArray<string> =>
  exhausted === undefined ? [] : raised(exhausted).flag

/** Names a call across a tree of runs. */
export const nameOf = ({ callId, runId }: { readonly callId: string; readonly runId: string }): string =>
  `${runId} ${callId}`

/**
 * The commands by which a run that has stopped goes on; none for one that has completed. `settled` names the calls about
 * which somebody has spoken since: when nothing else is left, the run can be resumed.
 */
export const next = (
  run: RunState,
  where: Where,
  settled: ReadonlySet<string> = new Set()
): ReadonlyArray<string> => {
  if (run.status === "running") return [resume(where)]
  const reason: Reason | undefined = run.reason
  switch (reason) {
    case "max_turns":
    case "max_budget":
      return [resume(where, ...more(run))]
    case "approval": {
      const open = RunExit.approvalsOf(run).filter((call) => !settled.has(nameOf(call)))
      return open.length === 0 ? [resume(where)] : open.flatMap((call) => decide(where, call))
    }
    case "unknown_outcome": {
      const open = RunExit.unknownOf(run).filter((call) => !settled.has(nameOf(call)))
      return open.length === 0 ? [resume(where)] : open.flatMap((call) => resolve(where, call))
    }
    case "input": {
      const question = RunExit.questionOf(run)
      return question === undefined || settled.has(nameOf(question))
        ? [resume(where)]
        : [answer(where, question)]
    }
    case "provider_refused":
    case "tool_fatal":
    case "tool_permanent":
    case "defect":
      return [resume(where, "--force")]
    case "answered":
    case "submitted":
    case undefined:
      return []
    case "provider":
    case "stalled":
    case "stop_condition":
    case "cancelled":
      return [resume(where)]
  }
}

/** A run's answer as text: what was submitted or said, else what it handed over; empty when there is none. */
export const answerOf = ({ result, summary }: RunState): string => {
  if (result === undefined) return summary ?? ""
  return typeof result === "string" ? result : JSON.stringify(result, null, 2)
}

type Call = RunExit.ApprovalRequired["calls"][number]

const callJson = ({ args, callId, problem, runId, tool }: Call) => ({
  runId,
  callId,
  tool,
  args,
  ...(problem === undefined ? undefined : { problem })
})

/** Why an earlier decision about a call could not be used, as a line of its own; none if there was no such decision. */
export const earlier = ({ problem }: Pick<Call, "problem">): ReadonlyArray<string> =>
  problem === undefined
    ? []
    : [`    an earlier decision could not be used: ${Output.plain(Output.oneLine(problem))}`]

/** What a run that has stopped at a limit hands over; `null` for any other. */
const handoffOf = (run: RunState, where: Where): Handoff | null =>
  run.reason === "max_turns" || run.reason === "max_budget" ? HandoffScreen.of(run, where) : null

/** A run for a program: where it stands, what it has used, and how it goes on. */
export const toJson = (run: RunState, where: Where) => ({
  runId: run.runId,
  agent: run.agent,
  status: run.status,
  reason: run.reason ?? null,
  detail: run.detail ?? "",
  answer: run.status === "completed" ? (run.result ?? "") : null,
  turns: run.turns,
  toolCalls: run.toolCalls,
  promptTokens: run.usage.promptTokens,
  completionTokens: run.usage.completionTokens,
  costUsd: run.costUsd,
  elapsedMs: run.elapsedMs,
  approvals: RunExit.approvalsOf(run).map(callJson),
  unknown: RunExit.unknownOf(run).map(callJson),
  question: RunExit.questionOf(run)?.text ?? null,
  handoff: handoffOf(run, where),
  next: next(run, where)
})

const lastWords = (run: RunState): string => {
  const last = run.messages.findLast((message) => message.role === "assistant")
  return last?.role === "assistant" ? Output.oneLine(textOf(last)) : ""
}

// What else is said of a run that stopped short says these.
const saidElsewhere: ReadonlySet<HandoffScreen.Part> = new Set(["task", "unknown", "spend", "next"])

const mostLines = 6

const handedOver = (handoff: Handoff): ReadonlyArray<string> =>
  HandoffScreen.parts(handoff, saidElsewhere, mostLines).flatMap(({ lines, title }) => [
    `  ${title}:`,
    ...lines.map((line) => `    ${line}`)
  ])

/** What is said on stderr about a run that stopped short of an answer. */
export const told = (run: RunState, where: Where): string => {
  const lines = [`checkrein: run ${Output.plain(run.runId)} stopped short: ${Output.plain(standing(run))}`]
  for (const call of RunExit.approvalsOf(run)) {
    const { args, callId, tool } = call
    lines.push(
      `  ${Output.plain(tool)} ${Output.plain(JSON.stringify(args))} waits for a decision (call ${Output.plain(callId)})`,
      ...earlier(call)
    )
  }
  for (const { args, callId, tool } of RunExit.unknownOf(run))
    lines.push(
      `  ${Output.plain(tool)} ${Output.plain(JSON.stringify(args))} may or may not have happened (call ${Output.plain(callId)})`
    )
  const question = RunExit.questionOf(run)
  if (question !== undefined) lines.push(`  it asks: ${Output.plain(question.text)}`)
  const handoff = handoffOf(run, where)
  const last = lastWords(run)
  if (handoff !== null) lines.push(...handedOver(handoff), `In full: ${show(where, run)}`)
  else if (last !== "" && run.reason !== "approval") lines.push(`  it last said: ${Output.plain(last)}`)
  const commands = next(run, where)
  if (commands.length > 0) lines.push("To go on:", ...commands.map((text) => `  ${text}`))
  return lines.join("\n")
}
