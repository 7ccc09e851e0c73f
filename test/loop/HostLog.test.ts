/** What a host writes into the log, and what it leaves out. */
import { inspect } from "node:util"
import { describe, expect, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { Agent, MemoryRunStore, RunHost, type RunStore, ToolFailure } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as MemoryBudgetPool from "../../src/store/MemoryBudgetPool.ts"
import { call, guarded, reader, settle, usage, withTime } from "./support.ts"

const secret = "SECRET-4711"
const Refuse = Tool.make("refuse", { failure: ToolFailure.ToolFailure })
const tools = Toolkit.make(guarded("delete"), reader("block"), Refuse)
type Gate = Deferred.Deferred<void>

const agentOf = (name: string, lines: ReadonlyArray<Scripted.Line>, gate?: Gate) => {
  const handlers = tools.toLayer({
    delete: () => Effect.succeed("gone"),
    block: () => (gate === undefined ? Effect.never : Effect.as(Deferred.await(gate), "open")),
    refuse: () => Effect.fail(ToolFailure.permanent(`not for ${secret}`))
  })
  return Agent.make(name, { toolkit: tools, limits: { time: "1 hour" } }).pipe(
    Agent.provide(Layer.merge(handlers, Scripted.layer(Scripted.make(name, lines), { usage })))
  )
}

interface Line {
  readonly level: string
  readonly text: string
  readonly runId: unknown
  readonly agent: unknown
}

/** What is logged at `Info` or above, as one text each. */
const collector = () => {
  const lines: Array<Line> = []
  const logger = Logger.make(({ fiber, logLevel, message }) => {
    if (logLevel === "Debug" || logLevel === "Trace") return
    const { agent, runId } = fiber.getRef(References.CurrentLogAnnotations)
    const [text] = Array.isArray(message) ? message : [message]
    lines.push({ level: logLevel, text: String(text), runId, agent })
  })
  return { lines, layer: Logger.layer([logger, Logger.tracerLogger]) }
}

/** A host whose scope is in the test's hands. */
const opened = (agents: ReadonlyArray<ReturnType<typeof agentOf>>, options: RunHost.Options<never> = {}) =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const context = yield* Layer.buildWithScope(Layer.fresh(RunHost.layer(agents, options)), scope)
    return { host: Context.get(context, RunHost.RunHost), close: Scope.close(scope, Exit.void) }
  })

const test = (
  name: string,
  body: (lines: Array<Line>) => Effect.Effect<unknown, unknown, RunStore.RunStore | Scope.Scope>
) => {
  const { layer, lines } = collector()
  it.effect(name, () => Effect.provide(body(lines), Layer.merge(MemoryRunStore.layer, layer)))
}

