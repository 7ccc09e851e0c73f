import { describe, expect, it } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import {
  Agent,
  Handoff,
  type Limits,
  MemoryRunStore,
  RunStore,
  ToolFailure,
  ToolPolicy
} from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import type { Evidence } from "../../src/run/RunEvent.ts"
import type { Completed, RunExit } from "../../src/run/RunExit.ts"
import { CurrentCall } from "../../src/tool/CurrentCall.ts"
import { checkLaws } from "./laws.ts"
import { of, outcomeDuring, Prices, usage } from "./modelSupport.ts"

// --- an investigation -----------------------------------------------------------------------------------------------

const path = {
  parameters: Schema.Struct({ path: Schema.String }),
  success: Schema.String,
  failure: ToolFailure.ToolFailure
}

const ReadSource = Tool.make("read_source", path).annotate(Tool.Readonly, true)
const WriteFix = Tool.make("write_fix", path)
const SaveHandoff = Tool.make("save_handoff", path).annotate(ToolPolicy.Purpose, "handoff")
const Tools = Toolkit.make(ReadSource, WriteFix, SaveHandoff)

type Handler = (params: { readonly path: string }) => Effect.Effect<string, ToolFailure.ToolFailure>

const told = (...items: ReadonlyArray<Evidence>) =>
  Effect.flatMap(CurrentCall, (call) => Effect.forEach(items, call.evidence, { discard: true }))

const source: Evidence = { kind: "source", name: "/srv/export", digest: "3e4412b" }
const file = (name: string): Evidence => ({ kind: "file", name, digest: `sha256:${name}` })

interface Options {
  readonly read?: Handler
  readonly write?: Handler
  readonly latency?: Duration.Input
  readonly policy?: Agent.PolicyInput
}

const Cause = Schema.Struct({ cause: Schema.String.annotate({ description: "The code path." }) })

/** A run of the investigator over these replies, each of which costs ten cents and 110 tokens. */
const investigate = (
  replies: ReadonlyArray<Scripted.Line>,
  limits: Limits.LimitsInput,
  { latency, policy, read, write }: Options = {}
) => {
  const started: Array<string> = []
  const offered: Array<ReadonlyArray<string>> = []
  const heard: Array<string> = []
  const handler =
    (name: string, own: Handler): Handler =>
    (params) =>
      Effect.suspend(() => {
        started.push(`${name} ${params.path}`)
        return own(params)
      })
  const handlers = Tools.toLayer({
    read_source: handler(
      "read_source",
      read ?? (({ path }) => Effect.as(told(source, file(path)), `content of ${path}`))
    ),
    write_fix: handler("write_fix", write ?? (() => Effect.succeed("fixed"))),
    save_handoff: handler("save_handoff", () => Effect.succeed("saved"))
  })
  const script = Scripted.make("m", (_, transcript) => {
    const line = replies[offered.length]
    offered.push(transcript.tools)
    heard.push(transcript.task)
    return typeof line === "function" ? line(transcript) : line
  })
  const model = Scripted.layer(script, {
    model: "m",
    usage,
    ...(latency === undefined ? undefined : { latency })
  })
  const options = { toolkit: Tools, limits, ...(policy === undefined ? undefined : { policy }) }
  const services = Layer.mergeAll(handlers, model, Prices)
  return {
    started,
    offered,
    heard,
    free: Agent.make("investigator", options).pipe(Agent.provide(services)),
    bound: Agent.make("investigator", { ...options, output: Cause }).pipe(Agent.provide(services))
  }
}

const task = "Why does the export lose its last row?"

/** How a run ended, its journal held to the laws. */
const ends = <A, R>(agent: Agent.Agent<A, never, R>) =>
  Effect.gen(function* () {
    const exit = yield* outcomeDuring(60_000, Agent.run(agent, task, { runId: "r" }))
    const events = yield* RunStore.RunStore.use((store) => store.read("r"))
    checkLaws(events)
    return { exit, events }
  })

