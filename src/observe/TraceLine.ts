/**
 * The projection of events to trace lines: one JSON object a line, for `jq`, `grep` and log collectors.
 *
 * A line says what happened, not what was said. The words of a run (messages, results, questions and answers, error
 * details) are in the journal, and in a line only if asked for with `bodies`. The arguments of a call are always there,
 * as JSON text: a trace in which one cannot see what was called is of no use.
 */
import type { LiveEvent } from "../run/RunEvent.ts"

/** What lines hold. */
export interface LineOptions {
  /** Whether to add messages, results, questions, answers and error details. Off by default. */
  readonly bodies?: boolean | undefined
}

/**
 * The trace line of an event, without a line break; `undefined` for an event that has none. Those are text deltas, and
 * `turn_started`: it is written for recovery, and every turn that ends says so in a line of its own.
 *
 * @example
 * ```ts
 * import { RunTrace } from "checkrein"
 *
 * RunTrace.line({ type: "tool_progress", runId: "n1", callId: "c1", tool: "scan_archive", label: "200 of 1200" })
 * // => {"runId":"n1","type":"tool_progress","toolName":"scan_archive","label":"200 of 1200"}
 * ```
 */
export const line = (event: LiveEvent, options?: LineOptions): string | undefined => {
  const fields = fieldsOf(event)
  if (fields === undefined) return undefined
  const bodies = options?.bodies === true ? bodiesOf(event) : undefined
  return JSON.stringify({
    runId: event.runId,
    type: event.type,
    ...fields,
    ...bodies
  })
}

type Fields = { readonly [name: string]: unknown }

// A field that is `undefined` is left out of the line by `JSON.stringify`.
const fieldsOf = (event: LiveEvent): Fields | undefined => {
  switch (event.type) {
    case "run_started":
      return {
        agent: event.agent,
        parentRunId: event.parent?.runId,
        after: event.after
      }
    case "run_resumed":
      return { messages: event.messages.length }
    case "limits_changed":
      return { limits: event.limits }
    case "turn_started":
    case "text_delta":
      return undefined
    case "turn": {
      const { completionTokens, promptTokens } = event.usage
      return {
        turn: event.turn,
        prompt_tokens: promptTokens,
        completion_tokens: completionTokens,
        total_tokens: promptTokens + completionTokens,
        costUsd: event.totalUsd,
        finish: event.finish,
        reason: event.error?.reason
      }
    }
    case "turn_failed":
      return {
        turn: event.turn,
        attempt: event.attempt,
        reason: event.reason,
        retryInMs: event.retryInMs
      }
    case "tool_start":
      return {
        toolName: event.tool,
        args: JSON.stringify(event.args),
        callId: event.callId,
        attempt: event.attempt > 1 ? event.attempt : undefined
      }
    case "tool_progress":
      return { toolName: event.tool, label: event.label }
    case "tool_result":
      return {
        toolName: event.tool,
        ms: Math.round(event.ms),
        ok: event.ok,
        disposition: event.disposition === "executed" ? undefined : event.disposition
      }
    case "approval_required":
      return {
        toolName: event.tool,
        args: JSON.stringify(event.args),
        callId: event.callId
      }
    case "approval_resolved":
      return {
        callId: event.callId,
        decision: event.decision,
        edited: event.args === undefined ? undefined : true,
        by: event.by,
        expires: event.expires,
        reason: event.reason
      }
    case "input_required":
      return { callId: event.callId }
    case "input_given":
      return { callId: event.callId, by: event.by }
    case "child_suspended":
      return {
        callId: event.callId,
        childRunId: event.suspension.runId,
        reason: event.suspension.reason,
        childCostUsd: event.childCostUsd
      }
    case "outcome_resolved":
      return {
        toolName: event.tool,
        callId: event.callId,
        outcome: event.outcome,
        by: event.by
      }
    case "operation_started":
      return {
        toolName: event.tool,
        callId: event.callId,
        operationId: event.operationId,
        label: event.label
      }
    case "operation_ended":
      return { operationId: event.operationId, outcome: event.outcome, by: event.by }
    case "handoff":
      return event.exhausted
    case "run_stopped":
      return {
        status: event.status,
        reason: event.reason,
        turns: event.turns,
        costUsd: event.costUsd,
        operations: event.operations
      }
  }
}

const bodiesOf = (event: LiveEvent): Fields | undefined => {
  switch (event.type) {
    case "run_started":
    case "run_resumed":
      return { messages: event.messages }
    case "turn":
      return { message: event.message, note: event.note, detail: event.error?.detail }
    case "turn_failed":
    case "operation_ended":
    case "run_stopped":
      return { detail: event.detail }
    case "tool_result":
      return { content: event.content, detail: event.detail }
    case "approval_resolved":
      return {
        args: event.args === undefined ? undefined : JSON.stringify(event.args)
      }
    case "input_required":
      return { question: event.question }
    case "input_given":
      return { answer: event.answer }
    case "child_suspended":
      return {
        detail: event.suspension.detail,
        question: event.suspension.question?.text
      }
    case "outcome_resolved":
      return { content: event.content }
    default:
      return undefined
  }
}
