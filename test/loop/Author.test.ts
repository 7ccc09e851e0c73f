/**
 * An author's functions may yield what their types do not allow: the run ends as it should all the same, what is done stays
 * done, every event can be read again, and the log says who has to mend what.
 */
import { inspect } from "node:util"
import { describe, expect } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import { Agent, Operation, type RunStore, ToolFailure, ToolPolicy } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import {
  call,
  check,
  expectTag,
  finish,
  journal,
  model,
  of,
  once,
  reader,
  resultOf,
  said,
  withTime,
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

describe("stopWhen that yields no text", () => {
  for (const [what, value] of Object.entries(odd)) {
    const goesOn = ["undefined", "null", "false"].includes(what)
    check(`but ${what}: the run goes on${goesOn ? "" : ", and the log says so once"}`, function* () {
      const tools = Toolkit.make(reader("t"))
      const agent = Agent.make("a", { toolkit: tools, stopWhen: yielding(value) }).pipe(
        Agent.provide(tools.toLayer({ t: () => Effect.succeed("seen") })),
        Agent.provide(once(call("t", "c")).layer)
      )
      const { exit, warnings } = yield* warned(finish(Agent.run(agent, "go")))
      expectTag(exit, "Completed")
      expect(warnings.filter((warning) => warning.includes("stopWhen"))).toHaveLength(goesOn ? 0 : 1)
    })
  }
})

describe("IdempotencyKey that yields no text", () => {
  for (const [what, value] of Object.entries(odd)) {
    check(`but ${what}: nothing runs under a key that nobody knows`, function* () {
      let ran = 0
      const tools = Toolkit.make(writer("t").annotate(ToolPolicy.IdempotencyKey, yielding(value)))
      const agent = Agent.make("a", { toolkit: tools }).pipe(
        Agent.provide(tools.toLayer({ t: () => Effect.sync(() => `${ran++}`) })),
        Agent.provide(once(call("t", "c")).layer)
      )
      const { events, exit } = yield* finish(Agent.run(agent, "go"))
      expectTag(exit, "Completed")
      expect(ran).toBe(0)
      expect(of(events, "tool_start")).toEqual([])
      expect(of(events, "tool_result")).toMatchObject([{ callId: "c", disposition: "refused" }])
      expect(of(events, "tool_result")[0]?.detail).toContain("the IdempotencyKey of t yields")
    })
  }
})

describe("Reconcile that yields no outcome", () => {
  const happened = (result: unknown) => ({ _tag: "Happened", result })
  const noJson = ["undefined", "a bigint", "a symbol", "a cycle", "a function"]
  const answers: ReadonlyArray<readonly [string, () => unknown]> = [
    ...Object.entries(odd).flatMap(([what, value]) => [
      [what, () => value] as const,
      [`a success with ${what}`, () => Effect.succeed(value)] as const
    ]),
    ...noJson.map((what) => [`happened with ${what}`, () => Effect.succeed(happened(odd[what]))] as const)
  ]
  for (const [what, answer] of answers) {
    check(`but ${what}: a person is asked, as where it cannot be told`, function* () {
      const tools = Toolkit.make(writer("t").annotate(ToolPolicy.Reconcile, () => answer() as never))
      const agent = Agent.make("a", { toolkit: tools }).pipe(
        Agent.provide(tools.toLayer({ t: () => Effect.interrupt })),
        Agent.provide(once(call("t", "c")).layer)
      )
      const { events, exit, warnings } = yield* warned(finish(Agent.run(agent, "go")))
      expectTag(exit, "OutcomeUnknown")
      expect(of(events, "outcome_resolved")).toMatchObject([{ outcome: "still_unknown" }])
      expect(warnings.filter((warning) => warning.includes("looking up t (c) failed"))).toHaveLength(1)
    })
  }
})

describe("toModelOutput that yields no parts", () => {
  const answers = {
    ...odd,
    "a text": "words",
    "a list of texts": ["words"],
    "a part without text": [{ type: "text" }],
    "a file without a type": [{ type: "file" }],
    "a list of nothing": [null]
  }
  for (const [what, value] of Object.entries(answers)) {
    check(`but ${what}: what was done is done, and the model reads the result itself`, function* () {
      let ran = 0
      const t = Object.assign(writer("t"), { toModelOutput: yielding(value) })
      const tools = Toolkit.make(t)
      const handlers = tools.toLayer({ t: () => Effect.sync(() => `receipt ${++ran}`) })
      const given = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers))
      const handled = Agent.make("a", { toolkit: Effect.provide(tools, handlers) })
      for (const agent of [given, handled]) {
        ran = 0
        const run = Agent.run(Agent.provide(once(call("t", "c")).layer)(agent), "go")
        const { events, exit, warnings } = yield* warned(finish(run))
        expectTag(exit, "Completed")
        expect([resultOf(exit, "c").content, ran]).toEqual(["receipt 1", 1])
        expect(of(events, "tool_result")).toMatchObject([{ ok: true, disposition: "executed" }])
        // A toolkit that brings its own `handle` puts out nothing where there is nothing to show.
        const silent = agent === handled && value === undefined
        expect(warnings.filter((warning) => warning.includes("toModelOutput of t"))).toHaveLength(
          silent ? 0 : 1
        )
      }
    })
  }
})