/** The exit of a run that stopped at a limit. */
const atLimit = <A>(exit: Completed<A> | RunExit) => {
  if (exit._tag !== "MaxTurnsExceeded" && exit._tag !== "BudgetExceeded")
    throw new Error(`it is ${exit._tag}`)
  return exit
}

const check = (
  name: string,
  body: () => Generator<Effect.Effect<unknown, unknown, RunStore.RunStore>, void, never>
): void => it.effect(name, () => Effect.provide(Effect.gen(body), MemoryRunStore.layer))

const call = (tool: string, name: string, id: string) => Scripted.call(tool, { path: name }, { id })
const submit = Scripted.call("submit_result", { cause: "flush comes too early" }, { id: "s" })

// --- the five limits ------------------------------------------------------------------------------------------------

type Resource = Limits.Resource

/** Room for two turns of investigation and a handoff of one, by each of the resources. */
const kept: ReadonlyArray<readonly [Resource, Limits.LimitsInput]> = [
  ["turns", { turns: 3, reserve: { turns: 1 } }],
  ["usd", { usd: 0.3, reserve: { usd: 0.1 } }],
  ["tokens", { tokens: 330, reserve: { tokens: 110 } }],
  ["tool_calls", { toolCalls: 3, reserve: { toolCalls: 2 } }],
  ["time", { time: "10 seconds", reserve: { time: "4 seconds" } }]
]

const looks = Scripted.turn(Scripted.text("I suspect flush."), call("read_source", "a.ts", "c1"))
const wantsMore = Scripted.turn(
  call("read_source", "b.ts", "c2"),
  call("write_fix", "a.ts", "c3"),
  call("save_handoff", "notes.md", "c4")
)
const summary = Scripted.text("flush comes too early; b.ts is still unread.")

