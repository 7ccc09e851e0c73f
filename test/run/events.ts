/**
 * Valid journals, for property tests: what a correct driver would have written.
 *
 * A simulated driver holds a state, asks `nextStep`, and appends the events that a correct loop would append. All its
 * luck (what the model says, how a tool ends, what a person decides, where the process dies) comes from a tape of
 * numbers, so a shorter tape is a simpler run, and a tape that has run out always lets the run end well.
 */
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import * as Digest from "../../src/loop/Digest.ts"
import { apply } from "../../src/run/Apply.ts"
import { empty, snapshot } from "../../src/run/Draft.ts"
import { hasExpired } from "../../src/run/Expiry.ts"
import { fold } from "../../src/run/Fold.ts"
import * as Limits from "../../src/run/Limits.ts"
import { type AssistantMessage, callsOf, type ToolCallPart } from "../../src/run/Message.ts"
import type { Rules, Step } from "../../src/run/NextStep.ts"
import { nextStep } from "../../src/run/NextStep.ts"
import type { Body, Of, PlannedCall, RunEvent, Suspension } from "../../src/run/RunEvent.ts"
import { version } from "../../src/run/RunEvent.ts"
import type { PendingCall, RunState } from "../../src/run/RunState.ts"
import { live as liveOperations, totals, undecided, unknownOutcomes } from "../../src/run/RunState.ts"

/** What the core decided when it had seen the first `at` events. */
export interface Decision {
  readonly at: number
  readonly elapsedMs: number
  readonly step: Step
}

/** A journal, the rules it was driven by, and every decision that was taken on the way. */
export interface Journal {
  readonly runId: string
  readonly rules: Rules
  readonly events: ReadonlyArray<RunEvent>
  readonly decisions: ReadonlyArray<Decision>
}

/** What a simulated run may contain. */
export interface Options {
  /** Whether tools may be sub-agents (default true). */
  readonly children?: boolean
  /** Whether the limits may change on resume (default true). */
  readonly limitsChange?: boolean
}

// --- events by hand -------------------------------------------------------------------------------------------------

/** A body that happens when the run has been driven for `elapsedMs`; by default a millisecond after the one before it. */
export type Written = Body | (Body & { readonly elapsedMs: number })

/** The date of the event of this number. */
export const dateOf = (seq: number, elapsedMs: number): string =>
  new Date(1_700_000_000_000 + seq * 1000 + Math.round(elapsedMs)).toISOString()

const dated = (runId: string, seq: number, elapsedMs: number, body: Body): RunEvent => ({
  v: version,
  runId,
  seq,
  at: dateOf(seq, elapsedMs),
  elapsedMs,
  ...body
})

/** Numbers and dates bodies as the events of one run. */
export const written = (bodies: ReadonlyArray<Written>, runId = "run"): ReadonlyArray<RunEvent> => {
  let now = -1
  return bodies.map((body, seq) => {
    now = "elapsedMs" in body ? body.elapsedMs : now + 1
    return dated(runId, seq, now, body)
  })
}

/** The state after these bodies. */
export const stateOf = (bodies: ReadonlyArray<Written>, runId = "run"): RunState => {
  const state = fold(written(bodies, runId))
  if (state === undefined) throw new Error("a run has at least one event")
  return state
}

/** The event that begins a run. */
export const started = (limits: Limits.Limits = {}): Body => ({
  type: "run_started",
  agent: "analyst",
  messages: [{ role: "user", content: "Which log file mentions a timeout?" }],
  limits
})

/** The digest of arguments. */
export const digestOf = Digest.ofArgs

/** A tool as the driver knows it. */
export type ToolSpec = Required<Pick<PlannedCall, "effect" | "purpose" | "approval" | "kind">> & {
  readonly tool: string
  readonly reconcile?: true
  readonly child?: true
}

const spec = (tool: string, effect: ToolSpec["effect"], rest: Partial<ToolSpec> = {}): ToolSpec => ({
  tool,
  effect,
  kind: "tool",
  purpose: "investigate",
  approval: "none",
  ...rest
})