describe("a Timeout that is no duration", () => {
  const values = ["soon", "", "20 secs", "-1 second", false, () => "1 second", Number.NaN, -1, null]
  for (const value of [...values, { minute: 1 }]) {
    check(`but ${inspect(value)}: the agent is refused, and nothing runs`, function* () {
      const bot = once(call("t", "c"))
      const tools = Toolkit.make(writer("t").annotate(ToolPolicy.Timeout, value as never))
      const agent = Agent.make("a", { toolkit: tools }).pipe(
        Agent.provide(tools.toLayer({ t: () => Effect.succeed("done") })),
        Agent.provide(bot.layer)
      )
      const exit = yield* Effect.exit(Agent.run(agent, "go", { runId: "r" }))
      const refused = Exit.isFailure(exit) ? String(Cause.squash(exit.cause)) : ""
      expect(refused).toContain("the ToolPolicy.Timeout of t is no duration")
      expect(bot.requests).toEqual([])
      expect((yield* Effect.exit(journal("r")))._tag).toBe("Failure")
      expect(() => Agent.make("a", { policy: { toolTimeout: value as never } })).toThrow()
    })
  }
})

describe("a look at an operation that yields no look", () => {
  const looks = {
    ...odd,
    "an end of another kind": { _tag: "checkrein/OperationEnded", id: "t1", outcome: "exploded", detail: "" },
    "an end without detail": { _tag: "checkrein/OperationEnded", id: "t1", outcome: "failed" },
    "a label of another kind": { _tag: "checkrein/OperationRunning", id: "t1", label: 4 }
  }
  for (const [what, value] of Object.entries(looks)) {
    check(`but ${what}: nothing was seen of it`, function* () {
      const control: Operation.Control = { observe: () => Effect.succeed(value as never) }
      const t = Tool.make("t", { success: Operation.Started }).annotate(Operation.Control, control)
      const tools = Toolkit.make(t)
      const policy = { operations: { grace: "2 seconds" } } as const
      const agent = Agent.make("a", { toolkit: tools, limits: { turns: 2 }, policy }).pipe(
        Agent.provide(
          tools.toLayer({ t: () => Effect.succeed(Operation.started({ id: "t1", observe: "look" })) })
        ),
        Agent.provide(model([Scripted.call("t", {}), Scripted.call("t", {})]).layer)
      )
      const { events, exit, warnings } = yield* warned(withTime(finish(Agent.run(agent, "go"))))
      expectTag(exit, "MaxTurnsExceeded")
      expect(of(events, "operation_ended")).toEqual([])
      expect(of(events, "run_stopped")).toMatchObject([
        { operations: [{ operationId: "t1", handling: "detached" }] }
      ])
      expect(warnings.filter((warning) => warning.includes("looking at operation t1 fails"))).toHaveLength(1)
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
