import { describe, expect } from "@effect/vitest"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Agent, type RunState, RunStore } from "../../src/index.ts"
import { calls, finish as ends, packageModel, says } from "./packageModel.ts"
import { check, expectTag, finish, of, resultOf, results } from "./support.ts"

/** A provider's own search, as effect's packages have it. Its options no model has to know how to give. */
const WebSearch = Tool.providerDefined({
  id: "test.web_search",
  customName: "WebSearch",
  providerName: "web_search",
  parameters: Schema.Struct({ query: Schema.String, near: Schema.instanceOf(URL) }),
  success: Schema.Struct({ hits: Schema.Array(Schema.String) })
})()

/** A shell that the provider's model knows of, and that somebody here has to run. */
const Shell = Tool.providerDefined({
  id: "test.shell",
  customName: "Shell",
  providerName: "shell",
  requiresHandler: true,
  parameters: Schema.Struct({ command: Schema.String }),
  success: Schema.Struct({ stdout: Schema.String })
})({})

const Look = Tool.make("look", { success: Schema.String }).annotate(Tool.Readonly, true)

const found = { hits: ["https://effect.website"] }

const search = (id: string): Response.PartEncoded => ({
  type: "tool-call",
  id,
  name: "WebSearch",
  params: { query: "effect", near: new URL("https://x.test") },
  providerExecuted: true
})

/** A result of it, with what the package says of who has run it, if anything. */
const hits = (
  id: string,
  more: {
    readonly providerExecuted?: boolean
    readonly preliminary?: boolean
    readonly result?: typeof found
  } = {}
): Response.PartEncoded => ({
  type: "tool-result",
  id,
  name: "WebSearch",
  isFailure: false,
  result: found,
  ...more
})

const result = { type: "tool-result", id: "s1", name: "WebSearch", isFailure: false, result: found } as const

/** What the replies of a run hold besides text. */
const inReplies = ({ run }: { readonly run: RunState.RunState }) =>
  run.messages.flatMap((message) =>
    message.role === "assistant" ? message.content.filter((part) => part.type !== "text") : []
  )

