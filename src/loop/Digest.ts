/**
 * Digests of arguments and results. They decide what was approved and what was executed, so they are cryptographic.
 */
import { hash } from "node:crypto"
import type * as Schema from "effect/Schema"

/** The first 132 bits of the SHA-256 of a text, in base64url. */
export const ofText = (text: string): string => hash("sha256", text, "base64url").slice(0, 22)

/** JSON with the keys of every object in order, so that equal values have equal text. */
export const canonical = (value: Schema.Json): string => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(",")}}`
}

/** The digest of a call's arguments. */
export const ofArgs = (args: Schema.Json): string => ofText(canonical(args))

/** The idempotency key of a call: the same wherever and however often it is executed, another for other arguments. */
export const idempotencyKey = (call: {
  readonly runId: string
  readonly turn: number
  readonly callId: string
  readonly argsDigest: string
}): string => ofText(canonical([call.runId, call.turn, call.callId, call.argsDigest]))