describe("with a reserve", () => {
  for (const [resource, limits] of kept) {
    describe(`of ${resource}`, () => {
      check(
        "investigation is refused, the handoff tool runs, and the model's summary is handed over",
        function* () {
          const { free, heard, offered, started } = investigate([looks, wantsMore, summary], limits, {
            latency: "3 seconds"
          })
          const { events, exit } = yield* ends(free)
          const stopped = atLimit(exit)
          expect(stopped._tag).toBe(resource === "turns" ? "MaxTurnsExceeded" : "BudgetExceeded")
          expect(stopped.run.exhausted?.resource).toBe(resource)
          expect(started).toEqual(["read_source a.ts", "save_handoff notes.md"])
          expect(of(events, "tool_result").map(({ callId, disposition }) => [callId, disposition])).toEqual([
            ["c1", "executed"],
            ["c2", "refused"],
            ["c3", "refused"],
            ["c4", "executed"]
          ])
          expect(of(events, "handoff")).toHaveLength(1)
          expect(offered.at(-1)).toEqual(["save_handoff"])
          expect(heard.at(-1)).toMatch(/used up, except for a small reserve.* Write a handoff now/)

          const { handoff } = stopped
          expect(handoff.summary).toBe("flush comes too early; b.ts is still unread.")
          expect(handoff.sources).toEqual([{ name: "/srv/export", digest: "3e4412b" }])
          expect(handoff.files.map(({ name }) => name)).toEqual(["a.ts"])
          expect(handoff.changes.map(({ tool }) => tool)).toEqual(["save_handoff"])
          expect(handoff.refused.map(({ args, tool }) => `${tool} ${args}`)).toEqual([
            'read_source {"path":"b.ts"}',
            'write_fix {"path":"a.ts"}'
          ])
          expect(handoff.waiting.calls).toEqual([])
          expect(handoff.contract).toBeUndefined()
        }
      )

      check("a valid submission out of the reserve completes the run", function* () {
        const { bound, heard, offered } = investigate([looks, wantsMore, submit], limits, {
          latency: "3 seconds"
        })
        const { exit } = yield* ends(bound)
        expect(exit._tag).toBe("Completed")
        expect(exit._tag === "Completed" && exit.output).toEqual({ cause: "flush comes too early" })
        expect(offered.at(-1), "a person is not asked in the reserve").toEqual([
          "save_handoff",
          "submit_result"
        ])
        expect(heard.at(-1)).toMatch(/call submit_result now\. If not, do not make one up\. Write a handoff/)
      })

      check(
        "prose out of the reserve does not: it is the summary, and the result is still missing",
        function* () {
          const { bound } = investigate([looks, wantsMore, summary], limits, { latency: "3 seconds" })
          const { handoff, run } = atLimit((yield* ends(bound)).exit)
          expect(run.result).toBeUndefined()
          expect(handoff.summary).toBe("flush comes too early; b.ts is still unread.")
          expect(handoff.contract).toMatchObject({
            tool: "submit_result",
            lacks: "no valid result was submitted with submit_result",
            schema: { required: ["cause"] }
          })
        }
      )
    })
  }

  check(
    "an invalid submission is answered with what is wrong, and may be corrected in the reserve",
    function* () {
      const wrong = Scripted.call("submit_result", { why: "flush" }, { id: "s1" })
      const { bound, heard } = investigate([looks, wrong, submit], { turns: 3, reserve: { turns: 2 } })
      const { events, exit } = yield* ends(bound)
      expect(exit._tag).toBe("Completed")
      expect(of(events, "tool_result").find(({ callId }) => callId === "s1")).toMatchObject({
        ok: false,
        wrongArguments: true,
        content: expect.stringContaining("cause")
      })
      expect(heard).toHaveLength(3)
    }
  )

  check("why the last submission was not taken is handed over", function* () {
    const wrong = Scripted.call("submit_result", { why: "flush" }, { id: "s1" })
    const { bound } = investigate([looks, wrong, Scripted.turn()], { turns: 3, reserve: { turns: 2 } })
    const { handoff } = atLimit((yield* ends(bound)).exit)
    expect(handoff.contract?.refused).toContain("cause")
    expect(handoff.summary).toBeUndefined()
    expect(handoff.lastWords).toBe("I suspect flush.")
  })

  check("invalid submissions over and over stall the run, although they may use the reserve", function* () {
    const wrong = (turn: number) => Scripted.call("submit_result", { why: turn }, { id: `s${turn}` })
    const { bound } = investigate([1, 2, 3, 4, 5, 6, 7].map(wrong), { turns: 9 })
    const { exit } = yield* ends(bound)
    expect(exit).toMatchObject({ _tag: "RunStalled", tool: "submit_result", count: 5 })
  })
})

/** What hits each limit without a reserve, and which calls then wait to be run with more room. */
const bare: ReadonlyArray<readonly [Resource, Limits.LimitsInput, pending: ReadonlyArray<string>]> = [
  ["turns", { turns: 2 }, ["c2", "c3", "c4"]],
  ["usd", { usd: 0.2 }, ["c2", "c3", "c4"]],
  ["tokens", { tokens: 220 }, ["c2", "c3", "c4"]],
  ["tool_calls", { toolCalls: 1 }, ["c5"]],
  ["time", { time: "7 seconds" }, []]
]