/** The tools of every simulated run. */
export const tools = {
  read: spec("read_file", "read"),
  readSecret: spec("read_secret", "read", { approval: "required" }),
  put: spec("put_tag", "idempotent"),
  putAsk: spec("put_page", "idempotent", { approval: "ask" }),
  append: spec("append_row", "write"),
  mail: spec("send_mail", "write", { approval: "ask", reconcile: true }),
  remove: spec("delete_file", "write", { approval: "required" }),
  observe: spec("observe_test", "read", { purpose: "handoff" }),
  save: spec("save_handoff", "write", { purpose: "handoff" }),
  child: spec("ask_child", "idempotent", { child: true }),
  submit: spec("submit_result", "read", { kind: "submit", purpose: "handoff" }),
  input: spec("request_input", "read", { kind: "input", purpose: "handoff" })
} as const satisfies Record<string, ToolSpec>

/** A call that the model asks for. */
export interface Asked {
  readonly callId: string
  readonly spec: ToolSpec
  readonly args: Schema.Json
}

/** A call of a tool. */
export const call = (tool: ToolSpec, callId: string, args: Schema.Json = { path: callId }): Asked => ({
  callId,
  spec: tool,
  args
})

/** What the driver writes down about a call, with everything said that might go without saying. */
const planned = ({ args, callId, spec }: Asked): PlannedCall => ({
  callId,
  argsDigest: digestOf(args),
  kind: spec.kind,
  purpose: spec.purpose,
  effect: spec.effect,
  approval: spec.approval,
  ...(spec.reconcile === undefined ? undefined : { reconcile: spec.reconcile })
})

const part = ({ args, callId, spec }: Asked): ToolCallPart => ({
  type: "tool-call",
  id: callId,
  name: spec.tool,
  params: args
})

/** What a model call is expected to use. */
export const estimate = { usage: { promptTokens: 100, completionTokens: 10 }, costUsd: 0.001 }

/** The claim of a model call. */
export const asked = (turn: number, more: Partial<Omit<Of<"turn_started">, "type">> = {}): Body => ({
  type: "turn_started",
  turn,
  attempt: 1,
  purpose: "investigate",
  estimate,
  ...more
})

/** A reply of the model: with calls, or, without any, an answer. */
export const replied = (
  turn: number,
  calls: ReadonlyArray<Asked>,
  more: Partial<Omit<Of<"turn">, "type">> = {}
): Body => ({
  type: "turn",
  turn,
  message: {
    role: "assistant",
    content: calls.length === 0 ? [{ type: "text", text: "errors.log" }] : calls.map(part)
  },
  calls: calls.map(planned),
  usage: { promptTokens: 100, completionTokens: 10 },
  costUsd: 0.001,
  totalUsd: 0.001 * turn,
  finish: calls.length === 0 ? "stop" : "tool-calls",
  ms: 5,
  answers: calls.length === 0,
  ...more
})

/** A claimed turn and its reply. */
export const turn = (
  number: number,
  calls: ReadonlyArray<Asked>,
  more: Partial<Omit<Of<"turn">, "type">> = {}
): ReadonlyArray<Body> => [asked(number), replied(number, calls, more)]

/** The start of a call. */
export const start = ({ args, callId, spec }: Asked, attempt = 1): Body => ({
  type: "tool_start",
  callId,
  tool: spec.tool,
  args,
  attempt,
  idempotencyKey: `run:${callId}:${digestOf(args)}`,
  purpose: spec.purpose
})

/** The result of a call: executed and well, unless told otherwise. */
export const result = (
  { callId, spec }: Asked,
  more: Partial<Omit<Of<"tool_result">, "type">> = {}
): Body => ({
  type: "tool_result",
  callId,
  tool: spec.tool,
  content: "some text",
  ok: true,
  ms: 3,
  disposition: "executed",
  digest: "some text",
  ...more
})

/** A call that was run: its start and its result. */
export const ran = (
  asked: Asked,
  more: Partial<Omit<Of<"tool_result">, "type">> = {}
): ReadonlyArray<Body> => [start(asked), result(asked, more)]

/** A decision about a call. */
export const decided = (
  { args, callId }: Asked,
  decision: Of<"approval_resolved">["decision"],
  more: Partial<Omit<Of<"approval_resolved">, "type">> = {}
): Body => ({ type: "approval_resolved", callId, decision, argsDigest: digestOf(args), ...more })

/** A new driver takes the run up. */
export const resumed = { type: "run_resumed", inbox: 0, messages: [] } as const satisfies Body

