/**
 * The laws of the design, as far as the core alone decides them, over generated journals. What is expected is counted
 * here from the events themselves, never read from a state.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Apply from "../../src/run/Apply.ts"
import { empty, snapshot } from "../../src/run/Draft.ts"
import * as Fold from "../../src/run/Fold.ts"
import type { Limits } from "../../src/run/Limits.ts"
import { callsOf } from "../../src/run/Message.ts"
import type { Usage } from "../../src/run/Money.ts"
import type { Step } from "../../src/run/NextStep.ts"
import { nextStep } from "../../src/run/NextStep.ts"
import type { PlannedCall, RunEvent } from "../../src/run/RunEvent.ts"
import * as RunState from "../../src/run/RunState.ts"
import { type Decision, digestOf, type Journal, journals, many } from "./events.ts"

interface Seen {
  readonly planned: PlannedCall
  /** What a decision without arguments of its own is about: what the model asked for, or what was asked about last. */
  args: unknown
  starts: number
  results: number
  required: boolean
  approvedArgs: unknown
  decision: "approved" | "rejected" | "not_required" | undefined
  /** How often it had been started when it was decided about: an approval that expires may be asked for once more. */
  startsBefore: number
}

/** What an outsider can count in a journal. */
interface Ledger {
  turns: number
  nanos: bigint
  tokens: number
  toolCalls: number
  readonly calls: Map<string, Seen>
  readonly children: Map<string, bigint>
  claim: Extract<RunEvent, { type: "turn_started" }> | undefined
  limits: Limits
  handoff: boolean
  lastTurn: { readonly nanos: bigint; readonly tokens: number }
}

const nanosOf = (usd: number): bigint => BigInt(Math.round(usd * 1e9))

const settling = new Set(["executed", "cached", "rejected", "refused"])

const emptyLedger = (): Ledger => ({
  turns: 0,
  nanos: 0n,
  tokens: 0,
  toolCalls: 0,
  calls: new Map(),
  children: new Map(),
  claim: undefined,
  limits: {},
  handoff: false,
  lastTurn: { nanos: 0n, tokens: 0 }
})

const spend = (ledger: Ledger, usage: Usage | undefined, usd: number): void => {
  ledger.nanos += nanosOf(usd)
  ledger.tokens += (usage?.promptTokens ?? 0) + (usage?.completionTokens ?? 0)
}

const loseClaim = (ledger: Ledger): void => {
  if (ledger.claim === undefined) return
  ledger.turns++
  spend(ledger, ledger.claim.estimate.usage, ledger.claim.estimate.costUsd)
  ledger.claim = undefined
}

const record = (ledger: Ledger, event: RunEvent): void => {
  if ("childCostUsd" in event && event.childCostUsd !== undefined) {
    ledger.children.set(event.callId, nanosOf(event.childCostUsd))
  }
  switch (event.type) {
    case "run_started":
    case "limits_changed":
      ledger.limits = event.limits
      return
    case "turn_started":
      ledger.claim = event
      return
    case "turn": {
      ledger.claim = undefined
      ledger.turns++
      spend(ledger, event.usage, event.costUsd)
      ledger.lastTurn = {
        nanos: nanosOf(event.costUsd),
        tokens: event.usage.promptTokens + event.usage.completionTokens
      }
      for (const planned of event.calls) {
        const part = event.message.content.find(
          (part) => part.type === "tool-call" && part.id === planned.callId
        )
        ledger.calls.set(planned.callId, {
          planned,
          args: part?.type === "tool-call" ? part.params : undefined,
          starts: 0,
          results: 0,
          required: false,
          approvedArgs: undefined,
          decision: undefined,
          startsBefore: 0
        })
      }
      return
    }
    case "turn_failed":
      ledger.claim = undefined
      spend(ledger, event.usage, event.costUsd)
      return
    case "tool_start":
      ledger.toolCalls++
      ledger.calls.get(event.callId)!.starts++
      return
    case "tool_result":
      if (settling.has(event.disposition)) ledger.calls.get(event.callId)!.results++
      return
    case "input_given":
      ledger.calls.get(event.callId)!.results++
      return
    case "outcome_resolved":
      if (event.outcome !== "still_unknown") ledger.calls.get(event.callId)!.results++
      return
    case "approval_required": {
      const call = ledger.calls.get(event.callId)!
      call.required = true
      call.decision = undefined
      call.args = event.args
      return
    }
    case "approval_resolved": {
      const call = ledger.calls.get(event.callId)!
      call.startsBefore = call.starts
      call.decision = event.decision
      call.approvedArgs = event.args ?? call.args
      return
    }
    case "handoff":
      ledger.handoff = true
      return
    case "run_resumed":
      loseClaim(ledger)
      ledger.handoff = false
      return
    case "run_stopped":
      loseClaim(ledger)
      return
  }
}