describe("the log of a host", () => {
  test("has one line for each run that has failed, and none for what ends otherwise", (lines) =>
    Effect.gen(function* () {
      const { close, host } = yield* opened([
        agentOf("refused", [Scripted.call("refuse", {}, { id: "c" })]),
        agentOf("answers", [Scripted.text("done")]),
        agentOf("waits", [call("delete", "c")]),
        agentOf("blocks", [call("block", "c")])
      ])
      for (const name of ["refused", "answers", "waits", "blocks"]) {
        yield* host.start(name, "go", { runId: name })
        if (name === "blocks") {
          yield* settle
          yield* host.cancel(name, "enough")
        }
        yield* host.ended(name)
      }
      const detail = (yield* host.status("refused")).detail
      expect(lines).toEqual([
        {
          level: "Warn",
          text: `run refused of refused has failed (tool_permanent): ${detail}`,
          runId: "refused",
          agent: "refused"
        }
      ])
      expect(detail).toContain(secret)
      const span = yield* Effect.orDie(Effect.currentSpan)
      expect(inspect(span, { depth: 9 })).not.toContain(secret)
      // Nobody has forced it, so it has only failed once.
      yield* host.resume("refused")
      yield* host.ended("refused")
      expect(lines).toHaveLength(1)
      yield* host.resume("refused", { force: true })
      yield* host.ended("refused")
      expect(lines).toHaveLength(2)
      yield* close
      expect(lines).toHaveLength(2)
    }).pipe(Effect.withSpan("the program around it")))

  for (const [standing, expected] of [
    ["stopped", "run r is not driven on, and it stays as it has stopped: interrupted (approval)"],
    ["running", "run r is not driven on, and it has not stopped: `recover` has it driven"]
  ] as const)
    test(`says how a run stands that it could not drive on (${standing})`, (lines) =>
      Effect.gen(function* () {
        const agent = agentOf("cleaner", [call("delete", "c")])
        if (standing === "running") yield* Agent.create(agent, "go", { runId: "r" })
        else {
          yield* Effect.exit(Agent.run(agent, "go", { runId: "r" }))
          yield* Agent.decide({ runId: "r", callId: "c" }, Agent.approve())
        }
        const pool = yield* MemoryBudgetPool.make("p", { usd: 1 })
        // It has no price, and the money is limited.
        const { close, host } = yield* opened([agent], { budget: () => Effect.succeed(pool) })
        yield* host.recover
        yield* host.ended("r")
        expect(lines).toEqual([{ level: "Error", text: expected, runId: "r", agent: "cleaner" }])
        yield* close
      }))

  for (const [running, expected] of [
    ["finish", "2 runs let finish, 1 interrupted, 5 left for `recover`"],
    ["interrupt", "0 runs let finish, 3 interrupted, 5 left for `recover`"]
  ] as const)
    test(`says what became of its runs when it has closed (${running})`, (lines) =>
      Effect.gen(function* () {
        const gate = yield* Deferred.make<void>()
        const blocker = agentOf("blocker", [call("block", "c"), Scripted.text("done")], gate)
        const hung = agentOf("hung", [call("block", "c"), Scripted.text("done")])
        const cleaner = agentOf("cleaner", [call("delete", "c")])
        yield* Effect.exit(Agent.run(cleaner, "go", { runId: "undecided" }))
        const agents = [blocker, hung, cleaner]
        const { close, host } = yield* opened(agents, {
          concurrency: 3,
          shutdown: { running, grace: "10 seconds" }
        })
        for (const runId of ["a", "b"]) yield* host.start("blocker", "go", { runId })
        yield* host.start("hung", "go", { runId: "hung" })
        yield* settle
        yield* host.start("blocker", "go", { runId: "waits" })
        yield* host.resume("undecided")
        yield* settle
        const closing = yield* Effect.forkChild(close, { startImmediately: true })
        yield* Deferred.succeed(gate, undefined)
        yield* settle
        yield* TestClock.adjust("10 seconds")
        yield* Fiber.join(closing)
        const text = `a host has closed: ${expected}`
        expect(lines).toEqual([{ level: "Info", text, runId: undefined, agent: undefined }])
        // As it says: the next host is left with these.
        const next = yield* opened(agents)
        expect([...(yield* next.host.recover)].sort()).toEqual(["a", "b", "hung", "undecided", "waits"])
        yield* next.close
      }))

  for (const running of ["finish", "interrupt"] as const)
    test(`says of a run whose layers are still built when it closes whether somebody drives it on (${running})`, (lines) =>
      Effect.gen(function* () {
        const quick = agentOf("cleaner", [call("delete", "c")])
        const slow = quick.pipe(Agent.provide(Layer.effectDiscard(Effect.sleep("1 second"))))
        yield* Agent.create(quick, "go", { runId: "created" })
        yield* Effect.exit(Agent.run(quick, "go", { runId: "stopped" }))
        const { close, host } = yield* opened([slow], { shutdown: { running } })
        yield* host.recover
        yield* withTime(host.ended("created"))
        yield* host.resume("stopped")
        yield* Agent.create(quick, "go", { runId: "left" })
        yield* host.recover
        yield* settle
        yield* close
        const text = "a host has closed: 0 runs let finish, 0 interrupted, 2 left for `recover`"
        expect(lines.map((line) => line.text)).toEqual([text])
        const next = yield* opened([quick])
        expect([...(yield* next.host.recover)].sort()).toEqual(["left", "stopped"])
        yield* next.close
      }))

  test("says nothing where a host closes that has nothing to do", (lines) =>
    Effect.gen(function* () {
      const { close, host } = yield* opened([agentOf("answers", [Scripted.text("done")])])
      yield* host.start("answers", "go", { runId: "r" })
      yield* host.ended("r")
      yield* close
      expect(lines).toEqual([])
    }))
})