/** The end that a run was brought to. */
export const stopped = (
  status: Of<"run_stopped">["status"],
  reason: Of<"run_stopped">["reason"],
  more: Partial<Omit<Of<"run_stopped">, "type">> = {}
): Body => ({
  type: "run_stopped",
  status,
  reason,
  detail: "for a reason",
  turns: 1,
  costUsd: 0.001,
  ...more
})

/** A child run that stopped its parent. */
export const suspension = (runId: string, reason: Suspension["reason"]): Suspension => {
  const request = { runId, callId: "x1", tool: "delete_file", args: { path: "a" }, argsDigest: "d" }
  return {
    runId,
    reason,
    detail: `waits (${reason})`,
    approvals: reason === "approval" ? [request] : [],
    unknown: reason === "unknown_outcome" ? [request] : [],
    ...(reason === "input" ? { question: { runId, callId: "x1", text: "Which of the two?" } } : undefined)
  }
}

const nanosPerUsd = 1_000_000_000

// --- luck -----------------------------------------------------------------------------------------------------------

interface Tape {
  /** A number below `n`; 0 once the tape has run out. */
  readonly below: (n: number) => number
  /** True about once in `n` times; never once the tape has run out. */
  readonly once: (n: number) => boolean
  /** One of the items; the first once the tape has run out. */
  readonly pick: <A>(items: readonly [A, ...Array<A>]) => A
  readonly ended: () => boolean
}

const makeTape = (numbers: ReadonlyArray<number>): Tape => {
  let next = 0
  const below = (n: number) => (numbers[next++] ?? 0) % n
  return {
    below,
    once: (n) => below(n) === n - 1,
    pick: (items) => items[below(items.length)] ?? items[0],
    ended: () => next >= numbers.length
  }
}

const amountsFrom = (tape: Tape): Omit<Limits.Limits, "reserve"> => {
  const turns = tape.pick([20, 4, 8, undefined])
  const usd = tape.pick([undefined, undefined, undefined, 0.002, 0.01])
  const tokens = tape.pick([undefined, undefined, undefined, 500, 2000])
  const toolCalls = tape.pick([undefined, undefined, 1, 2, 5, 12])
  const timeMs = tape.pick([undefined, undefined, undefined, 10_000, 60_000])
  return {
    ...(turns === undefined ? undefined : { turns }),
    ...(usd === undefined ? undefined : { usd }),
    ...(tokens === undefined ? undefined : { tokens }),
    ...(toolCalls === undefined ? undefined : { toolCalls }),
    ...(timeMs === undefined ? undefined : { timeMs })
  }
}

const limitsFrom = (tape: Tape): Limits.Limits => {
  const limits = amountsFrom(tape)
  if (!tape.once(2)) return limits
  const kept = tape.pick([0.5, 0.25])
  const reserve = {
    ...(limits.turns === undefined || tape.once(2) ? undefined : { turns: Math.ceil(limits.turns * kept) }),
    ...(limits.usd === undefined || tape.once(2) ? undefined : { usd: limits.usd * kept }),
    ...(limits.tokens === undefined || tape.once(2) ? undefined : { tokens: limits.tokens * kept }),
    ...(limits.toolCalls === undefined || tape.once(2)
      ? undefined
      : { toolCalls: Math.ceil(limits.toolCalls * kept) }),
    ...(limits.timeMs === undefined || tape.once(2) ? undefined : { timeMs: limits.timeMs * kept })
  }
  return { ...limits, reserve }
}

const rulesFrom = (tape: Tape): Rules => ({
  repetition: tape.pick([undefined, { nameAt: 3, stopAt: 5 }, { nameAt: 2, stopAt: 3 }]),
  stopWhen: tape.once(6)
    ? [(state) => (state.turns >= 4 && state.turns % 2 === 0 ? "an even number of turns" : undefined)]
    : []
})

// --- the simulated driver -------------------------------------------------------------------------------------------

/** The process died: nothing more is written, and nothing is cleaned up. */
const Crash = Symbol("crash")
/** Somebody pressed Stop. */
const Cancelled = Symbol("cancelled")

/** More decisions than any of these runs needs: a core that asks for more goes round in circles. */
const endless = 500

const isFinal = (state: RunState) => state.status === "completed" || state.status === "failed"

