/**
 * A handoff in words, as Markdown: for an issue, a chat or a terminal.
 *
 * What a model, a tool or a person has written stands in code spans and quotations, so that it can neither look like a
 * part of the handoff nor move a cursor.
 */

import type * as Handoff from "./Handoff.ts"
import { cost, dollars, plain, words } from "./PlainText.ts"
import { isAtLimit } from "./RunState.ts"

const titles = [
  ["task", "Task"],
  ["summary", "What the model hands over, in its own words"],
  ["lastWords", "What the model said last"],
  ["operations", "Still going on"],
  ["unknown", "May or may not have happened"],
  ["waiting", "Waits"],
  ["contract", "Still missing"],
  ["refused", "Wanted next, and not run"],
  ["sources", "Looked at"],
  ["files", "Files read"],
  ["commands", "Commands that came to their end"],
  ["endedOperations", "Work that was started and has ended"],
  ["changes", "Calls that may have changed something"],
  ["observations", "Observed"],
  ["children", "Sub-agents"],
  ["spend", "Used"],
  ["next", "To go on"]
] as const

/** A part of a handoff that has something to say; its lines are Markdown. */
export interface Section {
  readonly name: (typeof titles)[number][0]
  readonly title: string
  readonly lines: ReadonlyArray<string>
}