const ledgerOf = (events: ReadonlyArray<RunEvent>): Ledger => {
  const ledger = emptyLedger()
  for (const event of events) record(ledger, event)
  return ledger
}

const costOf = (ledger: Ledger): bigint => {
  let nanos = ledger.nanos
  for (const total of ledger.children.values()) nanos += total
  return nanos
}

/** What each limit allows, what was used, and whether that leaves no room. Money is compared in whole nano-dollars. */
const reached = (
  ledger: Ledger,
  elapsedMs: number,
  purpose: "investigate" | "handoff"
): ReadonlyArray<string> => {
  const { limits } = ledger
  const kept = purpose === "investigate" ? (limits.reserve ?? {}) : {}
  const out: Array<string> = []
  const check = (
    name: string,
    limit: number | undefined,
    reserve: number | undefined,
    used: bigint | number
  ) => {
    if (limit !== undefined && Number(used) >= limit - (reserve ?? 0)) out.push(name)
  }
  check("turns", limits.turns, kept.turns, ledger.turns)
  check("usd", limits.usd && limits.usd * 1e9, kept.usd && kept.usd * 1e9, costOf(ledger))
  check("tokens", limits.tokens, kept.tokens, ledger.tokens)
  check("time", limits.timeMs, kept.timeMs, elapsedMs)
  if (limits.reserve?.toolCalls !== undefined) {
    check("tool_calls", limits.toolCalls, kept.toolCalls, ledger.toolCalls)
  }
  return out
}

/** What is kept for a handoff, of money and tokens, and would be touched by another turn like the last. */
const reaching = (ledger: Ledger): ReadonlyArray<string> => {
  const { lastTurn, limits } = ledger
  if (limits.money === "hold") return []
  const { tokens = 0, usd = 0 } = limits.reserve ?? {}
  const out: Array<string> = []
  if (limits.usd !== undefined && usd > 0) {
    const after = costOf(ledger) + lastTurn.nanos
    if (after > nanosOf(limits.usd) - nanosOf(usd)) out.push("usd")
  }
  if (limits.tokens !== undefined && tokens > 0) {
    if (ledger.tokens + lastTurn.tokens > limits.tokens - tokens) out.push("tokens")
  }
  return out
}

/** Looks at every decision of a journal, together with the ledger and the state of what was written before it. */
const eachDecision = (
  { decisions, events }: Journal,
  look: (step: Step, ledger: Ledger, state: RunState.RunState, decision: Decision) => void
): void => {
  const ledger = emptyLedger()
  const state = empty(events[0]!.runId)
  let seen = 0
  for (const decision of decisions) {
    for (; seen < decision.at; seen++) {
      record(ledger, events[seen]!)
      Apply.apply(state, events[seen]!)
    }
    look(decision.step, ledger, state, decision)
  }
}

