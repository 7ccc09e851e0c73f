import { describe, expect, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { Agent, type RunState, ToolFailure, ToolPolicy } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import type * as Limits from "../../src/run/Limits.ts"
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
  undeclared,
  withTime,
  writer
} from "./support.ts"

type Handler = (params: { readonly q: string }) => Effect.Effect<string, ToolFailure.ToolFailure>

type StopWhen = (state: RunState.RunState) => string | undefined

interface Options {
  readonly read?: Handler
  readonly write?: Handler
  readonly put?: Handler
  readonly policy?: Agent.PolicyInput
  readonly limits?: Limits.LimitsInput
  readonly stopWhen?: StopWhen | ReadonlyArray<StopWhen>
}

/** An agent with a tool that reads, one that writes and one that may be repeated; `ran` is what was executed. */
const agentOf = (bot: Model, { limits, policy, put, read, stopWhen, write }: Options = {}) => {
  const ran: Array<string> = []
  const tools = Toolkit.make(
    reader("read"),
    writer("write"),
    writer("put").annotate(Tool.Idempotent, true),
    guarded("ask")
  )
  const handler =
    (name: string, own?: Handler): Handler =>
    (params) =>
      Effect.suspend(() => {
        ran.push(`${name} ${params.q}`)
        return own === undefined ? Effect.succeed(`${name} ${params.q} #${ran.length}`) : own(params)
      })
  const handlers = tools.toLayer({
    read: handler("read", read),
    write: handler("write", write),
    put: handler("put", put),
    ask: handler("ask")
  })
  const agent = Agent.make("a", {
    toolkit: tools,
    limits,
    policy,
    stopWhen
  }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
  return { agent, ran }
}

const run = <A>(agent: Agent.Agent<A>) => finish(Agent.run(agent, "go", { runId: "r" }))
const resume = <A>(agent: Agent.Agent<A>, options = {}) => finish(Agent.resume(agent, "r", options))

/** A model that makes one call after the other, and then answers. */
const steps = (...calls: ReadonlyArray<Scripted.Answer>) => model([...calls, Scripted.text("done")])

const broken = () => Effect.fail(ToolFailure.recoverable("no such file: x", { detail: "hunter2" }))

describe("how a failure is worded", () => {
  check("informative: the tool's own words, without the detail", function* () {
    const { agent } = agentOf(once(call("read", "c")), { read: broken })
    const { events, exit } = yield* run(agent)
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c").content).toContain("no such file: x")
    expect(said(exit)).not.toContain("hunter2")
    expect(of(events, "tool_result")[0]?.detail).toContain("hunter2")
  })

  check("generic: that it failed, and no more; the journal keeps what it was", function* () {
    const { agent } = agentOf(once(call("read", "c")), {
      read: broken,
      policy: { toolErrors: "generic" }
    })
    const { events, exit } = yield* run(agent)
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c").ok).toBe(false)
    expect(resultOf(exit, "c").content).not.toBe("")
    expect(said(exit)).not.toContain("no such file")
    expect(said(exit)).not.toContain("hunter2")
    expect(of(events, "tool_result")[0]?.detail).toContain("hunter2")
  })

  check("generic or by a function: a failure without detail is not lost for the journal", function* () {
    for (const [id, toolErrors] of [
      ["generic", "generic"],
      ["own", () => "it did not work"]
    ] as const) {
      const { agent } = agentOf(once(call("read", "c")), {
        read: () => Effect.fail(ToolFailure.recoverable("no such file: x")),
        policy: { toolErrors }
      })
      const { events, exit } = yield* finish(Agent.run(agent, "go", { runId: id }))
      expect(said(exit)).not.toContain("no such file")
      expect(of(events, "tool_result")[0]?.detail, id).toContain("no such file")
    }
  })

  check("by a function, which gets the failure and the tool's name", function* () {
    const { agent } = agentOf(once(call("read", "c")), {
      read: broken,
      policy: {
        toolErrors: (failure, tool) => `${tool} ${failure.kind}: ${failure.message.toUpperCase()}`
      }
    })
    const { exit } = yield* run(agent)
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c").content).toContain("read recoverable: NO SUCH FILE: X")
  })

  check("by a function that throws: the run does not crash, and no call is lost", function* () {
    const { agent } = agentOf(once(call("read", "c"), call("write", "d")), {
      read: broken,
      policy: {
        toolErrors: () => {
          throw new Error("hunter2")
        }
      }
    })
    const { exit } = yield* run(agent)
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c").ok).toBe(false)
    expect(resultOf(exit, "d").ok).toBe(true)
    expect(said(exit)).not.toContain("hunter2")
  })

  check("fatal: the run fails at the first failure; what ran beside it is kept", function* () {
    const bot = once(call("read", "c", "bad"), call("read", "d", "good"), call("write", "e"))
    const { agent, ran } = agentOf(bot, {
      read: ({ q }) => (q === "bad" ? broken() : Effect.succeed("fine")),
      policy: { toolErrors: "fatal" }
    })
    const { events, exit } = yield* run(agent)
    const failed = expectTag(exit, "RunFailed")
    expect(failed).toMatchObject({
      status: "failed",
      resumable: false,
      reason: "tool_fatal"
    })
    expect(failed.run).toMatchObject({
      status: "failed",
      reason: "tool_fatal"
    })
    expect(bot.requests).toHaveLength(1)
    for (const { callId } of of(events, "tool_start")) {
      expect(of(events, "tool_result", callId), callId).toHaveLength(1)
    }
    expect(ran).toContain("read good")
    // Resumed only by force.
    expectTag((yield* resume(agent)).exit, "RunFailed")
    expect(bot.requests).toHaveLength(1)
    const { exit: forced } = yield* resume(agent, { force: true })
    expectTag(forced, "Completed")
    expectValidRequests(bot.requests)
    expect(ran.filter((entry) => entry === "read bad")).toHaveLength(1)
  })

  check("an undeclared failure under each policy says nothing of itself", function* () {
    for (const toolErrors of ["informative", "generic"] as const) {
      const { agent } = agentOf(once(call("read", "c")), {
        read: () => undeclared(new Error("hunter2")),
        policy: { toolErrors }
      })
      const { exit } = yield* finish(Agent.run(agent, "go", { runId: toolErrors }))
      expectTag(exit, "Completed")
      expect(said(exit)).not.toContain("hunter2")
    }
  })
})

describe("a permanent failure", () => {
  const denied = () => Effect.fail(ToolFailure.permanent("access denied", { detail: "role=guest" }))

  check("stops the run as failed by default", function* () {
    const bot = once(call("write", "c"))
    const { agent, ran } = agentOf(bot, { write: denied })
    const { events, exit } = yield* run(agent)
    const failed = expectTag(exit, "RunFailed")
    expect(failed).toMatchObject({
      status: "failed",
      resumable: false,
      reason: "tool_permanent"
    })
    expect(failed.detail).toContain("access denied")
    expect(of(events, "run_stopped")).toMatchObject([{ status: "failed", reason: "tool_permanent" }])
    expect(bot.requests).toHaveLength(1)
    expect(of(events, "tool_result", "c")).toHaveLength(1)
    expectTag((yield* resume(agent)).exit, "RunFailed")
    expect(ran).toEqual(["write x"])
  })

  check("is told to the model if the policy says continue", function* () {
    const bot = once(call("write", "c"), call("write", "d"))
    const { agent } = agentOf(bot, {
      write: denied,
      policy: { permanent: "continue" }
    })
    const { exit } = yield* run(agent)
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c")).toMatchObject({ ok: false })
    expect(resultOf(exit, "c").content).toContain("access denied")
    expect(said(exit)).not.toContain("role=guest")
    expectValidRequests(bot.requests)
  })

  check("of one read does not lose what its siblings found", function* () {
    const bot = once(call("read", "c", "denied"), call("read", "d", "fine"))
    const { agent } = agentOf(bot, {
      read: ({ q }) => (q === "denied" ? denied() : Effect.succeed("found"))
    })
    const { exit } = yield* run(agent)
    expectTag(exit, "RunFailed")
    expect(resultOf(exit, "d").content).toBe("found")
  })
})

describe("a failure that ends the run", () => {
  const endings: ReadonlyArray<
    readonly [reason: string, failure: ToolFailure.ToolFailure, Agent.PolicyInput]
  > = [
    ["tool_permanent", ToolFailure.permanent("access denied"), {}],
    ["tool_fatal", ToolFailure.recoverable("no such file"), { toolErrors: "fatal" }]
  ]

  for (const [reason, failure, policy] of endings) {
    const failing = (sibling: Effect.Effect<string, ToolFailure.ToolFailure>) => {
      const bot = once(call("read", "c", "sibling"), call("read", "d", "fails"), call("write", "w"))
      const read: Handler = ({ q }) => (q === "fails" ? Effect.fail(failure) : sibling)
      return agentOf(bot, { read, policy })
    }

    check(`${reason}: interrupts the reads beside it, and says so`, function* () {
      let interrupted = false
      const forever = Effect.onInterrupt(Effect.never, () => Effect.sync(() => (interrupted = true)))
      const { agent, ran } = failing(forever)
      const { events, exit } = yield* run(agent)
      expect(expectTag(exit, "RunFailed").reason).toBe(reason)
      expect(interrupted).toBe(true)
      expect(of(events, "tool_result").map(({ callId, disposition }) => [callId, disposition])).toEqual([
        ["d", "executed"],
        ["c", "cancelled"]
      ])
      expect(exit.run.pending.map(({ callId, status }) => [callId, status])).toEqual([
        ["c", "waiting"],
        ["w", "waiting"]
      ])
      expect(ran).toEqual(["read sibling", "read fails"])
    })

    check(`${reason}: goes on with what was interrupted where it is taken up with force`, function* () {
      let times = 0
      const second = Effect.suspend(() => (++times === 1 ? Effect.never : Effect.succeed("found")))
      const { agent } = failing(second)
      yield* run(agent)
      const { exit } = yield* resume(agent, { force: true })
      expectTag(exit, "Completed")
      expect(resultOf(exit, "c").content).toBe("found")
      expect(resultOf(exit, "d").content).toContain(failure.message)
    })

    check(`${reason}: waits no longer than the grace for a read that ignores its interruption`, function* () {
      const stubborn = Effect.as(Effect.uninterruptible(Effect.sleep("1 hour")), "late")
      const { agent } = failing(stubborn)
      const { events, exit } = yield* withTime(run(agent))
      expectTag(exit, "RunFailed")
      expect(exit.run.elapsedMs).toBe(5000)
      expect(of(events, "tool_result", "c")[0]?.detail).toContain("may still be running")
    })

    check(`${reason}: is one ending where two fail at the same time`, function* () {
      const { agent } = failing(Effect.fail(failure))
      const { events, exit } = yield* run(agent)
      expect(expectTag(exit, "RunFailed").reason).toBe(reason)
      expect(of(events, "run_stopped")).toHaveLength(1)
      expect(resultOf(exit, "c").content).toContain(failure.message)
      expect(resultOf(exit, "d").content).toContain(failure.message)
    })

    check(`${reason}: gives way to a Stop that comes while the reads beside it end`, function* () {
      const stubborn = Effect.as(Effect.uninterruptible(Effect.sleep("1 hour")), "late")
      const { agent } = failing(stubborn)
      const fiber = yield* Effect.forkChild(Agent.run(agent, "go", { runId: "r" }), {
        startImmediately: true
      })
      yield* settle
      yield* Effect.forkChild(Fiber.interrupt(fiber), { startImmediately: true })
      yield* withTime(Fiber.await(fiber))
      const events = yield* journal("r")
      expect(of(events, "run_stopped")).toMatchObject([{ reason: "cancelled" }])
      expect(of(events, "tool_result").map(({ callId, disposition }) => [callId, disposition])).toEqual([
        ["c", "cancelled"],
        ["d", "executed"]
      ])
    })
  }
})

describe("a transient failure", () => {
  const busy =
    (times: number, options: { readonly notExecuted?: boolean } = {}): Handler =>
    () =>
      Effect.suspend(() =>
        times-- > 0 ? Effect.fail(ToolFailure.transient("busy", options)) : Effect.succeed("there it is")
      )

  check("of a read is tried again with back-off on the clock, each attempt with its own start", function* () {
    const bot = once(call("read", "c"))
    const { agent, ran } = agentOf(bot, { read: busy(2) })
    const { events, exit } = yield* withTime(run(agent), "100 millis")
    expectTag(exit, "Completed")
    expect(ran).toHaveLength(3)
    expect(resultOf(exit, "c")).toMatchObject({
      ok: true,
      content: "there it is"
    })
    const starts = of(events, "tool_start")
    expect(starts.map(({ attempt }) => attempt)).toEqual([1, 2, 3])
    expect(new Set(starts.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1)
    const [first, second, third] = starts.map(({ at }) => Date.parse(at))
    expect((second ?? 0) - (first ?? 0)).toBeGreaterThan(0)
    expect((third ?? 0) - (second ?? 0)).toBeGreaterThan(0)
    expect(exit.run.toolCalls).toBe(3)
    expect(said(exit)).not.toContain("busy")
  })

  check("does not pass without time: nothing is tried again before the clock moves", function* () {
    const { agent, ran } = agentOf(once(call("read", "c")), {
      read: busy(1)
    })
    const fiber = yield* Effect.forkChild(run(agent))
    for (let i = 0; i < 200; i++) yield* Effect.yieldNow
    expect(ran).toHaveLength(1)
    expect(fiber.pollUnsafe()).toBeUndefined()
    const { exit } = yield* withTime(Fiber.join(fiber))
    expectTag(exit, "Completed")
  })

  check("that does not pass ends in words after a few attempts", function* () {
    const { agent, ran } = agentOf(once(call("read", "c")), {
      read: busy(1000)
    })
    const { exit } = yield* withTime(run(agent))
    expectTag(exit, "Completed")
    expect(ran.length).toBeGreaterThan(1)
    expect(ran.length).toBeLessThanOrEqual(10)
    expect(resultOf(exit, "c").ok).toBe(false)
    expect(resultOf(exit, "c").content).toContain("busy")
  })

  check("of a tool that may be repeated is tried again", function* () {
    const { agent, ran } = agentOf(once(call("put", "c")), { put: busy(1) })
    const { exit } = yield* withTime(run(agent))
    expect(resultOf(exit, "c").content).toBe("there it is")
    expect(ran).toHaveLength(2)
  })

  check("of a writer is not tried again: its words go back to the model", function* () {
    const { agent, ran } = agentOf(once(call("write", "c")), {
      write: busy(1)
    })
    const { events, exit } = yield* withTime(run(agent))
    expectTag(exit, "Completed")
    expect(ran).toHaveLength(1)
    expect(of(events, "tool_start")).toHaveLength(1)
    expect(resultOf(exit, "c").ok).toBe(false)
    expect(resultOf(exit, "c").content).toContain("busy")
  })

  check("of a writer that vouches that nothing was executed is tried again", function* () {
    const { agent, ran } = agentOf(once(call("write", "c")), {
      write: busy(2, { notExecuted: true })
    })
    const { events, exit } = yield* withTime(run(agent))
    expect(resultOf(exit, "c").content).toBe("there it is")
    expect(ran).toHaveLength(3)
    expect(of(events, "tool_start").map(({ attempt }) => attempt)).toEqual([1, 2, 3])
  })

  check("of a writer: only the attempt that vouches is followed by another", function* () {
    let attempt = 0
    const { agent, ran } = agentOf(once(call("write", "c")), {
      write: () =>
        Effect.suspend(() => Effect.fail(ToolFailure.transient("busy", { notExecuted: ++attempt === 1 })))
    })
    const { exit } = yield* withTime(run(agent))
    expectTag(exit, "Completed")
    expect(ran).toHaveLength(2)
  })

  check("counts against the number of tool calls, attempt by attempt", function* () {
    const { agent, ran } = agentOf(once(call("read", "c")), {
      read: busy(1000),
      limits: { toolCalls: 2 }
    })
    const { exit } = yield* withTime(run(agent))
    expectTag(exit, "Completed")
    expect(ran).toHaveLength(2)
    expect(exit.run.toolCalls).toBe(2)
    expect(resultOf(exit, "c").ok).toBe(false)
  })

  check("is not waited for beyond the run's time: the attempts end in words", function* () {
    const { agent, ran } = agentOf(once(call("read", "c")), {
      read: busy(1000),
      limits: { time: "300 millis" }
    })
    const { exit } = yield* withTime(run(agent), "20 millis")
    expectTag(exit, "Completed")
    expect(ran.length).toBeLessThanOrEqual(2)
    expect(exit.run.elapsedMs).toBeLessThanOrEqual(300)
    expect(resultOf(exit, "c").ok).toBe(false)
  })

  check("a Stop while a writer waits for its next attempt does not make it unknown", function* () {
    const { agent, ran } = agentOf(once(call("write", "c")), {
      write: busy(1, { notExecuted: true })
    })
    const fiber = yield* Effect.forkChild(run(agent))
    for (let i = 0; i < 200; i++) yield* Effect.yieldNow
    expect(ran).toHaveLength(1)
    yield* Fiber.interrupt(fiber)
    const { exit } = yield* withTime(resume(agent))
    expectTag(exit, "Completed")
    expect(ran).toHaveLength(2)
    expect(resultOf(exit, "c").content).toBe("there it is")
  })

  check("a writer's attempts never overlap the next writer's", function* () {
    const { agent, ran } = agentOf(once(call("write", "c", "1"), call("write", "d", "2")), {
      write: ({ q }) => first(q)
    })
    const first = (
      (fail) => (q: string) =>
        q === "1" && fail-- > 0
          ? Effect.fail(ToolFailure.transient("busy", { notExecuted: true }))
          : Effect.succeed("ok")
    )(1)
    const { exit } = yield* withTime(run(agent))
    expectTag(exit, "Completed")
    expect(ran).toEqual(["write 1", "write 1", "write 2"])
  })
})

describe("dedupe", () => {
  const twice = () => steps(call("read", "c1", "x"), call("read", "c2", "x"))

  check("is off by default", function* () {
    const { agent, ran } = agentOf(twice())
    expectTag((yield* run(agent)).exit, "Completed")
    expect(ran).toEqual(["read x", "read x"])
  })

  check(
    "read-only: an identical read is the first one's result, verbatim; the event says cached",
    function* () {
      const bot = steps(call("read", "c1", "x"), call("read", "c2", "x"), call("read", "c3", "y"))
      const { agent, ran } = agentOf(bot, { policy: { dedupe: "read-only" } })
      const { events, exit } = yield* run(agent)
      expectTag(exit, "Completed")
      expect(ran).toEqual(["read x", "read y"])
      expect(resultOf(exit, "c2").content).toBe(resultOf(exit, "c1").content)
      expect(resultOf(exit, "c2").ok).toBe(true)
      expect(of(events, "tool_result").map(({ disposition }) => disposition)).toEqual([
        "executed",
        "cached",
        "executed"
      ])
      expectValidRequests(bot.requests)
    }
  )

  check("read-only: a failure is never reused", function* () {
    let fail = true
    const { agent, ran } = agentOf(twice(), {
      policy: { dedupe: "read-only" },
      read: () =>
        Effect.suspend(() => {
          if (!fail) return Effect.succeed("found")
          fail = false
          return Effect.fail(ToolFailure.recoverable("not yet"))
        })
    })
    const { exit } = yield* run(agent)
    expect(ran).toHaveLength(2)
    expect(resultOf(exit, "c2").content).toBe("found")
  })

  for (const tool of ["write", "put"] as const) {
    check(`read-only: a call of ${tool} in between makes it read again, even if that fails`, function* () {
      const bot = steps(call("read", "c1", "x"), call(tool, "c2", "x"), call("read", "c3", "x"))
      const { agent, ran } = agentOf(bot, {
        policy: { dedupe: "read-only" },
        [tool]: broken
      })
      const { events, exit } = yield* run(agent)
      expectTag(exit, "Completed")
      expect(ran).toEqual(["read x", `${tool} x`, "read x"])
      expect(of(events, "tool_result", "c3")[0]?.disposition).toBe("executed")
    })
  }

  check("read-only: a writer of the same turn makes the next read read again", function* () {
    const bot = steps(
      Scripted.turn(call("read", "c1", "x"), call("write", "c2", "x")),
      call("read", "c3", "x")
    )
    const { agent, ran } = agentOf(bot, { policy: { dedupe: "read-only" } })
    expectTag((yield* run(agent)).exit, "Completed")
    expect(ran.filter((entry) => entry === "read x")).toHaveLength(2)
  })

  check("read-only: identical writes are both made", function* () {
    const bot = steps(
      call("write", "c1", "x"),
      call("write", "c2", "x"),
      call("put", "c3"),
      call("put", "c4")
    )
    const { agent, ran } = agentOf(bot, { policy: { dedupe: "read-only" } })
    expectTag((yield* run(agent)).exit, "Completed")
    expect(ran).toEqual(["write x", "write x", "put x", "put x"])
  })

  check("read-only: a resume makes it read again", function* () {
    const bot = steps(call("read", "c1", "x"), call("read", "c2", "x"))
    const { agent, ran } = agentOf(bot, {
      policy: { dedupe: "read-only" },
      limits: { turns: 1 }
    })
    expectTag((yield* run(agent)).exit, "MaxTurnsExceeded")
    expect(ran).toEqual([])
    const again = yield* resume(agent, { limits: { turns: 2 } })
    expectTag(again.exit, "MaxTurnsExceeded")
    expect(ran).toEqual(["read x"])
    const { exit } = yield* resume(agent, { limits: { turns: 5 } })
    expectTag(exit, "Completed")
    expect(ran).toEqual(["read x", "read x"])
  })

  check("read-only: a child run in between makes it read again", function* () {
    const helper = Agent.make("helper").pipe(Agent.provide(model([Scripted.text("helped")]).layer))
    const help = Agent.asTool(helper, { name: "help", description: "Helps." })
    let reads = 0
    const tools = Toolkit.make(reader("read"), help.tool)
    const bot = steps(
      call("read", "c1"),
      Scripted.call("help", { task: "t" }, { id: "c2" }),
      call("read", "c3")
    )
    const agent = Agent.make("a", {
      toolkit: tools,
      policy: { dedupe: "read-only" }
    }).pipe(
      Agent.provide(
        Toolkit.make(reader("read")).toLayer({
          read: () => Effect.sync(() => `${++reads}`)
        })
      ),
      Agent.provide(help.layer),
      Agent.provide(bot.layer)
    )
    const { exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expect(reads).toBe(2)
  })

  check("read-only: a child run counts as a writer even if its tool is said to be Readonly", function* () {
    let reads = 0
    const inner = Toolkit.make(writer("write"))
    const helper = Agent.make("helper", { toolkit: inner }).pipe(
      Agent.provide(inner.toLayer({ write: () => Effect.succeed("written") })),
      Agent.provide(model([call("write", "w"), Scripted.text("helped")]).layer)
    )
    const help = Agent.asTool(helper, {
      name: "help",
      description: "Helps."
    })
    const tools = Toolkit.make(reader("read"), help.tool.annotate(Tool.Readonly, true))
    const bot = steps(
      call("read", "c1"),
      Scripted.call("help", { task: "t" }, { id: "c2" }),
      call("read", "c3")
    )
    const agent = Agent.make("a", {
      toolkit: tools,
      policy: { dedupe: "read-only" }
    }).pipe(
      Agent.provide(
        Toolkit.make(reader("read")).toLayer({
          read: () => Effect.sync(() => `${++reads}`)
        })
      ),
      Agent.provide(help.layer),
      Agent.provide(bot.layer)
    )
    const { exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expect(reads).toBe(2)
  })

  check(
    "all: every identical call is the first one's result, writes too, and nothing invalidates",
    function* () {
      const bot = steps(
        call("read", "c1", "x"),
        call("write", "c2", "x"),
        call("read", "c3", "x"),
        call("write", "c4", "x"),
        call("write", "c5", "y")
      )
      const { agent, ran } = agentOf(bot, { policy: { dedupe: "all" } })
      const { events, exit } = yield* run(agent)
      expectTag(exit, "Completed")
      expect(ran).toEqual(["read x", "write x", "write y"])
      expect(resultOf(exit, "c3").content).toBe(resultOf(exit, "c1").content)
      expect(resultOf(exit, "c4").content).toBe(resultOf(exit, "c2").content)
      expect(of(events, "tool_result", "c4")[0]?.disposition).toBe("cached")
    }
  )

  check("all: what another run has done is not this one's, also where it goes on from there", function* () {
    const bot = model(
      Array.from({ length: 2 }, () => [
        Scripted.turn(call("write", "c1", "x"), call("ask", "c2", "x")),
        call("write", "c3", "x"),
        Scripted.text("done")
      ]).flat()
    )
    const { agent, ran } = agentOf(bot, { policy: { dedupe: "all" } })
    const done = ["write x", "ask x"]
    for (const [runId, after] of [
      ["r1", {}],
      ["r2", { after: "r1" }]
    ] as const) {
      ran.length = 0
      const { exit } = yield* finish(Agent.run(agent, "go", { runId, ...after }))
      yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
      expectTag((yield* finish(Agent.resume(agent, runId))).exit, "Completed")
      expect(ran, runId).toEqual(done)
      const disposition = of(yield* journal(runId), "tool_result").map((event) => event.disposition)
      expect(disposition, runId).toEqual(["executed", "executed", "cached"])
    }
  })

  check("a read that has to be approved is not answered from what was read before", function* () {
    // `ask` is a writer here; what matters is that `all` does not step around the person.
    const bot = steps(call("ask", "c1", "x"), call("ask", "c2", "x"))
    const { agent, ran } = agentOf(bot, { policy: { dedupe: "read-only" } })
    const { exit } = yield* run(agent)
    yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
    expectTag((yield* resume(agent)).exit, "ApprovalRequired")
    expect(ran).toEqual(["ask x"])
  })
})

describe("stopWhen", () => {
  check("stops before the model call that follows, with its sentence", function* () {
    const seen: Array<number> = []
    const bot = steps(call("read", "c1", "1"), call("read", "c2", "2"), call("read", "c3", "3"))
    const { agent, ran } = agentOf(bot, {
      stopWhen: (state) => {
        seen.push(state.toolCalls)
        return state.toolCalls >= 2 ? "two reads are enough" : undefined
      }
    })
    const { exit } = yield* run(agent)
    const stopped = expectTag(exit, "StopConditionMet")
    expect(stopped.condition).toContain("two reads are enough")
    expect(stopped.run).toMatchObject({
      status: "interrupted",
      reason: "stop_condition"
    })
    expect(ran).toEqual(["read 1", "read 2"])
    expect(bot.requests).toHaveLength(2)
    expect(Math.max(...seen)).toBe(2)
    // The condition still holds: the run stops again, and no model is called.
    expectTag((yield* resume(agent)).exit, "StopConditionMet")
    expect(bot.requests).toHaveLength(2)
  })

  check(
    "stops before the tools of a turn, too, which are pending then and run when it is resumed",
    function* () {
      const stops = (at: number) =>
        agentOf(steps(call("write", "c1")), {
          stopWhen: ({ turns }) => (turns >= at ? "that turn was odd" : undefined)
        })
      const { agent, ran } = stops(1)
      const { exit } = yield* run(agent)
      expect(expectTag(exit, "StopConditionMet").run.pending).toMatchObject([
        { callId: "c1", status: "waiting", attempts: 0 }
      ])
      expect([exit.run.toolCalls, ran]).toEqual([0, []])
      const again = stops(9)
      expectTag((yield* resume(again.agent)).exit, "Completed")
      expect(again.ran).toEqual(["write x"])
    }
  )

  check("is a list, of which the first that yields counts; an answer is not stopped", function* () {
    const first = (state: RunState.RunState) => (state.turns >= 1 ? "the first" : undefined)
    const second = () => "the second"
    const { agent } = agentOf(steps(call("read", "c1")), {
      stopWhen: [first, second]
    })
    expect(expectTag((yield* run(agent)).exit, "StopConditionMet").condition).toContain("the second")
    const answering = agentOf(model([Scripted.text("done")]), {
      stopWhen: [first]
    })
    expectTag((yield* finish(Agent.run(answering.agent, "go", { runId: "s" }))).exit, "Completed")
  })

  check("that throws ends the run with a reason, not with a crash", function* () {
    const { agent } = agentOf(steps(call("read", "c1")), {
      stopWhen: () => {
        throw new Error("boom")
      }
    })
    const { events, exit } = yield* run(agent)
    expect(exit.run.status).not.toBe("running")
    expect(events.at(-1)?.type).toBe("run_stopped")
  })
})

describe("repetition", () => {
  const spoken = (messages: ReadonlyArray<unknown> | undefined): boolean =>
    /same (call|result|arguments)|identical|repeat|again and again|(third|3rd) time|3 times/i.test(
      JSON.stringify(messages)
    )
  const again = (max = 30) =>
    model((turn) => (turn < max ? call("read", `c${turn}`, "x") : Scripted.text("done")))
  const same: Handler = () => Effect.succeed("nothing new")

  check(
    "the same call with the same result is named after the third, and stopped after the fifth",
    function* () {
      const bot = again()
      const { agent, ran } = agentOf(bot, { read: same })
      const { exit } = yield* run(agent)
      expect(expectTag(exit, "RunStalled")).toMatchObject({
        tool: "read",
        count: 5,
        resumable: true
      })
      expect(exit.run).toMatchObject({
        status: "interrupted",
        reason: "stalled"
      })
      expect(ran).toHaveLength(5)
      expect(bot.requests).toHaveLength(5)
      expect(bot.requests.map(spoken)).toEqual([false, false, false, true, true])
      expectValidRequests(bot.requests)
      expect(resultOf(exit, "c0").content).toBe("nothing new")
    }
  )

  check("can be resumed with a word to the model; the same call stops it again, not at once", function* () {
    const bot = model((turn, { messages }) =>
      JSON.stringify(messages).includes("look elsewhere")
        ? Scripted.text("done")
        : call("read", `c${turn}`, "x")
    )
    const { agent } = agentOf(bot, { read: same })
    expectTag((yield* run(agent)).exit, "RunStalled")
    const { exit } = yield* resume(agent, { message: "look elsewhere" })
    expectTag(exit, "Completed")
    expectValidRequests(bot.requests)
  })

  check("a failing call that is repeated counts too", function* () {
    const { agent } = agentOf(again(), { read: broken })
    expectTag((yield* run(agent)).exit, "RunStalled")
  })

  check("another result is new evidence: nothing is named", function* () {
    let n = 0
    const bot = again(8)
    const { agent } = agentOf(bot, {
      read: () => Effect.sync(() => `line ${++n}`)
    })
    expectTag((yield* run(agent)).exit, "Completed")
    expect(bot.requests.some(spoken)).toBe(false)
  })

  check("new evidence from another call in between begins the count anew", function* () {
    const bot = model((turn) => {
      if (turn >= 12) return Scripted.text("done")
      return turn % 3 === 2 ? call("read", `c${turn}`, `new ${turn}`) : call("read", `c${turn}`, "x")
    })
    const { agent } = agentOf(bot, {
      read: ({ q }) => Effect.succeed(q === "x" ? "nothing new" : `found ${q}`)
    })
    expectTag((yield* run(agent)).exit, "Completed")
    expect(bot.requests.some(spoken)).toBe(false)
  })

  check("two calls that take turns with the same results are a repetition as well", function* () {
    const bot = model((turn) =>
      turn < 30 ? call("read", `c${turn}`, turn % 2 === 0 ? "x" : "y") : Scripted.text("done")
    )
    const { agent, ran } = agentOf(bot, {
      read: ({ q }) => Effect.succeed(`nothing in ${q}`)
    })
    expectTag((yield* run(agent)).exit, "RunStalled")
    expect(ran.length).toBeLessThanOrEqual(10)
  })

  check("wrong arguments to the same tool count, whatever they are", function* () {
    const bot = model((turn) =>
      turn < 30
        ? Scripted.call("read", { [`wrong${turn}`]: turn }, { id: `c${turn}` })
        : Scripted.text("done")
    )
    const { agent, ran } = agentOf(bot)
    const { exit } = yield* run(agent)
    expect(expectTag(exit, "RunStalled")).toMatchObject({
      tool: "read",
      count: 5
    })
    expect(ran).toEqual([])
    expect(bot.requests).toHaveLength(5)
    expectValidRequests(bot.requests)
  })

  check("arguments that are not JSON count as well", function* () {
    const bot = model((turn) =>
      turn < 30 ? Scripted.call("read", `{broken ${turn}`, { id: `c${turn}` }) : Scripted.text("done")
    )
    const { agent } = agentOf(bot)
    expectTag((yield* run(agent)).exit, "RunStalled")
  })

  check("cached replies do not count", function* () {
    const { agent, ran } = agentOf(again(8), {
      read: same,
      policy: { dedupe: "read-only" }
    })
    expectTag((yield* run(agent)).exit, "Completed")
    expect(ran).toHaveLength(1)
  })

  check("can be set, and can be off", function* () {
    const tight = agentOf(again(), {
      read: same,
      policy: { repetition: { nameAt: 2, stopAt: 3 } }
    })
    expect(expectTag((yield* run(tight.agent)).exit, "RunStalled").count).toBe(3)
    const off = agentOf(again(9), {
      read: same,
      policy: { repetition: "off" }
    })
    const { exit } = yield* finish(Agent.run(off.agent, "go", { runId: "s" }))
    expectTag(exit, "Completed")
    expect(off.ran).toHaveLength(9)
  })

  check("five in one turn are named and stopped like five in a row", function* () {
    const bot = once(...[1, 2, 3, 4, 5].map((n) => call("read", `c${n}`, "x")))
    const { agent } = agentOf(bot, { read: same })
    expectTag((yield* run(agent)).exit, "RunStalled")
  })

  check("is counted across a crash: the journal knows", function* () {
    const bot = again()
    const { agent, ran } = agentOf(bot, { read: same })
    let results = 0
    yield* Effect.flip(
      crashing(Agent.run(agent, "go", { runId: "r" }), {
        after: ({ type }) => type === "tool_result" && ++results === 4
      })
    )
    const { exit } = yield* resume(agent)
    expectTag(exit, "RunStalled")
    // A resume begins the count anew, so that a stalled run can be taken up; a crash may do no more than that.
    expect(ran.length).toBeLessThanOrEqual(9)
  })
})

describe("a policy and the clock", () => {
  check("a tool's timeout covers one attempt, not all of them", function* () {
    let attempt = 0
    const times: Array<number> = []
    const tools = Toolkit.make(reader("read").annotate(ToolPolicy.Timeout, "5 seconds"))
    const handlers = tools.toLayer({
      read: () =>
        Effect.gen(function* () {
          times.push(yield* Clock.currentTimeMillis)
          yield* Effect.sleep("3 seconds")
          if (++attempt < 3) return yield* Effect.fail(ToolFailure.transient("busy"))
          return "there"
        })
    })
    const agent = Agent.make("a", { toolkit: tools }).pipe(
      Agent.provide(handlers),
      Agent.provide(once(call("read", "c")).layer)
    )
    const { exit } = yield* withTime(run(agent))
    expect(resultOf(exit, "c").content).toBe("there")
    expect(times).toHaveLength(3)
  })

  check("a Stop between attempts of a read leaves it to run again on resume", function* () {
    const started = yield* Deferred.make<void>()
    let attempt = 0
    const { agent } = agentOf(once(call("read", "c")), {
      read: () =>
        Effect.suspend(() =>
          ++attempt === 1
            ? Effect.andThen(Deferred.succeed(started, undefined), Effect.fail(ToolFailure.transient("busy")))
            : Effect.succeed("there")
        )
    })
    const fiber = yield* Effect.forkChild(Agent.run(agent, "go", { runId: "r" }))
    yield* Deferred.await(started)
    for (let i = 0; i < 200; i++) yield* Effect.yieldNow
    yield* Fiber.interrupt(fiber)
    expect((yield* journal("r")).at(-1)?.type).toBe("run_stopped")
    const { exit } = yield* withTime(resume(agent))
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c").content).toBe("there")
  })
})

const written = (value: unknown) => (typeof value === "string" ? JSON.stringify(value) : String(value))

describe("a policy that cannot be used is refused when the agent is made", () => {
  it.each<readonly [unknown, string]>([
    [{ repetitions: "off" }, 'policy has no "repetitions"'],
    [{ toolErrors: "none" }, 'policy.toolErrors is "none"'],
    [{ permanent: true }, "policy.permanent is true"],
    [{ dedupe: "reads" }, 'policy.dedupe is "reads"'],
    ...[Number.NaN, -1, 1.5, "3"].map(
      (modelRetries) => [{ modelRetries }, `policy.modelRetries is ${written(modelRetries)}`] as const
    ),
    ...["toolTimeout", "interruptGrace"].flatMap((name) =>
      [Number.NaN, -1, "soon", null].map(
        (value) => [{ [name]: value }, `policy.${name} is ${written(value)}, and must be a duration`] as const
      )
    ),
    [{ operations: "leave" }, 'policy.operations is "leave"'],
    [{ operations: {} }, "policy.operations.grace is undefined"],
    [{ operations: { grace: Number.NaN } }, "policy.operations.grace is NaN"],
    [{ repetition: "on" }, 'policy.repetition is "on"'],
    [{ repetition: { name: 3, stop: 5 } }, 'policy.repetition has no "name": there are nameAt, stopAt'],
    [{ repetition: { nameAt: 3 } }, "policy.repetition.stopAt is undefined"],
    [{ repetition: { nameAt: 0, stopAt: 5 } }, "policy.repetition.nameAt is 0"],
    [{ repetition: { nameAt: 3, stopAt: Number.NaN } }, "policy.repetition.stopAt is NaN"],
    [null, "policy is null"]
  ])("%j", (policy, problem) => {
    expect(() => Agent.make("a", { policy: policy as Agent.PolicyInput })).toThrow(problem)
  })

  it("Infinity is as many as there are, and for ever", () => {
    const all = Number.POSITIVE_INFINITY
    Agent.make("a", { policy: { modelRetries: all, toolTimeout: all, interruptGrace: all } })
    Agent.make("a", { policy: { repetition: { nameAt: 1, stopAt: all }, operations: { grace: all } } })
  })
})
