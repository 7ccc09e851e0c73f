/**
 * The sink of `RunTrace.layerJsonl`: a file of JSON lines, written in order and in the background.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import type { LiveEvent } from "../run/RunEvent.ts"
import type { Sink } from "./RunTrace.ts"
import { type LineOptions, line } from "./TraceLine.ts"

/** Opens the sink for as long as the scope is open; closing writes what is left. */
export const make = (
  path: string,
  options: LineOptions
): Effect.Effect<Sink, never, FileSystem.FileSystem | Scope.Scope> =>
  Effect.gen(function* () {
    const files = yield* FileSystem.FileSystem
    const some = Latch.makeUnsafe()
    let waiting: Array<LiveEvent> = []
    let open = true
    let warned = false

    const append = (text: string) => files.writeFileString(path, text, { flag: "a" })
    const appendInNewDirectory = (text: string) =>
      Effect.andThen(files.makeDirectory(directoryOf(path), { recursive: true }), append(text))

    const warnOnce = (cause: unknown) => {
      if (warned) return Effect.void
      warned = true
      return Effect.logWarning(`trace lines cannot be written to ${path} and are lost; the runs go on`, cause)
    }

    // Uninterruptible, so that a batch taken is a batch written, and the last flush comes after the one under way.
    const flush = Effect.suspend(() => {
      const events = waiting
      waiting = []
      let text = ""
      for (const event of events) {
        const one = line(event, options)
        if (one !== undefined) text += `${one}\n`
      }
      if (text === "") return Effect.void
      return append(text).pipe(
        Effect.catchIf(
          (error) => error.reason._tag === "NotFound",
          () => appendInNewDirectory(text)
        ),
        Effect.catchCause(warnOnce)
      )
    }).pipe(Effect.uninterruptible)

    // Registered before the writer is forked, hence run after it was interrupted.
    yield* Effect.addFinalizer(() => {
      open = false
      return flush
    })
    yield* some.await.pipe(
      Effect.andThen(some.close),
      Effect.andThen(Effect.sleep("100 millis")),
      Effect.andThen(flush),
      Effect.forever,
      Effect.forkScoped
    )
    return {
      write: (event) => {
        // These have no line; a long reply is thousands of deltas.
        if (!open || event.type === "text_delta" || event.type === "turn_started") return
        if (waiting.push(event) === 1) some.openUnsafe()
      }
    }
  })

const directoryOf = (path: string): string => {
  const end = Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\"))
  return end < 0 ? "." : path.slice(0, Math.max(end, 1))
}