/** Drives one run with the luck of a tape, through crashes, stops and resumes, until it is over or the tape is. */
export const simulate = (numbers: ReadonlyArray<number>, options: Options = {}): Journal => {
  const tape = makeTape(numbers)
  const runId = "run"
  const rules = rulesFrom(tape)
  const contract = tape.once(4)
  const stuck = tape.once(8)
  const mute = tape.once(8)
  const events: Array<RunEvent> = []
  const decisions: Array<Decision> = []
  const childTotals = new Map<string, number>()
  const draft = empty(runId)
  /** What reading calls have brought, by tool and arguments. */
  const brought = new Map<string, string>()
  let elapsedMs = 0
  let calls = 0
  let failures = 0
  let commands = 0

  const append = (...bodies: ReadonlyArray<Body>) => {
    for (const body of bodies) {
      const event = dated(runId, events.length, elapsedMs, body)
      events.push(event)
      apply(draft, event)
    }
  }
  const now = (): RunState => snapshot(draft)
  /** The date of the next event, or of one so many later. */
  const date = (later = 0): string => dateOf(events.length + later, elapsedMs)
  const pass = (...ms: readonly [number, ...Array<number>]) => {
    elapsedMs += tape.pick(ms)
  }
  /** Between any two appends the process may die and Stop may be pressed. */
  const danger = () => {
    if (tape.once(25)) throw Crash
    if (tape.once(40)) throw Cancelled
  }
  /** An amount of up to about a tenth of a cent, on the nano-dollar grid. */
  const money = () => (tape.below(60_000) * 17) / nanosPerUsd
  const usage = () => {
    const promptTokens = 1 + tape.below(200)
    const cached = tape.below(4) === 3 ? tape.below(promptTokens) : 0
    return {
      promptTokens,
      completionTokens: tape.below(50),
      ...(cached > 0 ? { cachedTokens: cached } : undefined)
    }
  }

  const stop = (ending: Pick<Of<"run_stopped">, "status" | "reason" | "detail" | "exhausted">) => {
    const operations = ending.exhausted === undefined ? [] : liveOperations(now())
    append({
      type: "run_stopped",
      ...ending,
      ...(operations.length === 0
        ? undefined
        : {
            operations: operations.map(({ operationId }) => ({ operationId, handling: "detached" as const }))
          }),
      ...totals(now())
    })
  }

  /** What still runs when the run is stopped: a read is cancelled, of a write nobody can tell. */
  const letGo = () => {
    for (const running of now().pending.filter((call) => call.status === "running")) {
      if (tape.once(2)) continue
      append(
        result(toAsked(running), {
          content: "stopped",
          ok: false,
          digest: "stopped",
          disposition: running.effect === "write" ? "unknown" : "cancelled"
        })
      )
    }
  }

  const toAsked = (pending: PendingCall): Asked => ({
    callId: pending.callId,
    args: pending.args,
    spec: { ...pending, approval: "none", tool: pending.tool } as ToolSpec
  })

  const newCalls = (): ReadonlyArray<Asked> => {
    if (stuck) return [call(tools.read, `c${++calls}`, { path: "a" })]
    const { submit, input, child, ...plain } = tools
    const investigating = [
      plain.read,
      plain.read,
      plain.read,
      plain.read,
      plain.readSecret,
      plain.put,
      plain.putAsk,
      plain.append,
      plain.mail,
      plain.remove,
      plain.observe,
      plain.save,
      ...(options.children === false ? [] : [child, child])
    ] as [ToolSpec, ...Array<ToolSpec>]
    const some = Array.from({ length: 1 + tape.below(4) }, () => {
      calls++
      return call(
        tape.pick(investigating),
        `c${calls}`,
        tape.pick([{ path: "a" }, { path: "b" }, "not json"])
      )
    })
    if (contract && tape.once(8)) some.push(call(submit, `c${++calls}`, { answer: "errors.log" }))
    if (tape.once(12)) some.push(call(input, `c${++calls}`, { question: "Which day?" }))
    return some
  }

  const askModel = (purpose: Limits.Purpose) => {
    const { claim: _, lastUsage, repetition, turns } = now()
    const { worst } = repetition
    const number = turns + 1
    append({
      type: "turn_started",
      turn: number,
      attempt: failures + 1,
      purpose,
      estimate: { usage: { promptTokens: lastUsage.promptTokens, completionTokens: 0 }, costUsd: money() },
      ...(worst !== undefined && worst.count === rules.repetition?.nameAt
        ? { note: `${worst.tool} has brought the same result ${worst.count} times.` }
        : undefined)
    })
    danger()
    pass(100, 900, 5000)
    const costUsd = money()
    const totalUsd = Math.round((now().costUsd + costUsd) * nanosPerUsd) / nanosPerUsd
    const text: AssistantMessage = { role: "assistant", content: [{ type: "text", text: "errors.log" }] }
    const luck = tape.below(12)
    if (luck === 11) {
      failures++
      const charged = tape.once(2) ? { usage: usage(), costUsd } : { costUsd: 0 }
      append({
        type: "turn_failed",
        turn: number,
        attempt: failures,
        reason: "rate_limit",
        detail: "429",
        ...charged
      })
      if (failures < 3) return
      failures = 0
      if (turns === 0) stop({ status: "failed", reason: "provider_refused", detail: "401" })
      else stop({ status: "interrupted", reason: "provider", detail: "the model is away" })
      return
    }
    failures = 0
    if (mute && luck >= 4) {
      const filtered = tape.once(2) || now().phase === "handoff"
      const message = tape.once(2) && filtered ? text : { ...text, content: [] }
      const finish = filtered ? "content_filter" : tape.pick(["stop", "length"])
      const more = { costUsd, totalUsd, usage: usage() }
      append(replied(number, [], { message, answers: false, finish, note: "It was empty.", ...more }))
      return
    }
    if (luck === 10 || luck === 9) {
      const finish = luck === 10 ? "length" : "stop"
      const note = luck === 10 ? "Your reply was cut off." : "Submit a result."
      append(
        replied(number, [], {
          message: text,
          answers: false,
          finish,
          ...(luck === 10 ? { cutOff: true as const } : undefined),
          note,
          costUsd,
          totalUsd,
          usage: usage()
        })
      )
      return
    }
    const wanted =
      luck === 0 ? (contract ? [call(tools.submit, `c${++calls}`, { answer: 7 })] : []) : newCalls()
    const body = replied(number, wanted, { costUsd, totalUsd, usage: usage() }) as Omit<Of<"turn">, "v">
    const own = {
      type: "tool-call",
      id: "p",
      name: "web_search",
      params: {},
      providerExecuted: true
    } as const
    const found = { type: "tool-result", id: "p", name: "web_search", isFailure: false, result: [] } as const
    const message = tape.once(5)
      ? { ...body.message, content: [own, found, ...body.message.content] }
      : body.message
    const waits = now().phase === "handoff" ? [] : wanted.filter((call) => call.spec.approval === "required")
    append({ ...body, message }, ...waits.map(approvalRequired))
  }

  const approvalRequired = ({ args, callId, spec }: Asked): Extract<Body, { type: "approval_required" }> => ({
    type: "approval_required",
    callId,
    tool: spec.tool,
    args,
    argsDigest: digestOf(args)
  })

  /** What the model reads of a call tells it with which arguments it was approved, if they are not its own. */
  const told = ({ args, edited }: PendingCall, content: string): string =>
    edited === true ? `With ${JSON.stringify(args)}\n${content}` : content

  const finish = (pending: PendingCall): "ended" | "again" => {
    const asked = toAsked(pending)
    pass(5, 40, 2000)
    if (pending.tool === tools.child.tool) {
      const total = (childTotals.get(pending.callId) ?? 0) + tape.below(60_000)
      childTotals.set(pending.callId, total)
      const childCostUsd = total / nanosPerUsd
      const reason = tape.pick([
        undefined,
        undefined,
        "approval",
        "input",
        "provider",
        "unknown_outcome"
      ] as const)
      append(
        reason === undefined
          ? result(asked, { childCostUsd, ok: !tape.once(3) })
          : {
              type: "child_suspended",
              callId: pending.callId,
              suspension: suspension(`${runId}/${pending.callId}`, reason),
              childCostUsd
            }
      )
      return "ended"
    }
    const content = stuck ? "some text" : tape.pick(["some text", "other text"])
    const brings = (raw: string, more: Partial<Omit<Of<"tool_result">, "type">> = {}) =>
      result(asked, {
        content: told(pending, raw),
        digest: Digest.ofText(raw),
        ...more
      })
    switch (tape.below(10)) {
      case 9:
        if (pending.effect === "write") {
          append(result(asked, { disposition: "unknown", ok: false, content: "cut off" }))
          return "ended"
        }
        if (Limits.claim(now().limits, { ...now(), timeMs: elapsedMs }, pending.purpose)._tag === "Failure")
          break
        // Between two attempts the call waits, and its approval may expire.
        if (hasExpired({ ...pending, status: "waiting" }, date(1))) break
        append(
          result(asked, {
            ok: false,
            content: "away",
            digest: "away",
            disposition: "cancelled",
            mayRepeat: true
          }),
          start(asked, now().pending.find((call) => call.callId === pending.callId)!.attempts + 1)
        )
        return "again"
      case 8:
        append(brings("Error: no such file", { ok: false }))
        return "ended"
      case 7:
        append(brings("wrong arguments", { ok: false, wrongArguments: true }))
        return "ended"
      case 6:
        append(
          {
            type: "operation_started",
            operationId: `op ${pending.callId}`,
            callId: pending.callId,
            tool: pending.tool,
            argsDigest: pending.argsDigest,
            observe: tools.observe.tool,
            label: "a test"
          },
          brings(content)
        )
        return "ended"
    }
    append(brings(content))
    if (pending.effect === "read") brought.set(sameCall(pending), content)
    const [operation] = liveOperations(now())
    if (pending.tool === tools.observe.tool && operation !== undefined && tape.once(2)) {
      const { operationId } = operation
      append({ type: "operation_ended", operationId, outcome: "succeeded", detail: "green", by: "observed" })
    }
    return "ended"
  }

  const sameCall = ({ argsDigest, tool }: PendingCall) => `${tool} ${argsDigest}`

  const execute = (ready: ReadonlyArray<PendingCall>) => {
    const running: Array<PendingCall> = []
    for (const pending of ready) {
      const content = brought.get(sameCall(pending))
      if (content !== undefined && tape.once(5)) {
        append(result(toAsked(pending), { disposition: "cached", content: told(pending, content) }))
      } else if (!hasExpired(pending, date())) {
        append(start(toAsked(pending), pending.attempts + 1))
        running.push(pending)
      }
    }
    danger()
    while (running.length > 0) {
      const index = tape.below(running.length)
      const pending = running[index]!
      if (finish(pending) === "again") continue
      running.splice(index, 1)
      if (tape.once(60)) {
        letGo()
        stop({ status: "failed", reason: "tool_permanent", detail: "permission denied" })
        return
      }
      danger()
    }
  }

  const decide = (pending: PendingCall) => {
    const asked = toAsked(pending)
    const luck = tape.below(6)
    if (luck === 0) return
    const command = ++commands
    switch (luck) {
      case 1:
        return append(decided(asked, "approved", { by: "ann", command }))
      case 2:
        return append(decided(asked, "rejected", { command }))
      case 3:
        return append(decided(asked, "rejected", { reason: "not on a Friday", command }))
      case 4:
      case 5: {
        // What was started before is repeated with the same arguments.
        const args = pending.attempts > 0 ? asked.args : { path: "edited" }
        const edit = tape.once(2) ? {} : { args, argsDigest: digestOf(args) }
        const until = luck === 4 ? {} : { expires: date(tape.pick([1, 2, 3, 8])), by: "ann" }
        return append(decided(asked, "approved", { ...edit, ...until, command }))
      }
    }
  }

  const resume = () => {
    const { limits } = now()
    const said = tape.once(5) ? [{ role: "user", content: "Go on." } as const] : []
    commands += tape.below(3)
    append({ type: "run_resumed", inbox: commands, messages: said })
    if (options.limitsChange !== false && tape.once(3)) {
      const turns = (limits.turns ?? 20) + tape.pick([5, 1])
      append({ type: "limits_changed", limits: tape.once(4) ? limitsFrom(tape) : { ...limits, turns } })
    }
    for (const pending of undecided(now())) decide(pending)
    for (const pending of now().pending) {
      if (pending.kind === "input" && tape.once(2)) {
        append({
          type: "input_given",
          callId: pending.callId,
          answer: "Tuesday",
          by: "ann",
          command: ++commands
        })
      }
    }
    for (const pending of unknownOutcomes(now())) {
      const { callId, tool } = pending
      const outcome = tape.pick(["skip", "happened", "did_not_happen"] as const)
      if (outcome === "skip") continue
      append({
        type: "outcome_resolved",
        callId,
        tool,
        outcome,
        content: told(pending, `a person says: ${outcome}`),
        by: "ann",
        command: ++commands
      })
    }
  }

  const interpret = (step: Step): void => {
    switch (step._tag) {
      case "AskModel":
        askModel(step.purpose)
        return
      case "ExecuteCalls":
        execute(step.calls)
        return
      case "AnswerCalls":
        append(
          ...step.answers.map(({ call, refusal }) =>
            result(toAsked(call), {
              ok: false,
              content: told(
                call,
                refusal._tag === "Rejected"
                  ? `Declined: ${call.rejection ?? "no reason"}. It did not run.`
                  : "no budget left"
              ),
              disposition: refusal._tag === "Rejected" ? "rejected" : "refused",
              ...(refusal._tag === "NoBudget" ? { short: refusal.exhausted.resource } : undefined)
            })
          )
        )
        return
      case "CheckApprovals":
        append(
          ...step.calls.map((pending) =>
            tape.once(2) ? approvalRequired(toAsked(pending)) : decided(toAsked(pending), "not_required")
          )
        )
        return
      case "AskAgain":
        append(
          ...step.calls.map((pending): Body => {
            const { callId } = pending
            const problem = "it has expired"
            if (pending.attempts > 0) return { ...approvalRequired(toAsked(pending)), problem }
            const parts = now().messages.flatMap((one) => (one.role === "assistant" ? callsOf(one) : []))
            const args = parts.find(({ id }) => id === callId)?.params ?? null
            return { ...approvalRequired({ ...toAsked(pending), args }), problem }
          })
        )
        return
      case "Reconcile":
        append(
          ...step.calls.map((pending): Body => {
            const { callId, tool } = pending
            const outcome = tape.pick(["happened", "did_not_happen", "still_unknown"] as const)
            const content = told(pending, `looked up: ${outcome}`)
            return { type: "outcome_resolved", callId, tool, outcome, content }
          })
        )
        return
      case "BeginHandoff":
        failures = 0
        append({ type: "handoff", exhausted: step.exhausted })
        return
      case "Stop": {
        for (const pending of now().pending) {
          if (pending.kind === "submit" && step.ending.reason === "submitted")
            append(result(toAsked(pending)))
          if (pending.kind === "input" && step.ending.reason === "input") {
            append({ type: "input_required", callId: pending.callId, question: "Which day?" })
          }
        }
        stop(step.ending)
      }
    }
  }

  /** One driver's life: until the run stops, Stop is pressed, or the process dies. */
  const live = (isResumed: boolean) => {
    failures = 0
    try {
      if (isResumed) resume()
      while (now().status === "running") {
        pass(0, 1, 20)
        const waiting = undecided(now())[0]
        if (waiting !== undefined && tape.once(4)) decide(waiting)
        if (decisions.length > endless)
          throw new Error(`this run does not end: ${decisions.length} decisions`)
        const step = nextStep(now(), rules, elapsedMs, date())
        decisions.push({ at: events.length, elapsedMs, step })
        interpret(step)
        if (now().status === "running") danger()
      }
    } catch (thrown) {
      if (thrown === Cancelled) {
        letGo()
        stop({ status: "interrupted", reason: "cancelled", detail: "user pressed Stop" })
      } else if (thrown !== Crash) {
        throw thrown
      }
    }
  }

  append({
    ...(started(limitsFrom(tape)) as Omit<Of<"run_started">, "v">),
    ...(contract ? { contract: { tool: tools.submit.tool } } : undefined),
    ...(tape.once(5) ? { parent: { runId: "parent", callId: "c9" } } : undefined)
  })
  live(false)
  while (!isFinal(now()) && !tape.ended() && !tape.once(10)) live(true)
  return { runId, rules, events, decisions }
}

const tapes = Arbitrary.array(
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 65_535 }))),
  {
    maxLength: 400
  }
)

/** Valid journals of one run each, simple ones first. */
export const journals = (options: Options = {}): Arbitrary.Arbitrary<Journal> =>
  Arbitrary.map(tapes, (tape) => simulate(tape, options))

/** How many journals a property looks at, and how long they may become. */
export const many = { arbitrary: { runs: 150, size: 400 } } as const