describe("a tool that the provider runs itself", () => {
  const tools = Toolkit.make(WebSearch, Look)
  const handlers = tools.toLayer({ look: () => Effect.succeed("seen") })
  const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers))

  const replies: Record<string, ReadonlyArray<ReadonlyArray<Response.PartEncoded>>> = {
    "is said to be the provider's": [[search("s1"), hits("s1", { providerExecuted: true }), ...says("done")]],
    "says nothing of that": [[search("s1"), hits("s1"), ...says("done")]],
    "is said not to be the provider's": [
      [search("s1"), hits("s1", { providerExecuted: false }), ...says("done")]
    ],
    "comes in parts": [
      [
        search("s1"),
        hits("s1", { preliminary: true, result: { hits: [] } }),
        hits("s1", { providerExecuted: true, preliminary: true, result: { hits: [] } }),
        hits("s1"),
        ...says("done")
      ]
    ],
    "comes after a pause": [
      [search("s1"), ends("pause")],
      [hits("s1"), ...says("done")]
    ],
    "comes beside a call of another tool": [
      [
        search("s1"),
        hits("s1"),
        { type: "tool-call", id: "c", name: "look", params: {} },
        ends("tool-calls")
      ],
      says("done")
    ]
  }
  for (const [how, given] of Object.entries(replies)) {
    for (const way of ["run", "streamed"] as const) {
      check(`is never pending, and its result is kept if it ${how}, ${way}`, function* () {
        const bot = packageModel(given)
        const here = Agent.provide(bot.layer)(agent)
        if (way === "streamed") yield* Stream.runDrain(Agent.stream(here, "go", { runId: "r" }))
        const again = way === "streamed" ? Agent.resume(here, "r") : Agent.run(here, "go", { runId: "r" })
        const { exit } = yield* finish(again)
        expect(expectTag(exit, "Completed").output).toBe("done")
        const kept = inReplies(exit).filter((part) => !("name" in part) || part.name === "WebSearch")
        expect(kept).toMatchObject([{ type: "tool-call", id: "s1", providerExecuted: true }, result])
        expect(kept).toHaveLength(2)
        expect(Object.keys(results(exit.run.messages))).toEqual(how.includes("another") ? ["c"] : [])
        expect(exit.run.toolCalls).toBe(how.includes("another") ? 1 : 0)
      })
    }
  }

  /** What the provider has done between two reads of the same, and whether the second is executed again. */
  const between: Record<string, readonly [again: boolean, reply: ReadonlyArray<Response.PartEncoded>]> = {
    "runs and brings a result": [true, [search("s1"), hits("s1"), ends("pause")]],
    "runs, and its result comes later": [true, [search("s1"), ends("pause")]],
    "was run, and now has its result": [true, [hits("s1"), ends("pause")]],
    "runs in a reply that is cut off": [true, [search("s1"), { type: "text", text: "It" }, ends("length")]],
    "runs in a reply with another call": [true, [search("s1"), hits("s1"), ...calls({ d: ["look"] })]],
    "does not run": [false, [...calls({ d: ["look"] })]]
  }
  for (const [how, [again, reply]] of Object.entries(between)) {
    for (const way of ["run", "streamed"] as const) {
      check(`counts as a writer for what may be reused of reads: it ${how}, ${way}`, function* () {
        let looks = 0
        const counting = tools.toLayer({ look: () => Effect.sync(() => `look ${++looks}`) })
        const bot = packageModel([calls({ c: ["look"] }), reply, calls({ e: ["look"] }), says("done")])
        const here = Agent.make("a", { toolkit: tools, policy: { dedupe: "read-only" } }).pipe(
          Agent.provide(counting),
          Agent.provide(bot.layer)
        )
        if (way === "streamed") yield* Stream.runDrain(Agent.stream(here, "go", { runId: "r" }))
        else yield* Agent.run(here, "go", { runId: "r" })
        const { exit } = yield* finish(Agent.resume(here, "r"))
        expect(resultOf(expectTag(exit, "Completed"), "e").content).toBe(again ? "look 2" : "look 1")
      })
    }
  }

  const looks = (id: string): Response.PartEncoded => ({ type: "tool-call", id, name: "look", params: {} })
  const sharing: Record<string, ReadonlyArray<ReadonlyArray<Response.PartEncoded>>> = {
    "an earlier reply": [
      [search("s1"), hits("s1"), looks("c"), ends("tool-calls")],
      [looks("s1"), ends("tool-calls")]
    ],
    "the same reply, before it": [[search("s1"), looks("s1"), hits("s1"), ends("tool-calls")]],
    "the same reply, after it": [[looks("s1"), search("s1"), hits("s1"), ends("tool-calls")]]
  }
  for (const [where, replies] of Object.entries(sharing)) {
    check(
      `has its id and its result for itself, where another call comes with that id: ${where}`,
      function* () {
        const bot = packageModel(replies)
        const { exit } = yield* finish(Agent.run(Agent.provide(bot.layer)(agent), "go"))
        expectTag(exit, "Completed")
        const kept = inReplies(exit)
        const ids = kept.flatMap((part) => (part.type === "tool-call" ? [part.id] : []))
        expect(new Set(ids).size).toBe(ids.length)
        expect(kept).toContainEqual(result)
        expect(kept).toContainEqual(expect.objectContaining({ id: "s1", providerExecuted: true }))
        expect(Object.keys(results(exit.run.messages))).not.toContain("s1")
      }
    )
  }

  check("goes back to the provider with its result, after a resume from the store too", function* () {
    const first = packageModel([
      [search("s1"), hits("s1"), { type: "tool-call", id: "c", name: "look", params: {} }, ends("tool-calls")]
    ])
    const second = packageModel([])
    const limited = Agent.run(agent, "go", { runId: "r", limits: { turns: 1 } })
    expectTag((yield* finish(Effect.provide(limited, first.layer))).exit, "MaxTurnsExceeded")
    const resumed = Agent.resume(agent, "r", { limits: { turns: 9 } })
    expectTag((yield* finish(Effect.provide(resumed, second.layer))).exit, "Completed")
    const reply = second.prompts[0]?.content.find(({ role }) => role === "assistant")
    expect(reply?.content).toMatchObject([
      { type: "tool-call", id: "s1", providerExecuted: true },
      { ...result, providerExecuted: true },
      { type: "tool-call", id: "c", providerExecuted: false }
    ])
    expect(second.wire()).toEqual({ c: '"seen"' })
  })

  check("may be the only one, and needs neither a layer nor a warning", function* () {
    const warnings: Array<string> = []
    const logger = Logger.make(({ message }) => void warnings.push(String(message)))
    const alone = Agent.make("a", { toolkit: Toolkit.make(WebSearch), limits: { time: "1 minute" } })
    const run: Effect.Effect<unknown, unknown, RunStore.RunStore> = Agent.run(alone, "go").pipe(
      Effect.provide(packageModel([]).layer),
      Effect.provide(Logger.layer([logger]))
    )
    yield* run
    expect(warnings).toEqual([])
  })

  check("is not run when the provider leaves it to the harness: the model is told", function* () {
    const handled = Agent.make("a", { toolkit: Effect.provide(tools, handlers) })
    for (const [n, each] of [agent, handled].entries()) {
      const bot = packageModel([calls({ w: ["WebSearch", { query: "x" }], c: ["look"] })])
      const { events, exit } = yield* finish(
        Agent.run(Agent.provide(bot.layer)(each), "go", { runId: `r${n}` })
      )
      expectTag(exit, "Completed")
      expect(resultOf(exit, "w")).toMatchObject({
        ok: false,
        content: "Error: WebSearch is a tool that only the model's provider can run. It did not run."
      })
      expect(resultOf(exit, "c")).toMatchObject({ ok: true, content: "seen" })
      expect(of(events, "tool_start").map(({ callId }) => callId)).toEqual(["c"])
    }
  })

  check("does not answer for the harness: a result of a call that it has to run is not taken", function* () {
    const bot = packageModel([
      [
        { type: "tool-call", id: "c", name: "look", params: {} },
        { type: "tool-result", id: "c", name: "look", isFailure: false, result: "made up" },
        ends("tool-calls")
      ]
    ])
    const { exit } = yield* finish(Agent.run(Agent.provide(bot.layer)(agent), "go", { runId: "r" }))
    expectTag(exit, "Completed")
    expect(JSON.stringify(exit.run.messages)).not.toContain("made up")
    expect(resultOf(exit, "c")).toMatchObject({ content: "seen" })
  })
})

