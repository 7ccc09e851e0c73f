/**
 * How a run that is not running is told: in a sentence, as JSON, and with the commands by which it goes on.
 */

import { lastWords } from "../run/Answer.ts"
import { actionsOf, hasTold, resumeOf } from "../run/GoingOn.ts"
import * as Handoff from "../run/Handoff.ts"
import { countsAsFree } from "../run/HandoffText.ts"
import type { Resource } from "../run/Limits.ts"
import { cost, plain, words } from "../run/PlainText.ts"
import * as RunExit from "../run/RunExit.ts"
import { isAtLimit, type RunState } from "../run/RunState.ts"
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

/** A run's call or question, by which people speak about it. */
interface Asked {
  readonly runId: string
  readonly callId: string
}

/** Names a call across a tree of runs. */
export const nameOf = ({ callId, runId }: Asked): string => `${runId} ${callId}`

/** The flag that raises a limit. */
const moreOf: Record<Resource, (amount: number) => ReadonlyArray<string>> = {
  turns: (n) => ["--max-turns", String(n)],
  usd: (n) => ["--max-usd", String(n)],
  tokens: (n) => ["--max-tokens", String(n)],
  tool_calls: (n) => ["--max-calls", String(n)],
  time: (n) => ["--max-time", `${n}s`]
}

/** What a run needs to be taken up again, beyond what people have to settle. */
const flagsOf = ({ force, more }: Handoff.Resume): ReadonlyArray<string> => [
  ...(force === true ? ["--force"] : []),
  ...(more === undefined ? [] : moreOf[more.resource](more.amount))
]

/**
 * The commands for what is to be done about a run. What people say of a call resumes it at once, but for a run that has
 * failed: that is not taken up by a word about a call. None for a child that has told its parent how it ended: a command
 * resumes the run at the top.
 */
const commandsFor = (run: RunState, where: Where): ((action: Handoff.Action) => ReadonlyArray<string>) => {
  if (hasTold(run)) return () => []
  const resuming = resumeOf(run, where.root)
  const goOn = resuming.force === true ? [] : ["--resume", ...flagsOf(resuming), ...agentFlag(where)]
  const say = (verb: string, ...words: ReadonlyArray<string>) => command(where, verb, words, ...goOn)
  return (action) => {
    switch (action._tag) {
      case "Resolve":
        return ["happened", "did-not-happen"].map((outcome) =>
          say("resolve", action.runId, action.callId, outcome)
        )
      case "Decide":
        return ["approve", "reject"].map((verb) => say(verb, action.runId, action.callId))
      case "Answer":
        return [say("answer", action.runId, "YOUR ANSWER")]
      case "Resume":
        return [resume(where, ...flagsOf(action))]
    }
  }
}

/**
 * The commands by which a run that has stopped goes on: what people have to settle first, or if there is nothing of the
 * kind, the one that resumes it. None for a run that has completed, for a child that has told its parent how it ended, or
 * where the store ends with this process. `settled` names the calls about which somebody has spoken since.
 */
export const next = (
  run: RunState,
  where: Where,
  settled: ReadonlySet<string> = new Set()
): ReadonlyArray<string> => {
  if (Store.isFleeting(where.store)) return []
  const open = actionsOf(run, where.root).filter(
    (action) => action._tag === "Resume" || !settled.has(nameOf(action))
  )
  // What people say of a call resumes the run, unless that takes force.
  const needed = open.filter(
    (action) => action._tag !== "Resume" || action.force === true || open.length === 1
  )
  return needed.flatMap(commandsFor(run, where))
}

/** The command that takes a run up, once people have settled all that it waits for. */
export const goOn = (run: RunState, where: Where): string =>
  resume(where, ...flagsOf(resumeOf(run, where.root)))

/** A run's answer as text: what was submitted or said, else what it handed over; empty when there is none. */
export const answerOf = ({ result, summary }: RunState): string => {
  if (result === undefined) return summary ?? ""
  return typeof result === "string" ? result : JSON.stringify(result, null, 2)
}

type Call = RunExit.ApprovalRequired["calls"][number]

/** What a run waits for from people, for a program: the same as in the store's summary, which `runs list` prints, but whole. */
export const waitingJson = (run: RunState) => ({
  approvals: RunExit.approvalsOf(run),
  unknown: RunExit.unknownOf(run),
  question: RunExit.questionOf(run) ?? null
})

/** Why an earlier decision about a call could not be used, as a line of its own; none if there was no such decision. */
export const earlier = ({ problem }: Pick<Call, "problem">): ReadonlyArray<string> =>
  problem === undefined
    ? []
    : [`    an earlier decision could not be used: ${plain(Output.oneLine(problem))}`]

/** The handoff of a run that is kept there. Nothing is to be done about one whose store ends with this process. */
export const handoff = (run: RunState, where: Where): Handoff.Handoff => {
  const { root } = where
  const handoff = Handoff.of(run, { root, commands: commandsFor(run, where) })
  return Store.isFleeting(where.store) ? { ...handoff, next: [] } : handoff
}

/** What a run that has stopped at a limit hands over; `null` for any other. */
const handoffOf = (run: RunState, where: Where): Handoff.Handoff | null =>
  isAtLimit(run) ? handoff(run, where) : null

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
  ...(run.unpriced === true ? { unpriced: true } : undefined),
  elapsedMs: run.elapsedMs,
  ...waitingJson(run),
  handoff: handoffOf(run, where),
  next: next(run, where)
})

// What else is said of a run that stopped short says these.
const saidElsewhere: ReadonlySet<HandoffScreen.Part> = new Set(["task", "unknown", "spend", "next"])

const mostLines = 6

const handedOver = (handoff: Handoff.Handoff, most: number): ReadonlyArray<string> =>
  HandoffScreen.parts(handoff, saidElsewhere, most).flatMap(({ lines, title }) => [
    `  ${title}:`,
    ...lines.map((line) => `    ${line}`)
  ])

/** What is said on stderr about a run that stopped short of an answer. */
export const told = (run: RunState, where: Where): string => {
  const lines = [`checkrein: run ${plain(run.runId)} stopped short: ${plain(standing(run))}`]
  for (const call of RunExit.approvalsOf(run)) {
    const { args, callId, tool } = call
    lines.push(
      `  ${plain(tool)} ${plain(JSON.stringify(args))} waits for a decision (call ${plain(callId)})`,
      ...earlier(call)
    )
  }
  for (const { args, callId, tool } of RunExit.unknownOf(run))
    lines.push(
      `  ${plain(tool)} ${plain(JSON.stringify(args))} may or may not have happened (call ${plain(callId)})`
    )
  const question = RunExit.questionOf(run)
  if (question !== undefined) lines.push(`  it asks: ${plain(question.text)}`)
  const handoff = handoffOf(run, where)
  const last = Output.oneLine(lastWords(run))
  if (handoff !== null && Store.isFleeting(where.store))
    lines.push(...handedOver(handoff, Number.POSITIVE_INFINITY))
  else if (handoff !== null) lines.push(...handedOver(handoff, mostLines), `In full: ${show(where, run)}`)
  else if (last !== "" && run.reason !== "approval") lines.push(`  it last said: ${plain(last)}`)
  if (run.unpriced === true) lines.push(`  its cost: ${cost(run)}; ${countsAsFree}`)
  const commands = next(run, where)
  if (commands.length > 0) lines.push("To go on:", ...commands.map((text) => `  ${text}`))
  if (Store.isFleeting(where.store)) lines.push(Store.endsHere)
  return lines.join("\n")
}
