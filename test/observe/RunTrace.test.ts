import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it, vi } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Console from "effect/Console"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as PlatformError from "effect/PlatformError"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import * as RunTrace from "../../src/observe/RunTrace.ts"
import type { LiveEvent } from "../../src/run/RunEvent.ts"
import { samples } from "./events.ts"

const write = (...events: ReadonlyArray<LiveEvent>) =>
  Effect.map(RunTrace.RunTrace, (sink) => {
    for (const event of events) sink.write(event)
  })

const result = (tool: string): LiveEvent => ({ ...samples.tool_result, tool })
const lineOf = (tool: string) => `{"runId":"n1","type":"tool_result","toolName":"${tool}","ms":1,"ok":true}\n`

const failure = (_tag: "NotFound" | "PermissionDenied") =>
  PlatformError.systemError({ _tag, module: "FileSystem", method: "writeFile" })

/** A file system that keeps what is appended, and does to each write what `before` says. */
const disk = (
  before: (write: number) => Effect.Effect<void, PlatformError.PlatformError> = () => Effect.void
) => {
  const appended: Array<string> = []
  const directories: Array<string> = []
  const flags: Array<string | undefined> = []
  let writes = 0
  const layer = FileSystem.layerNoop({
    writeFileString: (_, text, options) =>
      Effect.andThen(
        Effect.suspend(() => before(++writes)),
        Effect.sync(() => {
          flags.push(options?.flag)
          appended.push(text)
        })
      ),
    makeDirectory: (path) => Effect.sync(() => void directories.push(path))
  })
  return { appended, directories, flags, layer }
}

const warnings = () => {
  const seen: Array<string> = []
  const logger = Logger.make<unknown, void>((log) => {
    seen.push(`${log.logLevel} ${String(log.message)} ${Cause.pretty(log.cause)}`)
  })
  return { seen, layer: Logger.layer([logger]) }
}

const jsonl = (files: Layer.Layer<FileSystem.FileSystem>) =>
  RunTrace.layerJsonl("logs/trace.jsonl").pipe(Layer.provide(files))

describe("RunTrace", () => {
  it.effect("keeps nothing by default", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* RunTrace.RunTrace, RunTrace.none)
      yield* write(samples.turn)
    })
  )

  it.effect("can be switched off below a trace", () =>
    Effect.gen(function* () {
      const outer = RunTrace.memory()
      yield* write(samples.turn).pipe(
        Effect.provide(RunTrace.layerNone),
        Effect.provideService(RunTrace.RunTrace, outer)
      )
      assert.deepStrictEqual(outer.events, [])
    })
  )

  it.effect("keeps events and their lines in memory, for tests", () =>
    Effect.gen(function* () {
      const trace = RunTrace.memory()
      yield* Effect.provideService(write(samples.text_delta, result("a")), RunTrace.RunTrace, trace)
      assert.deepStrictEqual(
        trace.events.map((event) => event.type),
        ["text_delta", "tool_result"]
      )
      assert.deepStrictEqual(trace.lines(), [lineOf("a").trim()])
      assert.include(trace.lines({ bodies: true })[0], "access.log")
    })
  )

  it.effect("survives a sink that throws, and says so once", () =>
    Effect.gen(function* () {
      const log = warnings()
      let calls = 0
      const broken = RunTrace.layer(() => {
        calls++
        throw new Error("boom")
      })
      yield* Effect.andThen(write(samples.turn, samples.turn), Effect.yieldNow).pipe(
        Effect.provide(broken.pipe(Layer.provideMerge(log.layer)))
      )
      assert.strictEqual(calls, 2)
      assert.strictEqual(log.seen.length, 1)
      assert.include(log.seen[0], "Warn a trace sink throws")
    })
  )

  it.effect("gives every event to all of several sinks", () =>
    Effect.gen(function* () {
      const files = disk()
      const seen: Array<string> = []
      const both = RunTrace.layerAll(
        RunTrace.layer((event) => void seen.push(event.type)),
        RunTrace.layerJsonl("trace.jsonl")
      )
      yield* write(result("a")).pipe(Effect.provide(both), Effect.provide(files.layer))
      assert.deepStrictEqual(seen, ["tool_result"])
      assert.deepStrictEqual(files.appended, [lineOf("a")])
    })
  )
})

