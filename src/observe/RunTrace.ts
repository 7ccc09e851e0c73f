/**
 * What runs do, as it happens: for a file of JSON lines, for a person at a terminal, or for a sink of one's own.
 *
 * The loop gives every event to the one sink in force, synchronously and in order. A trace is a projection: it may be
 * switched off, lost or cut short without harm, for the journal in the store is what a run is resumed from.
 */
import * as Console from "effect/Console"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type { LiveEvent } from "../run/RunEvent.ts"
import { colorsOn, type PrettyOptions, prettyInTurn } from "./Pretty.ts"
import { type LineOptions, line } from "./TraceLine.ts"

export { type PrettyOptions, pretty } from "./Pretty.ts"
export { type LineOptions, line } from "./TraceLine.ts"

/**
 * Where events go. `write` is called by the loop itself, synchronously and in order, with each event of each run: it
 * must be quick, and must not throw. `layer` makes a sink of a function that might.
 */
export interface Sink {
  readonly write: (event: LiveEvent) => void
}

/**
 * The sink that keeps nothing.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { RunTrace } from "checkrein"
 *
 * declare const program: Effect.Effect<string>
 *
 * const unseen = Effect.provideService(program, RunTrace.RunTrace, RunTrace.none)
 * ```
 */
export const none: Sink = { write: () => {} }

/**
 * The sink in force; by default the one that keeps nothing.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { RunTrace } from "checkrein"
 *
 * const seen: Array<string> = []
 * const watched = Effect.provideService(Effect.void, RunTrace.RunTrace, { write: (event) => seen.push(event.type) })
 * ```
 */
export const RunTrace = Context.Reference<Sink>("checkrein/observe/RunTrace", {
  defaultValue: () => none
})

/**
 * No trace, below a layer that has one.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { RunTrace } from "checkrein"
 *
 * declare const program: Effect.Effect<string>
 *
 * const unseen = Effect.provide(program, RunTrace.layerNone)
 * ```
 */
export const layerNone: Layer.Layer<never> = Layer.succeed(RunTrace, none)

/**
 * A sink of one's own. If `write` throws, the run goes on, and a warning is logged: the first time, and only then.
 *
 * @example
 * ```ts
 * import { RunTrace } from "checkrein"
 *
 * const counts = new Map<string, number>()
 * const Counting = RunTrace.layer((event) => counts.set(event.type, (counts.get(event.type) ?? 0) + 1))
 * ```
 */
export const layer = (write: (event: LiveEvent) => void): Layer.Layer<never> =>
  Layer.effect(
    RunTrace,
    Effect.gen(function* () {
      const thrown = yield* Deferred.make<never, unknown>()
      yield* Deferred.await(thrown).pipe(
        Effect.catch((error) => Effect.logWarning("a trace sink throws; what it misses is lost", error)),
        Effect.forkScoped
      )
      return {
        write: (event) => {
          try {
            write(event)
          } catch (error) {
            Deferred.doneUnsafe(thrown, Exit.fail(error))
          }
        }
      }
    })
  )

/** A sink for tests, which keeps all events. */
export interface Memory extends Sink {
  readonly events: Array<LiveEvent>
  /** The trace lines of the events so far. */
  readonly lines: (options?: LineOptions) => ReadonlyArray<string>
}

/**
 * Makes a sink for tests.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { RunTrace } from "checkrein"
 *
 * const trace = RunTrace.memory()
 * const watched = Effect.provideService(Effect.void, RunTrace.RunTrace, trace)
 * trace.lines() // => what happened, as JSON lines
 * ```
 */
export const memory = (): Memory => {
  const events: Array<LiveEvent> = []
  return {
    events,
    write: (event) => void events.push(event),
    lines: (options) => events.map((event) => line(event, options)).filter((text) => text !== undefined)
  }
}

/**
 * Appends trace lines to a file, whose directory is created. Lines are written in the background, in order, those of 100
 * milliseconds together, and the last ones when the layer's scope closes. A file that cannot be written never disturbs a
 * run: the lines are lost, a warning says so once, and later lines are tried again.
 *
 * @example
 * ```ts
 * import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
 * import * as Layer from "effect/Layer"
 * import { RunTrace } from "checkrein"
 *
 * const Trace = RunTrace.layerJsonl("logs/trace.jsonl").pipe(Layer.provide(NodeFileSystem.layer))
 * ```
 */
export const layerJsonl = (
  path: string,
  options: LineOptions = {}
): Layer.Layer<never, never, FileSystem.FileSystem> =>
  Layer.effect(
    RunTrace,
    // Loaded when it is used: files are not needed on the way of every import of the library.
    Effect.flatMap(
      Effect.promise(() => import("./TraceFile.ts")),
      ({ make }) => make(path, options)
    )
  )

/**
 * One readable line per event on stderr, through effect's `Console`; coloured if stderr is a terminal and `NO_COLOR` is
 * not set, unless `colors` says otherwise.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { RunTrace } from "checkrein"
 *
 * const shown = Effect.provide(Effect.void, RunTrace.layerConsole())
 * ```
 */
export const layerConsole = (options: PrettyOptions = {}): Layer.Layer<never> =>
  Layer.effect(
    RunTrace,
    Effect.gen(function* () {
      const console = yield* Console.Console
      const colors = options.colors ?? (yield* stderrColors)
      const pretty = prettyInTurn({ ...options, colors })
      return {
        write: (event) => {
          const text = pretty(event)
          if (text !== undefined) console.error(text)
        }
      }
    })
  )

/**
 * Whether colours are welcome on stderr: it is a terminal, and `NO_COLOR` is not set.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { type RunEvent, RunTrace } from "checkrein"
 *
 * declare const event: RunEvent.LiveEvent
 *
 * const shown = Effect.map(RunTrace.stderrColors, (colors) => RunTrace.pretty(event, { colors }))
 * ```
 */
export const stderrColors: Effect.Effect<boolean> = colorsOn("stderr")

/**
 * Several traces at once. Merging the layers would not do: there is one sink in force, and the last would win.
 *
 * @example
 * ```ts
 * import { RunTrace } from "checkrein"
 *
 * const Both = RunTrace.layerAll(RunTrace.layerConsole(), RunTrace.layerJsonl("logs/trace.jsonl"))
 * ```
 */
export const layerAll = <Layers extends ReadonlyArray<Layer.Any>>(
  ...layers: Layers &
    ReadonlyArray<Layer.Layer<never, Layer.Error<Layers[number]>, Layer.Services<Layers[number]>>>
): Layer.Layer<never, Layer.Error<Layers[number]>, Layer.Services<Layers[number]>> =>
  Layer.effect(
    RunTrace,
    Effect.map(
      Effect.forEach(layers, (each) => Effect.map(Layer.build(each), Context.get(RunTrace))),
      (sinks): Sink => ({
        write: (event) => {
          for (const sink of sinks) sink.write(event)
        }
      })
    )
  )
