/**
 * `checkrein runs show`: one run in words.
 */

import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { prettyInTurn } from "../../observe/Pretty.ts"
import type { Command } from "../../run/Command.ts"
import { isVoid } from "../../run/Expiry.ts"
import type { Handoff } from "../../run/Handoff.ts"
import { countsAsFree, duration } from "../../run/HandoffText.ts"
import { callsOf, type Message, textOf } from "../../run/Message.ts"
import { cost, dollars, plain, words } from "../../run/PlainText.ts"
import type { RunEvent } from "../../run/RunEvent.ts"
import * as RunExit from "../../run/RunExit.ts"
import * as RunState from "../../run/RunState.ts"
import { load, RunStore } from "../../store/RunStore.ts"
import * as AgentOf from "../AgentOf.ts"
import * as Ending from "../Ending.ts"
import * as HandoffScreen from "../HandoffScreen.ts"
import * as Output from "../Output.ts"
import type * as Flags from "./Flags.ts"
import { age } from "./List.ts"
import * as StoredRun from "./StoredRun.ts"

/** What was used of each limit; what has neither a limit nor any use is left out. */
const spent = (state: RunState.RunState): ReadonlyArray<string> => {
  const { limits } = state
  const used = RunState.used(state)
  const rows = [
    ["turns", used.turns, limits.turns, limits.reserve?.turns, String],
    ["money", used.usd, limits.usd, limits.reserve?.usd, dollars],
    ["tokens", used.tokens, limits.tokens, limits.reserve?.tokens, String],
    ["tool calls", used.toolCalls, limits.toolCalls, limits.reserve?.toolCalls, String],
    ["time", used.timeMs, limits.timeMs, limits.reserve?.timeMs, duration]
  ] as const
  return rows.map(([name, amount, limit, reserve, show]) => {
    const of = limit === undefined ? "" : ` of ${show(limit)}`
    const kept = reserve === undefined ? "" : `, ${show(reserve)} of it kept for a handoff`
    const isUnpriced = name === "money" && state.unpriced === true
    const shown = isUnpriced && limit === undefined ? cost({ costUsd: amount, unpriced: true }) : show(amount)
    const free = isUnpriced ? `; ${countsAsFree}` : ""
    return `  ${name.padEnd(10)}  ${shown}${of}${kept}${free}`
  })
}

const cut = (text: string, width: number): string =>
  text.length <= width ? text : `${text.slice(0, width - 1)}… (${text.length} characters)`

const contentOf = (message: Message): string => {
  switch (message.role) {
    case "assistant": {
      const calls = callsOf(message).map(({ name, params }) => `→ ${name} ${JSON.stringify(params)}`)
      return [textOf(message), ...calls].filter((text) => text !== "").join("  ")
    }
    case "user": {
      if (typeof message.content === "string") return message.content
      return message.content
        .map((part) => (part.type === "text" ? part.text : `[${part.mediaType}]`))
        .join(" ")
    }
    case "tool":
      return `${message.ok ? "" : "✗ "}${message.tool}: ${message.content}`
    case "system":
      return message.content
  }
}

const shownInBrief = 30

/** The transcript: a line for each message, or with `full` everything that was said. */
const transcript = ({ messages }: RunState.RunState, full: boolean): ReadonlyArray<string> => {
  const hidden = full ? 0 : Math.max(0, messages.length - shownInBrief)
  // The first two are the instructions and the task.
  const shown = hidden === 0 ? messages : [...messages.slice(0, 2), ...messages.slice(hidden + 2)]
  const lines = shown.map((message) => {
    const role = message.role.padEnd(9)
    if (full)
      return `  ${role}  ${contentOf(message)
        .split("\n")
        .map(plain)
        .join(`\n${" ".repeat(13)}`)}`
    return `  ${role}  ${cut(plain(Output.oneLine(contentOf(message))), 100)}`
  })
  if (hidden > 0) lines.splice(2, 0, `  … ${hidden} more messages; --full shows them`)
  return lines
}

/** What somebody has said about a call that still waits: it is taken in when the run is resumed. */
interface Said {
  readonly runId: string
  readonly command: Exclude<Command, { readonly type: "cancel" }>
}

/**
 * The first word about each call, which is the one that counts unless it has expired; a child's calls have their word in
 * the child's inbox.
 */
const saidAbout = Effect.fnUntraced(function* (state: RunState.RunState) {
  const store = yield* RunStore
  const question = RunExit.questionOf(state)
  const calls = [
    ...RunExit.approvalsOf(state),
    ...RunExit.unknownOf(state),
    ...(question === undefined ? [] : [question])
  ]
  const now = new Date(yield* Clock.currentTimeMillis).toISOString()
  const said = new Map<string, Said>()
  for (const runId of new Set([state.runId, ...calls.map((call) => call.runId)])) {
    const { inbox } = runId === state.runId ? state : yield* store.summary(runId)
    for (const { command } of yield* store.inbox(runId, inbox)) {
      if (command.type === "cancel" || isVoid(command, now)) continue
      const name = Ending.nameOf({ runId, callId: command.callId })
      const waits = runId === state.runId || calls.some((call) => Ending.nameOf(call) === name)
      if (waits && !said.has(name)) said.set(name, { runId, command })
    }
  }
  return said
})

