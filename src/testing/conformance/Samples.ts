/** Small valid events, summaries and commands, for stores to keep. */
import { createHash } from "node:crypto"
import type { Cancel } from "../../run/Command.ts"
import type { RunEvent } from "../../run/RunEvent.ts"
import type { Append, RunSummary } from "../../store/RunStore.ts"

/** A text of so many bytes that no database makes shorter. */
export const textOf = (bytes: number): string => {
  let text = ""
  while (text.length < bytes) text += createHash("sha256").update(text).digest("base64url")
  return text.slice(0, bytes)
}

/** The `n`th second of the year. */
export const second = (n: number): string => new Date(Date.UTC(2026, 0, 1) + n * 1000).toISOString()

/** An event of a run. */
export const event = (runId: string, seq: number, content = `result ${seq}`): RunEvent => ({
  v: 1,
  runId,
  seq,
  at: second(seq),
  elapsedMs: seq,
  type: "tool_result",
  callId: `c${seq}`,
  tool: "read_file",
  content,
  ok: true,
  ms: 1,
  disposition: "executed"
})

/** The summary of a run of so many events. */
export const summary = (runId: string, seq: number, rest: Partial<RunSummary> = {}): RunSummary => ({
  inbox: 0,
  runId,
  agent: "analyst",
  status: "running",
  turns: seq,
  toolCalls: seq,
  costUsd: 0.000684,
  seq,
  startedAt: second(0),
  updatedAt: second(seq),
  approvals: [],
  unknown: [],
  ...rest
})

/** So many events of a run, from a number on. */
export const eventsFrom = (runId: string, from: number, count: number): ReadonlyArray<RunEvent> =>
  Array.from({ length: count }, (_, i) => event(runId, from + i))

/** An append of small events, as many as `count` says. */
export const append = (
  runId: string,
  expected: number,
  count = 1,
  rest: Partial<RunSummary> = {},
  durability: Append["durability"] = "process"
): Append => ({
  runId,
  expected,
  events: eventsFrom(runId, expected, count),
  summary: summary(runId, expected + count, rest),
  durability
})

/** A command to stop a run. */
export const cancel = (reason: string): Cancel => ({ type: "cancel", reason })
