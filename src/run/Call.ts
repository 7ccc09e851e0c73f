/**
 * What is written down of a call that the model asked for: what it does to the world, what became of it, and what it waits
 * for from people. All of it is part of `RunEvent`, which is how users import it.
 */
import * as Schema from "effect/Schema"
import { Purpose } from "./Limits.ts"

/**
 * What a tool call does to the world: `read` changes nothing, `idempotent` may be repeated with the same key, `write`
 * must happen at most once.
 */
export const CallEffect = Schema.Literals(["read", "idempotent", "write"])
/** Whether a call changes nothing, may be repeated, or must happen at most once. */
export type CallEffect = typeof CallEffect.Type

/** What became of a call. */
export const Disposition = Schema.Literals([
  "executed",
  "cached",
  "rejected",
  "refused",
  "cancelled",
  "unknown"
])
/** What became of a call: whether it was executed, or what its result stands for instead. */
export type Disposition = typeof Disposition.Type

/**
 * What the driver worked out about a call of a turn. Its arguments are in the turn's message. `kind` tells the
 * harness's own tools from the agent's (`tool`, if absent); `approval` is `ask` while the tool has to be asked whether a
 * person must be (`none`, if absent); an absent `purpose` is `investigate`; `agent` is a call that is a run of its own.
 */
export const PlannedCall = Schema.Struct({
  callId: Schema.String,
  argsDigest: Schema.String,
  kind: Schema.optionalKey(Schema.Literals(["tool", "submit", "input"])),
  purpose: Schema.optionalKey(Purpose),
  effect: CallEffect,
  approval: Schema.optionalKey(Schema.Literals(["none", "ask", "required"])),
  reconcile: Schema.optionalKey(Schema.Literal(true)),
  agent: Schema.optionalKey(Schema.Literal(true))
})
/** A call of a turn as the driver has planned it. */
export type PlannedCall = typeof PlannedCall.Type

/**
 * A call that waits for a person. It names its own run, which may be a child's. `problem` says why an earlier decision
 * could not be used, or how a call of unknown outcome was cut off, and whether it may still be running.
 */
export const WaitingCall = Schema.Struct({
  runId: Schema.String,
  callId: Schema.String,
  tool: Schema.String,
  args: Schema.Json,
  argsDigest: Schema.String,
  problem: Schema.optionalKey(Schema.String)
})
/** A call that waits for a decision, or for word of what became of it. */
export type WaitingCall = typeof WaitingCall.Type

/** A question that waits for a person's answer. It names its own run, which may be a child's. */
export const Question = Schema.Struct({
  runId: Schema.String,
  callId: Schema.String,
  text: Schema.String
})
/** A question of the model that waits for an answer. */
export type Question = typeof Question.Type

/** Why a child run stopped its parent, and what a person has to decide or answer. */
export const Suspension = Schema.Struct({
  runId: Schema.String,
  reason: Schema.Literals(["approval", "input", "provider", "unknown_outcome"]),
  detail: Schema.String,
  approvals: Schema.Array(WaitingCall),
  question: Schema.optionalKey(Question),
  unknown: Schema.Array(WaitingCall)
})
/** What a child run waits for, and its parent with it. */
export type Suspension = typeof Suspension.Type