describe("law 1: a claimed model call that never came back counts as a turn and, at its estimate, as spent", () => {
  it.prop(
    "turns and tokens of a state are those of its replies, its failed attempts and its lost claims",
    { journal: journals() },
    ({ journal: { events } }) => {
      const state = Fold.fold(events)!
      const ledger = ledgerOf(events)
      expect(state.turns).toBe(ledger.turns)
      expect(state.usage.promptTokens + state.usage.completionTokens).toBe(ledger.tokens)
      expect(state.claim?.turn).toBe(ledger.claim?.turn)
    },
    many
  )
})

describe("law 2: a call is executed at most once, unless it reads or is idempotent", () => {
  it.prop(
    "no write that was started is ever started again, through any crash, stop, resume and decision",
    { journal: journals() },
    ({ journal }) => {
      eachDecision(journal, (step, ledger) => {
        if (step._tag !== "ExecuteCalls") return
        for (const call of step.calls) {
          const seen = ledger.calls.get(call.callId)!
          if (seen.planned.effect === "write") expect(seen.starts).toBe(0)
        }
      })
    },
    many
  )

  it.prop(
    "at any point at which the process might die, the next driver starts no write that was started",
    { journal: journals() },
    ({ journal: { events, rules } }) => {
      for (let cut = 1; cut <= events.length; cut += 1 + Math.floor(events.length / 20)) {
        const before = Fold.fold(events.slice(0, cut))!
        const crashed = { ...events[0]!, seq: cut, elapsedMs: before.elapsedMs }
        const state = Fold.fold([{ ...crashed, type: "run_resumed", inbox: 0, messages: [] }], before)!
        const ledger = ledgerOf(events.slice(0, cut))
        const step = nextStep(state, { ...rules, stopWhen: [] }, state.elapsedMs)
        if (step._tag !== "ExecuteCalls") continue
        for (const call of step.calls) {
          const seen = ledger.calls.get(call.callId)!
          expect([seen.planned.effect === "write" ? seen.starts : 0, seen.results]).toEqual([0, 0])
        }
      }
    },
    many
  )

  it.prop(
    "a started write without a result is pending until somebody says what became of it",
    { journal: journals() },
    ({ journal: { events } }) => {
      const state = Fold.fold(events)!
      for (const [callId, seen] of ledgerOf(events).calls) {
        if (seen.planned.effect !== "write" || seen.starts === 0 || seen.results > 0) continue
        expect(state.pending.find((call) => call.callId === callId)).toMatchObject({
          status: state.status === "running" ? expect.stringMatching("running|unknown") : "unknown"
        })
      }
    },
    many
  )
})

describe("law 3: exactly one result per call before the model is asked again", () => {
  it.prop(
    "the model is asked only when every call of every turn has its one result, in the transcript too",
    { journal: journals() },
    ({ journal }) => {
      eachDecision(journal, (step, ledger, { messages }) => {
        if (step._tag !== "AskModel") return
        for (const [callId, seen] of ledger.calls) {
          expect([callId, seen.results]).toEqual([callId, 1])
          const told = messages.filter((message) => message.role === "tool" && message.callId === callId)
          expect([callId, told.length]).toEqual([callId, 1])
        }
      })
    },
    many
  )

  it.prop(
    "the transcript that the model is asked with has the results of a reply's calls right after it, and nothing between",
    { journal: journals() },
    ({ journal }) => {
      eachDecision(journal, (step, _, { messages }) => {
        if (step._tag !== "AskModel") return
        for (const [index, message] of messages.entries()) {
          if (message.role !== "assistant") continue
          const calls = callsOf(message).map((call) => call.id)
          const after = messages.slice(index + 1, index + 1 + calls.length)
          const answered = after.map((reply) => (reply.role === "tool" ? reply.callId : reply.role))
          expect(answered.toSorted()).toEqual(calls.toSorted())
        }
      })
    },
    many
  )

  it.prop(
    "no call ever gets a second result, and no result is without its call",
    { journal: journals() },
    ({ journal: { events } }) => {
      const state = Fold.fold(events)!
      const ledger = ledgerOf(events)
      const told = state.messages.flatMap((message) => (message.role === "tool" ? [message.callId] : []))
      expect(new Set(told).size).toBe(told.length)
      const settled = [...ledger.calls].flatMap(([callId, seen]) => (seen.results > 0 ? [callId] : []))
      expect(told.toSorted()).toEqual(settled.toSorted())
      const open = [...ledger.calls].flatMap(([callId, seen]) => (seen.results === 0 ? [callId] : []))
      expect(state.pending.map((call) => call.callId).toSorted()).toEqual(open.toSorted())
    },
    many
  )

  it.prop(
    "also in the middle of a batch: while a call runs, the model is not what comes next",
    { journal: journals() },
    ({ journal: { events, rules } }) => {
      const state = empty(events[0]!.runId)
      for (const event of events) {
        Apply.apply(state, event)
        if (state.status !== "running" || state.pending.length === 0) continue
        expect(nextStep(state, rules, state.elapsedMs)._tag).not.toBe("AskModel")
      }
    },
    many
  )
})

