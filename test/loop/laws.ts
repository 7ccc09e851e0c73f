/**
 * The laws of a journal, read off its events alone: nothing here uses the fold or the loop, so that a mistake in either
 * does not hide itself. The first violation is thrown, with the events around it.
 */
import { assert } from "@effect/vitest"
import * as Result from "effect/Result"
import type * as Wire from "../../src/provider/Wire.ts"
import type { Limits } from "../../src/run/Limits.ts"
import { callsOf, type Message } from "../../src/run/Message.ts"
import * as Money from "../../src/run/Money.ts"
import * as RunEvent from "../../src/run/RunEvent.ts"
import { fold, type RunState } from "../../src/run/RunState.ts"

type Event = RunEvent.RunEvent

interface Call {
  readonly planned: RunEvent.PlannedCall
  readonly args: unknown
  starts: number
  settled: boolean
  asked: boolean
  resolved: RunEvent.Of<"approval_resolved"> | undefined
}

const settles = (event: Event): string | undefined => {
  switch (event.type) {
    case "tool_result":
      return event.disposition === "cancelled" || event.disposition === "unknown" ? undefined : event.callId
    case "input_given":
      return event.callId
    case "outcome_resolved":
      return event.outcome === "still_unknown" ? undefined : event.callId
    default:
      return undefined
  }
}

/** Every assistant message with calls is followed by exactly one result for each, and no result stands alone. */
export const checkTranscript = (messages: ReadonlyArray<Message>, pending: ReadonlySet<string>): void => {
  let open = new Set<string>()
  messages.forEach((message, index) => {
    if (message.role === "tool") {
      assert.isTrue(open.delete(message.callId), `message ${index}: a result for no call: ${message.callId}`)
      return
    }
    assert.deepStrictEqual([...open], [], `message ${index} (${message.role}) stands before these results`)
    open = new Set(message.role === "assistant" ? callsOf(message).map((call) => call.id) : [])
  })
  assert.deepStrictEqual(
    [...open].sort(),
    [...pending].sort(),
    "the calls without a result are the pending ones"
  )
}

/** The same for what went over the wire; nothing is pending there, and the arguments are JSON. */
export const checkWire = (messages: ReadonlyArray<Wire.Message>): void => {
  let open = new Set<string>()
  const seen = new Set<string>()
  messages.forEach((message, index) => {
    if (message.role === "tool") {
      assert.isTrue(open.delete(message.tool_call_id), `wire ${index}: a result for no call`)
      return
    }
    assert.deepStrictEqual([...open], [], `wire ${index} (${message.role}) stands before these results`)
    open = new Set()
    for (const call of (message.role === "assistant" ? message.tool_calls : undefined) ?? []) {
      assert.isNotEmpty(call.id, `wire ${index}: an empty call id`)
      assert.isFalse(seen.has(call.id), `wire ${index}: call id ${call.id} twice`)
      seen.add(call.id)
      open.add(call.id)
      JSON.parse(call.function.arguments)
    }
  })
  assert.deepStrictEqual([...open], [], "the last calls on the wire have results")
}

