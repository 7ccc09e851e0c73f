/**
 * Events for people: one short line each, for a terminal.
 */
import * as Effect from "effect/Effect"
import * as PlainText from "../run/PlainText.ts"
import type { LiveEvent, Of } from "../run/RunEvent.ts"

/** How lines look. */
export interface PrettyOptions {
  /** Whether to use ANSI colours. Off by default. */
  readonly colors?: boolean | undefined
  /** The most characters of arguments, a label or a detail; 72 by default. */
  readonly width?: number | undefined
}

/**
 * An event as one line for a person, or `undefined` if it would be noise. Child runs are indented under their parent.
 * What a model or a tool wrote is shortened, and cannot move the cursor, break the line or colour it.
 *
 * @example
 * ```ts
 * import { RunTrace } from "checkrein"
 *
 * RunTrace.pretty({ type: "tool_progress", runId: "n1", callId: "c1", tool: "scan_archive", label: "200 of 1200 files" })
 * // => "    … scan_archive  200 of 1200 files"
 * ```
 */
export const pretty = (event: LiveEvent, options?: PrettyOptions): string | undefined =>
  line(event, options, isMarked(event))

/**
 * The same for all events of some runs, in their order: what of a run has no known price is in the events that bring it,
 * and is said of every total that follows.
 */
export const prettyInTurn = (options?: PrettyOptions): ((event: LiveEvent) => string | undefined) => {
  const unpriced = new Set<string>()
  return (event) => {
    const { runId, type } = event
    if (isMarked(event)) unpriced.add(runId)
    const text = line(event, options, unpriced.has(runId))
    if (type === "run_stopped") unpriced.delete(runId)
    return text
  }
}

const isMarked = (event: LiveEvent): boolean => "unpriced" in event || "childUnpriced" in event

const line = (
  event: LiveEvent,
  options: PrettyOptions | undefined,
  unpriced: boolean
): string | undefined => {
  const text = render(event, options?.colors === true ? ansi : uncoloured, options?.width ?? 72, unpriced)
  return text === undefined ? undefined : "  ".repeat(depth(event.runId)) + text
}

/** Whether colours are welcome on a stream of this process: it is a terminal, and `NO_COLOR` is not set. */
export const colorsOn = (stream: "stdout" | "stderr"): Effect.Effect<boolean> =>
  Effect.sync(() => {
    // Not through `Config`: this module is on the way of every import of the library, and that one takes 35 ms to load.
    const process = globalThis.process
    return (process?.env?.NO_COLOR ?? "") === "" && process?.[stream]?.isTTY === true
  })

type Colour = "bold" | "dim" | "red" | "green" | "yellow" | "cyan"
type Paint = (colour: Colour, text: string) => string

const codes: { readonly [name in Colour]: string } = {
  bold: "1",
  dim: "2",
  red: "31",
  green: "32",
  yellow: "33",
  cyan: "36"
}
const ansi: Paint = (colour, text) => `\u001b[${codes[colour]}m${text}\u001b[0m`
const uncoloured: Paint = (_, text) => text