const decisions = (said: Iterable<Said>): ReadonlyArray<string> =>
  [...said].map(({ command }) => {
    const by = command.by === undefined ? "" : ` by ${plain(command.by)}`
    const what =
      command.type === "decide"
        ? command.decision
        : command.type === "answer"
          ? "answered"
          : words(command.outcome)
    const until =
      command.type === "decide" && command.expires !== undefined ? ` until ${plain(command.expires)}` : ""
    return `  call ${plain(command.callId)}: ${what}${by}${until}; it counts when the run is resumed`
  })

const journal = (events: ReadonlyArray<RunEvent>): ReadonlyArray<string> => {
  const pretty = prettyInTurn()
  return events.map((event) => {
    const number = String(event.seq).padStart(4)
    return `${number}  ${event.at}  ${event.type.padEnd(18)}  ${(pretty(event) ?? "").trim()}`.trimEnd()
  })
}

/** What is taken up with the run stands below what people have to settle. */
const waiting = (state: RunState.RunState, handoff: Handoff | undefined): ReadonlyArray<string> => {
  const line = (what: string) => (call: RunExit.ApprovalRequired["calls"][number]) =>
    `  ${what} ${plain(call.callId)}: ${plain(call.tool)} ${plain(JSON.stringify(call.args))}`
  const question = RunExit.questionOf(state)
  return [
    ...RunExit.approvalsOf(state).flatMap((call) => [line("call")(call), ...Ending.earlier(call)]),
    ...RunExit.unknownOf(state).map(line("call of unknown outcome")),
    ...(question === undefined ? [] : [`  asks: ${plain(question.text)}`]),
    ...(handoff?.waiting.calls ?? []).map(
      ({ args, callId, tool }) => `  to be resumed, for call ${plain(callId)}: ${plain(tool)} ${plain(args)}`
    )
  ]
}

const section = (title: string, lines: ReadonlyArray<string>): ReadonlyArray<string> =>
  lines.length === 0 ? [] : ["", title, ...lines]

// The other sections of this screen say these.
const saidElsewhere: ReadonlySet<HandoffScreen.Part> = new Set([
  "task",
  "unknown",
  "waiting",
  "spend",
  "next"
])

const found = (handoff: Handoff | undefined): ReadonlyArray<string> =>
  handoff === undefined
    ? []
    : HandoffScreen.parts(handoff, saidElsewhere).flatMap(({ lines, title }) =>
        section(
          title,
          lines.map((line) => `  ${line}`)
        )
      )

/** Shows a run as it stands, or what happens to it. */
export const show = (input: Flags.Show) =>
  Effect.gen(function* () {
    if (!input.follow) return yield* standing(input)
    if (input.events || input.full || input.handoff)
      return yield* new Output.UsageError({
        message:
          "--follow shows what happens, and --events, --full and --handoff how the run stands: use one of them"
      })
    const { follow } = yield* Effect.promise(() => import("./Follow.ts"))
    yield* follow(input)
  })

const standing = (input: Flags.Show) =>
  Effect.gen(function* () {
    const { events, state } = yield* load(input.id)
    const said = yield* saidAbout(state)
    const now = yield* Clock.currentTimeMillis
    const where = yield* AgentOf.whereOf(input.id, input)
    const isFree = state.status === "running" && (yield* StoredRun.isFree(where.root))
    const next =
      state.status === "running" && !isFree
        ? [Ending.follow(where), Ending.cancel(where)]
        : Ending.next(state, where, new Set(said.keys()))
    // Whoever takes a run over needs none of one that has its answer.
    const handoff = state.status === "completed" ? undefined : Ending.handoff(state, where)
    if (input.handoff && !input.json) {
      if (handoff !== undefined) return yield* Output.print(HandoffScreen.markdown(handoff))
      return yield* new Output.CommandFailed({
        message: `run ${input.id} has completed, so there is nothing to hand over`
      })
    }
    const ago = (iso: string) => `${age(now - Date.parse(iso))} ago`
    const [started] = events
    const after = started?.type === "run_started" ? started.after : undefined
    const alive =
      state.status !== "running"
        ? ""
        : isFree
          ? ", and nobody drives it: its process has died, or it waits for one"
          : `, and a process drives it, unless that has died in the last ${yield* StoredRun.deadFor} s`
    const answer = state.status === "completed" ? Ending.answerOf(state) : ""
    const text = [
      `${plain(state.runId)} is ${plain(Ending.standing(state))}${alive}`,
      `  agent       ${plain(state.agent)}`,
      `  started     ${state.startedAt} (${ago(state.startedAt)}), last event ${ago(state.updatedAt)}`,
      ...(state.tags === undefined ? [] : [`  tags        ${plain(state.tags.join(", "))}`]),
      ...(state.parent === undefined
        ? []
        : [`  child of    ${plain(state.parent.runId)}, call ${plain(state.parent.callId)}`]),
      ...(after === undefined ? [] : [`  follows     ${plain(after)}`]),
      ...section("Used", spent(state)),
      ...found(handoff),
      ...section(`Transcript (${state.messages.length} messages)`, transcript(state, input.full)),
      ...section("Waits for", waiting(state, handoff)),
      ...section("Decided", decisions(said.values())),
      ...section("Answer", answer === "" ? [] : answer.split("\n").map((line) => `  ${line}`)),
      ...section(
        "To go on",
        next.map((command) => `  ${command}`)
      ),
      ...(input.events ? section("Journal", journal(events)) : [])
    ].join("\n")
    const object = {
      run: state,
      ...Ending.waitingJson(state),
      decided: [...said.values()],
      handoff: handoff ?? null,
      next,
      ...(input.events ? { events } : undefined)
    }
    yield* Output.result(input.json, object, text)
  }).pipe(StoredRun.inStore(input.store))
