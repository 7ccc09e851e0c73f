import { spawn } from "node:child_process"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { describe, expect, it } from "@effect/vitest"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as ChildProcess from "effect/process/ChildProcess"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import {
  Agent,
  CurrentCall,
  MemoryRunStore,
  type RunEvent,
  RunStore,
  RunTrace,
  ToolFailure,
  ToolPolicy
} from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { checkLaws } from "./laws.ts"
import {
  call,
  check,
  checkLive,
  crashing,
  expectTag,
  expectValidRequests,
  finish,
  guarded,
  journal,
  model,
  of,
  once,
  reader,
  resultOf,
  results,
  said,
  settle,
  undeclared,
  withTime,
  writer
} from "./support.ts"

const secret = "hunter2-secret"

describe("each call of a turn on its own", () => {
  check("one turn with every kind of bad call: each has its result, no sibling is lost", function* () {
    const Odd = Tool.make("odd", {
      parameters: Schema.Struct({ q: Schema.String }),
      success: Schema.Int
    })
    const tools = Toolkit.make(reader("read"), writer("write"), reader("fail"), reader("die"), Odd)
    const written: Array<string> = []
    const handlers = tools.toLayer({
      read: ({ q }) => Effect.succeed(`read ${q}`),
      write: ({ q }) =>
        Effect.sync(() => {
          written.push(q)
          return "ok"
        }),
      fail: ({ q }) =>
        q === "declared"
          ? Effect.fail(ToolFailure.recoverable("no such file", { detail: secret }))
          : undeclared(new Error(secret)),
      die: ({ q }) => {
        if (q === "thrown") throw new Error(secret)
        return Effect.die(new Error(secret))
      },
      odd: () => Effect.succeed("not a number" as never)
    })
    const bot = once(
      call("read", "good1"),
      call("nope", "unknown"),
      call("toString", "prototype"),
      Scripted.call("read", "{broken", { id: "unparsable" }),
      Scripted.call("read", { q: 7 }, { id: "wrong" }),
      Scripted.call("read", "null", { id: "null" }),
      call("fail", "declared", "declared"),
      call("fail", "undeclared", "undeclared"),
      call("die", "defect", "died"),
      call("die", "thrown", "thrown"),
      call("odd", "encoding"),
      call("write", "good2", "b"),
      call("write", "good3", "c")
    )
    const agent = Agent.make("a", {
      toolkit: tools,
      policy: { repetition: "off" }
    }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { events, exit } = yield* finish(Agent.run(agent, "go", { runId: "r" }))
    const { run } = expectTag(exit, "Completed")
    expectValidRequests(bot.requests)
    const bad = [
      "unknown",
      "prototype",
      "unparsable",
      "wrong",
      "null",
      "declared",
      "undeclared",
      "defect",
      "thrown",
      "encoding"
    ]
    for (const id of bad) {
      const { content, ok } = resultOf(exit, id)
      expect(ok, id).toBe(false)
      expect(content, id).not.toMatch(/undefined|\[object|^$/)
      expect(of(events, "tool_result", id), id).toHaveLength(1)
      expect(of(events, "tool_result", id)[0]?.ok, id).toBe(false)
    }
    expect(resultOf(exit, "good1")).toMatchObject({
      ok: true,
      content: "read x"
    })
    expect(resultOf(exit, "good2")).toMatchObject({
      ok: true,
      content: "ok"
    })
    expect(written).toEqual(["b", "c"])
    expect(Object.keys(results(run.messages))).toHaveLength(13)
    expect(resultOf(exit, "unknown").content).toContain("nope")
    expect(resultOf(exit, "prototype").content).toContain("toString")
    expect(resultOf(exit, "wrong").content).toContain("q")
    expect(resultOf(exit, "declared").content).toContain("no such file")
    expect(run.pending).toEqual([])
  })

  check("secrets and stacks stay out of the transcript, and the journal keeps them", function* () {
    const tools = Toolkit.make(reader("declared"), reader("undeclared"), reader("defect"), reader("thrown"))
    const handlers = tools.toLayer({
      declared: () => Effect.fail(ToolFailure.recoverable("try again later", { detail: secret })),
      undeclared: () => undeclared(new Error(secret)),
      defect: () => Effect.die(new Error(secret)),
      thrown: () => {
        throw new Error(secret)
      }
    })
    const ids = ["declared", "undeclared", "defect", "thrown"]
    const bot = once(...ids.map((id) => call(id, id)))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { events, exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    for (const id of ids) {
      const result = of(events, "tool_result", id)[0]
      expect(result?.content, id).not.toContain(secret)
      expect(result?.detail, id).toContain(secret)
    }
    expect(said(exit)).not.toContain(secret)
    expect(said(exit)).not.toMatch(/\bat .*\.ts:\d+/)
  })

  check("arguments that cannot be used never reach the tool", function* () {
    let ran = 0
    const tools = Toolkit.make(writer("write"))
    const handlers = tools.toLayer({
      write: () => Effect.sync(() => `${++ran}`)
    })
    const bot = once(
      Scripted.call("write", "{", { id: "a" }),
      Scripted.call("write", {}, { id: "b" }),
      Scripted.call("write", { q: 1 }, { id: "c" }),
      Scripted.call("write", "[]", { id: "d" }),
      Scripted.call("write", '"text"', { id: "e" })
    )
    const agent = Agent.make("a", {
      toolkit: tools,
      policy: { repetition: "off" }
    }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expectValidRequests(bot.requests)
    expect(ran).toBe(0)
    for (const id of ["a", "b", "c", "d", "e"]) {
      expect(resultOf(exit, id).ok, id).toBe(false)
      expect(resultOf(exit, id).content, id).toContain("write")
    }
  })

  for (const failureMode of ["error", "return"] as const) {
    check(`declared failures in mode ${failureMode} come back in words`, function* () {
      class NoRoom extends Schema.TaggedError<NoRoom>()("NoRoom", {
        freeBytes: Schema.Int
      }) {
        override get message() {
          return `only ${this.freeBytes} bytes left`
        }
      }
      const parameters = Schema.Struct({ q: Schema.String })
      const Plain = Tool.make("plain", {
        parameters,
        failure: Schema.Struct({ hint: Schema.String }),
        failureMode
      })
      const Tagged = Tool.make("tagged", {
        parameters,
        failure: NoRoom,
        failureMode
      })
      const Own = Tool.make("own", {
        parameters,
        failure: ToolFailure.ToolFailure,
        failureMode
      })
      const tools = Toolkit.make(Plain, Tagged, Own)
      const handlers = tools.toLayer({
        plain: () => Effect.fail({ hint: "use the other file" }),
        tagged: () => Effect.fail(new NoRoom({ freeBytes: 512 })),
        own: () => Effect.fail(ToolFailure.recoverable("no such file: x", { detail: secret }))
      })
      const bot = once(call("plain", "p"), call("tagged", "t"), call("own", "o"))
      const agent = Agent.make("a", { toolkit: tools }).pipe(
        Agent.provide(handlers),
        Agent.provide(bot.layer)
      )
      const { events, exit } = yield* finish(Agent.run(agent, "go"))
      expectTag(exit, "Completed")
      expect(resultOf(exit, "p").content).toContain("use the other file")
      expect(resultOf(exit, "t").content).toContain("512")
      expect(resultOf(exit, "o").content).toContain("no such file: x")
      for (const id of ["p", "t", "o"]) expect(resultOf(exit, id).ok).toBe(false)
      expect(said(exit)).not.toContain(secret)
      expect(of(events, "tool_result", "o")[0]?.detail).toContain(secret)
    })

    check(`a permanent failure in mode ${failureMode} stops the run`, function* () {
      const Own = Tool.make("own", {
        failure: ToolFailure.ToolFailure,
        failureMode
      })
      const tools = Toolkit.make(Own)
      const handlers = tools.toLayer({
        own: () => Effect.fail(ToolFailure.permanent("not yours"))
      })
      const bot = once(Scripted.call("own", {}, { id: "o" }))
      const agent = Agent.make("a", { toolkit: tools }).pipe(
        Agent.provide(handlers),
        Agent.provide(bot.layer)
      )
      const { exit } = yield* finish(Agent.run(agent, "go"))
      expect(expectTag(exit, "RunFailed").reason).toBe("tool_permanent")
    })
  }

  check("a declared failure without a message of its own still says what it is", function* () {
    class Locked extends Schema.TaggedError<Locked>()("Locked", {
      by: Schema.String
    }) {}
    const Lock = Tool.make("lock", { failure: Locked }).annotate(Tool.Readonly, true)
    const tools = Toolkit.make(Lock)
    const bot = once(Scripted.call("lock", {}, { id: "c" }))
    const agent = Agent.make("a", { toolkit: tools }).pipe(
      Agent.provide(
        tools.toLayer({
          lock: () => Effect.fail(new Locked({ by: "backup-job" }))
        })
      ),
      Agent.provide(bot.layer)
    )
    const { exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c").content).toMatch(/Locked|backup-job/)
  })

  check("an error of a model that the tool itself uses is undeclared like any other", function* () {
    const tools = Toolkit.make(reader("read"))
    const reason = new AiError.UnknownError({ description: secret })
    const bot = once(call("read", "c"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(
      Agent.provide(
        tools.toLayer({
          read: () =>
            undeclared(
              AiError.make({
                module: "Inner",
                method: "generateText",
                reason
              })
            )
        })
      ),
      Agent.provide(bot.layer)
    )
    const { events, exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expect(said(exit)).not.toContain(secret)
    expect(of(events, "tool_result")[0]?.detail).toContain(secret)
  })

  check("results and failures that JSON has no word for do not crash the run", function* () {
    const circular: { self?: unknown } = {}
    circular.self = circular
    const values: ReadonlyArray<unknown> = [circular, { n: 1n }, 1n, () => 1, undefined, Symbol("s")]
    const Any = Tool.make("any", {
      parameters: Schema.Struct({ n: Schema.Int }),
      success: Schema.Unknown
    })
    const Bad = Tool.make("bad", {
      parameters: Schema.Struct({ n: Schema.Int })
    }).annotate(Tool.Readonly, true)
    const Own = Tool.make("own", {
      parameters: Schema.Struct({ n: Schema.Int }),
      failure: Schema.Unknown
    }).annotate(Tool.Readonly, true)
    const tools = Toolkit.make(Any, Bad, Own)
    const handlers = tools.toLayer({
      any: ({ n }) => Effect.succeed(values[n]),
      bad: ({ n }) => undeclared(values[n]),
      own: ({ n }) => Effect.fail(values[n])
    })
    const crashed: Array<string> = []
    for (const name of ["any", "bad", "own"]) {
      for (const n of values.keys()) {
        const bot = once(Scripted.call(name, { n }, { id: "c" }))
        const agent = Agent.make("a", { toolkit: tools }).pipe(
          Agent.provide(handlers),
          Agent.provide(bot.layer)
        )
        const { exit } = yield* finish(Agent.run(agent, "go"))
        if (exit._tag !== "Completed") crashed.push(`${name} ${n}: ${exit.message.replace(/^run \S+ /, "")}`)
        else expect(typeof resultOf(exit, "c").content, `${name} ${n}`).toBe("string")
      }
    }
    expect(crashed).toEqual([])
  })

  check("a toModelOutput that throws does not lose the sibling", function* () {
    const Rows = Tool.make("rows", {
      success: Schema.String,
      toModelOutput: () => {
        throw new Error(secret)
      }
    })
    const tools = Toolkit.make(Rows, reader("read"))
    const bot = once(Scripted.call("rows", {}, { id: "r" }), call("read", "d"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(
      Agent.provide(
        tools.toLayer({
          rows: () => Effect.succeed("x"),
          read: () => Effect.succeed("fine")
        })
      ),
      Agent.provide(bot.layer)
    )
    const { exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expect(said(exit)).not.toContain(secret)
    expect(resultOf(exit, "d").content).toBe("fine")
  })

  check("a writer whose result does not encode was executed, and is not called again", function* () {
    let ran = 0
    const Odd = Tool.make("odd", { success: Schema.Int })
    const tools = Toolkit.make(Odd)
    const handlers = tools.toLayer({
      odd: () => Effect.sync(() => `${++ran}` as never)
    })
    const bot = once(Scripted.call("odd", {}, { id: "o" }))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { events, exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expect(ran).toBe(1)
    expect(of(events, "tool_start")).toHaveLength(1)
    expect(of(events, "tool_result", "o")[0]?.disposition).toBe("executed")
    expect(resultOf(exit, "o").content).not.toMatch(/did not run|not executed/i)
  })

  check("a read-only handler that interrupts itself has a result in words", function* () {
    const tools = Toolkit.make(reader("read"), reader("other"))
    const handlers = tools.toLayer({
      read: () => Effect.interrupt,
      other: () => Effect.succeed("fine")
    })
    const bot = once(call("read", "a"), call("other", "b"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expect(resultOf(exit, "a").ok).toBe(false)
    expect(resultOf(exit, "b")).toMatchObject({ ok: true, content: "fine" })
  })

  check("a writer that interrupts itself does not cancel the run, and is not run twice", function* () {
    let ran = 0
    const tools = Toolkit.make(writer("write"), reader("other"))
    const handlers = tools.toLayer({
      write: () =>
        Effect.suspend(() => {
          ran++
          return Effect.interrupt
        }),
      other: () => Effect.succeed("fine")
    })
    const bot = once(call("write", "a"), call("other", "b"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { events, exit } = yield* finish(Agent.run(agent, "go", { runId: "r" }))
    expect(["Completed", "OutcomeUnknown"]).toContain(exit._tag)
    expect(resultOf(exit, "b").content).toBe("fine")
    expect(of(events, "run_stopped")[0]?.reason).not.toBe("cancelled")
    expect(ran).toBe(1)
  })

  check("empty and repeated ids become ids of their own, on the wire too", function* () {
    const seen: Array<string> = []
    const tools = Toolkit.make(reader("read"))
    const handlers = tools.toLayer({
      read: ({ q }) =>
        Effect.gen(function* () {
          seen.push((yield* CurrentCall.CurrentCall).callId)
          return `read ${q}`
        })
    })
    const bot = model([
      Scripted.turn(
        call("read", "", "a"),
        call("read", "", "b"),
        call("read", "same", "c"),
        call("read", "same", "d")
      ),
      Scripted.turn(call("read", "same", "e"), call("read", "2.1", "f"), call("read", "", "g")),
      Scripted.turn(
        call("read", "3.0", "h"),
        call("read", "3.1", "i"),
        call("read", "3.2", "j"),
        call("read", "", "k")
      ),
      Scripted.turn(
        call("read", "", "l"),
        call("read", "4.0", "m"),
        call("read", "4.1", "n"),
        call("read", "", "o")
      ),
      Scripted.text("done")
    ])
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { events, exit } = yield* finish(Agent.run(agent, "go", { runId: "r" }))
    const { run } = expectTag(exit, "Completed")
    expectValidRequests(bot.requests)
    expect(new Set(seen).size).toBe(15)
    expect(seen).toContain("same")
    expect(new Set(of(events, "tool_result").map(({ callId }) => callId)).size).toBe(15)
    // Each result belongs to its call: the argument of the call is what was read.
    for (const message of run.messages) {
      if (message.role !== "assistant") continue
      for (const part of message.content) {
        if (part.type !== "tool-call") continue
        const { q } = part.params as { readonly q: string }
        expect(resultOf(exit, part.id).content).toBe(`read ${q}`)
      }
    }
    expect(new Set(seen.filter((id) => id !== "same").map((id) => /^\d+\.\d+/.test(id)))).toEqual(
      new Set([true])
    )
  })

  check("a string result is sent verbatim, any other as JSON, and none at all as text too", function* () {
    const text = 'He said: "hi"\n\u2028 {"a":1}'
    const Text = Tool.make("text", { success: Schema.String })
    const Json = Tool.make("json", {
      success: Schema.Struct({
        at: Schema.DateFromString,
        n: Schema.Array(Schema.Int)
      })
    })
    const None = Tool.make("none")
    const Null = Tool.make("null", { success: Schema.Null })
    const tools = Toolkit.make(Text, Json, None, Null)
    const handlers = tools.toLayer({
      text: () => Effect.succeed(text),
      json: () => Effect.succeed({ at: new Date(0), n: [1, 2] }),
      none: () => Effect.void,
      null: () => Effect.succeed(null)
    })
    const bot = once(...["text", "json", "none", "null"].map((name) => Scripted.call(name, {}, { id: name })))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expect(resultOf(exit, "text").content).toBe(text)
    expect(resultOf(exit, "json").content).toBe('{"at":"1970-01-01T00:00:00.000Z","n":[1,2]}')
    expect(resultOf(exit, "null").content).toBe("null")
    expect(resultOf(exit, "none").ok).toBe(true)
    expect(typeof resultOf(exit, "none").content).toBe("string")
    const wire = bot.requests[1]?.filter((message) => message.role === "tool") ?? []
    expect(wire.find((message) => message.tool_call_id === "text")?.content).toBe(text)
    for (const message of wire) expect(typeof message.content).toBe("string")
  })

  check("a tool without parameters runs with empty arguments", function* () {
    const tools = Toolkit.make(Tool.make("ping", { success: Schema.String }))
    const handlers = tools.toLayer({ ping: () => Effect.succeed("pong") })
    const bot = once(
      Scripted.call("ping", {}, { id: "object" }),
      // What several endpoints send for a call without arguments.
      Scripted.call("ping", "", { id: "empty" })
    )
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expect(resultOf(exit, "object").content).toBe("pong")
    expect(resultOf(exit, "empty").content).toBe("pong")
  })

  check("a dynamic tool with a JSON schema works like any other", function* () {
    const Dynamic = Tool.dynamic("dyn", {
      parameters: { type: "object", properties: { n: { type: "number" } } },
      success: Schema.Unknown
    })
    const tools = Toolkit.make(Dynamic)
    const handlers = tools.toLayer({
      dyn: (params) => Effect.succeed({ got: params })
    })
    const bot = once(Scripted.call("dyn", { n: 1 }, { id: "d" }))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expect(resultOf(exit, "d").content).toBe('{"got":{"n":1}}')
  })

  check("what toModelOutput makes of a result is what the model sees", function* () {
    const Rows = Tool.make("rows", {
      success: Schema.Array(Schema.Int),
      toModelOutput: (rows) => [Prompt.makePart("text", { text: `${rows.length} rows` })]
    })
    const tools = Toolkit.make(Rows)
    const handlers = tools.toLayer({ rows: () => Effect.succeed([1, 2, 3]) })
    const bot = once(Scripted.call("rows", {}, { id: "r" }))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expect(resultOf(exit, "r").content).toBe("3 rows")
  })

  check("parameters are decoded for the handler, and journaled as they came", function* () {
    const At = Tool.make("at", {
      parameters: Schema.Struct({ at: Schema.DateFromString }),
      success: Schema.Int
    })
    const tools = Toolkit.make(At)
    const handlers = tools.toLayer({
      at: ({ at }) => Effect.succeed(at.getTime())
    })
    const bot = once(Scripted.call("at", { at: "1970-01-01T00:00:05.000Z" }, { id: "c" }))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { events, exit } = yield* finish(Agent.run(agent, "go"))
    expect(resultOf(exit, "c").content).toBe("5000")
    expect(of(events, "tool_start")[0]?.args).toEqual({
      at: "1970-01-01T00:00:05.000Z"
    })
  })
})

describe("a timeout", () => {
  const slow = (policy: Agent.PolicyInput, Slow: ReturnType<typeof writer<"slow">>) => {
    let ran = 0
    let interrupted = 0
    const tools = Toolkit.make(Slow, reader("quick"))
    const handlers = tools.toLayer({
      slow: () =>
        Effect.suspend(() => {
          ran++
          return Effect.never
        }).pipe(Effect.onInterrupt(() => Effect.sync(() => interrupted++))),
      quick: () => Effect.succeed("quick")
    })
    const bot = once(call("slow", "s"), call("quick", "q"))
    const agent = Agent.make("a", { toolkit: tools, policy }).pipe(
      Agent.provide(handlers),
      Agent.provide(bot.layer)
    )
    return { agent, bot, counts: () => ({ ran, interrupted }) }
  }

  check("of a read-only tool, by its own limit, is a result in words; the handler is stopped", function* () {
    const { agent, bot, counts } = slow(
      { toolTimeout: "1 hour" },
      reader("slow").annotate(ToolPolicy.Timeout, "5 seconds")
    )
    const { events, exit } = yield* withTime(finish(Agent.run(agent, "go")))
    expectTag(exit, "Completed")
    expectValidRequests(bot.requests)
    expect(resultOf(exit, "s").ok).toBe(false)
    expect(resultOf(exit, "s").content).toMatch(/5 ?s|time/i)
    expect(resultOf(exit, "q").content).toBe("quick")
    expect(of(events, "tool_result", "s")[0]?.ms).toBe(5000)
    expect(counts()).toEqual({ ran: 1, interrupted: 1 })
  })

  check(
    "by the agent's policy, is the same; a tool's own limit comes first even if it is longer",
    function* () {
      const byPolicy = slow({ toolTimeout: "3 seconds" }, reader("slow"))
      const first = yield* withTime(finish(Agent.run(byPolicy.agent, "go")))
      expectTag(first.exit, "Completed")
      expect(of(first.events, "tool_result", "s")[0]?.ms).toBe(3000)
      const own = slow({ toolTimeout: "3 seconds" }, reader("slow").annotate(ToolPolicy.Timeout, "8 seconds"))
      const second = yield* withTime(finish(Agent.run(own.agent, "go")))
      expect(of(second.events, "tool_result", "s")[0]?.ms).toBe(8000)
    }
  )

  check("of an idempotent tool is a result in words", function* () {
    const { agent } = slow({ toolTimeout: "3 seconds" }, writer("slow").annotate(Tool.Idempotent, true))
    const { exit } = yield* withTime(finish(Agent.run(agent, "go")))
    expectTag(exit, "Completed")
    expect(resultOf(exit, "s").ok).toBe(false)
  })

  check("of a writer leaves its outcome unknown: never called failed, never run again", function* () {
    const { agent, counts } = slow({ toolTimeout: "3 seconds" }, writer("slow"))
    const { exit } = yield* withTime(finish(Agent.run(agent, "go", { runId: "r" })))
    const { calls } = expectTag(exit, "OutcomeUnknown")
    expect(calls.map(({ callId, runId, tool }) => ({ callId, runId, tool }))).toEqual([
      { callId: "s", runId: "r", tool: "slow" }
    ])
    expect(exit.run.status).toBe("interrupted")
    expect(exit.run.reason).toBe("unknown_outcome")
    expect(resultOf(exit, "q").content).toBe("quick")
    expect(results(exit.run.messages).s).toBeUndefined()
    const again = yield* finish(Agent.resume(agent, "r"))
    expectTag(again.exit, "OutcomeUnknown")
    expect(counts()).toEqual({ ran: 1, interrupted: 1 })
  })
})

describe("order and parallelism", () => {
  check("reads of one turn run at the same time", function* () {
    const left = yield* Deferred.make<void>()
    const right = yield* Deferred.make<void>()
    const tools = Toolkit.make(reader("left"), reader("right"))
    const handlers = tools.toLayer({
      left: () => Effect.as(Effect.andThen(Deferred.succeed(left, undefined), Deferred.await(right)), "l"),
      right: () => Effect.as(Effect.andThen(Deferred.succeed(right, undefined), Deferred.await(left)), "r")
    })
    const bot = once(call("left", "a"), call("right", "b"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* finish(Agent.run(agent, "go"))
    expect(resultOf(exit, "a").content).toBe("l")
    expect(resultOf(exit, "b").content).toBe("r")
  })

  check("a result is stored when its call ends, while others still run", function* () {
    const release = yield* Deferred.make<void>()
    const started = yield* Deferred.make<void>()
    const tools = Toolkit.make(reader("fast"), reader("slow"))
    const handlers = tools.toLayer({
      fast: () => Effect.as(Deferred.await(started), "fast"),
      slow: () =>
        Effect.as(Effect.andThen(Deferred.succeed(started, undefined), Deferred.await(release)), "slow")
    })
    const bot = once(call("slow", "s"), call("fast", "f"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const fiber = yield* Effect.forkChild(finish(Agent.run(agent, "go", { runId: "r" })))
    yield* Deferred.await(started)
    yield* settle
    const early = yield* journal("r")
    expect(of(early, "tool_result").map(({ callId }) => callId)).toEqual(["f"])
    yield* Deferred.succeed(release, undefined)
    const { exit } = yield* Fiber.join(fiber)
    expectTag(exit, "Completed")
  })

  check("writers run one after the other, in the model's order", function* () {
    const log: Array<string> = []
    const tools = Toolkit.make(writer("w"), writer("v").annotate(Tool.Idempotent, true))
    const handler =
      (name: string) =>
      ({ q }: { readonly q: string }) =>
        Effect.gen(function* () {
          log.push(`${name}${q} begins`)
          yield* settle
          log.push(`${name}${q} ends`)
          return "ok"
        })
    const handlers = tools.toLayer({ w: handler("w"), v: handler("v") })
    const bot = once(call("w", "1", "1"), call("v", "2", "2"), call("w", "3", "3"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expect(log).toEqual(["w1 begins", "w1 ends", "v2 begins", "v2 ends", "w3 begins", "w3 ends"])
  })

  check("a writer that fails does not keep the next one from running", function* () {
    const tools = Toolkit.make(writer("bad"), writer("good"))
    const handlers = tools.toLayer({
      bad: () => Effect.die("boom"),
      good: () => Effect.succeed("ok")
    })
    const bot = once(call("bad", "1"), call("good", "2"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expect(resultOf(exit, "1").ok).toBe(false)
    expect(resultOf(exit, "2").content).toBe("ok")
  })

  check("reads and earlier writers run, a writer after an undecided one waits", function* () {
    const log: Array<string> = []
    const tools = Toolkit.make(reader("read"), writer("write"), guarded("ask"))
    const handler =
      (name: string) =>
      ({ q }: { readonly q: string }) =>
        Effect.sync(() => {
          log.push(`${name}${q}`)
          return "ok"
        })
    const handlers = tools.toLayer({
      read: handler("read"),
      write: handler("write"),
      ask: handler("ask")
    })
    const bot = once(
      call("write", "c1", "1"),
      call("ask", "c2", "2"),
      call("write", "c3", "3"),
      call("read", "c4", "4"),
      call("ask", "c5", "5")
    )
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* finish(Agent.run(agent, "go", { runId: "r" }))
    const { calls } = expectTag(exit, "ApprovalRequired")
    expect(calls.map(({ callId }) => callId)).toEqual(["c2", "c5"])
    expect([...log].sort()).toEqual(["read4", "write1"])
    log.length = 0
    yield* Agent.decide(calls[0], Agent.approve())
    const second = yield* finish(Agent.resume(agent, "r"))
    expect(expectTag(second.exit, "ApprovalRequired").calls.map(({ callId }) => callId)).toEqual(["c5"])
    expect(log).toEqual(["ask2", "write3"])
    yield* Agent.decide({ runId: "r", callId: "c5" }, Agent.reject())
    const last = yield* finish(Agent.resume(agent, "r"))
    expectTag(last.exit, "Completed")
    expect(log).toEqual(["ask2", "write3"])
    expectValidRequests(bot.requests)
  })
})

describe("CurrentCall", () => {
  const keyOf = (args: { readonly q: string }, runId: string, edit?: string) =>
    Effect.gen(function* () {
      const keys: Array<string> = []
      const tools = Toolkit.make(guarded("ask"))
      const handlers = tools.toLayer({
        ask: () =>
          Effect.gen(function* () {
            const current = yield* CurrentCall.CurrentCall
            keys.push(current.idempotencyKey)
            expect(current.runId).toBe(runId)
            expect(current.callId).toBe("c")
            return "ok"
          })
      })
      const bot = once(Scripted.call("ask", args, { id: "c" }))
      const agent = Agent.make("a", { toolkit: tools }).pipe(
        Agent.provide(handlers),
        Agent.provide(bot.layer)
      )
      const { exit } = yield* finish(Agent.run(agent, "go", { runId }))
      const { calls } = expectTag(exit, "ApprovalRequired")
      yield* Agent.decide(calls[0], Agent.approve(edit === undefined ? {} : { args: { q: edit } }))
      const done = yield* finish(Agent.resume(agent, runId))
      expectTag(done.exit, "Completed")
      expect(of(done.events, "tool_start").map(({ idempotencyKey }) => idempotencyKey)).toEqual(keys)
      expect(keys).toHaveLength(1)
      return keys[0] ?? ""
    })

  check("names the call; the key depends on run and arguments as they are executed", function* () {
    const first = yield* keyOf({ q: "x" }, "r1")
    const other = yield* keyOf({ q: "y" }, "r2")
    const edited = yield* keyOf({ q: "x" }, "r3", "y")
    expect(new Set([first, other, edited]).size).toBe(3)
    expect(first).not.toBe("")
  })

  check("the key is another one for edited arguments of the same call", function* () {
    const fresh = (edit?: string) =>
      Effect.provide(keyOf({ q: "x" }, "r", edit), Layer.fresh(MemoryRunStore.layer))
    const plain = yield* fresh()
    const again = yield* fresh()
    const edited = yield* fresh("y")
    expect(again).toBe(plain)
    expect(edited).not.toBe(plain)
  })

  check("the key is the same in every attempt and after a resume", function* () {
    const keys: Array<string> = []
    const reached = yield* Deferred.make<void>()
    const tools = Toolkit.make(reader("read"))
    const handlers = tools.toLayer({
      read: () =>
        Effect.gen(function* () {
          keys.push((yield* CurrentCall.CurrentCall).idempotencyKey)
          if (keys.length === 1) return yield* Effect.fail(ToolFailure.transient("busy"))
          if (keys.length > 2) return "ok"
          yield* Deferred.succeed(reached, undefined)
          return yield* Effect.never
        })
    })
    const bot = once(call("read", "c"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const fiber = yield* Effect.forkChild(Agent.run(agent, "go", { runId: "r" }))
    yield* withTime(Deferred.await(reached))
    yield* Fiber.interrupt(fiber)
    const { events, exit } = yield* finish(Agent.resume(agent, "r"))
    expectTag(exit, "Completed")
    expect(keys).toHaveLength(3)
    expect(new Set(keys).size).toBe(1)
    expect(of(events, "tool_start").map(({ idempotencyKey }) => idempotencyKey)).toEqual(keys)
  })

  check("two calls with the same arguments in one turn have different keys", function* () {
    const keys: Array<string> = []
    const tools = Toolkit.make(writer("write"))
    const handlers = tools.toLayer({
      write: () =>
        Effect.gen(function* () {
          keys.push((yield* CurrentCall.CurrentCall).idempotencyKey)
          return "ok"
        })
    })
    const bot = once(call("write", "a"), call("write", "b"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    yield* finish(Agent.run(agent, "go"))
    expect(new Set(keys).size).toBe(2)
  })

  check("a tool may supply its own key", function* () {
    const calls: Array<unknown> = []
    const keys: Array<string> = []
    const Pay = writer("pay").annotate(ToolPolicy.IdempotencyKey, (call) => {
      calls.push(call)
      return "order-7"
    })
    const tools = Toolkit.make(Pay)
    const handlers = tools.toLayer({
      pay: () =>
        Effect.gen(function* () {
          keys.push((yield* CurrentCall.CurrentCall).idempotencyKey)
          return "ok"
        })
    })
    const bot = once(call("pay", "c"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { events, exit } = yield* finish(Agent.run(agent, "go", { runId: "r" }))
    expectTag(exit, "Completed")
    expect(keys).toEqual(["order-7"])
    expect(of(events, "tool_start")[0]?.idempotencyKey).toBe("order-7")
    expect(calls[0]).toMatchObject({
      runId: "r",
      callId: "c",
      tool: "pay",
      args: { q: "x" }
    })
  })

  check("a key function that throws does not lose the call or its sibling", function* () {
    const Pay = writer("pay").annotate(ToolPolicy.IdempotencyKey, () => {
      throw new Error(secret)
    })
    const tools = Toolkit.make(Pay, reader("read"))
    const handlers = tools.toLayer({
      pay: () => Effect.succeed("ok"),
      read: () => Effect.succeed("fine")
    })
    const bot = once(call("pay", "c"), call("read", "d"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* finish(Agent.run(agent, "go", { runId: "r" }))
    expectTag(exit, "Completed")
    expect(said(exit)).not.toContain(secret)
    expect(resultOf(exit, "d").content).toBe("fine")
    expect(resultOf(exit, "c").ok).toBe(false)
  })

  const timeLeftWith = (
    Timed: ReturnType<typeof reader<"timed">>,
    limits: { readonly time?: Duration.Input }
  ) =>
    Effect.gen(function* () {
      const left: Array<number | undefined> = []
      const look = Effect.flatMap(CurrentCall.CurrentCall, ({ timeLeft }) => timeLeft).pipe(
        Effect.map((duration) => left.push(Option.getOrUndefined(Option.map(duration, Duration.toMillis))))
      )
      const tools = Toolkit.make(Timed)
      const handlers = tools.toLayer({
        timed: () => Effect.as(Effect.andThen(look, Effect.andThen(Effect.sleep("2 seconds"), look)), "ok")
      })
      const bot = once(call("timed", "c"))
      const agent = Agent.make("a", { toolkit: tools, limits }).pipe(
        Agent.provide(handlers),
        Agent.provide(bot.layer)
      )
      const { exit } = yield* withTime(finish(Agent.run(agent, "go")))
      expectTag(exit, "Completed")
      return left
    })

  check("the time left is the least of tool timeout and run limit, and shrinks", function* () {
    const Timed = reader("timed")
    const Limited = Timed.annotate(ToolPolicy.Timeout, "20 seconds")
    expect(yield* timeLeftWith(Timed, {})).toEqual([undefined, undefined])
    expect(yield* timeLeftWith(Limited, {})).toEqual([20_000, 18_000])
    expect(yield* timeLeftWith(Timed, { time: "10 seconds" })).toEqual([10_000, 8000])
    expect(yield* timeLeftWith(Limited, { time: "10 seconds" })).toEqual([10_000, 8000])
    expect(yield* timeLeftWith(Limited, { time: "1 minute" })).toEqual([20_000, 18_000])
  })

  check("a call that is over makes no more progress, whatever it has left running", function* () {
    const ends: Record<string, Effect.Effect<string, ToolFailure.ToolFailure>> = {
      succeeds: Effect.succeed("done"),
      fails: Effect.fail(ToolFailure.recoverable("no")),
      dies: Effect.die("no"),
      "is late": Effect.never,
      "never ends": Effect.uninterruptible(Effect.never)
    }
    for (const [how, end] of Object.entries(ends)) {
      const last = reader("last").annotate(ToolPolicy.Timeout, "20 seconds")
      const tools = Toolkit.make(reader("t"), last)
      const handlers = tools.toLayer({
        t: (_, { preliminary }) =>
          Effect.gen(function* () {
            const { progress } = yield* CurrentCall.CurrentCall
            const tells = Effect.andThen(progress("on its way"), preliminary("half of it"))
            yield* tells
            // While the next call runs, while the next model call does, and when all is over.
            for (const after of ["11 seconds", "20 seconds", "2 minutes"] as const)
              yield* Effect.forkDetach(Effect.delay(tells, after))
            return yield* end
          }),
        last: () => Effect.as(Effect.sleep("15 seconds"), "done")
      })
      const bot = model([call("t", "c1"), call("last", "c2"), Scripted.text("done")])
      const policy = { toolTimeout: "1 second", interruptGrace: "1 second" } as const
      const agent = Agent.make("a", { toolkit: tools, policy }).pipe(Agent.provide(handlers))
      const traced: Array<string> = []
      const sink = {
        write: (event: RunEvent.LiveEvent) =>
          void traced.push("callId" in event ? `${event.type} ${event.callId}` : event.type)
      }
      const run = finish(Agent.run(Agent.provide(bot.layer)(agent), "go", { runId: how }))
      const { exit } = yield* withTime(run).pipe(Effect.provideService(RunTrace.RunTrace, sink))
      expectTag(exit, "Completed")
      yield* TestClock.adjust("5 minutes")
      expect(
        traced.filter((each) => each === "tool_progress c1"),
        how
      ).toHaveLength(2)
      expect(traced.lastIndexOf("tool_progress c1"), how).toBeLessThan(traced.indexOf("tool_result c1"))
    }
  })

  check("progress and preliminary results reach a watcher, and are not stored", function* () {
    const tools = Toolkit.make(reader("scan"), reader("early"))
    const handlers = tools.toLayer({
      scan: () =>
        Effect.gen(function* () {
          const current = yield* CurrentCall.CurrentCall
          yield* current.progress("scanned 1 of 2 files", {
            done: 1,
            total: 2
          })
          yield* current.progress("almost")
          return "scanned"
        }),
      early: (_, context) => Effect.as(context.preliminary("half of it"), "all of it")
    })
    const bot = once(call("scan", "c1"), call("early", "c2"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const live: ReadonlyArray<RunEvent.LiveEvent> = yield* Stream.runCollect(
      Agent.stream(agent, "go", { runId: "r" })
    )
    const progress = live.filter((event) => event.type === "tool_progress")
    expect(progress.filter(({ callId }) => callId === "c1")).toEqual([
      {
        type: "tool_progress",
        runId: "r",
        callId: "c1",
        tool: "scan",
        label: "scanned 1 of 2 files",
        done: 1,
        total: 2
      },
      {
        type: "tool_progress",
        runId: "r",
        callId: "c1",
        tool: "scan",
        label: "almost"
      }
    ])
    expect(progress.filter(({ callId }) => callId === "c2")).toHaveLength(1)
    const types = live.map((event) => ("callId" in event ? `${event.type} ${event.callId}` : event.type))
    expect(types.indexOf("tool_progress c1")).toBeGreaterThan(types.indexOf("tool_start c1"))
    expect(types.lastIndexOf("tool_progress c1")).toBeLessThan(types.indexOf("tool_result c1"))
    const stored = yield* journal("r")
    expect(stored.map(({ type }) => type)).not.toContain("tool_progress")
    expect(live.filter((event) => "seq" in event)).toEqual(stored)
    const end = live.findLast((event) => event.type === "run_stopped")
    expect(end?.type === "run_stopped" && end.status).toBe("completed")
    expect(of(stored, "tool_result", "c2")[0]?.content).toBe("all of it")
  })

  it.effect("is harmless outside a run", () =>
    Effect.gen(function* () {
      const current = yield* CurrentCall.CurrentCall
      yield* current.progress("nobody listens", { done: 1, total: 2 })
      expect(yield* current.timeLeft).toEqual(Option.none())
      expect(typeof current.idempotencyKey).toBe("string")
    })
  )
})

describe("a Stop", () => {
  const isAlive = (pid: number): boolean => {
    try {
      process.kill(pid, 0)
      return true
    } catch {
      return false
    }
  }

  checkLive(
    "kills the child process that a tool has spawned, and the promise that listens to its signal",
    function* () {
      const spawned = yield* Deferred.make<number>()
      const tools = Toolkit.make(reader("shell"))
      const handlers = tools.toLayer({
        shell: () =>
          Effect.promise(
            (signal) =>
              new Promise<string>((resolve, reject) => {
                const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { signal })
                child.on("spawn", () => Deferred.doneUnsafe(spawned, Exit.succeed(child.pid ?? -1)))
                child.on("error", reject)
                child.on("exit", () => resolve("ended"))
              })
          )
      })
      const bot = once(call("shell", "c"))
      const agent = Agent.make("a", { toolkit: tools }).pipe(
        Agent.provide(handlers),
        Agent.provide(bot.layer)
      )
      const fiber = yield* Effect.forkChild(Agent.run(agent, "go", { runId: "r" }))
      const pid = yield* Deferred.await(spawned)
      expect(isAlive(pid)).toBe(true)
      yield* Fiber.interrupt(fiber)
      for (let i = 0; i < 100 && isAlive(pid); i++) yield* Effect.sleep("20 millis")
      expect(isAlive(pid)).toBe(false)
      const stop = of(yield* journal("r"), "run_stopped")
      expect(stop.map(({ reason, status }) => ({ reason, status }))).toEqual([
        { status: "interrupted", reason: "cancelled" }
      ])
    }
  )

  checkLive("kills a child process of effect/process, started inside the handler", function* () {
    const spawned = yield* Deferred.make<number>()
    const Shell = reader("shell").addDependency(ChildProcessSpawner.ChildProcessSpawner)
    const tools = Toolkit.make(Shell)
    const handlers = tools.toLayer({
      shell: () =>
        Effect.gen(function* () {
          const child = yield* ChildProcess.make(process.execPath, ["-e", "setInterval(() => {}, 1000)"])
          yield* Deferred.succeed(spawned, Number(child.pid))
          return `${yield* child.exitCode}`
        }).pipe(Effect.scoped, Effect.orDie)
    })
    const agent = Agent.make("a", { toolkit: tools }).pipe(
      Agent.provide(handlers),
      Agent.provide(once(call("shell", "c")).layer),
      Agent.provide(NodeServices.layer)
    )
    const fiber = yield* Effect.forkChild(Agent.run(agent, "go", { runId: "r" }))
    const pid = yield* Deferred.await(spawned)
    expect(isAlive(pid)).toBe(true)
    yield* Fiber.interrupt(fiber)
    for (let i = 0; i < 100 && isAlive(pid); i++) yield* Effect.sleep("20 millis")
    expect(isAlive(pid)).toBe(false)
  })

  check("lets a writer that cannot be interrupted finish; what it did is not left open", function* () {
    const started = yield* Deferred.make<void>()
    const release = yield* Deferred.make<void>()
    let ran = 0
    const tools = Toolkit.make(writer("write"))
    const handlers = tools.toLayer({
      write: () =>
        Effect.uninterruptible(
          Effect.andThen(
            Deferred.succeed(started, undefined),
            Effect.map(Deferred.await(release), () => `${++ran}`)
          )
        )
    })
    const bot = once(call("write", "c"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const fiber = yield* Effect.forkChild(Agent.run(agent, "go", { runId: "r" }))
    yield* Deferred.await(started)
    const stopping = yield* Effect.forkChild(Fiber.interrupt(fiber))
    yield* settle
    yield* Deferred.succeed(release, undefined)
    yield* Fiber.join(stopping)
    expect(ran).toBe(1)
    const { exit } = yield* finish(Agent.resume(agent, "r"))
    // Its result, or a person who is asked: never a second execution.
    expect(["Completed", "OutcomeUnknown"]).toContain(exit._tag)
    expect(ran).toBe(1)
  })

  check("reaches every tool of the turn; finalizers have run when it returns", function* () {
    let ended = 0
    const started = yield* Deferred.make<void>()
    let running = 0
    const tools = Toolkit.make(reader("a"), reader("b"))
    const handler = () =>
      Effect.suspend(() => (++running === 2 ? Deferred.succeed(started, undefined) : Effect.void)).pipe(
        Effect.andThen(Effect.never),
        Effect.onInterrupt(() => Effect.sync(() => ended++))
      )
    const handlers = tools.toLayer({ a: handler, b: handler })
    const bot = once(call("a", "1"), call("b", "2"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const fiber = yield* Effect.forkChild(Agent.run(agent, "go", { runId: "r" }))
    yield* Deferred.await(started)
    yield* Fiber.interrupt(fiber)
    expect(ended).toBe(2)
    yield* TestClock.adjust("1 minute")
    const stored = yield* journal("r")
    expect(stored.at(-1)?.type).toBe("run_stopped")
    for (const { disposition } of of(stored, "tool_result")) expect(disposition).toBe("cancelled")
  })
})

describe("a toolkit without handlers", () => {
  check("is refused by name before anything has run, where no type has said so before", function* () {
    const bare = Agent.make("bare", { toolkit: Toolkit.make(reader("find"), writer("put")) })
    const run = Effect.provide(Agent.run(bare, "go", { runId: "r" }), once().layer) as Effect.Effect<
      unknown,
      unknown,
      RunStore.RunStore
    >
    const exit = yield* Effect.exit(run)
    expect(Exit.isFailure(exit) && Cause.pretty(exit.cause)).toContain("no handler of find, put is provided")
    const store = yield* RunStore.RunStore
    expect(yield* store.list()).toEqual([])
  })
})

describe("a call whose process is gone before it comes back", () => {
  const tools = Toolkit.make(reader("look"), reader("other"))

  /** Drives a run of two reading calls, of which one ends its process each time; says how often each was begun. */
  const drive = Effect.fnUntraced(function* (deaths: number) {
    const begun = { look: 0, other: 0 }
    const handlers = tools.toLayer({
      look: () =>
        Effect.as(
          Effect.sync(() => void begun.look++),
          "seen"
        ),
      other: () =>
        Effect.as(
          Effect.sync(() => void begun.other++),
          "seen too"
        )
    })
    const { layer } = model([Scripted.turn(call("other", "o"), call("look", "l")), Scripted.text("done")])
    const agent = Agent.make("reader", { toolkit: tools }).pipe(Agent.provide(Layer.merge(handlers, layer)))
    yield* Agent.create(agent, "go", { runId: "r" })
    for (let death = 0; death < deaths; death++)
      yield* crashing(Effect.exit(Agent.resume(agent, "r")), {
        before: (event) => event.type === "tool_result" && event.callId === "l"
      })
    const exit = yield* Agent.resume(agent, "r")
    return { begun, exit, events: yield* journal("r") }
  })

  check(
    "is started again, if it changes nothing, and after the fifth time no more: the run goes on without it",
    function* () {
      const { begun, events, exit } = yield* drive(5)
      expect(begun.look).toBe(5)
      expect(of(events, "tool_result").filter(({ callId }) => callId === "l")).toMatchObject([
        {
          ok: false,
          disposition: "refused",
          content:
            "Error: look was started 5 times, and each time the process that ran it was gone before it came back. It is not started again."
        }
      ])
      expect(exit.run.messages.at(-1)).toMatchObject({ role: "assistant" })
      checkLaws(events)
    }
  )

  check("has its result if the fifth process lives", function* () {
    const { begun, events } = yield* drive(4)
    expect(begun.look).toBe(5)
    expect(of(events, "tool_result").filter(({ callId }) => callId === "l")).toMatchObject([{ ok: true }])
    checkLaws(events)
  })
})
