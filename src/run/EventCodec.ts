/**
 * Events as a store keeps them. An event is plain JSON, so that writing it is `JSON.stringify`; reading it goes through
 * the schema.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { RunEvent, version } from "./RunEvent.ts"
import * as Version from "./Version.ts"

/** A stored event that could not be read: which one, and why. */
export class UnreadableEvent extends Schema.TaggedError<UnreadableEvent>()("UnreadableEvent", {
  runId: Schema.String,
  seq: Schema.Natural,
  kind: Schema.Literals(["corrupt", "newer_version"]),
  problem: Schema.String
}) {
  override get message(): string {
    return `event ${this.seq} of run ${this.runId} cannot be read: ${this.problem}`
  }
}

const decodeEvent = Schema.decodeUnknownResult(RunEvent)

/**
 * An event as it is stored: one line of JSON, without the id of its run, which the store keeps beside it.
 *
 * @example
 * ```ts
 * import { EventCodec, type RunEvent } from "checkrein"
 *
 * declare const event: RunEvent.RunEvent
 *
 * const text = EventCodec.encode(event)
 * const again = EventCodec.decode(event.runId, event.seq, text)
 * ```
 */
export const encode = ({ runId: _, ...event }: RunEvent): string => JSON.stringify(event)

/** What `encode` wrote is an event, if of a type that this build knows. */
const isKnown = (json: Record<string, unknown>): json is Record<string, unknown> & RunEvent =>
  typeof json.type === "string" && Object.hasOwn(RunEvent.cases, json.type)

/**
 * Reads what `encode` wrote. The number under which the text was stored must be the event's own: a journal whose rows
 * were swapped is corrupt. A text that is known to be `intact`, every letter of it, needs no schema to be believed: in
 * a long journal the schema takes most of the time. One that is known not to be is corrupt, however well it reads; by
 * default nothing is known.
 *
 * @example
 * ```ts
 * import * as Result from "effect/Result"
 * import { EventCodec } from "checkrein"
 *
 * Result.isFailure(EventCodec.decode("night-shift", 3, '{"v": 1, "type": "tu')) // => true
 * ```
 */
export const decode = (
  runId: string,
  seq: number,
  text: string,
  intact?: boolean | undefined
): Result.Result<RunEvent, UnreadableEvent> => {
  const unreadable = (kind: UnreadableEvent["kind"], problem: string) =>
    Result.fail(new UnreadableEvent({ runId, seq, kind, problem }))
  const json = Version.parse(text)
  if (json === undefined) return unreadable("corrupt", "it is not JSON")
  const refused = Version.refusal(json.v, version)
  if (refused !== undefined) return unreadable(refused.kind, refused.problem)
  if (json.runId !== undefined && json.runId !== runId) {
    return unreadable("corrupt", `it says that it is of run ${String(json.runId)}`)
  }
  // Added in place: a copy of each event is a tenth of what opening a long run costs.
  json.runId = runId
  if (intact === true && json.seq === seq && isKnown(json)) return Result.succeed(json)
  const event = decodeEvent(json)
  if (Result.isFailure(event)) return unreadable("corrupt", event.failure.message)
  if (event.success.seq !== seq) return unreadable("corrupt", `it says that it is event ${event.success.seq}`)
  // Only now, for what reads badly, or is of a newer build, is said more clearly by that.
  if (intact === false)
    return unreadable("corrupt", "it is not as it was written, for its checksum is another")
  return Result.succeed(event.success)
}
