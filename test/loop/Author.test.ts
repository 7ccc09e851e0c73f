/**
 * An author's functions may yield what their types do not allow: the run ends as it should all the same, what is done stays
 * done, every event can be read again, and the log says who has to mend what.
 */
import { describe, expect } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { Agent, type RunStore, ToolFailure } from "../../src/index.ts"
import {
  call,
  check,
  expectTag,
  finish,
  journal,
  of,
  once,
  reader,
  resultOf,
  said,
  writer
} from "./support.ts"

const cyclic: Record<string, unknown> = {}
cyclic.self = cyclic

/** What no text is. */
const odd: Record<string, unknown> = {
  undefined: undefined,
  null: null,
  false: false,
  "a number": 42,
  "a bigint": 10n,
  "a symbol": Symbol("x"),
  "an object": {},
  "a cycle": cyclic,
  "a function": () => "words",
  "a promise": Promise.resolve("words")
}

/** An author that no compiler holds. */
const yielding = (value: unknown) => (): never => value as never

/** Runs something, and keeps what its log warns of. */
const warned = Effect.fnUntraced(function* <A, E>(run: Effect.Effect<A, E, RunStore.RunStore>) {
  const warnings: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => {
    if (logLevel === "Warn") warnings.push([message].flat().map(String).join(" "))
  })
  return { ...(yield* Effect.provide(run, Logger.layer([logger]))), warnings }
})

describe("toolErrors that yields no text", () => {
  for (const [what, value] of Object.entries(odd)) {
    check(`but ${what}: the failure is told without its reason, and the run goes on`, function* () {
      for (const tool of [reader("t"), writer("t")]) {
        const tools = Toolkit.make(tool)
        const agent = Agent.make("a", { toolkit: tools, policy: { toolErrors: yielding(value) } }).pipe(
          Agent.provide(tools.toLayer({ t: () => Effect.fail(ToolFailure.recoverable("hunter2")) })),
          Agent.provide(once(call("t", "c")).layer)
        )
        const { events, exit, warnings } = yield* warned(finish(Agent.run(agent, "go")))
        expectTag(exit, "Completed")
        expect(resultOf(exit, "c").ok).toBe(false)
        expect(said(exit)).not.toContain("hunter2")
        expect(of(events, "tool_result")[0]?.detail).toBe("hunter2")
        expect(warnings.filter((warning) => warning.includes("toolErrors"))).toHaveLength(1)
      }
    })
  }
})

describe("a verdict that cannot be made", () => {
  check("ends the run as failed, with an outcome for every call that had started", function* () {
    const unreadable = () => {
      const failure = ToolFailure.recoverable("x")
      return Object.defineProperty(failure, "message", {
        get: () => {
          throw new Error("no words")
        }
      })
    }
    const tools = Toolkit.make(reader("look"), writer("put"))
    for (const [name, disposition] of [
      ["look", "cancelled"],
      ["put", "unknown"]
    ] as const) {
      const fails = () => Effect.fail(unreadable())
      const agent = Agent.make("a", { toolkit: tools }).pipe(
        Agent.provide(tools.toLayer({ look: fails, put: fails })),
        Agent.provide(once(call(name, "c")).layer)
      )
      const exit = yield* Effect.exit(Agent.run(agent, "go", { runId: name }))
      expect(exit._tag).toBe("Failure")
      const events = yield* Effect.orDie(journal(name))
      expect(of(events, "tool_result")).toMatchObject([{ callId: "c", disposition }])
      expect(of(events, "run_stopped")).toMatchObject([{ status: "failed", reason: "defect" }])
    }
  })
})