describe("law 4: a call that needs approval starts only after it was approved, with those very arguments", () => {
  it.prop(
    "nothing is started undecided, rejected, or with other arguments than were approved",
    { journal: journals() },
    ({ journal }) => {
      eachDecision(journal, (step, ledger) => {
        if (step._tag !== "ExecuteCalls") return
        for (const call of step.calls) {
          const { approvedArgs, args, decision, planned } = ledger.calls.get(call.callId)!
          if ((planned.approval ?? "none") === "none") {
            expect(call.args).toEqual(args)
            continue
          }
          expect(decision === "approved" || (decision === "not_required" && planned.approval === "ask")).toBe(
            true
          )
          expect(call.args).toEqual(approvedArgs)
          expect(call.argsDigest).toBe(digestOf(call.args))
        }
      })
    },
    many
  )

  it.prop(
    "whether a call needs approval is asked for all calls of a turn before any starts, and once",
    { journal: journals() },
    ({ journal }) => {
      eachDecision(journal, (step, ledger) => {
        const open = [...ledger.calls].filter(
          ([, seen]) =>
            seen.planned.approval === "ask" && seen.decision === undefined && !seen.required && !seen.results
        )
        if (step._tag === "ExecuteCalls") expect(open).toEqual([])
        if (step._tag === "CheckApprovals") {
          expect(step.calls.map((call) => call.callId)).toEqual(open.map(([callId]) => callId))
        }
      })
    },
    many
  )

  it.prop(
    "what a person rejected is answered as rejected, and stays without a start from then on",
    { journal: journals() },
    ({ journal }) => {
      eachDecision(journal, (step, ledger) => {
        if (step._tag !== "AnswerCalls") return
        for (const { call, refusal } of step.answers) {
          const seen = ledger.calls.get(call.callId)!
          expect(seen.results).toBe(0)
          if (refusal._tag !== "Rejected") continue
          expect(seen).toMatchObject({ decision: "rejected", starts: seen.startsBefore })
          if (seen.planned.effect === "write") expect(seen.starts).toBe(0)
        }
      })
    },
    many
  )
})

describe("law 6: the cost of a run", () => {
  it.prop(
    "is its turns, its failed attempts, its lost claims and its children, to the nano-dollar, at every event",
    { journal: journals() },
    ({ journal: { events } }) => {
      const state = empty(events[0]!.runId)
      const ledger = emptyLedger()
      for (const event of events) {
        Apply.apply(state, event)
        record(ledger, event)
        expect(state.costUsd).toBe(Number(costOf(ledger)) / 1e9)
      }
    },
    many
  )

  it.prop(
    "a run that has answered asks for nothing more",
    { journal: journals() },
    ({ journal: { events, rules } }) => {
      const state = Fold.fold(events)!
      if (state.reason !== "answered") return
      expect(nextStep(state, rules, state.elapsedMs)).toMatchObject({
        _tag: "Stop",
        ending: { reason: state.reason }
      })
    },
    many
  )
})