describe("RunTrace.layerJsonl", () => {
  it.effect("writes lines together, after the delay, and the last ones when it closes", () =>
    Effect.gen(function* () {
      const files = disk()
      yield* Effect.gen(function* () {
        yield* write(result("a"), samples.text_delta, samples.turn_started, result("b"))
        yield* TestClock.adjust("99 millis")
        assert.deepStrictEqual(files.appended, [])
        yield* TestClock.adjust("1 millis")
        assert.deepStrictEqual(files.appended, [lineOf("a") + lineOf("b")])
        yield* write(result("c"))
        yield* TestClock.adjust("100 millis")
        assert.deepStrictEqual(files.appended, [lineOf("a") + lineOf("b"), lineOf("c")])
        yield* write(result("d"))
        yield* TestClock.adjust("10 seconds")
        yield* write(result("e"))
        assert.strictEqual(files.appended.length, 3)
      }).pipe(Effect.provide(jsonl(files.layer)))
      assert.deepStrictEqual(files.appended.slice(2), [lineOf("d"), lineOf("e")])
      assert.deepStrictEqual(new Set(files.flags), new Set(["a"]))
      assert.deepStrictEqual(files.directories, [])
    })
  )

  it.effect("writes nothing when there is nothing to write", () =>
    Effect.gen(function* () {
      const files = disk()
      yield* write(samples.text_delta).pipe(Effect.provide(jsonl(files.layer)))
      assert.deepStrictEqual(files.appended, [])
    })
  )

  it.effect("loses nothing when the run is interrupted", () =>
    Effect.gen(function* () {
      const files = disk()
      const started = yield* Deferred.make<void>()
      const run = yield* write(result("a")).pipe(
        Effect.andThen(Deferred.succeed(started, undefined)),
        Effect.andThen(Effect.never),
        Effect.provide(jsonl(files.layer)),
        Effect.forkChild
      )
      yield* Deferred.await(started)
      yield* Fiber.interrupt(run)
      assert.deepStrictEqual(files.appended, [lineOf("a")])
    })
  )

  it.effect("keeps the order when it closes in the middle of a slow write", () =>
    Effect.gen(function* () {
      const writing = yield* Deferred.make<void>()
      const go = yield* Deferred.make<void>()
      const files = disk((nth) =>
        nth === 1 ? Effect.andThen(Deferred.succeed(writing, undefined), Deferred.await(go)) : Effect.void
      )
      const scope = yield* Scope.make()
      const sink = yield* RunTrace.RunTrace.pipe(
        Effect.provide(yield* Layer.buildWithScope(jsonl(files.layer), scope))
      )
      sink.write(result("a"))
      yield* TestClock.adjust("100 millis")
      yield* Deferred.await(writing)
      sink.write(result("b"))
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* Effect.yieldNow
      assert.deepStrictEqual(files.appended, [])
      yield* Deferred.succeed(go, undefined)
      yield* Fiber.join(closing)
      assert.deepStrictEqual(files.appended, [lineOf("a"), lineOf("b")])
      sink.write(result("too late"))
      yield* TestClock.adjust("1 second")
      assert.strictEqual(files.appended.length, 2)
    })
  )

  it.effect("creates the directory if it is missing", () =>
    Effect.gen(function* () {
      const files = disk((nth) => (nth === 1 ? Effect.fail(failure("NotFound")) : Effect.void))
      const log = warnings()
      yield* write(result("a")).pipe(Effect.provide(jsonl(files.layer)), Effect.provide(log.layer))
      assert.deepStrictEqual(files.directories, ["logs"])
      assert.deepStrictEqual(files.appended, [lineOf("a")])
      assert.deepStrictEqual(log.seen, [])
    })
  )

  it.effect("says once that the disk fails, goes on, and writes again when it can", () =>
    Effect.gen(function* () {
      const files = disk((nth) => (nth <= 2 ? Effect.fail(failure("PermissionDenied")) : Effect.void))
      const log = warnings()
      yield* Effect.gen(function* () {
        for (const tool of ["a", "b", "c"]) {
          yield* write(result(tool))
          yield* TestClock.adjust("100 millis")
        }
      }).pipe(Effect.provide(jsonl(files.layer).pipe(Layer.provideMerge(log.layer))))
      assert.deepStrictEqual(files.appended, [lineOf("c")])
      assert.strictEqual(log.seen.length, 1)
      assert.include(log.seen[0], "Warn trace lines cannot be written to logs/trace.jsonl")
      assert.include(log.seen[0], "PermissionDenied")
    })
  )

  it.effect("says so too when a file system is broken altogether", () =>
    Effect.gen(function* () {
      const files = disk(() => Effect.die(new Error("a defect")))
      const log = warnings()
      yield* write(result("a")).pipe(Effect.provide(jsonl(files.layer)), Effect.provide(log.layer))
      assert.strictEqual(log.seen.length, 1)
    })
  )

  it.effect("appends to a real file, in a directory that it makes", () =>
    Effect.gen(function* () {
      const root = yield* Effect.acquireRelease(
        Effect.promise(() => mkdtemp(join(tmpdir(), "checkrein-trace-"))),
        (path) => Effect.promise(() => rm(path, { recursive: true }))
      )
      const path = join(root, "deep", "down", "trace.jsonl")
      const trace = RunTrace.layerJsonl(path, { bodies: true }).pipe(Layer.provide(NodeFileSystem.layer))
      yield* Effect.provide(write(samples.tool_start), trace)
      yield* Effect.provide(write(samples.input_given), trace)
      assert.deepStrictEqual((yield* Effect.promise(() => readFile(path, "utf8"))).split("\n"), [
        '{"runId":"n1","type":"tool_start","toolName":"list_files","args":"{}","callId":"c1"}',
        '{"runId":"n1","type":"input_given","callId":"c4","by":"ada","answer":"Monday"}',
        ""
      ])
    })
  )
})