/** Holds a journal to laws 1 to 7. */
export const checkLaws = (events: ReadonlyArray<Event>): void => {
  const calls = new Map<string, Call>()
  const children = new Map<string, number>()
  let limits: Limits = {}
  let claim: RunEvent.Of<"turn_started"> | undefined
  let turns = 0
  let usd = 0
  let tokens = 0
  let starts = 0
  let stopped: RunEvent.Of<"run_stopped"> | undefined
  let elapsed = 0
  let at = ""

  const call = (callId: string): Call => {
    const found = calls.get(callId)
    assert.isDefined(found, `no call ${callId}`)
    return found as Call
  }
  const settleClaim = () => {
    if (claim === undefined) return
    turns++
    usd = Money.add(usd, claim.estimate.costUsd)
    tokens += claim.estimate.usage.promptTokens + claim.estimate.usage.completionTokens
    claim = undefined
  }
  const chargeChild = (callId: string, total: number | undefined) => {
    if (total === undefined) return
    usd = Money.add(usd, Money.subtract(total, children.get(callId) ?? 0))
    children.set(callId, total)
  }
  const pending = () => new Set([...calls].filter(([, one]) => !one.settled).map(([id]) => id))

  const check = (event: Event, index: number): void => {
    // Law 5: one writer, one unbroken sequence.
    assert.strictEqual(event.seq, index, "the sequence is unbroken")
    assert.strictEqual(event.runId, events[0]?.runId)
    assert.isAtLeast(event.elapsedMs, elapsed, "time driven never shrinks")
    assert.isTrue(event.at >= at, "time never goes back")
    elapsed = event.elapsedMs
    at = event.at
    const read = RunEvent.decode(event.runId, event.seq, RunEvent.encode(event))
    assert.isTrue(Result.isSuccess(read), Result.isFailure(read) ? read.failure.message : "")
    if (Result.isSuccess(read)) assert.deepStrictEqual(read.success, event, "an event is plain JSON")
    assert.strictEqual(index === 0, event.type === "run_started", "a run starts once")

    // Law 6: no event after a final stop, and only a resume after another one.
    if (stopped !== undefined) {
      assert.notStrictEqual(stopped.status, "completed", `${event.type} after completion`)
      assert.strictEqual(event.type, "run_resumed", `${event.type} after a stop`)
      stopped = undefined
    }
    // Law 3: exactly one result.
    const settled = settles(event)
    if (settled !== undefined) {
      assert.isFalse(call(settled).settled, `a second result for ${settled}`)
      call(settled).settled = true
    }

    switch (event.type) {
      case "run_started":
      case "limits_changed":
        limits = event.limits
        return
      case "handoff":
      case "run_resumed":
        settleClaim()
        return
      case "turn_started":
        assert.isUndefined(claim, "a model call while another one is on its way")
        assert.deepStrictEqual([...pending()], [], "the model is asked while calls have no result")
        // Law 7, and the limits: every one has room when a turn begins.
        if (limits.turns !== undefined) assert.isBelow(turns, limits.turns, "turn limit")
        if (limits.usd !== undefined) assert.isBelow(usd, limits.usd, "money limit")
        if (limits.tokens !== undefined) assert.isBelow(tokens, limits.tokens, "token limit")
        if (limits.timeMs !== undefined) assert.isBelow(event.elapsedMs, limits.timeMs, "time limit")
        claim = event
        return
      case "turn": {
        assert.strictEqual(claim?.turn, event.turn, "a turn without its turn_started")
        claim = undefined
        turns++
        usd = Money.add(usd, event.costUsd)
        tokens += event.usage.promptTokens + event.usage.completionTokens
        assert.strictEqual(event.totalUsd, usd, "the running cost")
        const parts = callsOf(event.message)
        event.calls.forEach((planned, i) => {
          assert.isFalse(calls.has(planned.callId), `call id ${planned.callId} is used twice`)
          assert.strictEqual(planned.callId, parts[i]?.id)
          calls.set(planned.callId, {
            planned,
            args: parts[i]?.params,
            starts: 0,
            settled: false,
            asked: false,
            resolved: undefined
          })
        })
        return
      }
      case "turn_failed":
        assert.strictEqual(claim?.turn, event.turn, "a turn_failed without its turn_started")
        assert.strictEqual(claim?.attempt, event.attempt)
        claim = undefined
        usd = Money.add(usd, event.costUsd)
        if (event.usage !== undefined) tokens += event.usage.promptTokens + event.usage.completionTokens
        return
      case "approval_required":
        call(event.callId).asked = true
        return
      case "approval_resolved": {
        const one = call(event.callId)
        assert.isUndefined(one.resolved, `a second decision about ${event.callId}`)
        one.resolved = event
        return
      }
      case "tool_start": {
        const one = call(event.callId)
        assert.isFalse(one.settled, `${event.callId} starts after its result`)
        one.starts++
        // A child run that is taken up again is the call that it was.
        if (one.planned.agent !== true || one.starts === 1) starts++
        assert.strictEqual(event.attempt, one.starts)
        if (limits.toolCalls !== undefined) assert.isAtMost(starts, limits.toolCalls, "tool call limit")
        // Law 2: a call that writes starts once.
        if (one.planned.effect === "write") assert.strictEqual(one.starts, 1, `${event.callId} starts again`)
        // Law 4: only after a decision about this call and these very arguments.
        if ((one.planned.approval ?? "none") !== "none" || one.asked) {
          const { resolved } = one
          assert.isDefined(resolved, `${event.callId} starts undecided`)
          assert.notStrictEqual(resolved?.decision, "rejected", `${event.callId} starts although rejected`)
          if (one.asked) assert.strictEqual(resolved?.decision, "approved")
          if (resolved?.args === undefined) assert.strictEqual(resolved?.argsDigest, one.planned.argsDigest)
          assert.deepStrictEqual(event.args, resolved?.args ?? one.args, "what starts is what was approved")
        } else assert.deepStrictEqual(event.args, one.args, "what starts is what the model asked for")
        return
      }
      case "tool_result": {
        const one = call(event.callId)
        chargeChild(event.callId, event.childCostUsd)
        // Law 1: nothing is executed, cut off or lost that was not claimed; what is refused never reaches the tool.
        if (
          event.disposition === "executed" &&
          (one.planned.kind ?? "tool") === "tool" &&
          event.wrongArguments !== true
        )
          assert.isAbove(one.starts, 0, `${event.callId} has a result without its tool_start`)
        if (event.disposition === "cancelled" || event.disposition === "unknown")
          assert.isAbove(one.starts, 0, `${event.callId} was cut off without its tool_start`)
        if (event.disposition === "rejected") assert.strictEqual(one.resolved?.decision, "rejected")
        assert.isNotEmpty(event.content, `${event.callId}: a result without words`)
        return
      }
      case "child_suspended":
        chargeChild(event.callId, event.childCostUsd)
        return
      case "run_stopped":
        settleClaim()
        // Law 6: the cost is the turns, the lost claims and the children, exactly.
        assert.strictEqual(event.costUsd, usd, "cost of the run")
        assert.strictEqual(event.turns, turns, "turns of the run")
        if (event.status === "completed")
          assert.deepStrictEqual([...pending()], [], "completed with open calls")
        stopped = event
        return
      default:
        return
    }
  }

  events.forEach((event, index) => {
    try {
      check(event, index)
      const state = fold(events.slice(0, index + 1))
      assert.isDefined(state)
      checkTranscript((state as RunState).messages, pending())
    } catch (error) {
      const around = events
        .slice(Math.max(0, index - 6), index + 2)
        .map((one) => `${one.seq === event.seq ? ">" : " "} ${JSON.stringify(one).slice(0, 400)}`)
      throw new Error(`event ${index} ${event.type}: ${(error as Error).message}\n${around.join("\n")}`)
    }
  })

  const state = fold(events)
  assert.strictEqual(state?.costUsd, usd, "the state's cost")
  assert.strictEqual(state?.turns, turns, "the state's turns")
  assert.strictEqual(state?.toolCalls, starts, "the state's tool calls")
}
