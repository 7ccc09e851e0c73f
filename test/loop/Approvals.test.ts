import { describe, expect } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as TestClock from "effect/testing/TestClock"
import { Agent, type RunEvent, RunStore, ToolFailure, ToolPolicy } from "../../src/index.ts"
import * as Digest from "../../src/loop/Digest.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import {
  call,
  check,
  crashing,
  expectTag,
  expectValidRequests,
  finish,
  guarded,
  journal,
  type Model,
  model,
  of,
  once,
  reader,
  resultOf,
  said,
  settle,
  withTime,
  writer
} from "./support.ts"

/** An agent with a tool that asks, one that writes and one that reads; `ran` is what was executed. */
const asking = (bot: Model, policy: Agent.PolicyInput = {}) => {
  const ran: Array<string> = []
  const tools = Toolkit.make(guarded("ask"), writer("write"), reader("read"))
  const handler =
    (name: string) =>
    ({ q }: { readonly q: string }) =>
      Effect.sync(() => {
        ran.push(`${name} ${q}`)
        return `${name} ${q} done`
      })
  const handlers = tools.toLayer({
    ask: handler("ask"),
    write: handler("write"),
    read: handler("read")
  })
  const agent = Agent.make("a", {
    toolkit: tools,
    policy: { modelRetries: 0, ...policy }
  }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
  return { agent, ran }
}

const run = <A>(agent: Agent.Agent<A>) => finish(Agent.run(agent, "go", { runId: "r" }))
const resume = <A>(agent: Agent.Agent<A>) => finish(Agent.resume(agent, "r"))

describe("asking for approval", () => {
  check("stops the run before the call, with the call and its arguments", function* () {
    const { agent, ran } = asking(once(call("ask", "c", "x")))
    const { events, exit } = yield* run(agent)
    const { calls, run: state } = expectTag(exit, "ApprovalRequired")
    expect(calls).toEqual([
      {
        runId: "r",
        callId: "c",
        tool: "ask",
        args: { q: "x" },
        argsDigest: calls[0].argsDigest
      }
    ])
    expect(calls[0].argsDigest).not.toBe("")
    expect(ran).toEqual([])
    expect(of(events, "tool_start")).toEqual([])
    expect(of(events, "approval_required")).toHaveLength(1)
    expect(state).toMatchObject({
      status: "interrupted",
      reason: "approval"
    })
    const stored = yield* (yield* RunStore.RunStore).summary("r")
    expect(stored.approvals).toEqual(calls)
  })

  check("waits again, without asking twice, when nobody has decided", function* () {
    const { agent, ran } = asking(once(call("ask", "c", "x")))
    yield* run(agent)
    yield* resume(agent)
    const { events, exit } = yield* resume(agent)
    expectTag(exit, "ApprovalRequired")
    expect(of(events, "approval_required")).toHaveLength(1)
    expect(ran).toEqual([])
  })

  check(
    "is a matter of the tool's function, which sees decoded parameters and may be an effect",
    function* () {
      const seen: Array<unknown> = []
      const parameters = Schema.Struct({ at: Schema.DateFromString })
      const plain = Tool.make("plain", {
        parameters,
        needsApproval: ({ at }) => {
          seen.push(at)
          return at.getTime() > 0
        }
      })
      const effect = Tool.make("effect", {
        parameters,
        needsApproval: ({ at }, { toolCallId }) =>
          Effect.gen(function* () {
            yield* Effect.yieldNow
            seen.push(toolCallId)
            return at.getTime() > 0
          })
      })
      const tools = Toolkit.make(plain, effect)
      const handlers = tools.toLayer({
        plain: () => Effect.void,
        effect: () => Effect.void
      })
      const early = "1970-01-01T00:00:00.000Z"
      const late = "1980-01-01T00:00:00.000Z"
      const bot = once(
        Scripted.call("plain", { at: early }, { id: "c1" }),
        Scripted.call("effect", { at: early }, { id: "c2" }),
        Scripted.call("plain", { at: late }, { id: "c3" }),
        Scripted.call("effect", { at: late }, { id: "c4" })
      )
      const agent = Agent.make("a", { toolkit: tools }).pipe(
        Agent.provide(handlers),
        Agent.provide(bot.layer)
      )
      const { events, exit } = yield* run(agent)
      const { calls } = expectTag(exit, "ApprovalRequired")
      expect(calls.map(({ callId }) => callId)).toEqual(["c3", "c4"])
      expect(of(events, "tool_start").map(({ callId }) => callId)).toEqual(["c1", "c2"])
      expect(seen).toEqual([new Date(early), "c2", new Date(late), "c4"])
      // Asked once, whatever comes: a resume does not ask again.
      for (const each of calls) yield* Agent.decide(each, Agent.approve())
      const { exit: end } = yield* resume(agent)
      expectTag(end, "Completed")
      expect(seen).toHaveLength(4)
    }
  )

  check("is evaluated for all calls of a turn before any starts", function* () {
    const log: Array<string> = []
    const parameters = Schema.Struct({ q: Schema.String })
    const make = <const Name extends string>(name: Name) =>
      Tool.make(name, {
        parameters,
        needsApproval: () =>
          Effect.sync(() => {
            log.push(`${name}?`)
            return false
          })
      })
    const tools = Toolkit.make(make("a"), make("b"))
    const handlers = tools.toLayer({
      a: () => Effect.sync(() => void log.push("a")),
      b: () => Effect.sync(() => void log.push("b"))
    })
    const bot = once(call("a", "1"), call("b", "2"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    expectTag((yield* run(agent)).exit, "Completed")
    expect(log.slice(0, 2).sort()).toEqual(["a?", "b?"])
    expect(log.slice(2)).toEqual(["a", "b"])
  })

  check(
    "fails closed: a function that fails, dies, throws, interrupts or answers nonsense asks a person",
    function* () {
      const parameters = Schema.Struct({ q: Schema.String })
      const make = <const Name extends string>(name: Name, needsApproval: () => unknown) =>
        Tool.make(name, {
          parameters,
          needsApproval: needsApproval as () => boolean
        })
      const tools = Toolkit.make(
        make("fails", () => Effect.fail("no")),
        make("dies", () => Effect.die("no")),
        make("throws", () => {
          throw new Error("no")
        }),
        make("interrupts", () => Effect.interrupt),
        make("nonsense", () => "maybe"),
        make("nothing", () => undefined)
      )
      const ran: Array<string> = []
      const handler = (name: string) => () => Effect.sync(() => void ran.push(name))
      const handlers = tools.toLayer({
        fails: handler("fails"),
        dies: handler("dies"),
        throws: handler("throws"),
        interrupts: handler("interrupts"),
        nonsense: handler("nonsense"),
        nothing: handler("nothing")
      })
      const names = ["fails", "dies", "throws", "interrupts", "nonsense", "nothing"]
      const bot = once(...names.map((name) => call(name, name)))
      const agent = Agent.make("a", { toolkit: tools }).pipe(
        Agent.provide(handlers),
        Agent.provide(bot.layer)
      )
      const { exit } = yield* run(agent)
      const { calls } = expectTag(exit, "ApprovalRequired")
      expect(calls.map(({ tool }) => tool)).toEqual(names)
      expect(ran).toEqual([])
    }
  )

  check("what is known of a call is stored before another call's question is waited for", function* () {
    const gate = yield* Deferred.make<boolean>()
    const parameters = Schema.Struct({ q: Schema.String })
    const tools = Toolkit.make(
      guarded("ask"),
      Tool.make("slow", { parameters, needsApproval: () => Deferred.await(gate) }),
      Tool.make("quick", { parameters, needsApproval: () => false })
    )
    const nothing = () => Effect.void
    const agent = Agent.make("a", { toolkit: tools }).pipe(
      Agent.provide(tools.toLayer({ ask: () => Effect.succeed("asked"), slow: nothing, quick: nothing })),
      Agent.provide(
        once(call("ask", "c1"), call("quick", "c2"), call("slow", "c3"), call("quick", "c4")).layer
      )
    )
    const fiber = yield* Effect.forkChild(run(agent), { startImmediately: true })
    yield* settle
    const before = yield* journal("r")
    expect(before.slice(-2)).toMatchObject([
      { type: "approval_required", callId: "c1" },
      { type: "approval_resolved", callId: "c2", decision: "not_required" }
    ])
    yield* Deferred.succeed(gate, true)
    const { calls } = expectTag((yield* Fiber.join(fiber)).exit, "ApprovalRequired")
    expect(calls.map(({ callId }) => callId)).toEqual(["c1", "c3"])
  })

  check("questions that are answered at once cost one append", function* () {
    const parameters = Schema.Struct({ q: Schema.String })
    const tools = Toolkit.make(Tool.make("quick", { parameters, needsApproval: ({ q }) => q === "x" }))
    const agent = Agent.make("a", { toolkit: tools }).pipe(
      Agent.provide(tools.toLayer({ quick: () => Effect.void })),
      Agent.provide(once(call("quick", "c1", "y"), call("quick", "c2"), call("quick", "c3", "y")).layer)
    )
    const store = yield* RunStore.RunStore
    const appended: Array<ReadonlyArray<string>> = []
    const watched = RunStore.RunStore.of({
      ...store,
      append: (request) => {
        appended.push(request.events.map(({ type }) => type))
        return store.append(request)
      }
    })
    yield* Effect.provideService(run(agent), RunStore.RunStore, watched)
    expect(appended.filter((types) => types.some((type) => type.startsWith("approval")))).toEqual([
      ["approval_resolved", "approval_required", "approval_resolved"]
    ])
  })

  check("a function that never answers does not outlast the run's time, and nothing runs", function* () {
    let ran = 0
    const Ask = Tool.make("ask", {
      parameters: Schema.Struct({ q: Schema.String }),
      needsApproval: () => Effect.never
    })
    const tools = Toolkit.make(Ask)
    const agent = Agent.make("a", {
      toolkit: tools,
      limits: { time: "10 seconds" }
    }).pipe(
      Agent.provide(tools.toLayer({ ask: () => Effect.sync(() => void ran++) })),
      Agent.provide(once(call("ask", "c")).layer)
    )
    const { exit } = yield* withTime(run(agent))
    expect(["ApprovalRequired", "BudgetExceeded"]).toContain(exit._tag)
    expect(exit.run.elapsedMs).toBeLessThanOrEqual(31_000)
    expect(ran).toBe(0)
  })

  check("is not needed for wrong arguments or an unknown tool: these are answered at once", function* () {
    let asked = 0
    const Ask = Tool.make("ask", {
      parameters: Schema.Struct({ q: Schema.String }),
      needsApproval: () => {
        asked++
        return true
      }
    })
    const tools = Toolkit.make(Ask, guarded("always"))
    const handlers = tools.toLayer({
      ask: () => Effect.void,
      always: () => Effect.succeed("ok")
    })
    const bot = once(
      Scripted.call("ask", { q: 1 }, { id: "c1" }),
      Scripted.call("ask", "{", { id: "c2" }),
      Scripted.call("always", { q: 1 }, { id: "c3" }),
      Scripted.call("always", "{", { id: "c4" }),
      call("nope", "c5")
    )
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { events, exit } = yield* run(agent)
    expectTag(exit, "Completed")
    expect(asked).toBe(0)
    expect(of(events, "approval_required")).toEqual([])
    for (const id of ["c1", "c2", "c3", "c4", "c5"]) expect(resultOf(exit, id).ok).toBe(false)
  })

  check("of a read-only tool too: it waits, the other reads do not", function* () {
    const ran: Array<string> = []
    const Peek = Tool.make("peek", {
      parameters: Schema.Struct({ q: Schema.String }),
      success: Schema.String,
      needsApproval: true
    }).annotate(Tool.Readonly, true)
    const tools = Toolkit.make(Peek, reader("read"), writer("write"))
    const handler = (name: string) => () => Effect.sync(() => `${ran.push(name)}`)
    const handlers = tools.toLayer({
      peek: handler("peek"),
      read: handler("read"),
      write: handler("write")
    })
    const bot = once(call("peek", "c1"), call("read", "c2"), call("write", "c3"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* run(agent)
    const { calls } = expectTag(exit, "ApprovalRequired")
    expect(calls.map(({ callId }) => callId)).toEqual(["c1"])
    expect(ran).toContain("read")
    expect(ran).not.toContain("peek")
    yield* Agent.decide(calls[0], Agent.approve())
    expectTag((yield* resume(agent)).exit, "Completed")
    expect([...ran].sort()).toEqual(["peek", "read", "write"])
  })

  check(
    "comes before the limit on turns is spent on another question: siblings that may run have run",
    function* () {
      const { agent, ran } = asking(
        once(call("read", "c1", "1"), call("ask", "c2", "2"), call("ask", "c3", "3"))
      )
      const { exit } = yield* run(agent)
      expect(expectTag(exit, "ApprovalRequired").calls).toHaveLength(2)
      expect(ran).toEqual(["read 1"])
    }
  )
})

describe("deciding", () => {
  check("approve: it runs once with its arguments, and the run goes on", function* () {
    const bot = once(call("ask", "c", "x"))
    const { agent, ran } = asking(bot)
    const { exit } = yield* run(agent)
    yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve(), { by: "ann" })
    expect(ran).toEqual([])
    const { events, exit: end } = yield* resume(agent)
    expectTag(end, "Completed")
    expect(ran).toEqual(["ask x"])
    expect(of(events, "approval_resolved")).toMatchObject([
      {
        callId: "c",
        decision: "approved",
        by: "ann",
        argsDigest: of(events, "approval_required")[0]?.argsDigest
      }
    ])
    expect(resultOf(end, "c")).toMatchObject({
      ok: true,
      content: "ask x done"
    })
    expectValidRequests(bot.requests)
  })

  check(
    "approve with other arguments: those run, those are journaled, and the model is told in words",
    function* () {
      const bot = once(call("ask", "c", "x"))
      const { agent, ran } = asking(bot)
      const { exit } = yield* run(agent)
      const asked = expectTag(exit, "ApprovalRequired").calls[0]
      yield* Agent.decide(asked, Agent.approve({ args: { q: "y" } }))
      const { events, exit: end } = yield* resume(agent)
      expectTag(end, "Completed")
      expect(ran).toEqual(["ask y"])
      expect(of(events, "tool_start")[0]?.args).toEqual({ q: "y" })
      expect(of(events, "approval_resolved")[0]).toMatchObject({
        decision: "approved",
        args: { q: "y" }
      })
      expect(of(events, "approval_resolved")[0]?.argsDigest).not.toBe(asked.argsDigest)
      const { content } = resultOf(end, "c")
      expect(content).toContain("ask y done")
      expect(content).not.toBe("ask y done")
      expect(content).toMatch(/\{"q":"y"\}/)
    }
  )

  check(
    "approve with arguments that are no JSON yet: what runs is what is kept, in every store",
    function* () {
      class Path {
        readonly path = "old.log"
        toJSON = () => this.path
      }
      const given: ReadonlyArray<readonly [unknown, unknown]> = [
        [{ q: new Date(0) }, { q: "1970-01-01T00:00:00.000Z" }],
        [{ q: new Path() }, { q: "old.log" }],
        [{ q: [undefined, Number.NaN] }, { q: [null, null] }],
        [{ q: new Map([["a", 1]]), p: undefined }, { q: {} }],
        [new Map([["q", 1]]), {}]
      ]
      for (const [n, [args, kept]] of given.entries()) {
        const ran: Array<unknown> = []
        const Any = Tool.make("any", {
          parameters: Schema.Unknown,
          success: Schema.String,
          needsApproval: true
        })
        const tools = Toolkit.make(Any)
        const agent = Agent.make("a", { toolkit: tools }).pipe(
          Agent.provide(
            tools.toLayer({
              any: (it) =>
                Effect.as(
                  Effect.sync(() => ran.push(it)),
                  "done"
                )
            })
          ),
          Agent.provide(once(Scripted.call("any", { q: "x" }, { id: "c" })).layer)
        )
        const { exit } = yield* finish(Agent.run(agent, "go", { runId: `r${n}` }))
        const [asked] = expectTag(exit, "ApprovalRequired").calls
        yield* Agent.decide(asked, Agent.approve({ args: args as Schema.Json }))
        const { events, exit: end } = yield* finish(Agent.resume(agent, `r${n}`))
        expectTag(end, "Completed")
        expect(ran).toStrictEqual([kept])
        expect(of(events, "tool_start")[0]?.args).toStrictEqual(kept)
        expect(of(events, "approval_resolved")[0]?.argsDigest).toBe(Digest.ofArgs(kept as Schema.Json))
      }
    }
  )

  check(
    "in words, or with arguments, that no store can keep is refused, and the call still waits",
    function* () {
      const store = yield* RunStore.RunStore
      const { agent } = asking(once(call("ask", "c", "x")))
      const { exit } = yield* run(agent)
      const [asked] = expectTag(exit, "ApprovalRequired").calls
      const cyclic: Record<string, unknown> = {}
      cyclic.self = cyclic
      const args = [() => 1, Symbol("x"), 10n, { q: 10n }, cyclic].map((args) =>
        Agent.approve({ args: args as never })
      )
      const words = [42, null, {}, 10n, cyclic]
      const refused = [
        ...args.map((decision) => Agent.decide(asked, decision)),
        ...words.map((word) => Agent.decide(asked, Agent.reject(word as never))),
        ...words.map((by) => Agent.decide(asked, Agent.approve(), { by: by as never }))
      ]
      for (const each of refused) expect(yield* Effect.flip(each)).toMatchObject({ kind: "invalid" })
      expect(yield* store.inbox("r", 0)).toEqual([])
      yield* Agent.decide(asked, Agent.approve(), { by: undefined as never })
      expectTag((yield* resume(agent)).exit, "Completed")
    }
  )

  check("approve with arguments that do not fit: nothing runs, and the call still waits", function* () {
    const { agent, ran } = asking(once(call("ask", "c", "x")))
    const { exit } = yield* run(agent)
    const asked = expectTag(exit, "ApprovalRequired").calls[0]
    const decided = yield* Effect.exit(Agent.decide(asked, Agent.approve({ args: { q: 1 } })))
    const second = yield* resume(agent)
    const { calls, message } = expectTag(second.exit, "ApprovalRequired")
    expect(Exit.isSuccess(decided)).toBe(true)
    const problem = 'the arguments given with the approval do not fit ask (Expected string at ["q"]): {"q":1}'
    expect(calls[0]).toEqual({ ...asked, problem })
    expect(message).toContain(problem)
    expect(ran).toEqual([])
    yield* Agent.decide(calls[0], Agent.approve({ args: { q: "z" } }))
    expectTag((yield* resume(agent)).exit, "Completed")
    expect(ran).toEqual(["ask z"])
  })

  check(
    "of arguments that do not fit, as the run comes to its stop: the ending says what is wrong",
    function* () {
      const store = yield* RunStore.RunStore
      const tools = Toolkit.make(guarded("ask"), reader("read"))
      const handlers = tools.toLayer({
        ask: ({ q }) => Effect.succeed(q),
        read: ({ q }) =>
          Agent.decide({ runId: "r", callId: "c" }, Agent.approve({ args: { q: 1 } })).pipe(
            Effect.provideService(RunStore.RunStore, store),
            Effect.orDie,
            Effect.as(q)
          )
      })
      const bot = model([Scripted.turn(call("ask", "c", "x"), call("read", "d", "y"))])
      const agent = Agent.make("a", { toolkit: tools }).pipe(
        Agent.provide(handlers),
        Agent.provide(bot.layer)
      )
      const { exit } = yield* run(agent)
      expect(expectTag(exit, "ApprovalRequired").run.detail).toContain("do not fit ask")
    }
  )

  for (const reason of [undefined, "keep the logs"]) {
    check(
      `reject ${reason === undefined ? "without a reason" : "with one"}: said in words, and never run`,
      function* () {
        const bot = once(call("ask", "c", "x"))
        const { agent, ran } = asking(bot)
        const { exit } = yield* run(agent)
        yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.reject(reason))
        const { events, exit: end } = yield* resume(agent)
        expectTag(end, "Completed")
        expect(ran).toEqual([])
        const { content, ok } = resultOf(end, "c")
        expect(ok).toBe(false)
        expect(content).toMatch(/declined|rejected/i)
        expect(content).toMatch(/did not run|not (been )?(run|executed)/i)
        if (reason !== undefined) expect(content).toContain(reason)
        expect(content).not.toMatch(/undefined|null/)
        expect(of(events, "tool_start")).toEqual([])
        expect(of(events, "tool_result")[0]).toMatchObject({
          disposition: "rejected",
          ok: false
        })
        expectValidRequests(bot.requests)
      }
    )
  }

  check("some now and some later; each decision goes to its own call (case 9)", function* () {
    const bot = once(
      call("ask", "c1", "1"),
      call("ask", "c2", "2"),
      call("write", "c3", "3"),
      call("ask", "c4", "4")
    )
    const { agent, ran } = asking(bot)
    const { exit } = yield* run(agent)
    const { calls } = expectTag(exit, "ApprovalRequired")
    expect(calls.map(({ callId }) => callId)).toEqual(["c1", "c2", "c4"])
    // In another order than asked: the last one first.
    yield* Agent.decide({ runId: "r", callId: "c4" }, Agent.reject("not that one"))
    yield* Agent.decide({ runId: "r", callId: "c1" }, Agent.approve())
    const second = yield* resume(agent)
    expect(expectTag(second.exit, "ApprovalRequired").calls.map(({ callId }) => callId)).toEqual(["c2"])
    expect(ran).toEqual(["ask 1"])
    yield* Agent.decide({ runId: "r", callId: "c2" }, Agent.approve({ args: { q: "two" } }))
    const { exit: end } = yield* resume(agent)
    expectTag(end, "Completed")
    expect(ran).toEqual(["ask 1", "ask two", "write 3"])
    expect(resultOf(end, "c1").content).toBe("ask 1 done")
    expect(resultOf(end, "c2").content).toContain("ask two done")
    expect(resultOf(end, "c3").content).toBe("write 3 done")
    expect(resultOf(end, "c4").content).toContain("not that one")
    expectValidRequests(bot.requests)
  })

  check("an approval is good for one call: the same call on a later turn asks again", function* () {
    const { agent, ran } = asking(
      model([call("ask", "c1", "x"), call("ask", "c2", "x"), Scripted.text("done")])
    )
    const { exit } = yield* run(agent)
    yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
    const second = yield* resume(agent)
    expect(expectTag(second.exit, "ApprovalRequired").calls[0].callId).toBe("c2")
    expect(ran).toEqual(["ask x"])
  })

  check("a repeated id does not inherit the approval of the first", function* () {
    const { agent, ran } = asking(
      model([call("ask", "c", "x"), call("ask", "c", "y"), Scripted.text("done")])
    )
    const { exit } = yield* run(agent)
    yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
    const second = yield* resume(agent)
    expect(expectTag(second.exit, "ApprovalRequired").calls[0].callId).not.toBe("c")
    expect(ran).toEqual(["ask x"])
  })

  check("a model call that fails right after does not run the approved call again (case 1)", function* () {
    let down = true
    const bot = model((turn) => {
      if (turn === 0) return call("ask", "c", "x")
      return down ? Scripted.fail(500) : Scripted.text("done")
    })
    const { agent, ran } = asking(bot)
    const { exit } = yield* run(agent)
    yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
    expectTag((yield* resume(agent)).exit, "ProviderUnavailable")
    expectTag((yield* resume(agent)).exit, "ProviderUnavailable")
    expect(ran).toEqual(["ask x"])
    down = false
    const { events, exit: end } = yield* resume(agent)
    expectTag(end, "Completed")
    expect(ran).toEqual(["ask x"])
    expect(of(events, "tool_start")).toHaveLength(1)
    expectValidRequests(bot.requests)
  })

  check("whoever decides second is told who was first, and that it was not recorded", function* () {
    const { agent } = asking(once(call("ask", "c", "x")))
    const { exit } = yield* run(agent)
    const asked = expectTag(exit, "ApprovalRequired").calls[0]
    yield* Agent.decide(asked, Agent.approve(), { by: "ann" })
    const late = yield* Effect.flip(Agent.decide(asked, Agent.reject("no"), { by: "bob" }))
    expect(late).toMatchObject({ _tag: "CallNotPending", problem: expect.stringContaining("ann was first") })
    const { events, exit: end } = yield* resume(agent)
    expectTag(end, "Completed")
    expect(of(events, "approval_resolved").map(({ by, decision }) => [decision, by])).toEqual([
      ["approved", "ann"]
    ])
  })

  check("two decide at the same moment: the first counts, the call runs once (case 2)", function* () {
    const { agent, ran } = asking(once(call("ask", "c", "x")))
    const { exit } = yield* run(agent)
    const asked = expectTag(exit, "ApprovalRequired").calls[0]
    yield* Effect.all(
      [
        Agent.decide(asked, Agent.approve({ args: { q: "first" } }), {
          by: "ann"
        }),
        Effect.exit(
          Agent.decide(asked, Agent.approve({ args: { q: "second" } }), {
            by: "bob"
          })
        ),
        Effect.exit(Agent.decide(asked, Agent.reject("no"), { by: "cid" }))
      ],
      { concurrency: "unbounded" }
    )
    const { events, exit: end } = yield* resume(agent)
    expectTag(end, "Completed")
    expect(ran).toEqual(["ask first"])
    expect(of(events, "approval_resolved")).toHaveLength(1)
    // A decision that comes late is of no use, and says so.
    const late = yield* Effect.flip(Agent.decide(asked, Agent.approve()))
    expect(late._tag).toBe("CallNotPending")
    expect((yield* resume(agent)).exit._tag).toBe("Completed")
    expect(ran).toEqual(["ask first"])
  })

  check("a rejection that was first is not overruled by an approval", function* () {
    const { agent, ran } = asking(once(call("ask", "c", "x")))
    const { exit } = yield* run(agent)
    const asked = expectTag(exit, "ApprovalRequired").calls[0]
    yield* Agent.decide(asked, Agent.reject("no"))
    yield* Effect.exit(Agent.decide(asked, Agent.approve()))
    expectTag((yield* resume(agent)).exit, "Completed")
    expect(ran).toEqual([])
  })

  check(
    "two resume at the same moment: one drives, the other is busy or sees the result (case 2)",
    function* () {
      const started = yield* Deferred.make<void>()
      const release = yield* Deferred.make<void>()
      let ran = 0
      const tools = Toolkit.make(guarded("ask"))
      const handlers = tools.toLayer({
        ask: () =>
          Effect.suspend(() => {
            ran++
            return Deferred.succeed(started, undefined)
          }).pipe(Effect.andThen(Deferred.await(release)), Effect.as("done"))
      })
      const bot = once(call("ask", "c", "x"))
      const agent = Agent.make("a", { toolkit: tools }).pipe(
        Agent.provide(handlers),
        Agent.provide(bot.layer)
      )
      const { exit } = yield* run(agent)
      yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
      const attempt = Effect.exit(Agent.resume(agent, "r"))
      const fibers = yield* Effect.forEach([1, 2, 3], () => Effect.forkChild(attempt))
      yield* Deferred.await(started)
      yield* settle
      yield* Deferred.succeed(release, undefined)
      const exits = yield* Effect.forEach(fibers, Fiber.join)
      expect(exits.filter(Exit.isSuccess)).toHaveLength(1)
      for (const each of exits) if (Exit.isFailure(each)) expect(String(each.cause)).toContain("RunBusy")
      expect(ran).toBe(1)
      expect(of(yield* journal("r"), "tool_start")).toHaveLength(1)
    }
  )

  check(
    "two processes that both believe to drive: the fence lets one of them, the call runs once",
    function* () {
      const { agent, ran } = asking(once(call("ask", "c", "x")))
      const { exit } = yield* run(agent)
      yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
      const store = yield* RunStore.RunStore
      // Each append takes a moment, and no lease keeps the two apart.
      const elsewhere: RunStore.RunStore["Service"] = {
        ...store,
        lease: () => Effect.succeed({ check: Effect.void, lost: Effect.never }),
        append: (append) => Effect.andThen(settle, store.append(append))
      }
      const attempt = Effect.exit(
        Effect.provideService(Agent.resume(agent, "r"), RunStore.RunStore, elsewhere)
      )
      const exits = yield* Effect.all([attempt, attempt, attempt], {
        concurrency: "unbounded"
      })
      expect(exits.filter(Exit.isSuccess)).toHaveLength(1)
      for (const each of exits) if (Exit.isFailure(each)) expect(String(each.cause)).toContain("RunBusy")
      expect(ran).toEqual(["ask x"])
      const events = yield* journal("r")
      expect(of(events, "approval_resolved")).toHaveLength(1)
      expect(of(events, "tool_start")).toHaveLength(1)
      expect(of(events, "run_stopped")).toHaveLength(2)
    }
  )

  check("while the run is still busy with a sibling: it is used without a stop in between", function* () {
    const started = yield* Deferred.make<void>()
    const release = yield* Deferred.make<void>()
    const ran: Array<string> = []
    const tools = Toolkit.make(guarded("ask"), reader("slow"))
    const handlers = tools.toLayer({
      ask: ({ q }) => Effect.sync(() => `${ran.push(q)}`),
      slow: () =>
        Effect.as(Effect.andThen(Deferred.succeed(started, undefined), Deferred.await(release)), "ok")
    })
    const bot = once(call("ask", "c", "x"), call("slow", "d"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const fiber = yield* Effect.forkChild(run(agent))
    yield* Deferred.await(started)
    yield* Agent.decide({ runId: "r", callId: "c" }, Agent.approve())
    expect(ran).toEqual([])
    yield* Deferred.succeed(release, undefined)
    const { events, exit } = yield* Fiber.join(fiber)
    expectTag(exit, "Completed")
    expect(ran).toEqual(["x"])
    expect(of(events, "run_resumed")).toEqual([])
  })

  check("a resume in the middle of a Stop that was decided about does not lose the decision", function* () {
    const started = yield* Deferred.make<void>()
    const ran: Array<string> = []
    let slow = true
    const tools = Toolkit.make(guarded("ask"), reader("slow"))
    const handlers = tools.toLayer({
      ask: ({ q }) => Effect.sync(() => `${ran.push(q)}`),
      slow: () =>
        Effect.suspend(() =>
          slow ? Effect.andThen(Deferred.succeed(started, undefined), Effect.never) : Effect.succeed("ok")
        )
    })
    const bot = once(call("ask", "c", "x"), call("slow", "d"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const fiber = yield* Effect.forkChild(run(agent))
    yield* Deferred.await(started)
    yield* Agent.decide({ runId: "r", callId: "c" }, Agent.approve())
    slow = false
    yield* Fiber.interrupt(fiber)
    const { exit } = yield* resume(agent)
    expectTag(exit, "Completed")
    expect(ran).toEqual(["x"])
  })

  check("is refused for arguments that are not the ones that were looked at", function* () {
    const { agent, ran } = asking(once(call("ask", "c", "x")))
    const { exit } = yield* run(agent)
    expectTag(exit, "ApprovalRequired")
    const wrong = { runId: "r", callId: "c", argsDigest: "0".repeat(32) }
    const refused = yield* Effect.flip(Agent.decide(wrong, Agent.approve()))
    expect(refused._tag).toBe("CallNotPending")
    expectTag((yield* resume(agent)).exit, "ApprovalRequired")
    expect(ran).toEqual([])
  })

  check("is refused where the summary shows other arguments than those that the call has", function* () {
    const { agent, ran } = asking(once(call("ask", "c", "x")))
    yield* run(agent)
    const store = yield* RunStore.RunStore
    const summary: typeof store.summary = (runId) =>
      Effect.map(store.summary(runId), (summary) => ({
        ...summary,
        approvals: summary.approvals.map((call) => ({ ...call, args: { q: "y" } }))
      }))
    const refused = yield* Effect.flip(Agent.decide({ runId: "r", callId: "c" }, Agent.approve())).pipe(
      Effect.provideService(RunStore.RunStore, { ...store, summary })
    )
    expect(refused).toMatchObject({ _tag: "RunStoreError", kind: "corrupt", runId: "r" })
    expect(refused.message).toContain("call c")
    expectTag((yield* resume(agent)).exit, "ApprovalRequired")
    expect(ran).toEqual([])
  })

  const changed = [
    ["a turn", "turn", "write"],
    ["a question", "approval_required", "ask"],
    ["an approval", "approval_resolved", "ask"]
  ] as const
  for (const [name, type, tool] of changed) {
    check(
      `starts nothing, and writes nothing, if the arguments in ${name} of the journal are others by now`,
      function* () {
        const { agent, ran } = asking(once(call("read", "d", "1"), call(tool, "c", "x")))
        const start = (event: RunEvent.RunEvent) => event.type === "tool_start" && event.callId === "c"
        yield* crashing(Effect.exit(run(agent)), { before: start })
        if (tool === "ask") {
          yield* Agent.decide({ runId: "r", callId: "c" }, Agent.approve({ args: { q: "x" } }))
          if (type === "approval_resolved") yield* crashing(Effect.exit(resume(agent)), { before: start })
        }
        const store = yield* RunStore.RunStore
        const before = yield* journal("r")
        expect(of(before, type)).toHaveLength(1)
        const other = (event: RunEvent.RunEvent): RunEvent.RunEvent =>
          event.type === type ? JSON.parse(JSON.stringify(event).replaceAll('"q":"x"', '"q":"y"')) : event
        const read: typeof store.read = (...from) =>
          Effect.map(store.read(...from), (events) => events.map(other))
        const refused = yield* Effect.flip(Agent.resume(agent, "r")).pipe(
          Effect.provideService(RunStore.RunStore, { ...store, read })
        )
        expect(refused).toMatchObject({ _tag: "RunStoreError", kind: "corrupt", runId: "r" })
        expect(refused.message).toContain(`call c (${tool})`)
        expect(yield* journal("r")).toEqual(before)
        expect(ran).toEqual(["read 1"])
        expectTag((yield* resume(agent)).exit, "Completed")
        expect(ran).toEqual(["read 1", `${tool} x`])
      }
    )
  }

  check("is refused for an unknown run, an unknown call, and a call that does not wait", function* () {
    const { agent } = asking(once(call("read", "c1", "1"), call("ask", "c2", "2")))
    yield* run(agent)
    const tagOf = (runId: string, callId: string) =>
      Effect.map(Effect.flip(Agent.decide({ runId, callId }, Agent.approve())), ({ _tag }) => _tag)
    expect(yield* tagOf("elsewhere", "c2")).toBe("RunNotFound")
    expect(yield* tagOf("r", "nope")).toBe("CallNotPending")
    expect(yield* tagOf("r", "c1")).toBe("CallNotPending")
  })

  check("a decision in the inbox does not reach a call of the same name in words only", function* () {
    // A command that somebody sends past `decide`, for other arguments, is not used.
    const { agent, ran } = asking(once(call("ask", "c", "x")))
    yield* run(agent)
    const store = yield* RunStore.RunStore
    yield* store.send("r", {
      type: "decide",
      callId: "c",
      decision: "approved",
      argsDigest: "other"
    })
    yield* store.send("r", {
      type: "decide",
      callId: "ghost",
      decision: "approved"
    })
    const { events, exit } = yield* resume(agent)
    expectTag(exit, "ApprovalRequired")
    expect(ran).toEqual([])
    expect(of(events, "approval_resolved")).toEqual([])
  })

  check("an approved call that asks for a decision and fails is answered once", function* () {
    const tools = Toolkit.make(guarded("ask"))
    const handlers = tools.toLayer({
      ask: () => Effect.fail(ToolFailure.recoverable("full disk"))
    })
    const bot = once(call("ask", "c", "x"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* run(agent)
    yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
    const { events, exit: end } = yield* resume(agent)
    expectTag(end, "Completed")
    expect(resultOf(end, "c").content).toContain("full disk")
    expect(of(events, "tool_result")).toHaveLength(1)
  })

  check("costs the same however long the run is (case 4)", function* () {
    const { agent } = asking(once(call("ask", "c", "x")))
    const { exit } = yield* run(agent)
    const asked = expectTag(exit, "ApprovalRequired").calls[0]
    const store = yield* RunStore.RunStore
    let reads = 0
    yield* Effect.provideService(Agent.decide(asked, Agent.approve()), RunStore.RunStore, {
      ...store,
      read: (runId, from) => {
        reads++
        return store.read(runId, from)
      }
    })
    expect(reads).toBe(0)
  })

  check(
    "survives a crash between the decision and the call, and one right after the call began",
    function* () {
      const { agent, ran } = asking(once(call("ask", "c", "x")))
      const { exit } = yield* run(agent)
      yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
      const before = {
        after: (event: RunEvent.RunEvent) => event.type === "approval_resolved"
      }
      const lost = yield* Effect.flip(crashing(Agent.resume(agent, "r"), before))
      expect(lost._tag).toBe("RunStoreError")
      const between = yield* Effect.flip(
        crashing(Agent.resume(agent, "r"), {
          before: (event) => event.type === "tool_result"
        })
      )
      expect(between._tag).toBe("RunStoreError")
      expect(ran).toEqual(["ask x"])
      const { exit: end } = yield* resume(agent)
      expectTag(end, "OutcomeUnknown")
      expect(ran).toEqual(["ask x"])
    }
  )
})

describe("an unknown outcome", () => {
  const stopAt = (event: RunEvent.RunEvent) => event.type === "tool_result"

  /** A run whose process died while the writer ran, before its result was stored. */
  const lost = (bot: Model) =>
    Effect.gen(function* () {
      const { agent, ran } = asking(bot)
      const died = yield* Effect.flip(crashing(Agent.run(agent, "go", { runId: "r" }), { before: stopAt }))
      expect(died._tag).toBe("RunStoreError")
      return { agent, ran }
    })

  check("a crash during a writer leaves it unknown, with its call; it is not run again", function* () {
    const bot = once(call("write", "c", "x"), call("write", "d", "y"))
    const { agent, ran } = yield* lost(bot)
    const { exit } = yield* resume(agent)
    const { calls } = expectTag(exit, "OutcomeUnknown")
    expect(calls).toMatchObject([{ runId: "r", callId: "c", tool: "write", args: { q: "x" } }])
    expect(exit.run).toMatchObject({
      status: "interrupted",
      reason: "unknown_outcome"
    })
    expect(ran).toEqual(["write x"])
    expect((yield* (yield* RunStore.RunStore).summary("r")).unknown).toEqual(calls)
    expectTag((yield* resume(agent)).exit, "OutcomeUnknown")
    expect(ran).toEqual(["write x"])
  })

  check("resolved as happened: the words of the person are the result, and the rest goes on", function* () {
    const bot = once(call("write", "c", "x"), call("write", "d", "y"))
    const { agent, ran } = yield* lost(bot)
    const { exit } = yield* resume(agent)
    const { calls } = expectTag(exit, "OutcomeUnknown")
    yield* Agent.resolve(calls[0], Agent.happened("order 7 was placed"), {
      by: "ann"
    })
    const { events, exit: end } = yield* resume(agent)
    expectTag(end, "Completed")
    expect(ran).toEqual(["write x", "write y"])
    expect(resultOf(end, "c").content).toContain("order 7 was placed")
    expect(of(events, "outcome_resolved")).toMatchObject([{ callId: "c", outcome: "happened", by: "ann" }])
    expectValidRequests(bot.requests)
  })

  check("resolved as not happened: the model is told so, and the harness does not repeat it", function* () {
    const bot = once(call("write", "c", "x"))
    const { agent, ran } = yield* lost(bot)
    const { exit } = yield* resume(agent)
    yield* Agent.resolve(expectTag(exit, "OutcomeUnknown").calls[0], Agent.didNotHappen)
    const { events, exit: end } = yield* resume(agent)
    expectTag(end, "Completed")
    expect(ran).toEqual(["write x"])
    expect(resultOf(end, "c").ok).toBe(false)
    expect(resultOf(end, "c").content).toMatch(/not (happen|run|executed)|did ?n[o']t/i)
    expect(of(events, "outcome_resolved")[0]?.outcome).toBe("did_not_happen")
    expectValidRequests(bot.requests)
  })

  check("a resolution is used once, and only for a call that is unknown", function* () {
    const { agent } = yield* lost(once(call("write", "c", "x")))
    const early = yield* Effect.flip(Agent.resolve({ runId: "r", callId: "nope" }, Agent.happened()))
    expect(early._tag).toBe("CallNotPending")
    const { exit } = yield* resume(agent)
    const asked = expectTag(exit, "OutcomeUnknown").calls[0]
    yield* Agent.resolve(asked, Agent.happened("first"))
    const late = yield* Effect.flip(Agent.resolve(asked, Agent.didNotHappen))
    expect(late).toMatchObject({ _tag: "CallNotPending", problem: expect.stringContaining("was first") })
    const { events, exit: end } = yield* resume(agent)
    expectTag(end, "Completed")
    expect(of(events, "outcome_resolved")).toHaveLength(1)
    expect(resultOf(end, "c").content).toContain("first")
    expect((yield* Effect.flip(Agent.resolve(asked, Agent.happened())))._tag).toBe("CallNotPending")
  })

  const interrupted = (Slow: ReturnType<typeof writer<"slow">>) =>
    Effect.gen(function* () {
      const keys: Array<string> = []
      const started = yield* Deferred.make<void>()
      const { CurrentCall } = yield* Effect.promise(() => import("../../src/tool/CurrentCall.ts"))
      const tools = Toolkit.make(Slow)
      const handlers = tools.toLayer({
        slow: () =>
          Effect.gen(function* () {
            keys.push((yield* CurrentCall).idempotencyKey)
            if (keys.length > 1) return "second time"
            yield* Deferred.succeed(started, undefined)
            return yield* Effect.never
          })
      })
      const bot = once(call("slow", "c"))
      const agent = Agent.make("a", { toolkit: tools }).pipe(
        Agent.provide(handlers),
        Agent.provide(bot.layer)
      )
      const fiber = yield* Effect.forkChild(Agent.run(agent, "go", { runId: "r" }))
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      return { agent, keys, bot, stopped: yield* journal("r") }
    })

  check("a Stop during a writer leaves it unknown", function* () {
    const { agent, keys, stopped } = yield* interrupted(writer("slow"))
    expect(stopped.at(-1)).toMatchObject({
      type: "run_stopped",
      status: "interrupted",
      reason: "cancelled"
    })
    const { exit } = yield* resume(agent)
    expect(expectTag(exit, "OutcomeUnknown").calls[0].callId).toBe("c")
    expect(keys).toHaveLength(1)
  })

  for (const kind of ["Readonly", "Idempotent"] as const) {
    check(`a Stop during a tool that is ${kind} runs it again on resume, with the same key`, function* () {
      const tool = kind === "Readonly" ? reader("slow") : writer("slow").annotate(Tool.Idempotent, true)
      const { agent, bot, keys } = yield* interrupted(tool)
      const { exit } = yield* resume(agent)
      expectTag(exit, "Completed")
      expect(resultOf(exit, "c")).toMatchObject({
        ok: true,
        content: "second time"
      })
      expect(keys).toHaveLength(2)
      expect(keys[0]).toBe(keys[1])
      expectValidRequests(bot.requests)
    })

    check(`a crash during a tool that is ${kind} runs it again on resume, with the same key`, function* () {
      const keys: Array<string> = []
      const { CurrentCall } = yield* Effect.promise(() => import("../../src/tool/CurrentCall.ts"))
      const tools = Toolkit.make(
        kind === "Readonly" ? reader("slow") : writer("slow").annotate(Tool.Idempotent, true)
      )
      const handlers = tools.toLayer({
        slow: () => Effect.map(CurrentCall, ({ idempotencyKey }) => `${keys.push(idempotencyKey)}`)
      })
      const bot = once(call("slow", "c"))
      const agent = Agent.make("a", { toolkit: tools }).pipe(
        Agent.provide(handlers),
        Agent.provide(bot.layer)
      )
      yield* Effect.flip(crashing(Agent.run(agent, "go", { runId: "r" }), { before: stopAt }))
      const { exit } = yield* resume(agent)
      expectTag(exit, "Completed")
      expect(resultOf(exit, "c").content).toBe("2")
      expect(keys[0]).toBe(keys[1])
    })
  }

  check(
    "a crash between the turn and the start of its tools loses nothing, and runs nothing twice",
    function* () {
      const { agent, ran } = asking(once(call("write", "c", "x"), call("read", "d", "y")))
      const died = yield* Effect.flip(
        crashing(Agent.run(agent, "go", { runId: "r" }), {
          before: (event) => event.type === "tool_start"
        })
      )
      expect(died._tag).toBe("RunStoreError")
      expect(ran).toEqual([])
      const { exit } = yield* resume(agent)
      expectTag(exit, "Completed")
      expect([...ran].sort()).toEqual(["read y", "write x"])
    }
  )

  const reconciled = (
    answer: Effect.Effect<ToolPolicy.Outcome, unknown>,
    seen: Array<ToolPolicy.Call> = []
  ) =>
    Effect.gen(function* () {
      const ran: Array<string> = []
      const Pay = writer("pay").annotate(ToolPolicy.Reconcile, (call) =>
        Effect.suspend(() => {
          seen.push(call)
          return answer
        })
      )
      const tools = Toolkit.make(Pay, writer("write"))
      const handlers = tools.toLayer({
        pay: ({ q }) => Effect.sync(() => `${ran.push(`pay ${q}`)}`),
        write: ({ q }) => Effect.sync(() => `${ran.push(`write ${q}`)}`)
      })
      const bot = once(call("pay", "c", "x"), call("write", "d", "y"))
      const agent = Agent.make("a", { toolkit: tools }).pipe(
        Agent.provide(handlers),
        Agent.provide(bot.layer)
      )
      yield* Effect.flip(crashing(Agent.run(agent, "go", { runId: "r" }), { before: stopAt }))
      const key = of(yield* journal("r"), "tool_start")[0]?.idempotencyKey
      const { events, exit } = yield* resume(agent)
      return { agent, bot, events, exit, key, ran, seen }
    })

  check("reconciled as happened: its result is the tool's, and nothing runs again", function* () {
    const end = yield* reconciled(Effect.succeed(ToolPolicy.happened("receipt 9")))
    expectTag(end.exit, "Completed")
    expect(end.ran).toEqual(["pay x", "write y"])
    expect(resultOf(end.exit, "c").content).toContain("receipt 9")
    expect(end.seen).toHaveLength(1)
    expect(end.seen[0]).toMatchObject({
      runId: "r",
      callId: "c",
      tool: "pay",
      args: { q: "x" },
      idempotencyKey: end.key
    })
    expect(of(end.events, "outcome_resolved")).toMatchObject([{ callId: "c", outcome: "happened" }])
    expectValidRequests(end.bot.requests)
  })

  check("reconciled as not happened: it may run now, or the model is told; at most once more", function* () {
    const end = yield* reconciled(Effect.succeed(ToolPolicy.didNotHappen))
    expectTag(end.exit, "Completed")
    expect(end.ran.filter((entry) => entry === "pay x").length).toBeLessThanOrEqual(2)
    expect(of(end.events, "outcome_resolved")).toMatchObject([{ callId: "c", outcome: "did_not_happen" }])
    expectValidRequests(end.bot.requests)
  })

  for (const [what, answer] of [
    ["cannot tell", Effect.succeed(ToolPolicy.unknown)],
    ["fails", Effect.fail("the ledger is down")],
    ["dies", Effect.die("the ledger is down")]
  ] as const) {
    check(`a reconcile that ${what} leaves the call to a person`, function* () {
      const end = yield* reconciled(answer)
      const { calls } = expectTag(end.exit, "OutcomeUnknown")
      expect(end.ran).toEqual(["pay x"])
      yield* Agent.resolve(calls[0], Agent.happened("receipt 10"))
      const last = yield* resume(end.agent)
      expectTag(last.exit, "Completed")
      expect(resultOf(last.exit, "c").content).toContain("receipt 10")
      expect(end.ran).toEqual(["pay x", "write y"])
    })
  }

  check("a reconcile that could not tell is asked again on the next resume", function* () {
    let known = false
    const seen: Array<ToolPolicy.Call> = []
    const answer = Effect.suspend(() =>
      Effect.succeed(known ? ToolPolicy.happened("receipt 11") : ToolPolicy.unknown)
    )
    const end = yield* reconciled(answer, seen)
    expectTag(end.exit, "OutcomeUnknown")
    known = true
    const last = yield* resume(end.agent)
    expectTag(last.exit, "Completed")
    expect(resultOf(last.exit, "c").content).toContain("receipt 11")
    expect(end.ran).toEqual(["pay x", "write y"])
  })

  check("a writer that timed out is reconciled in the same run", function* () {
    const Pay = writer("pay")
      .annotate(ToolPolicy.Timeout, "5 seconds")
      .annotate(ToolPolicy.Reconcile, () => Effect.succeed(ToolPolicy.happened("receipt 12")))
    const tools = Toolkit.make(Pay)
    const handlers = tools.toLayer({ pay: () => Effect.never })
    const bot = once(call("pay", "c"))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* withTime(run(agent))
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c").content).toContain("receipt 12")
    expect(said(exit)).not.toMatch(/failed/i)
  })

  check("the run's deadline during a writer leaves it unknown; during a read it does not", function* () {
    const tools = Toolkit.make(writer("write"), reader("read"))
    const handlers = tools.toLayer({
      write: () => Effect.never,
      read: () => Effect.never
    })
    const agentOf = (tool: string) =>
      Agent.make("a", {
        toolkit: tools,
        limits: { time: "10 seconds" }
      }).pipe(Agent.provide(handlers), Agent.provide(once(call(tool, "c")).layer))
    const { exit } = yield* withTime(run(agentOf("write")))
    expectTag(exit, "OutcomeUnknown")
    const read = yield* withTime(finish(Agent.run(agentOf("read"), "go", { runId: "read" })))
    expect(expectTag(read.exit, "BudgetExceeded").resource).toBe("time")
  })
})

describe("a Stop", () => {
  check("that comes while a run is being taken up is not taken for an old one", function* () {
    const { agent, ran } = asking(once(call("ask", "c")))
    yield* run(agent)
    yield* Agent.decide({ runId: "r", callId: "c" }, Agent.approve())
    const store = yield* RunStore.RunStore
    // A long journal takes its time to load.
    const loading: RunStore.RunStore["Service"] = {
      ...store,
      read: (runId, from) =>
        Effect.tap(store.read(runId, from), () => Effect.ignore(Agent.cancel(runId, "no, stop"))).pipe(
          Effect.provideService(RunStore.RunStore, store)
        )
    }
    const exit = yield* Effect.exit(
      Effect.provideService(Agent.resume(agent, "r"), RunStore.RunStore, loading)
    )
    expect(Exit.hasInterrupts(exit)).toBe(true)
    expect(ran).toEqual([])
    const { exit: end } = yield* resume(agent)
    expectTag(end, "Completed")
    expect(ran).toEqual(["ask x"])
  })

  check(
    "that comes while a run is stopping for a decision counts, also if the decision comes, too",
    function* () {
      const { agent, ran } = asking(once(call("ask", "c")))
      const store = yield* RunStore.RunStore
      let stops = 0
      // Between the stop and the moment in which the driver lets go of the run.
      const elsewhere: RunStore.RunStore["Service"] = {
        ...store,
        append: (append) =>
          Effect.gen(function* () {
            yield* store.append(append)
            if (!append.events.some(({ type }) => type === "run_stopped") || ++stops > 1) return
            const answered = Effect.andThen(
              Agent.decide({ runId: "r", callId: "c" }, Agent.approve()),
              Agent.cancel("r", "no, stop")
            )
            yield* Effect.orDie(Effect.provideService(answered, RunStore.RunStore, store))
          })
      }
      const exit = yield* Effect.exit(Effect.provideService(run(agent), RunStore.RunStore, elsewhere))
      expect(Exit.hasInterrupts(exit)).toBe(true)
      expect(ran).toEqual([])
      const { exit: end } = yield* resume(agent)
      expectTag(end, "Completed")
      expect(ran).toEqual(["ask x"])
    }
  )
})

describe("arguments that take their time to be read", () => {
  /** A store that expects every event to be stored in the moment in which it is written. */
  const prompt = Effect.map(RunStore.RunStore, (store): RunStore.RunStore["Service"] => ({
    ...store,
    append: (append) =>
      Effect.andThen(
        Effect.map(Clock.currentTimeMillis, (now) => {
          const times = append.events.map(({ at, type }) => [type, Date.parse(at)])
          expect(times).toEqual(append.events.map(({ type }) => [type, now]))
        }),
        store.append(append)
      )
  }))

  const slowly = Schema.String.pipe(
    Schema.decodeTo(Schema.String, {
      decode: SchemaGetter.transformEffect((text: string) => Effect.as(Effect.sleep("3 seconds"), text)),
      encode: SchemaGetter.passthrough()
    })
  )

  const slow = Effect.gen(function* () {
    const tools = Toolkit.make(
      Tool.make("ask", {
        parameters: Schema.Struct({ q: slowly }),
        success: Schema.String,
        needsApproval: true
      })
    )
    const agent = Agent.make("a", { toolkit: tools }).pipe(
      Agent.provide(tools.toLayer({ ask: ({ q }) => Effect.succeed(q) })),
      Agent.provide(once(call("ask", "c1"), call("ask", "c2")).layer)
    )
    return { agent, store: yield* prompt }
  })

  const decideBoth = Effect.gen(function* () {
    yield* Agent.decide({ runId: "r", callId: "c1" }, Agent.approve())
    yield* Agent.decide({ runId: "r", callId: "c2" }, Agent.approve({ args: { q: "y" } }))
  })

  check("hold nothing up that is not stored yet: decided while nobody drives the run", function* () {
    const { agent, store } = yield* slow
    const here = Effect.provideService(RunStore.RunStore, store)
    expectTag((yield* withTime(here(run(agent)))).exit, "ApprovalRequired")
    yield* decideBoth
    const { exit } = yield* withTime(here(resume(agent)))
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c2").content).toContain("y")
  })

  check("hold nothing up that is not stored yet: decided while the run is about to stop", function* () {
    const { agent, store } = yield* slow
    let asked = false
    const meanwhile: RunStore.RunStore["Service"] = {
      ...store,
      inbox: (runId, from) =>
        Effect.gen(function* () {
          const required = of(yield* store.read(runId), "approval_required")
          if (required.length === 2 && !asked) {
            asked = true
            yield* Effect.ignore(Effect.provideService(decideBoth, RunStore.RunStore, store))
          }
          return yield* store.inbox(runId, from)
        }).pipe(Effect.catchTag("RunNotFound", Effect.die))
    }
    const { exit } = yield* withTime(Effect.provideService(run(agent), RunStore.RunStore, meanwhile))
    expectTag(exit, "Completed")
    expect(asked).toBe(true)
  })
})

describe("arguments that an approver has changed are told to the model with whatever became of the call", () => {
  /** Approved with other arguments, and cut off. */
  const cutOff = Effect.fnUntraced(function* (
    tool: ReturnType<typeof guarded<"pay">>,
    decision: ReturnType<typeof Agent.approve>
  ) {
    const tools = Toolkit.make(tool)
    const begun = yield* Deferred.make<void>()
    const agent = Agent.make("a", { toolkit: tools }).pipe(
      Agent.provide(
        tools.toLayer({ pay: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never) })
      ),
      Agent.provide(once(call("pay", "c", "5 cents")).layer)
    )
    yield* run(agent)
    yield* Agent.decide({ runId: "r", callId: "c" }, decision)
    const fiber = yield* Effect.forkChild(Agent.resume(agent, "r"), { startImmediately: true })
    yield* Deferred.await(begun)
    yield* Fiber.interrupt(fiber)
    return agent
  })
  const edit = Agent.approve({ args: { q: "7 cents" } })
  const told = (ran: boolean) =>
    ran
      ? 'Ran with arguments changed by the approver: {"q":"7 cents"}\n'
      : 'The approver had changed its arguments: {"q":"7 cents"}\n'

  for (const [name, verdict, ran, words] of [
    ["happened", Agent.happened("receipt 9"), true, "receipt 9"],
    ["did not happen", Agent.didNotHappen, false, "This call did not take effect"]
  ] as const) {
    check(`a person says that it ${name}`, function* () {
      const agent = yield* cutOff(guarded("pay"), edit)
      yield* Agent.resolve({ runId: "r", callId: "c" }, verdict)
      const { exit } = yield* resume(agent)
      const { content } = resultOf(expectTag(exit, "Completed"), "c")
      expect(content).toContain(`${told(ran)}${words}`)
    })
  }

  for (const [name, found, ran, words] of [
    ["happened", ToolPolicy.happened("receipt 9"), true, "receipt 9"],
    ["did not happen", ToolPolicy.didNotHappen, false, "This call did not take effect"]
  ] as const) {
    check(`its tool finds out that it ${name}`, function* () {
      const pay = guarded("pay").annotate(ToolPolicy.Reconcile, () => Effect.succeed(found))
      const { exit } = yield* resume(yield* cutOff(pay, edit))
      const { content } = resultOf(expectTag(exit, "Completed"), "c")
      expect(content).toContain(`${told(ran)}${words}`)
    })
  }

  check("it is answered with what it has brought before", function* () {
    const tools = Toolkit.make(guarded("ask").annotate(Tool.Readonly, true))
    const bot = model([
      Scripted.turn(call("ask", "c1", "x")),
      Scripted.turn(call("ask", "c2", "y")),
      Scripted.text("done")
    ])
    const agent = Agent.make("a", { toolkit: tools, policy: { dedupe: "all" } }).pipe(
      Agent.provide(tools.toLayer({ ask: ({ q }) => Effect.succeed(`answer to ${q}`) })),
      Agent.provide(bot.layer)
    )
    yield* run(agent)
    yield* Agent.decide({ runId: "r", callId: "c1" }, Agent.approve())
    yield* resume(agent)
    yield* Agent.decide({ runId: "r", callId: "c2" }, Agent.approve({ args: { q: "x" } }))
    const { events, exit } = yield* resume(agent)
    expect(of(events, "tool_result", "c2")).toMatchObject([{ disposition: "cached" }])
    const { content } = resultOf(expectTag(exit, "Completed"), "c2")
    expect(content).toContain('The approver had changed its arguments: {"q":"x"}\n')
    expect(content).toContain("answer to x")
  })

  check("it is not run again, because a person declines it the second time", function* () {
    const pay = guarded("pay").annotate(Tool.Idempotent, true)
    const agent = yield* cutOff(pay, Agent.approve({ args: { q: "7 cents" }, expires: "1 second" }))
    yield* TestClock.adjust("2 seconds")
    yield* resume(agent)
    yield* Agent.decide({ runId: "r", callId: "c" }, Agent.reject())
    const { exit } = yield* resume(agent)
    const { content } = resultOf(expectTag(exit, "Completed"), "c")
    expect(content).toContain(`${told(false)}Declined`)
  })
})