describe("RunTrace.layerConsole", () => {
  const shown = Effect.fnUntraced(function* (options?: RunTrace.PrettyOptions) {
    const lines: Array<string> = []
    const console: Console.Console = Object.assign(Object.create(yield* Console.Console), {
      error: (text: string) => lines.push(text)
    })
    yield* write(samples.text_delta, samples.tool_result).pipe(
      Effect.provide(RunTrace.layerConsole(options)),
      Effect.provideService(Console.Console, console)
    )
    return lines
  })

  const onTerminal = <A, E, R>(isTTY: boolean, noColor: string | undefined, effect: Effect.Effect<A, E, R>) =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        const before = Object.getOwnPropertyDescriptor(process.stderr, "isTTY")
        Object.defineProperty(process.stderr, "isTTY", { value: isTTY, configurable: true, writable: true })
        vi.stubEnv("NO_COLOR", noColor)
        return before
      }),
      () => effect,
      (before) =>
        Effect.sync(() => {
          vi.unstubAllEnvs()
          Reflect.deleteProperty(process.stderr, "isTTY")
          if (before !== undefined) Object.defineProperty(process.stderr, "isTTY", before)
        })
    )

  const plain = ["    ✓ list_files 1 ms"]
  const coloured = ["    \u001b[32m✓\u001b[0m list_files \u001b[2m1 ms\u001b[0m"]

  it.effect("writes to stderr, in colours only on a terminal and without NO_COLOR", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* onTerminal(false, undefined, shown()), plain)
      assert.deepStrictEqual(yield* onTerminal(true, undefined, shown()), coloured)
      assert.deepStrictEqual(yield* onTerminal(true, "", shown()), coloured)
      assert.deepStrictEqual(yield* onTerminal(true, "1", shown()), plain)
      assert.deepStrictEqual(yield* onTerminal(false, undefined, shown({ colors: true })), coloured)
      assert.deepStrictEqual(yield* onTerminal(true, undefined, shown({ colors: false })), plain)
    })
  )
})