/** A text as a code span on one line, whatever backticks are in it. */
const code = (text: string): string => {
  const line = plain(text).trim()
  const ticks = Math.max(0, ...(line.match(/`+/g) ?? []).map((run) => run.length))
  const fence = "`".repeat(ticks + 1)
  return ticks > 0 || line === "" ? `${fence} ${line} ${fence}` : `${fence}${line}${fence}`
}

/** A text of several lines as a quotation, in which it may have headings and lists of its own. */
const quote = (text: string): ReadonlyArray<string> =>
  text
    .trim()
    .split("\n")
    .map((line) => `> ${plain(line)}`.trimEnd())

const hash = /^((?:[a-z0-9-]+:)?[\w+/-]{12})[\w+/=-]{8,}$/i

/** Enough of a hash to tell two of them apart; anything else, such as a revision's name, as it was told. */
const digestOf = ({ digest }: { readonly digest?: string }): string =>
  digest === undefined ? "" : ` (${code(hash.exec(digest)?.[1] ?? digest)})`

const item = (text: string): string => `- ${text}`

const called = ({ args, tool }: { readonly tool: string; readonly args: string }): string =>
  args === "{}" || args === "null" ? code(tool) : code(`${tool} ${args}`)

const idOf = ({ callId }: { readonly callId: string }): string => `call ${code(callId)}`

const older = (count: number): ReadonlyArray<string> =>
  count === 0 ? [] : [item(`and ${count} more before these, which are in the journal`)]

const handlings: Record<NonNullable<Handoff.LiveOperation["handling"]>, string> = {
  detached: "it was left to go on",
  still_running: "it still ran when its grace was over",
  cancel_failed: "it could not be cancelled"
}

const live = (operation: Handoff.LiveOperation): string => {
  const { handling, label, observe, operationId } = operation
  const what = `${code(label)}, started as ${code(operationId)} by ${idOf(operation)}`
  const done = handling === undefined ? "" : `; ${handlings[handling]}`
  const look = observe === "" ? "" : ` Look at it with ${code(observe)}.`
  return item(`${what}${done}. Not known yet how it ends.${look}`)
}

const ended = ({ detail, label, operationId, outcome }: Handoff.EndedOperation): string =>
  item(`${code(label)} (${code(operationId)}) ${outcome}${detail === "" ? "" : `: ${code(detail)}`}`)

const standings: Record<Handoff.Pending["standing"], string> = {
  will_run: "runs when the run is resumed",
  will_ask: "is looked at when the run is resumed, for it may need a decision",
  child_waits: "waits for a sub-agent",
  running: "has been started and has no result yet"
}

const waiting = ({ approvals, calls, question }: Handoff.Handoff["waiting"]): ReadonlyArray<string> => [
  ...approvals.map((call) =>
    item(`${called(call)} for a decision (${idOf(call)} of run ${code(call.runId)})`)
  ),
  ...(question === undefined
    ? []
    : [
        item(`for an answer (${idOf(question)} of run ${code(question.runId)}):`),
        ...quote(question.text).map((line) => `  ${line}`)
      ]),
  ...calls.map((call) => {
    const child = call.child === undefined ? "" : ` (run ${code(call.child)})`
    return item(`${called(call)} ${standings[call.standing]}${child} (${idOf(call)})`)
  })
]

const isRecord = (value: unknown): value is { readonly [name: string]: unknown } =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** What has to be submitted, field by field. */
const fieldsOf = ({ schema }: Handoff.Contract): ReadonlyArray<string> => {
  if (!isRecord(schema) || !isRecord(schema.properties)) return []
  const required = Array.isArray(schema.required) ? schema.required : []
  return Object.entries(schema.properties).map(([name, field]) => {
    const type = isRecord(field) && typeof field.type === "string" ? field.type : undefined
    const what = [type, required.includes(name) ? undefined : "optional"].filter((word) => word !== undefined)
    const about =
      isRecord(field) && typeof field.description === "string" ? `: ${code(field.description)}` : ""
    return item(`${code(name)}${what.length === 0 ? "" : ` (${what.join(", ")})`}${about}`)
  })
}

const contract = (given: Handoff.Contract | undefined): ReadonlyArray<string> => {
  if (given?.lacks === undefined) return []
  const { lacks, refused } = given
  const fields = fieldsOf(given)
  return [
    item(lacks),
    ...(refused === undefined ? [] : [item(`the last one was not taken: ${code(refused)}`)]),
    ...(fields.length === 0 ? [] : [item("a valid one has:"), ...fields.map((field) => `  ${field}`)])
  ]
}

const command = (command: Handoff.Command): string => {
  const how = command.outcome === undefined ? "no word of how" : code(command.outcome)
  return item(`${code(command.name)}: ${how}${digestOf(command)}`)
}

const observation = (seen: Handoff.Observation): string => {
  const times = seen.times === 1 ? "" : `, ${seen.times} times`
  const brought = seen.saw ?? seen.result
  const what = brought === undefined || brought.trim() === "" ? "" : `: ${code(brought)}`
  const how = seen.ok ? "" : " failed"
  return item(`${called(seen)}${how}${what}${digestOf(seen)}${times}`)
}

const children: Record<Handoff.Child["standing"], string> = {
  answered: "answered",
  no_answer: "ended without an answer",
  not_over: "is not over"
}

const child = (run: Handoff.Child): string => {
  const { result = "", runId, standing } = run
  const said = result.trim() === "" ? "" : `: ${code(result)}`
  return item(`run ${code(runId)} (${called(run)}) ${children[standing]}, ${cost(run)}${said}`)
}

/** What is said of the money that a run has used whose model has no known price. */
export const countsAsFree = "the price of a model is not known, and it counts as free"

/** A time, of which nobody wants to know more than tenths of seconds. */
export const duration = (ms: number): string =>
  ms < 1000 ? `${Math.round(ms)} ms` : `${Number((ms / 1000).toFixed(1))} s`

const spend = ({
  deadline,
  timeMs,
  tokens,
  toolCalls,
  turns,
  usd
}: Handoff.Handoff["spend"]): ReadonlyArray<string> => {
  const row = (
    name: string,
    { limit, reserve, unpriced, used }: Handoff.Spent,
    show: (amount: number) => string
  ) => {
    const of = limit === undefined ? ", no limit" : ` of ${show(limit)}`
    const kept = reserve === undefined || reserve === 0 ? "" : ` (${show(reserve)} kept for a handoff)`
    const free = unpriced === undefined ? "" : `; ${countsAsFree}`
    return item(`${name}: ${show(used)}${of}${kept}${free}`)
  }
  return [
    row("turns", turns, String),
    row("money", usd, dollars),
    row("tokens", tokens, String),
    row("tool calls", toolCalls, String),
    `${row("time", timeMs, duration)}${deadline === undefined ? "" : `; it ends at ${deadline}`}`
  ]
}

const next = (steps: Handoff.Handoff["next"]): ReadonlyArray<string> =>
  steps.flatMap(({ api, commands = [], what }, index) => [
    `${index + 1}. ${plain(what)}`,
    ...commands.map((command) => `   - ${code(command)}`),
    `   - ${code(api)}`
  ])

/**
 * The parts of a handoff that have something to say, in the order in which they are read.
 *
 * @example
 * ```ts
 * import { Handoff, type RunState } from "checkrein"
 *
 * declare const run: RunState.RunState
 *
 * const titles = Handoff.sections(Handoff.of(run)).map(({ title }) => title)
 * ```
 */
export const sections = (handoff: Handoff.Handoff): ReadonlyArray<Section> => {
  const { earlierSummary, lastWords, leftOut, summary, task } = handoff
  const lines: Record<Section["name"], ReadonlyArray<string>> = {
    task: task.trim() === "" ? [] : quote(task),
    summary:
      summary !== undefined
        ? quote(summary)
        : earlierSummary !== undefined
          ? ["Said in an earlier handoff, before the run was resumed:", "", ...quote(earlierSummary)]
          : [],
    lastWords: lastWords === undefined ? [] : quote(lastWords),
    operations: handoff.operations.map(live),
    unknown: handoff.unknown.map((call) =>
      item(`${called(call)} (${idOf(call)} of run ${code(call.runId)})`)
    ),
    waiting: waiting(handoff.waiting),
    contract: contract(handoff.contract),
    refused: [...older(leftOut.refused), ...handoff.refused.map((call) => item(called(call)))],
    sources: [
      ...older(leftOut.sources),
      ...handoff.sources.map((source) => item(`${code(source.name)}${digestOf(source)}`))
    ],
    files: [
      ...older(leftOut.files),
      ...handoff.files.map((file) => {
        const part = file.part === undefined ? "" : `, ${code(file.part)}`
        return item(`${code(file.name)}${part}${digestOf(file)}`)
      })
    ],
    commands: [...older(leftOut.commands), ...handoff.commands.map(command)],
    endedOperations: [...older(leftOut.endedOperations), ...handoff.endedOperations.map(ended)],
    changes: [...older(leftOut.changes), ...handoff.changes.map(observation)],
    observations: [...older(leftOut.observations), ...handoff.observations.map(observation)],
    children: [...older(leftOut.children), ...handoff.children.map(child)],
    spend: spend(handoff.spend),
    next: next(handoff.next)
  }
  return titles.flatMap(([name, title]) =>
    lines[name].length === 0 ? [] : [{ name, title, lines: lines[name] }]
  )
}

const standing = (handoff: Handoff.Handoff): string => {
  const { detail = "", reason, status, stoppedAt } = handoff
  if (status === "running") return `It had not stopped when it last wrote, at ${stoppedAt}.`
  const why =
    reason === undefined || isAtLimit(handoff) ? words(status) : `${words(status)} (${words(reason)})`
  return status === "completed"
    ? `It completed at ${stoppedAt}.`
    : `It stopped at ${stoppedAt} without an answer, ${why}${detail === "" ? "" : `: ${code(detail)}`}.`
}

/**
 * A handoff as Markdown: short, its headings always in the same order, and none of them empty.
 *
 * @example
 * ```ts
 * import { Handoff, type RunState } from "checkrein"
 *
 * declare const run: RunState.RunState
 *
 * const page = Handoff.toMarkdown(Handoff.of(run))
 * ```
 */
export const toMarkdown = (handoff: Handoff.Handoff): string => {
  const { agent, parent, runId } = handoff
  const child = parent === undefined ? "" : ` It was started by ${idOf(parent)} of run ${code(parent.runId)}.`
  return [
    `# Handoff of run ${code(runId)}`,
    "",
    `A run of ${code(agent)}. ${standing(handoff)}${child}`,
    ...sections(handoff).flatMap(({ lines, title }) => ["", `## ${title}`, "", ...lines]),
    ""
  ].join("\n")
}