const render = (event: LiveEvent, paint: Paint, width: number, unpriced: boolean): string | undefined => {
  const short = (text: string) => shorten(text, width)
  const name = (tool: string) => paint("bold", clean(tool))
  switch (event.type) {
    case "run_started":
      return `${paint("cyan", "▶")} ${paint("bold", clean(event.agent))}  ${paint("dim", clean(event.runId))}`
    case "run_resumed":
      return `${paint("cyan", "▶")} resumed  ${paint("dim", clean(event.runId))}`
    case "limits_changed":
      return `  ${paint("dim", `limits  ${short(JSON.stringify(event.limits))}`)}`
    case "turn": {
      const { completionTokens, promptTokens } = event.usage
      const tokens = `${count(promptTokens)} + ${count(completionTokens)} tokens`
      const finish = usual.has(event.finish) ? "" : `  ${paint("yellow", clean(event.finish))}`
      const spent = PlainText.cost({ costUsd: event.totalUsd, unpriced })
      const why = event.error === undefined ? "" : `  ${paint("dim", short(causeOf(event.error.detail)))}`
      return `  ${paint("cyan", `turn ${event.turn}`)}  ${paint("dim", `${tokens}  ${spent}`)}${finish}${why}`
    }
    case "turn_failed": {
      const after = event.retryInMs === undefined ? "" : `, again in ${duration(event.retryInMs)}`
      const what = `turn ${event.turn} failed (${clean(event.reason)})${after}`
      return `  ${paint("yellow", "!")} ${what}  ${paint("dim", short(causeOf(event.detail)))}`
    }
    case "tool_start":
      return `    ${paint("cyan", "→")} ${name(event.tool)} ${paint("dim", short(JSON.stringify(event.args)))}`
    case "tool_progress":
      return `    ${paint("dim", `… ${clean(event.tool)}  ${short(event.label)}`)}`
    case "tool_result":
      return `    ${toolResult(event, paint, width)}`
    case "approval_required": {
      const args = paint("dim", short(JSON.stringify(event.args)))
      return `    ${paint("yellow", "?")} ${name(event.tool)} ${args}  needs approval (${clean(event.callId)})`
    }
    case "approval_resolved": {
      if (event.decision === "not_required") return undefined
      const by = event.by === undefined ? "" : ` by ${clean(event.by)}`
      const edited = event.args === undefined ? "" : " with other arguments"
      const until = event.expires === undefined ? "" : ` until ${clean(event.expires)}`
      const reason = event.reason === undefined ? "" : `: ${short(event.reason)}`
      const mark = event.decision === "approved" ? paint("green", "✓") : paint("red", "✗")
      return `    ${mark} ${clean(event.callId)} ${event.decision}${edited}${by}${until}${reason}`
    }
    case "input_required":
      return `    ${paint("yellow", "?")} ${short(event.question)} (${clean(event.callId)})`
    case "input_given":
      return `    ${paint("green", "✓")} answered${event.by === undefined ? "" : ` by ${clean(event.by)}`}`
    case "child_suspended": {
      const { reason, runId } = event.suspension
      return `    ${paint("yellow", "?")} ${clean(runId)} waits: ${words(reason)}`
    }
    case "outcome_resolved": {
      const mark = event.outcome === "still_unknown" ? paint("yellow", "?") : paint("green", "✓")
      return `    ${mark} ${name(event.tool)} ${words(event.outcome)}`
    }
    case "operation_started": {
      const started = `${clean(event.operationId)} goes on: ${short(event.label)}`
      return `    ${paint("cyan", "↻")} ${name(event.tool)}  ${paint("dim", started)}`
    }
    case "operation_ended": {
      const detail = event.detail === "" ? "" : `  ${paint("dim", short(event.detail))}`
      return `    ${paint("cyan", "↻")} ${clean(event.operationId)} ${event.outcome}${detail}`
    }
    case "handoff": {
      const { limit, resource, used } = event.exhausted
      return `  ${paint("yellow", "!")} handing over: ${words(resource)} ${amount(used)} of ${amount(limit)} used`
    }
    case "run_stopped":
      return stopped(event, paint, width, unpriced)
    case "turn_started":
    case "text_delta":
      return undefined
  }
}

const toolResult = (event: Of<"tool_result">, paint: Paint, width: number): string => {
  const mark = event.ok ? paint("green", "✓") : paint("red", "✗")
  const executed = event.disposition === "executed"
  const how = executed ? duration(event.ms) : event.disposition
  const detail = event.detail === undefined ? "" : `  ${paint("dim", shorten(event.detail, width))}`
  return `${mark} ${clean(event.tool)} ${executed ? paint("dim", how) : paint("yellow", how)}${detail}`
}

const stopped = (event: Of<"run_stopped">, paint: Paint, width: number, unpriced: boolean): string => {
  const colour = event.status === "completed" ? "green" : event.status === "failed" ? "red" : "yellow"
  const end = paint(colour, `■ ${words(event.status)}: ${words(event.reason)}`)
  const turns = `${event.turns} ${event.turns === 1 ? "turn" : "turns"}`
  const spent = paint("dim", `${turns}  ${PlainText.cost({ costUsd: event.costUsd, unpriced })}`)
  const detail = event.status === "completed" ? "" : `  ${shorten(event.detail, width)}`
  const alive = event.operations?.length ?? 0
  const goOn =
    alive === 0
      ? ""
      : `  ${paint("yellow", alive === 1 ? "1 operation goes on" : `${alive} operations go on`)}`
  return `${end}  ${spent}${detail}${goOn}`
}

// Where in the code a model call has failed, which the detail of one begins with: nothing would be left of its cause.
const causeOf = (detail: string): string => detail.replace(/^\w+\.\w+: (?:\w+: )?/, "")

// How a turn ends when nothing is the matter, in the spellings that providers use.
const usual: ReadonlySet<string> = new Set(["stop", "tool_calls", "tool-calls"])

// A child's id is its parent's and a call's; ids given by a caller may hold slashes too, hence the bound.
const depth = (runId: string): number => Math.min(runId.split("/").length - 1, 4)

// Names and ids: a model can make up long ones.
const clean = (name: string): string => shorten(name, 64)

const words = (name: string): string => PlainText.words(clean(name))

const count = (tokens: number): string =>
  tokens < 10_000 ? String(tokens) : `${(tokens / 1000).toFixed(1)}k`

const amount = (value: number): string => String(Number(value.toFixed(6)))

const duration = (ms: number): string => {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`
  const seconds = Math.round(ms / 1000)
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}

const shorten = (text: string, width: number): string => {
  // Cut first, so that a long result costs no more than a short one; and cut between characters, not inside of one.
  const head = PlainText.plain(text.slice(0, width * 2)).trim()
  if (head.length <= width && text.length <= width * 2) return head
  const cut = head.slice(0, width - 1)
  return `${/[\ud800-\udbff]$/.test(cut) ? cut.slice(0, -1) : cut}…`
}