describe("replies that bring nothing", () => {
  const brings = (event: Extract<RunEvent, { type: "turn" }>): boolean => {
    if (event.finish === "content_filter") return false
    return event.answers || event.message.content.length > 0
  }

  it.prop(
    "are at most three in a row, from one resume or handoff to the next",
    { journal: journals() },
    ({ journal: { events } }) => {
      let row = 0
      for (const event of events) {
        if (event.type === "turn_started") expect(row).toBeLessThan(3)
        if (event.type === "run_resumed" || event.type === "handoff") row = 0
        if (event.type === "turn") row = brings(event) ? 0 : row + 1
      }
    },
    many
  )

  it("are what some of these runs stop for", () => {
    const samples = Effect.runSync(Arbitrary.sampleEffect(journals(), { count: 300, size: 300, seed: 3 }))
    const reasons = samples.flatMap(({ events }) =>
      events.flatMap((event, index) =>
        event.type === "run_stopped" && events[index - 1]?.type === "turn" ? [event.reason] : []
      )
    )
    expect(reasons).toEqual(expect.arrayContaining(["provider", "provider_refused"]))
  })
})

describe("completion", () => {
  it.prop(
    "is never called for without the answer or the submission that it consists of",
    { journal: journals() },
    ({ journal }) => {
      eachDecision(journal, (step, _, { pending, result }) => {
        if (step._tag !== "Stop" || step.ending.status !== "completed") return
        if (step.ending.reason === "answered") expect([pending, result]).toEqual([[], expect.any(String)])
        else expect(pending).toMatchObject([{ kind: "submit" }])
      })
    },
    many
  )

  it.prop(
    "is not what a stop at a limit is called: a run in its handoff completes by a submission alone",
    { journal: journals() },
    ({ journal }) => {
      eachDecision(journal, (step, ledger) => {
        if (step._tag !== "Stop" || !ledger.handoff) return
        if (step.ending.status === "completed") expect(step.ending.reason).toBe("submitted")
      })
    },
    many
  )
})

