/** One event of each type, as the runs of DESIGN.md §7 have them. */
import type { Body, LiveEvent, RunEvent } from "../../src/run/RunEvent.ts"

/** A body with an envelope around it. */
export const sent = (body: Body, runId = "n1"): RunEvent => ({
  v: 1,
  runId,
  seq: 1,
  at: "2026-01-01T00:00:00.000Z",
  elapsedMs: 7,
  ...body
})

const request = { runId: "n1/c3", callId: "c9", tool: "delete_file", args: { path: "x" }, argsDigest: "d" }

type Samples = { readonly [Type in LiveEvent["type"]]: Extract<LiveEvent, { readonly type: Type }> }

const stored = <Type extends Body["type"]>(body: Extract<Body, { readonly type: Type }>) => ({
  v: 1,
  runId: "n1",
  seq: 1,
  at: "2026-01-01T00:00:00.000Z",
  elapsedMs: 7,
  ...body
})

export const samples: Samples = {
  run_started: stored<"run_started">({
    type: "run_started",
    agent: "log-analyst",
    messages: [{ role: "user", content: "Which log file mentions a timeout?" }],
    limits: { turns: 20 }
  }),
  run_resumed: stored<"run_resumed">({
    type: "run_resumed",
    inbox: 1,
    messages: [{ role: "user", content: "go on" }]
  }),
  limits_changed: stored<"limits_changed">({ type: "limits_changed", limits: { turns: 30, usd: 0.05 } }),
  turn_started: stored<"turn_started">({
    type: "turn_started",
    turn: 1,
    attempt: 1,
    purpose: "investigate",
    estimate: { usage: { promptTokens: 1, completionTokens: 1 }, costUsd: 0 }
  }),
  turn: stored<"turn">({
    type: "turn",
    turn: 1,
    message: {
      role: "assistant",
      content: [{ type: "tool-call", id: "c1", name: "list_files", params: {} }]
    },
    calls: [],
    usage: { promptTokens: 204, completionTokens: 23 },
    costUsd: 0.0001,
    totalUsd: 0.000684,
    finish: "tool_calls",
    ms: 12.5,
    answers: false
  }),
  turn_failed: stored<"turn_failed">({
    type: "turn_failed",
    turn: 2,
    attempt: 1,
    reason: "RateLimitError",
    detail: "slow down",
    retryInMs: 500,
    usage: { promptTokens: 10, completionTokens: 1 },
    costUsd: 0.002
  }),
  tool_start: stored<"tool_start">({
    type: "tool_start",
    callId: "c1",
    tool: "list_files",
    args: {},
    attempt: 1,
    idempotencyKey: "k",
    purpose: "investigate"
  }),
  tool_progress: {
    type: "tool_progress",
    runId: "n1",
    callId: "c3",
    tool: "scan_archive",
    label: "scanned 200 of 1200 files",
    done: 200,
    total: 1200
  },
  tool_result: stored<"tool_result">({
    type: "tool_result",
    callId: "c1",
    tool: "list_files",
    content: "access.log\nerror.log",
    ok: true,
    ms: 1.2,
    disposition: "executed"
  }),
  approval_required: stored<"approval_required">({
    type: "approval_required",
    callId: "c2",
    tool: "delete_file",
    args: { path: "access.log" },
    argsDigest: "d"
  }),
  approval_resolved: stored<"approval_resolved">({
    type: "approval_resolved",
    callId: "c2",
    decision: "rejected",
    argsDigest: "d",
    by: "ada",
    reason: "keep it"
  }),
  input_required: stored<"input_required">({ type: "input_required", callId: "c4", question: "Which day?" }),
  input_given: stored<"input_given">({ type: "input_given", callId: "c4", answer: "Monday", by: "ada" }),
  child_suspended: stored<"child_suspended">({
    type: "child_suspended",
    callId: "c3",
    suspension: {
      runId: "n1/c3",
      reason: "approval",
      detail: "one call waits",
      approvals: [request],
      unknown: []
    },
    childCostUsd: 0.001
  }),
  outcome_resolved: stored<"outcome_resolved">({
    type: "outcome_resolved",
    callId: "c2",
    tool: "delete_file",
    outcome: "did_not_happen",
    content: "the file is still there",
    by: "ada"
  }),
  operation_started: stored<"operation_started">({
    type: "operation_started",
    operationId: "o1",
    callId: "c5",
    tool: "reindex",
    argsDigest: "d5",
    observe: "observe_reindex",
    label: "reindexing"
  }),
  operation_ended: stored<"operation_ended">({
    type: "operation_ended",
    operationId: "o1",
    outcome: "cancelled",
    detail: "stopped by request",
    by: "cancel"
  }),
  handoff: stored<"handoff">({ type: "handoff", exhausted: { resource: "usd", used: 0.05, limit: 0.05 } }),
  run_stopped: stored<"run_stopped">({
    type: "run_stopped",
    status: "interrupted",
    reason: "approval",
    detail: "delete_file waits for a decision",
    turns: 2,
    costUsd: 0.00157
  }),
  text_delta: { type: "text_delta", runId: "n1", turn: 1, attempt: 1, delta: "Hel" }
}