describe("hitting a limit leaves something (case 7)", () => {
  for (const [resource, limits, pending] of bare) {
    check(`${resource}, without a reserve: all but a summary`, function* () {
      const { bound, heard, started } = investigate(
        [looks, wantsMore, call("read_source", "c.ts", "c5"), Scripted.text("never")],
        limits,
        { latency: "3 seconds" }
      )
      const { events, exit } = yield* ends(bound)
      const stopped = atLimit(exit)
      expect(stopped._tag).toBe(resource === "turns" ? "MaxTurnsExceeded" : "BudgetExceeded")
      const { handoff } = stopped
      expect(of(events, "handoff"), "nothing of it is stored").toEqual([])
      expect(heard.join(" ")).not.toContain("handoff")

      expect(handoff.exhausted?.resource).toBe(resource)
      expect(handoff.task).toBe(task)
      expect(handoff.summary).toBeUndefined()
      expect(handoff.lastWords).toBe("I suspect flush.")
      expect(handoff.files.map(({ name }) => name)).toEqual(resource === "time" ? ["a.ts", "b.ts"] : ["a.ts"])
      expect(handoff.waiting.calls.map(({ callId, standing }) => [callId, standing])).toEqual(
        pending.map((callId) => [callId, "will_run"])
      )
      expect(handoff.contract?.lacks).toBe("no valid result was submitted with submit_result")
      expect(handoff.next.at(-1)?.api).toContain('Agent.resume(agent, "r", { limits: { ')

      const words = Handoff.toMarkdown(handoff)
      for (const known of [
        task,
        "`a.ts`",
        "I suspect flush.",
        "`cause` (string): `The code path.`",
        "## To go on"
      ]) {
        expect(words).toContain(known)
      }
      expect(started).toContain("read_source a.ts")
    })
  }

  check("also at once: what was asked is still there for whoever goes on", function* () {
    const { free } = investigate([summary], { turns: 0 })
    const { handoff } = atLimit((yield* ends(free)).exit)
    expect([handoff.task, handoff.files, handoff.spend.turns]).toEqual([task, [], { used: 0, limit: 0 }])
  })

  check("and the store tells the same, to whoever reads the run there", function* () {
    const { free } = investigate([looks, wantsMore, summary], { turns: 3, reserve: { turns: 1 } })
    const { handoff } = atLimit((yield* ends(free)).exit)
    const { state } = yield* RunStore.load("r")
    expect(Handoff.of(state)).toEqual(handoff)
  })

  check("with what it says, the run goes on to its end", function* () {
    const { free } = investigate([looks, wantsMore, summary], { turns: 2 })
    const { handoff } = atLimit((yield* ends(free)).exit)
    expect(handoff.next.map(({ api }) => api)).toEqual(['Agent.resume(agent, "r", { limits: { turns: 4 } })'])
    const done = yield* Agent.resume(free, "r", { limits: { turns: 4 } })
    expect(done.output).toBe("flush comes too early; b.ts is still unread.")
  })
})

// --- evidence -------------------------------------------------------------------------------------------------------

const readOnce = [call("read_source", "a.ts", "c1"), Scripted.text("done")]
const writeOnce = [call("write_fix", "a.ts", "c1"), Scripted.text("done")]