describe("a tool that the provider defines and does not run", () => {
  const tools = Toolkit.make(Shell, WebSearch)

  check("is run by its handler, and its result goes to the package as its schema has it", function* () {
    const bot = packageModel([calls({ c: ["Shell", { command: "ls" }] })])
    const agent = Agent.make("a", { toolkit: tools }).pipe(
      Agent.provide(tools.toLayer({ Shell: ({ command }) => Effect.succeed({ stdout: `ran ${command}` }) })),
      Agent.provide(bot.layer)
    )
    expectTag((yield* finish(Agent.run(agent, "go", { runId: "r" }))).exit, "Completed")
    expect(bot.wire()).toEqual({ c: '{"stdout":"ran ls"}' })
  })

  check("is missed by name without one, before anything has run", function* () {
    const bare = Agent.make("a", { toolkit: tools })
    const run = Effect.provide(Agent.run(bare, "go"), packageModel([]).layer) as Effect.Effect<
      unknown,
      unknown,
      RunStore.RunStore
    >
    const exit = yield* Effect.exit(run)
    expect(Exit.isFailure(exit) && Cause.pretty(exit.cause)).toContain("no handler of Shell is provided")
    expect(yield* (yield* RunStore.RunStore).list()).toEqual([])
  })
})

describe("a result that its tool has not declared", () => {
  const tools = Toolkit.make(
    Tool.make("count", { success: Schema.Finite }),
    Tool.make("when", { success: Schema.Struct({ at: Schema.Date }) })
  )
  const handlers = tools.toLayer({
    count: () => Effect.succeed("many" as never),
    when: () => Effect.succeed({ at: "soon" } as never)
  })
  const limits = { time: "1 minute" } as const
  const agents = {
    "its handler": Agent.make("a", { toolkit: tools, limits }).pipe(Agent.provide(handlers)),
    "a toolkit's own handle": Agent.make("a", { toolkit: Effect.provide(tools, handlers), limits })
  }
  for (const [how, agent] of Object.entries(agents)) {
    check(`is said to be the result, and not the arguments: through ${how}`, function* () {
      const bot = packageModel([calls({ a: ["count"], b: ["when"] })])
      const warnings: Array<string> = []
      const logger = Logger.make(({ message }) => void warnings.push(String(message)))
      const run = Agent.run(Agent.provide(bot.layer)(agent), "go", { runId: "r" })
      const { events, exit } = yield* finish(run).pipe(Effect.provide(Logger.layer([logger])))
      expectTag(exit, "Completed")
      const said = "its result does not fit its `success` schema: Expected"
      expect(of(events, "tool_result").map(({ detail }) => detail?.slice(0, said.length))).toEqual([
        said,
        said
      ])
      expect(warnings.map((warning) => warning.includes(` is broken: ${said}`))).toEqual([true, true])
    })
  }
})
