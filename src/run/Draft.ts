/**
 * A state under construction: what the events of a run are folded into.
 */
import type { Message } from "./Message.ts"
import * as Money from "./Money.ts"
import * as Repetition from "./Repetition.ts"
import type { Finding, PendingCall, RunState } from "./RunState.ts"

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** A state under construction: the transcript, the pending calls and the findings are appended to in place. */
export interface Draft extends Mutable<Omit<RunState, "messages" | "pending" | "findings">> {
  messages: Array<Message>
  pending: Array<PendingCall>
  findings: Array<Finding>
}

/** A run of which no event is known yet. */
export const empty = (runId: string): Draft => ({
  runId,
  seq: 0,
  agent: "",
  status: "running",
  startedAt: "",
  updatedAt: "",
  messages: [],
  given: 0,
  turns: 0,
  toolCalls: 0,
  usage: Money.noUsage,
  childTokens: 0,
  costUsd: 0,
  elapsedMs: 0,
  limits: {},
  phase: "investigate",
  lastUsage: Money.noUsage,
  pending: [],
  held: [],
  answered: false,
  refused: [],
  findings: [],
  operations: [],
  repetition: Repetition.none(),
  inbox: 0
})

/** A copy that later events do not touch. */
export const snapshot = (draft: RunState): Draft => ({
  ...draft,
  messages: draft.messages.slice(),
  pending: draft.pending.slice(),
  findings: draft.findings.slice(),
  repetition: { ...draft.repetition, seen: { ...draft.repetition.seen } }
})

/** A value without one of its fields. */
export const without = <T extends object, K extends keyof T>(value: T, key: K): Omit<T, K> => {
  const { [key]: _, ...rest } = value
  return rest
}