describe("what a tool tells that it has seen", () => {
  check("is stored with the result of its call, and nothing if it tells nothing", function* () {
    const { free } = investigate(
      [
        Scripted.turn(call("read_source", "a.ts", "c1"), call("write_fix", "a.ts", "c2")),
        Scripted.text("done")
      ],
      {}
    )
    const { events } = yield* ends(free)
    const [looked, wrote] = of(events, "tool_result")
    expect(looked?.evidence).toEqual([source, file("a.ts")])
    expect(wrote).not.toHaveProperty("evidence")
  })

  check("also when the call fails, and however it does", function* () {
    const failing = {
      recoverable: ToolFailure.recoverable("the disk is slow"),
      permanent: ToolFailure.permanent("no permission")
    }
    for (const failure of [
      Effect.fail(failing.recoverable),
      Effect.fail(failing.permanent),
      Effect.die("a bug")
    ]) {
      const { free } = investigate(readOnce, {}, { read: () => Effect.andThen(told(source), failure) })
      yield* Effect.provide(
        Effect.map(ends(free), ({ events }) =>
          expect(of(events, "tool_result")[0]).toMatchObject({ ok: false, evidence: [source] })
        ),
        Layer.fresh(MemoryRunStore.layer)
      )
    }
  })

  check("also when the tool runs out of time", function* () {
    const { free } = investigate(
      readOnce,
      {},
      { read: () => Effect.andThen(told(source), Effect.never), policy: { toolTimeout: "5 seconds" } }
    )
    const { events } = yield* ends(free)
    expect(of(events, "tool_result")[0]).toMatchObject({ ok: false, evidence: [source] })
  })

  check("counts once, however often the call is tried again", function* () {
    let tries = 0
    const { free } = investigate(
      readOnce,
      {},
      {
        read: ({ path }) =>
          Effect.andThen(
            told(source, { kind: "observation", name: `try ${++tries}` }),
            tries < 3 ? Effect.fail(ToolFailure.transient("busy")) : Effect.succeed(path)
          )
      }
    )
    const { events, exit } = yield* ends(free)
    expect(of(events, "tool_result").map(({ disposition, evidence }) => [disposition, evidence])).toEqual([
      ["cancelled", undefined],
      ["cancelled", undefined],
      ["executed", [source, { kind: "observation", name: "try 3" }]]
    ])
    expect(Handoff.of(exit.run).observations.map(({ saw, times }) => [saw, times])).toEqual([["try 3", 1]])
  })

  check("of the same thing twice is told once, and too much of it is cut and counted", function* () {
    const items = Array.from({ length: 70 }, (_, index) => file(`${index}.ts`))
    const { free } = investigate(
      readOnce,
      {},
      { read: () => Effect.as(told({ ...source, name: "x".repeat(1000) }, ...items, ...items), "read") }
    )
    const { events } = yield* ends(free)
    const evidence = of(events, "tool_result")[0]?.evidence ?? []
    expect(evidence).toHaveLength(65)
    expect(evidence[0]?.name).toMatch(/^x{300}… \(1000 characters\)$/)
    expect(evidence[64]).toEqual({ kind: "observation", name: "14 more than were kept" })
  })

  check("that the compiler has not seen is stored so that it can be read again", function* () {
    const { free } = investigate(
      readOnce,
      {},
      { read: () => Effect.as(told(JSON.parse('{"kind":"wish","name":7,"digest":null}')), "read") }
    )
    const { events } = yield* ends(free)
    expect(of(events, "tool_result")[0]?.evidence).toEqual([{ kind: "observation", name: "7" }])
  })

  check(
    "before a Stop: what a writer had seen is kept with its unknown outcome, a reader tells it again",
    function* () {
      for (const [tool, replies] of [
        ["write", writeOnce],
        ["read", readOnce]
      ] as const) {
        const looked = yield* Deferred.make<void>()
        const slow: Handler = () =>
          told(source).pipe(Effect.andThen(Deferred.succeed(looked, undefined)), Effect.andThen(Effect.never))
        const { free } = investigate(replies, {}, { [tool]: slow })
        const stop = Effect.gen(function* () {
          const fiber = yield* Effect.forkChild(Agent.run(free, task, { runId: "r" }), {
            startImmediately: true
          })
          yield* Deferred.await(looked)
          yield* Fiber.interrupt(fiber)
          return yield* RunStore.load("r")
        })
        const { events, state } = yield* Effect.provide(stop, Layer.fresh(MemoryRunStore.layer))
        const [result] = of(events, "tool_result")
        expect(result?.disposition).toBe(tool === "write" ? "unknown" : "cancelled")
        expect(result?.evidence).toEqual(tool === "write" ? [source] : undefined)
        const { sources, unknown, waiting } = Handoff.of(state)
        expect(sources.length).toBe(tool === "write" ? 1 : 0)
        expect([unknown.length, waiting.calls.length]).toEqual(tool === "write" ? [1, 0] : [0, 1])
      }
    }
  )

  check("after its attempt is over goes nowhere", function* () {
    let late: CurrentCall | undefined
    const { free } = investigate(
      readOnce,
      {},
      {
        read: ({ path }) =>
          Effect.map(CurrentCall, (call) => {
            late = call
            return path
          })
      }
    )
    const { events } = yield* ends(free)
    yield* late?.evidence(source) ?? Effect.void
    expect(JSON.stringify(yield* RunStore.RunStore.use((store) => store.read("r")))).toBe(
      JSON.stringify(events)
    )
  })

  it("outside a run is harmless", () => {
    expect(Effect.runSync(told(source))).toBeUndefined()
  })
})