describe("law 7 and the other limits: nothing begins after a limit was reached", () => {
  it.prop(
    "the model is asked only while there is room for this purpose",
    { journal: journals() },
    ({ journal }) => {
      eachDecision(journal, (step, ledger, _, { elapsedMs }) => {
        if (step._tag !== "AskModel") return
        expect(step.purpose).toBe(ledger.handoff ? "handoff" : "investigate")
        expect(reached(ledger, elapsedMs, step.purpose)).toEqual([])
      })
    },
    many
  )

  it.prop(
    "tool calls never pass their limit, not even by the last of a batch, and none begins at the deadline",
    { journal: journals() },
    ({ journal }) => {
      eachDecision(journal, (step, { limits, toolCalls }, _, { elapsedMs }) => {
        if (step._tag !== "ExecuteCalls") return
        expect(toolCalls + step.calls.length).toBeLessThanOrEqual(
          limits.toolCalls ?? Number.POSITIVE_INFINITY
        )
        expect(elapsedMs).toBeLessThan(limits.timeMs ?? Number.POSITIVE_INFINITY)
        for (const [index, call] of step.calls.entries()) {
          if (call.purpose === "handoff" || limits.reserve === undefined) continue
          const { toolCalls: calls = 0, timeMs = 0 } = limits.reserve
          expect(toolCalls + index).toBeLessThan((limits.toolCalls ?? Number.POSITIVE_INFINITY) - calls)
          expect(elapsedMs).toBeLessThan((limits.timeMs ?? Number.POSITIVE_INFINITY) - timeMs)
        }
      })
    },
    many
  )

  it.prop(
    "spend passes a money limit by less than one turn",
    { journal: journals({ children: false, limitsChange: false }) },
    ({ journal: { events } }) => {
      const { limits, ...ledger } = ledgerOf(events)
      if (limits.usd === undefined) return
      let dearest = 0n
      for (const event of events) {
        const usd =
          event.type === "turn_started" ? event.estimate.costUsd : "costUsd" in event ? event.costUsd : 0
        if (event.type !== "run_stopped" && nanosOf(usd) > dearest) dearest = nanosOf(usd)
      }
      if (ledger.nanos >= nanosOf(limits.usd))
        expect(ledger.nanos - nanosOf(limits.usd)).toBeLessThan(dearest)
    },
    many
  )

  it.prop(
    "at a limit the run stops, unless it settles or waits for an unknown outcome",
    { journal: journals() },
    ({ journal }) => {
      eachDecision(journal, (step, ledger, state, { elapsedMs }) => {
        if (reached(ledger, elapsedMs, "handoff").length === 0) return
        const settles = state.answered || state.pending.some((call) => call.kind !== "tool")
        if (settles || RunState.unknownOutcomes(state).length > 0) return
        expect(step).toMatchObject({ _tag: "Stop", ending: { exhausted: expect.anything() } })
      })
    },
    many
  )

  it.prop(
    "a handoff begins exactly when only the reserve is left",
    { journal: journals() },
    ({ journal }) => {
      eachDecision(journal, (step, ledger, _, { elapsedMs }) => {
        if (step._tag !== "BeginHandoff") return
        expect(ledger.handoff).toBe(false)
        expect(reached(ledger, elapsedMs, "handoff")).toEqual([])
        const [resource] = [...reached(ledger, elapsedMs, "investigate"), ...reaching(ledger)]
        expect(resource).toBe(step.exhausted.resource)
      })
    },
    many
  )

  it.prop(
    "the model is asked to investigate only if a turn like the last leaves alone what is kept of money and tokens",
    { journal: journals() },
    ({ journal }) => {
      eachDecision(journal, (step, ledger) => {
        if (step._tag === "AskModel" && step.purpose === "investigate") expect(reaching(ledger)).toEqual([])
      })
    },
    many
  )

  it.prop(
    "in a handoff nothing but handoff work is started",
    { journal: journals() },
    ({ journal }) => {
      eachDecision(journal, (step, ledger) => {
        if (step._tag !== "ExecuteCalls" || !ledger.handoff) return
        for (const call of step.calls) expect(call.purpose).toBe("handoff")
      })
    },
    many
  )
})

describe("nextStep is a pure and total function", () => {
  it.prop(
    "of every state that any prefix of a journal leads to, at any time",
    { journal: journals() },
    ({ journal: { events, rules } }) => {
      const draft = empty(events[0]!.runId)
      for (const event of events) {
        Apply.apply(draft, event)
        for (const elapsedMs of [draft.elapsedMs, 0, 1e12, Number.NaN]) {
          const before = JSON.stringify(draft)
          const step = nextStep(draft, rules, elapsedMs)
          expect(nextStep(snapshot(draft), rules, elapsedMs)).toEqual(step)
          expect(JSON.stringify(draft)).toBe(before)
        }
      }
    },
    { arbitrary: { runs: 100, size: 400 } }
  )

  it.prop(
    "never with nothing to do: a step names calls, and those are pending",
    { journal: journals() },
    ({ journal }) => {
      eachDecision(journal, (step, ledger) => {
        const calls =
          "calls" in step
            ? step.calls
            : step._tag === "AnswerCalls"
              ? step.answers.map(({ call }) => call)
              : undefined
        if (calls === undefined) return
        expect(calls.length).toBeGreaterThan(0)
        for (const { callId } of calls) expect(ledger.calls.get(callId)?.results).toBe(0)
      })
    },
    many
  )
})
