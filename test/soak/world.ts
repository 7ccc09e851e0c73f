/**
 * The world outside of the store: a file to which every process appends, and which none of them rewrites.
 */
import { appendFileSync, existsSync, readFileSync } from "node:fs"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { CurrentCall } from "../../src/tool/CurrentCall.ts"

/** Something that took place for a call, by which process. */
export const Effected = Schema.Struct({
  runId: Schema.String,
  callId: Schema.String,
  key: Schema.String,
  what: Schema.String,
  pid: Schema.Int
})
export type Effected = typeof Effected.Type

const decode = Schema.decodeUnknownSync(Schema.fromJsonString(Effected))

/** Everything that took place. */
export const read = (file: string): ReadonlyArray<Effected> =>
  existsSync(file)
    ? readFileSync(file, "utf8")
        .split("\n")
        .flatMap((line) => (line === "" ? [] : [decode(line)]))
    : []

/** Something takes place now, for the current call. One short line is one write, so lines never mix. */
export const takesPlace = (file: string, what: string): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { callId, idempotencyKey: key, runId } = yield* CurrentCall
    const effected: Effected = { runId, callId, key, what, pid: process.pid }
    appendFileSync(file, `${JSON.stringify(effected)}\n`)
  })

/** Whether something took place for a call. */
export const tookPlace = (file: string, call: { readonly runId: string; readonly callId: string }): boolean =>
  read(file).some(({ callId, runId }) => runId === call.runId && callId === call.callId)