// --- contract, question, sub-agents ---------------------------------------------------------------------------------

describe("what has to be submitted", () => {
  check("is in the journal from the start, for whoever takes over", function* () {
    const { bound } = investigate([submit], {})
    const [started] = of((yield* ends(bound)).events, "run_started")
    expect(started?.contract).toMatchObject({
      tool: "submit_result",
      schema: { type: "object", properties: { cause: { type: "string", description: "The code path." } } }
    })
  })

  check("is not where text is the answer", function* () {
    const { free } = investigate([summary], {})
    expect(of((yield* ends(free)).events, "run_started")[0]).not.toHaveProperty("contract")
  })

  check("is named without its schema where that is long", function* () {
    const fields = Array.from({ length: 200 }, (_, index) => [
      `field_with_a_long_name_${index}`,
      Schema.String
    ])
    const wide = Agent.make("wide", {
      output: Schema.Struct(Object.fromEntries(fields)),
      limits: { turns: 0 }
    })
    const model = Scripted.layer(Scripted.make("m", [summary]), { usage })
    const { events } = yield* Effect.provide(ends(wide), model)
    expect(of(events, "run_started")[0]?.contract).toEqual({ tool: "submit_result" })
  })

  it.effect("asking a person is described as the last resort", () =>
    Effect.gen(function* () {
      const offered: Array<string | undefined> = []
      const finish = {
        type: "finish" as const,
        reason: "stop" as const,
        usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } }
      }
      const model = Layer.effect(
        LanguageModel.LanguageModel,
        LanguageModel.make({
          generateText: ({ tools }) =>
            Effect.sync(() => {
              for (const tool of tools) if (tool.name === "request_input") offered.push(tool.description)
              return [{ type: "text" as const, text: "done" }, finish]
            }),
          streamText: () => {
            throw new Error("nobody streams")
          }
        })
      )
      const agent = Agent.make("a", { output: Cause, limits: { turns: 1 } })
      yield* Effect.provide(Agent.outcome(Agent.run(agent, task)), [model, MemoryRunStore.layer])
      expect(offered).toEqual([expect.stringContaining("only for what no tool can find out")])
    })
  )
})

check("a sub-agent is handed over by the id of its run, whose own handoff is in the store", function* () {
  const inner = investigate([looks, summary], {}).free
  const ask = Agent.asTool(inner, { name: "ask", description: "Asks." })
  const script = Scripted.make("m", [
    Scripted.call("ask", { task: "Read a.ts." }, { id: "k1" }),
    Scripted.call("ask", { task: "Read b.ts." }, { id: "k2" })
  ])
  const lead = Agent.make("lead", { toolkit: Toolkit.make(ask.tool), limits: { turns: 2 } }).pipe(
    Agent.provide(Layer.mergeAll(ask.layer, Scripted.layer(script, { model: "m", usage }), Prices))
  )
  const { handoff } = atLimit((yield* ends(lead)).exit)
  expect(handoff.children).toEqual([
    {
      runId: "r/k1",
      callId: "k1",
      tool: "ask",
      args: '{"task":"Read a.ts."}',
      costUsd: 0.2,
      result: "flush comes too early; b.ts is still unread.",
      standing: "answered"
    }
  ])
  expect(handoff.waiting.calls.map(({ callId }) => callId)).toEqual(["k2"])
  expect(handoff.files, "what a sub-agent has read is in its own handoff").toEqual([])
  const child = Handoff.of((yield* RunStore.load("r/k1")).state)
  expect(child).toMatchObject({ parent: { runId: "r", callId: "k1" }, task: "Read a.ts." })
  expect(child.files.map(({ name }) => name)).toEqual(["a.ts"])
})
