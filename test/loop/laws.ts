/**
 * What every journal and every transcript that a test makes is held to: the audit, and the fold against what the audit has
 * counted for itself. The first violation is thrown, with the events around it.
 */
import { assert } from "@effect/vitest"
import * as Result from "effect/Result"
import type * as Wire from "../../src/provider/Wire.ts"
import * as Apply from "../../src/run/Apply.ts"
import { empty } from "../../src/run/Draft.ts"
import * as EventCodec from "../../src/run/EventCodec.ts"
import { callsOf, type Message } from "../../src/run/Message.ts"
import type * as RunEvent from "../../src/run/RunEvent.ts"
import * as RunState from "../../src/run/RunState.ts"
import * as Audit from "../../src/testing/Audit.ts"
import * as Ledger from "../../src/testing/audit/Ledger.ts"

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

/** What is stored is what was written. */
const checkJson = (event: RunEvent.RunEvent): void => {
  const read = EventCodec.decode(event.runId, event.seq, EventCodec.encode(event))
  assert.isTrue(Result.isSuccess(read), Result.isFailure(read) ? read.failure.message : "")
  if (Result.isSuccess(read)) assert.deepStrictEqual(read.success, event, "an event is plain JSON")
}

/** The fold has counted what an outsider counts. */
const checkState = (state: RunState.RunState, ledger: Ledger.Ledger): void => {
  const { timeMs: _, ...used } = RunState.used(state)
  const { tokens, toolCalls, turns, usd } = ledger
  assert.deepStrictEqual(used, { turns, usd, tokens, toolCalls }, "what was used")
  assert.strictEqual(state.phase, ledger.phase)
  const open = [...ledger.open.keys()]
  assert.deepStrictEqual(
    state.pending.map(({ callId }) => callId),
    open,
    "the calls without a result"
  )
  checkTranscript(state.messages, new Set(open))
}

/** Holds a journal to the laws. On the test clock nothing is late, so nothing may be. */
export const checkLaws = (events: ReadonlyArray<RunEvent.RunEvent>): void => {
  const findings = Audit.audit(events, { graceMs: 0 })
  const ledger = Ledger.empty(events[0]?.runId ?? "")
  const state = empty(events[0]?.runId ?? "")
  events.forEach((event, index) => {
    try {
      const finding = findings.find(({ seq }) => seq === event.seq)
      assert.isUndefined(finding, `law ${finding?.law}: ${finding?.problem}`)
      checkJson(event)
      Ledger.record(ledger, event)
      Apply.apply(state, event)
      checkState(state, ledger)
    } catch (error) {
      const around = events
        .slice(Math.max(0, index - 6), index + 2)
        .map((one) => `${one.seq === event.seq ? ">" : " "} ${JSON.stringify(one).slice(0, 400)}`)
      throw new Error(`event ${index} ${event.type}: ${(error as Error).message}\n${around.join("\n")}`)
    }
  })
}
