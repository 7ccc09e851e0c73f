import { describe, expect, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { Agent, Fold, MemoryRunStore, Operation, RunState, RunStore, ToolPolicy } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import type { LimitsInput } from "../../src/run/Limits.ts"
import type { RunEvent } from "../../src/run/RunEvent.ts"
import { checkLaws } from "./laws.ts"
import {
  call,
  check,
  crashing,
  expectTag,
  finish as finishAny,
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

const question = Schema.Struct({ q: Schema.String })

const StartTest = Tool.make("start_test", { parameters: question, success: Operation.Started })
const ObserveTest = Tool.make("observe_test", {
  parameters: question,
  success: Operation.Observed
}).annotate(Tool.Readonly, true)

/** Tests that run somewhere else: what a look at each shows, what was started, and what was looked at. */
class Lab {
  readonly shows = new Map<string, Operation.Observed>()
  readonly started: Array<string> = []
  readonly looks: Array<string> = []

  readonly start = ({ q }: { readonly q: string }) =>
    Effect.sync(() => {
      this.started.push(q)
      const id = `t${this.started.length}`
      this.shows.set(id, Operation.running({ id }))
      return Operation.started({ id, observe: "observe_test", label: `test ${q}` })
    })

  readonly look = (id: string) =>
    Effect.sync(() => {
      this.looks.push(id)
      return this.shows.get(id) ?? Operation.running({ id })
    })

  readonly end = (id: string, outcome: Operation.Outcome, detail = "9 of 9") => {
    this.shows.set(id, Operation.ended({ id, outcome, detail }))
  }
}

interface Options {
  readonly control?: Operation.Control
  readonly start?: Lab["start"]
  readonly policy?: Agent.PolicyInput
  readonly limits?: LimitsInput
  readonly stopWhen?: (state: RunState.RunState) => string | undefined
}

/** An agent with this model and these tests; what is given to it stands for a process of its own. */
const agentOf = (bot: Model, lab: Lab, { control = {}, limits, policy, start, stopWhen }: Options = {}) => {
  const tools = Toolkit.make(
    StartTest.annotate(Operation.Control, control),
    ObserveTest,
    reader("read"),
    writer("write"),
    guarded("ask")
  )
  return Agent.make("a", { toolkit: tools, policy, limits, stopWhen }).pipe(
    Agent.provide(
      tools.toLayer({
        start_test: start ?? lab.start,
        observe_test: ({ q }) => lab.look(q),
        read: ({ q }) => Effect.succeed(`read ${q}`),
        write: () => Effect.succeed("wrote"),
        ask: () => Effect.succeed("asked")
      })
    ),
    Agent.provide(bot.layer)
  )
}

/** Every operation is started once, by a call that was started, and ends at most once, and after it was started. */
const expectOnce = (events: ReadonlyArray<RunEvent>): void => {
  const alive = new Set<string>()
  const known = new Set<string>()
  for (const event of events) {
    if (event.type === "operation_started") {
      expect(known, `${event.operationId} is started twice`).not.toContain(event.operationId)
      expect(of(events, "tool_start", event.callId)).not.toEqual([])
      known.add(event.operationId)
      alive.add(event.operationId)
    }
    if (event.type === "operation_ended") {
      expect(alive, `${event.operationId} ends without going on`).toContain(event.operationId)
      alive.delete(event.operationId)
    }
    if (event.type === "run_stopped") {
      const atLimit = event.reason === "max_turns" || event.reason === "max_budget"
      const told = event.operations?.map(({ operationId }) => operationId) ?? []
      expect(told, "a stop at a limit says what was done about each").toEqual(atLimit ? [...alive] : [])
    }
  }
}

const finish = <A, R>(run: Parameters<typeof finishAny<A, R>>[0]) =>
  Effect.map(finishAny(run), (ended) => {
    checkLaws(ended.events)
    expectOnce(ended.events)
    return ended
  })

const looking = (id: string, callId: string) => call("observe_test", callId, id)

describe("work that goes on", () => {
  check("is worded for the model, kept in the state and journaled with its result", function* () {
    const lab = new Lab()
    const bot = model([
      call("start_test", "c1", "export"),
      looking("t1", "c2"),
      () => {
        lab.end("t1", "failed", "1 of 9: the last row is missing")
        return looking("t1", "c3")
      },
      Scripted.text("done")
    ])
    const appends: Array<ReadonlyArray<string>> = []
    const store = yield* RunStore.RunStore
    const spied = Layer.succeed(RunStore.RunStore, {
      ...store,
      append: (append) => {
        appends.push(append.events.map(({ type }) => type))
        return store.append(append)
      }
    })
    const { events, exit } = yield* finish(
      Agent.run(agentOf(bot, lab), "go", { runId: "r" }).pipe(Effect.provide(spied))
    )
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c1")).toMatchObject({ ok: true })
    expect(resultOf(exit, "c1").content).toBe(
      "Started: test export, as operation t1. It goes on after this call, so nothing is known of its result yet. Look at it with observe_test."
    )
    expect(resultOf(exit, "c2").content).toBe("Operation t1 (test export) is still running.")
    expect(resultOf(exit, "c3")).toMatchObject({ ok: true })
    expect(resultOf(exit, "c3").content).toBe(
      "Operation t1 (test export) has ended and failed: 1 of 9: the last row is missing"
    )
    expect(said(exit)).not.toContain("checkrein/")
    expect(of(events, "operation_started")).toMatchObject([
      { operationId: "t1", callId: "c1", tool: "start_test", observe: "observe_test", label: "test export" }
    ])
    expect(of(events, "operation_ended")).toMatchObject([
      { operationId: "t1", outcome: "failed", detail: "1 of 9: the last row is missing", by: "observed" }
    ])
    expect(appends).toContainEqual(["operation_started", "tool_result"])
    expect(appends).toContainEqual(["operation_ended", "tool_result"])
    expect(exit.run.operations).toMatchObject([{ operationId: "t1", ended: { outcome: "failed" } }])
    expect(RunState.live(exit.run)).toEqual([])
  })

  check(
    "what still runs is worded as neither failed nor successful, what was cancelled as that",
    function* () {
      const lab = new Lab()
      const bot = model([
        Scripted.turn(
          call("start_test", "c1", "a"),
          call("start_test", "c2", "b"),
          call("start_test", "c3", "c")
        ),
        () => {
          lab.shows.set("t1", Operation.running({ id: "t1", label: "4 of 9" }))
          lab.end("t2", "cancelled", "")
          lab.end("t3", "succeeded")
          return Scripted.turn(looking("t1", "o1"), looking("t2", "o2"), looking("t3", "o3"))
        },
        Scripted.text("done")
      ])
      const { exit } = yield* finish(Agent.run(agentOf(bot, lab), "go"))
      expect(resultOf(exit, "o1").content).toBe("Operation t1 (test a) is still running: 4 of 9")
      expect(resultOf(exit, "o2").content).toBe("Operation t2 (test b) was cancelled.")
      expect(resultOf(exit, "o3").content).toBe("Operation t3 (test c) has ended and succeeded: 9 of 9")
      for (const id of ["c1", "o1"]) expect(resultOf(exit, id).content).not.toMatch(/fail|succe|Error/)
      expect(RunState.live(exit.run)).toMatchObject([{ operationId: "t1" }])
    }
  )

  check("without a label has its tool's name, and what the tool words itself comes first", function* () {
    const Start = Tool.make("start", {
      success: Schema.Union([Operation.Started, Schema.String]),
      toModelOutput: () => [Prompt.textPart({ text: "Look in an hour." })]
    })
    const tools = Toolkit.make(Start, ObserveTest)
    const handlers = tools.toLayer({
      start: () => Effect.succeed(Operation.started({ id: "t1", observe: "observe_test" })),
      observe_test: ({ q }) => Effect.succeed(Operation.running({ id: q }))
    })
    const bot = once(Scripted.call("start", {}, { id: "c1" }))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* finish(Agent.run(agent, "go"))
    expect(resultOf(exit, "c1").content).toMatch(/^Look in an hour\.\nStarted: start, as operation t1\./)
  })

  check("a tool that finishes at once says so, and nothing goes on", function* () {
    const Start = Tool.make("start", { success: Schema.Union([Operation.Started, Operation.Ended]) })
    const tools = Toolkit.make(Start)
    const handlers = tools.toLayer({
      start: () => Effect.succeed(Operation.ended({ id: "t1", outcome: "succeeded", detail: "9 of 9" }))
    })
    const bot = once(Scripted.call("start", {}, { id: "c1" }))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { events, exit } = yield* finish(Agent.run(agent, "go"))
    expect(resultOf(exit, "c1").content).toBe("Operation t1 has ended and succeeded: 9 of 9")
    expect(exit.run.operations).toEqual([])
    expect(of(events, "operation_ended")).toEqual([])
  })

  check("a Started inside of another value is a value like any other", function* () {
    const Start = Tool.make("start", { success: Schema.Struct({ op: Operation.Started }) })
    const tools = Toolkit.make(Start)
    const handlers = tools.toLayer({
      start: () => Effect.succeed({ op: Operation.started({ id: "t1", observe: "observe_test" }) })
    })
    const bot = once(Scripted.call("start", {}, { id: "c1" }))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { exit } = yield* finish(Agent.run(agent, "go"))
    expect(JSON.parse(resultOf(exit, "c1").content)).toMatchObject({ op: { id: "t1" } })
    expect(exit.run.operations).toEqual([])
  })
})

describe("ids", () => {
  const starting = (...ids: ReadonlyArray<string>) => {
    let n = 0
    return () => Effect.sync(() => Operation.started({ id: ids[n++] ?? "", observe: "observe_test" }))
  }

  check("one that is alive for other work: told in words, and not taken for a new operation", function* () {
    const lab = new Lab()
    const bot = once(call("start_test", "c1", "a"), call("start_test", "c2", "b"))
    const agent = agentOf(bot, lab, { start: starting("t1", "t1") })
    const { events, exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c2").content).toBe(
      "start_test ran and answered with operation t1 (start_test), which this run has started before. It has not ended, as far as is known. Look at it with observe_test."
    )
    expect(of(events, "tool_result", "c2")[0]?.detail).toContain("not new in this run")
    expect(of(events, "operation_started")).toHaveLength(1)
  })

  check("one that has ended before names no second operation", function* () {
    const lab = new Lab()
    lab.end("t1", "succeeded")
    const bot = model([
      call("start_test", "c1", "a"),
      looking("t1", "c2"),
      call("start_test", "c3", "a"),
      Scripted.text("done")
    ])
    const agent = agentOf(bot, lab, { start: starting("t1", "t1") })
    const { events, exit } = yield* finish(Agent.run(agent, "go"))
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c3").content).toContain("It has ended and succeeded: 9 of 9")
    expect(of(events, "operation_started")).toHaveLength(1)
    expect(RunState.live(exit.run)).toEqual([])
  })

  check("a look at one that the run does not know is told as it is, and nothing is kept", function* () {
    const lab = new Lab()
    lab.end("t8", "failed", "exit code 1")
    const bot = once(looking("t8", "c1"), looking("t9", "c2"))
    const { events, exit } = yield* finish(Agent.run(agentOf(bot, lab), "go"))
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c1").content).toBe("Operation t8 has ended and failed: exit code 1")
    expect(resultOf(exit, "c2").content).toBe(
      "Operation t9 is still running.\nThis run has not started it under that id, and does not keep track of it."
    )
    expect(of(events, "tool_result", "c1")[0]?.detail).toContain("t8")
    expect(exit.run.operations).toEqual([])
  })

  check("the first end stands: what a later look shows is told beside it", function* () {
    const lab = new Lab()
    const bot = model([
      call("start_test", "c1", "a"),
      () => {
        lab.end("t1", "failed", "1 of 9")
        // Both look at once: one of them ends it.
        return Scripted.turn(looking("t1", "c2"), looking("t1", "c3"))
      },
      () => {
        lab.shows.set("t1", Operation.running({ id: "t1" }))
        return looking("t1", "c4")
      },
      () => {
        lab.end("t1", "succeeded")
        return looking("t1", "c5")
      },
      Scripted.text("done")
    ])
    const { events, exit } = yield* finish(Agent.run(agentOf(bot, lab), "go"))
    expect(of(events, "operation_ended")).toHaveLength(1)
    expect(resultOf(exit, "c2").content).toBe("Operation t1 (test a) has ended and failed: 1 of 9")
    expect(resultOf(exit, "c3").content).toBe("Operation t1 (test a) has ended and failed: 1 of 9")
    const before = "\nBut it was known to have ended before. It has ended and failed: 1 of 9"
    expect(resultOf(exit, "c4").content).toBe(`Operation t1 (test a) is still running.${before}`)
    expect(resultOf(exit, "c5").content).toBe(
      `Operation t1 (test a) has ended and succeeded: 9 of 9${before}`
    )
    expect(exit.run.operations[0]?.ended?.outcome).toBe("failed")
  })

  check("an observer that is no tool of the agent: said to the model, and in the journal", function* () {
    const lab = new Lab()
    const start = () => Effect.succeed(Operation.started({ id: "t1", observe: "nope" }))
    const bot = once(call("start_test", "c1"), call("start_test", "c2"))
    const { events, exit } = yield* finish(Agent.run(agentOf(bot, lab, { start }), "go"))
    expectTag(exit, "Completed")
    for (const id of ["c1", "c2"]) expect(resultOf(exit, id).content).toContain("No tool can look at it.")
    expect(of(events, "tool_result", "c1")[0]?.detail).toContain("nope")
    expect(RunState.live(exit.run)).toHaveLength(1)
  })

  check("an observer that may not use the reserve is said in the journal", function* () {
    const lab = new Lab()
    const start = () => Effect.succeed(Operation.started({ id: "t1", observe: "read" }))
    const { events, exit } = yield* finish(
      Agent.run(agentOf(once(call("start_test", "c1")), lab, { start }), "go")
    )
    expectTag(exit, "Completed")
    expect(of(events, "tool_result", "c1")[0]?.detail).toContain("not handoff")
  })
})

describe("the same work again", () => {
  check("in one turn: the second call is answered with what the first has started", function* () {
    const lab = new Lab()
    const bot = once(call("start_test", "c1"), call("start_test", "c2"), call("start_test", "c3", "other"))
    const { events, exit } = yield* finish(Agent.run(agentOf(bot, lab), "go"))
    expect(lab.started).toEqual(["x", "other"])
    expect(of(events, "tool_result", "c2")).toMatchObject([{ disposition: "cached", ok: true }])
    expect(of(events, "tool_start", "c2")).toEqual([])
    expect(resultOf(exit, "c2").content).toBe(
      "Not started again: this very work was started before, as operation t1 (test x). It has not ended, as far as is known. Look at it with observe_test."
    )
    expect(exit.run.toolCalls).toBe(2)
  })

  check("in one turn, with a tool that is annotated as a mere read", function* () {
    let started = 0
    const Start = Tool.make("start", { success: Operation.Started }).annotate(Tool.Readonly, true)
    const tools = Toolkit.make(Start)
    const handlers = tools.toLayer({
      start: () =>
        Effect.sync(() => Operation.started({ id: `t${++started}`, observe: "look" })).pipe(
          Effect.delay("1 second")
        )
    })
    const bot = once(Scripted.call("start", {}, { id: "c1" }), Scripted.call("start", {}, { id: "c2" }))
    const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
    const { events } = yield* withTime(finish(Agent.run(agent, "go")))
    expect(started).toBe(1)
    expect(of(events, "operation_started")).toHaveLength(1)
    expect(of(events, "tool_result").map(({ disposition }) => disposition)).toEqual(["executed", "cached"])
  })

  for (const dedupe of ["off", "read-only", "all"] as const) {
    check(
      `may be started once it has ended, and polling shows what is there (dedupe ${dedupe})`,
      function* () {
        const lab = new Lab()
        const bot = model([
          call("start_test", "c1"),
          call("start_test", "c2"),
          looking("t1", "o1"),
          () => {
            lab.end("t1", "failed")
            return looking("t1", "o2")
          },
          call("start_test", "c3"),
          looking("t2", "o3"),
          Scripted.text("done")
        ])
        const { events, exit } = yield* finish(Agent.run(agentOf(bot, lab, { policy: { dedupe } }), "go"))
        expectTag(exit, "Completed")
        expect(lab.looks).toEqual(["t1", "t1", "t2"])
        expect(of(events, "operation_started").map(({ operationId }) => operationId)).toEqual(["t1", "t2"])
        expect(RunState.live(exit.run)).toMatchObject([{ operationId: "t2" }])
        for (const id of ["c1", "c3", "o1", "o2", "o3"]) {
          expect(of(events, "tool_result", id)[0]?.disposition, id).toBe("executed")
        }
      }
    )
  }

  check(
    "what was seen of work by another process is not reused, even where everything else is",
    function* () {
      const lab = new Lab()
      const bot = model([
        call("start_test", "c1"),
        looking("t1", "o1"),
        looking("t1", "o2"),
        Scripted.text("done")
      ])
      const agent = () => agentOf(bot, lab, { policy: { dedupe: "all" } })
      yield* finish(Agent.run(agent(), "go", { runId: "r", limits: { turns: 3 } }))
      const { events } = yield* finish(Agent.resume(agent(), "r", { limits: { turns: 9 } }))
      expect(of(events, "tool_result", "o2")[0]?.disposition).toBe("executed")
      expect(lab.looks).toEqual(["t1", "t1"])
    }
  )

  check("nor what a tool says of work that does not say in its schema that it does", function* () {
    let looks = 0
    const Peek = Tool.make("peek", { success: Schema.Unknown }).annotate(Tool.Readonly, true)
    const tools = Toolkit.make(Peek)
    const handlers = tools.toLayer({
      peek: () => Effect.sync(() => Operation.running({ id: "t1", label: `${++looks} of 9` }))
    })
    const bot = model([Scripted.call("peek", {}), Scripted.call("peek", {}), Scripted.text("done")])
    const agent = Agent.make("a", { toolkit: tools, policy: { dedupe: "all" } }).pipe(
      Agent.provide(handlers),
      Agent.provide(bot.layer)
    )
    yield* finish(Agent.run(agent, "go"))
    expect(looks).toBe(2)
  })

  check("a read is not reused while work goes on that may change what it reads", function* () {
    const lab = new Lab()
    const bot = model([
      call("read", "r1"),
      call("read", "r2"),
      call("start_test", "c1"),
      call("read", "r3"),
      call("read", "r4"),
      () => {
        lab.end("t1", "succeeded")
        return looking("t1", "o1")
      },
      call("read", "r5"),
      call("read", "r6"),
      Scripted.text("done")
    ])
    const { events } = yield* finish(Agent.run(agentOf(bot, lab, { policy: { dedupe: "read-only" } }), "go"))
    const how = (id: string) => of(events, "tool_result", id)[0]?.disposition
    expect(["r1", "r2", "r3", "r4", "r5", "r6"].map(how)).toEqual([
      "executed",
      "cached",
      "executed",
      "executed",
      "executed",
      "cached"
    ])
  })

  check("is no repetition, and neither is polling", function* () {
    const lab = new Lab()
    const polls = Array.from({ length: 8 }, (_, n) => looking("t1", `o${n}`))
    const again = Array.from({ length: 8 }, (_, n) => call("start_test", `s${n}`))
    const bot = model([call("start_test", "c1"), ...polls, ...again, Scripted.text("done")])
    const { exit } = yield* finish(Agent.run(agentOf(bot, lab), "go"))
    expectTag(exit, "Completed")
    expect(said(exit)).not.toContain("Note: this is the")
    expect(lab.started).toEqual(["x"])
    expect(lab.looks).toHaveLength(8)
  })

  check("in another process, after a stop: the state knows what goes on", function* () {
    const first = new Lab()
    const stopped = yield* finish(
      Agent.run(agentOf(model([call("start_test", "c1"), call("read", "r1")]), first), "go", {
        runId: "r",
        limits: { turns: 2 }
      })
    )
    expectTag(stopped.exit, "MaxTurnsExceeded")
    expect(stopped.exit.run.operations).toMatchObject([{ operationId: "t1", handling: "detached" }])

    const second = new Lab()
    second.shows.set("t1", Operation.running({ id: "t1" }))
    const again = agentOf(
      model([
        call("start_test", "c1"),
        call("read", "r1"),
        call("start_test", "c2"),
        () => {
          second.end("t1", "succeeded")
          return looking("t1", "c3")
        },
        call("start_test", "c4"),
        Scripted.text("done")
      ]),
      second
    )
    const { events, exit } = yield* finish(Agent.resume(again, "r", { limits: { turns: 10 } }))
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c2").content).toContain("as operation t1 (test x)")
    expect(of(events, "tool_result", "c2")[0]?.disposition).toBe("cached")
    expect(of(events, "operation_ended")).toMatchObject([{ operationId: "t1", by: "observed" }])
    // Its own count begins again, and the id that it gives is known: a tool that forgets is told so.
    expect(second.started).toEqual(["x"])
    expect(resultOf(exit, "c4").content).toContain("which this run has started before")
  })
})

describe("a crash while work is being started", () => {
  const toolResult = (event: RunEvent) => event.type === "tool_result"

  check("is an unknown outcome as with any other writer, and nothing is started again", function* () {
    const lab = new Lab()
    const crashed = yield* Effect.exit(
      crashing(Agent.run(agentOf(once(call("start_test", "c1")), lab), "go", { runId: "r" }), {
        before: toolResult
      })
    )
    expect(crashed._tag).toBe("Failure")
    expect(of(yield* journal("r"), "operation_started")).toEqual([])
    const { exit } = yield* finish(Agent.resume(agentOf(once(call("start_test", "c1")), lab), "r"))
    const { calls } = expectTag(exit, "OutcomeUnknown")
    expect(calls.map(({ callId }) => callId)).toEqual(["c1"])
    expect(lab.started).toEqual(["x"])
    expect(exit.run.operations).toEqual([])
  })

  check(
    "is looked up where the tool can: what was started then goes on as if nothing had been lost",
    function* () {
      const lab = new Lab()
      const Start = StartTest.annotate(ToolPolicy.Reconcile, () =>
        Effect.succeed(
          ToolPolicy.happened(Operation.started({ id: "t1", observe: "observe_test", label: "found again" }))
        )
      )
      const tools = Toolkit.make(Start, ObserveTest)
      const handlers = tools.toLayer({ start_test: lab.start, observe_test: ({ q }) => lab.look(q) })
      const agent = (bot: Model) =>
        Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
      const bot = model([call("start_test", "c1"), call("start_test", "c2"), Scripted.text("done")])
      yield* Effect.exit(crashing(Agent.run(agent(bot), "go", { runId: "r" }), { before: toolResult }))
      const { events, exit } = yield* finish(Agent.resume(agent(bot), "r"))
      expectTag(exit, "Completed")
      expect(lab.started).toEqual(["x"])
      expect(resultOf(exit, "c1").content).toContain("Started: found again, as operation t1.")
      expect(resultOf(exit, "c2").content).toContain("Not started again")
      expect(of(events, "operation_started")).toMatchObject([{ operationId: "t1", callId: "c1" }])
    }
  )

  check("right after its result: the operation is there", function* () {
    const lab = new Lab()
    const bot = model([call("start_test", "c1"), call("start_test", "c2"), Scripted.text("done")])
    yield* Effect.exit(crashing(Agent.run(agentOf(bot, lab), "go", { runId: "r" }), { after: toolResult }))
    const { exit } = yield* finish(Agent.resume(agentOf(bot, lab), "r"))
    expectTag(exit, "Completed")
    expect(lab.started).toEqual(["x"])
    expect(RunState.live(exit.run)).toMatchObject([{ operationId: "t1" }])
  })
})

describe("the handoff", () => {
  check("looks at work from the reserve, and starts none", function* () {
    const lab = new Lab()
    const bot = model([
      call("start_test", "c1"),
      call("read", "c2"),
      () => {
        lab.end("t1", "succeeded")
        return Scripted.turn(looking("t1", "c3"), call("start_test", "c4", "other"))
      },
      Scripted.text("the test passed")
    ])
    const agent = agentOf(bot, lab, { limits: { turns: 4, reserve: { turns: 2 } } })
    const { events, exit } = yield* finish(Agent.run(agent, "go"))
    const { run } = expectTag(exit, "MaxTurnsExceeded")
    expect(run.summary).toBe("the test passed")
    expect(of(events, "tool_start", "c3")[0]?.purpose).toBe("handoff")
    expect(of(events, "tool_result", "c4")[0]?.disposition).toBe("refused")
    expect(of(events, "operation_ended")).toMatchObject([{ by: "observed", outcome: "succeeded" }])
    expect(of(events, "run_stopped")[0]?.operations).toBeUndefined()
    expect(lab.started).toEqual(["x"])
  })

  check("of tool calls: looking is let in where investigating is refused", function* () {
    const lab = new Lab()
    const bot = model([
      call("start_test", "c1"),
      call("read", "c2"),
      looking("t1", "c3"),
      call("read", "c4"),
      Scripted.text("done")
    ])
    const agent = agentOf(bot, lab, { limits: { toolCalls: 3, reserve: { toolCalls: 1 } } })
    const { events, exit } = yield* finish(Agent.run(agent, "go"))
    expect(lab.looks).toEqual(["t1"])
    expect(expectTag(exit, "BudgetExceeded").resource).toBe("tool_calls")
    expect(of(events, "run_stopped")[0]?.operations).toEqual([{ operationId: "t1", handling: "detached" }])
  })
})

describe("at a limit", () => {
  /** Starts one test in the first turn, and then reads until the limit. */
  const stopping = (options: Options, latency: Duration.Input = 0) => {
    const lab = new Lab()
    const reads = Array.from({ length: 20 }, (_, n) =>
      Scripted.call("read", { q: `${n}` }, { id: `r${n}`, latency })
    )
    const agent = agentOf(model([call("start_test", "c1"), ...reads]), lab, {
      limits: { turns: 2 },
      ...options
    })
    return { lab, agent, run: withTime(finish(Agent.run(agent, "go", { runId: "r" }))) }
  }
  const handled = (events: ReadonlyArray<RunEvent>) =>
    of(events, "run_stopped")[0]?.operations?.map(({ handling }) => handling)
  const seconds = (events: ReadonlyArray<RunEvent>) => (events.at(-1)?.elapsedMs ?? 0) / 1000

  const limits: ReadonlyArray<readonly [string, LimitsInput]> = [
    ["turns", { turns: 2 }],
    ["turns, with a handoff", { turns: 4, reserve: { turns: 2 } }],
    ["tokens", { tokens: 20 }],
    ["tool calls", { toolCalls: 2 }],
    ["tool calls, with a handoff", { toolCalls: 3, reserve: { toolCalls: 1 } }],
    ["time", { time: "5 seconds" }],
    ["time, with a handoff", { time: "5 seconds", reserve: { time: "2 seconds" } }]
  ]
  for (const [name, limit] of limits) {
    check(`of ${name}, operations are detached unless said otherwise`, function* () {
      const { events, exit } = yield* stopping({ limits: limit, policy: { repetition: "off" } }, "1 second")
        .run
      expect(["MaxTurnsExceeded", "BudgetExceeded"]).toContain(exit._tag)
      expect(handled(events)).toEqual(["detached"])
      expect(exit.run.operations).toMatchObject([{ operationId: "t1", handling: "detached" }])
    })
  }

  describe("cancel", () => {
    const cancel: Agent.PolicyInput = { operations: "cancel" }

    check("ends them through their tool", function* () {
      const told: Array<Operation.Live> = []
      const { run } = stopping({
        policy: cancel,
        control: { cancel: (operation) => Effect.sync(() => void told.push(operation)) }
      })
      const { events, exit } = yield* run
      expect(told).toEqual([{ id: "t1", label: "test x", runId: "r", callId: "c1", tool: "start_test" }])
      expect(of(events, "operation_ended")).toMatchObject([
        { operationId: "t1", outcome: "cancelled", by: "cancel" }
      ])
      expect(handled(events)).toBeUndefined()
      expect(RunState.live(exit.run)).toEqual([])
      expect(events.map(({ type }) => type).slice(-2)).toEqual(["operation_ended", "run_stopped"])
    })

    const cannot: ReadonlyArray<readonly [string, Operation.Control, number]> = [
      ["no way to", {}, 0],
      ["one that fails", { cancel: () => Effect.fail("denied") }, 0],
      ["one that dies", { cancel: () => Effect.die(new Error("gone")) }, 0],
      [
        "one that throws",
        {
          cancel: () => {
            throw new Error("gone")
          }
        },
        0
      ],
      ["one that takes too long", { cancel: () => Effect.never }, 10],
      [
        "one that takes too long and cannot be interrupted",
        { cancel: () => Effect.uninterruptible(Effect.sleep("1 hour")) },
        10
      ]
    ]
    for (const [name, control, after] of cannot) {
      check(`with ${name}: it is said, within 10 s`, function* () {
        const { events, exit } = yield* stopping({ policy: cancel, control }).run
        expectTag(exit, "MaxTurnsExceeded")
        expect(handled(events)).toEqual(["cancel_failed"])
        expect(of(events, "operation_ended")).toEqual([])
        expect(seconds(events)).toBe(after)
        expect(RunState.live(exit.run)).toMatchObject([{ operationId: "t1", handling: "cancel_failed" }])
      })
    }

    check("of work that has ended by itself: what a look shows is what is written down", function* () {
      const { events } = yield* stopping({
        policy: cancel,
        control: {
          cancel: () => Effect.fail("no such process"),
          observe: ({ id }) => Effect.succeed(Operation.ended({ id, outcome: "succeeded", detail: "9 of 9" }))
        }
      }).run
      expect(of(events, "operation_ended")).toMatchObject([
        { outcome: "succeeded", detail: "9 of 9", by: "cancel" }
      ])
      expect(handled(events)).toBeUndefined()
    })

    check("of work that takes a while to stop is waited for, 10 s at most", function* () {
      for (const [after, expected] of [
        [3, undefined],
        [60, ["cancel_failed"]]
      ] as const) {
        let left = after
        const { events } = yield* stopping({
          policy: cancel,
          control: {
            cancel: () => Effect.void,
            observe: ({ id }) =>
              Effect.sync(() =>
                left-- > 0
                  ? Operation.running({ id })
                  : Operation.ended({ id, outcome: "cancelled", detail: "killed" })
              )
          }
        }).run.pipe(Effect.provide(Layer.fresh(MemoryRunStore.layer)))
        expect(handled(events)).toEqual(expected)
        expect(of(events, "operation_ended")).toHaveLength(expected === undefined ? 1 : 0)
        expect(seconds(events)).toBe(Math.min(after, 10))
      }
    })

    check("that fails while the work still runs is not waited for", function* () {
      const { events } = yield* stopping({
        policy: cancel,
        control: {
          cancel: () => Effect.fail("denied"),
          observe: ({ id }) => Effect.succeed(Operation.running({ id }))
        }
      }).run
      expect(handled(events)).toEqual(["cancel_failed"])
      expect(seconds(events)).toBe(0)
    })

    check("whose success cannot be looked at is trusted", function* () {
      const { events } = yield* stopping({
        policy: cancel,
        control: { cancel: () => Effect.void, observe: () => Effect.fail("no connection") }
      }).run
      expect(of(events, "operation_ended")).toMatchObject([{ outcome: "cancelled", by: "cancel" }])
    })
  })

  describe("grace", () => {
    const grace = (duration: Duration.Input): Agent.PolicyInput => ({ operations: { grace: duration } })

    /** Ends after so many seconds on the clock, as its own look shows. */
    const endsAfter = (ms: number, outcome: Operation.Outcome = "succeeded") => {
      const looks: Array<number> = []
      let firstMs: number | undefined
      const observe: Operation.Control["observe"] = ({ id }) =>
        Effect.map(
          Effect.clockWith((clock) => clock.currentTimeMillis),
          (now) => {
            firstMs ??= now
            looks.push(now - firstMs)
            return now - firstMs >= ms
              ? Operation.ended({ id, outcome, detail: "9 of 9" })
              : Operation.running({ id })
          }
        )
      return { looks, control: { observe } }
    }

    check("waits for their end, looking every second", function* () {
      const { control, looks } = endsAfter(2_500, "failed")
      const { events, exit } = yield* stopping({ policy: grace("10 seconds"), control }).run
      expectTag(exit, "MaxTurnsExceeded")
      expect(looks).toEqual([0, 1000, 2000, 3000])
      expect(of(events, "operation_ended")).toMatchObject([
        { outcome: "failed", detail: "9 of 9", by: "grace" }
      ])
      expect(handled(events)).toBeUndefined()
    })

    check(
      "has an end: what still runs then is said to, and a last look is taken at its very end",
      function* () {
        for (const [ms, expected] of [
          [2_500, undefined],
          [2_501, ["still_running"]]
        ] as const) {
          const { control, looks } = endsAfter(ms)
          const { events, exit } = yield* stopping({ policy: grace("2500 millis"), control }).run.pipe(
            Effect.provide(Layer.fresh(MemoryRunStore.layer))
          )
          expect(looks).toEqual([0, 1000, 2000, 2500])
          expect(handled(events)).toEqual(expected)
          expect(seconds(events)).toBe(2.5)
          expect(RunState.live(exit.run)).toHaveLength(expected === undefined ? 0 : 1)
        }
      }
    )

    check("of nothing is one look", function* () {
      const { control, looks } = endsAfter(0)
      const { events } = yield* stopping({ policy: grace(0), control }).run
      expect(looks).toEqual([0])
      expect(of(events, "operation_ended")).toHaveLength(1)
    })

    const blind: ReadonlyArray<readonly [string, Operation.Control, number]> = [
      ["without a way to look is not waited out", {}, 0],
      [
        "with a look that fails says no more than it knows",
        { observe: () => Effect.fail("no connection") },
        5
      ],
      [
        "with a look at something else says no more than it knows",
        { observe: () => Effect.succeed(Operation.running({ id: "other" })) },
        5
      ],
      ["with a look that never comes back ends all the same", { observe: () => Effect.never }, 15],
      [
        "with a look that cannot be interrupted ends all the same",
        { observe: () => Effect.uninterruptible(Effect.never) },
        15
      ]
    ]
    for (const [name, control, after] of blind) {
      check(name, function* () {
        const { events } = yield* stopping({ policy: grace("5 seconds"), control }).run
        expect(handled(events)).toEqual(["detached"])
        expect(seconds(events)).toBe(after)
      })
    }

    check("is for all of them at once, each on its own", function* () {
      const lab = new Lab()
      const ends: Record<string, number> = { t1: 1, t2: 3, t3: 30 }
      const began = 0
      const bot = model([
        Scripted.turn(...["a", "b", "c"].map((q) => call("start_test", q, q))),
        call("read", "r")
      ])
      const agent = agentOf(bot, lab, {
        limits: { turns: 2 },
        policy: grace("5 seconds"),
        control: {
          observe: ({ id }) =>
            Effect.map(
              Effect.clockWith((clock) => clock.currentTimeMillis),
              (now) =>
                now - began >= (ends[id] ?? 0) * 1000
                  ? Operation.ended({ id, outcome: "succeeded", detail: "" })
                  : Operation.running({ id })
            )
        }
      })
      const { events } = yield* withTime(finish(Agent.run(agent, "go")))
      expect(of(events, "operation_ended").map(({ operationId }) => operationId)).toEqual(["t1", "t2"])
      expect(of(events, "run_stopped")[0]?.operations).toEqual([
        { operationId: "t3", handling: "still_running" }
      ])
    })

    check("gives way to a Stop: the run is cancelled, and its operations are what they were", function* () {
      const { control } = endsAfter(60_000)
      const lab = new Lab()
      const agent = agentOf(model([call("start_test", "c1"), call("read", "r1")]), lab, {
        limits: { turns: 2 },
        policy: grace("30 seconds"),
        control
      })
      const fiber = yield* Effect.forkChild(Agent.run(agent, "go", { runId: "r" }), {
        startImmediately: true
      })
      yield* settle
      yield* TestClock.adjust("3 seconds")
      yield* Fiber.interrupt(fiber)
      const events = yield* journal("r")
      expect(events.at(-1)).toMatchObject({ type: "run_stopped", status: "interrupted", reason: "cancelled" })
      expectOnce(events)
      const state = Fold.fold(events)
      expect(state && RunState.live(state)).toMatchObject([{ operationId: "t1" }])
    })
  })

  const needs: ReadonlyArray<
    readonly [Agent.PolicyInput["operations"], keyof Operation.Control | undefined]
  > = [
    ["detach", undefined],
    ["cancel", "cancel"],
    [{ grace: "5 seconds" }, "observe"]
  ]
  for (const [operations, needed] of needs) {
    check(
      `${JSON.stringify(operations)}: a tool that cannot do what it takes is named in the log`,
      function* () {
        const ways = {
          cancel: () => Effect.void,
          observe: ({ id }: Operation.Live) => Effect.succeed(Operation.running({ id }))
        }
        const logged: Array<string> = []
        const logger = Logger.make(({ logLevel, message }) => void logged.push(`${logLevel}: ${message}`))
        for (const lacks of ["cancel", "observe"] as const) {
          logged.length = 0
          const { [lacks]: _, ...control } = ways
          yield* stopping({ policy: { operations }, control }).run.pipe(
            Effect.provide([Layer.fresh(MemoryRunStore.layer), Logger.layer([logger])])
          )
          const expected = `Warn: operation t1 goes on: start_test has no ${lacks} in its Operation.Control`
          expect(logged.filter((line) => line.includes("operation"))).toEqual(
            lacks === needed ? [expected] : []
          )
        }
      }
    )
  }

  check("a run that goes on forgets what was done, until it stops at a limit again", function* () {
    const { agent, run } = stopping({})
    expectTag((yield* run).exit, "MaxTurnsExceeded")
    const stopWhen = () => "for today"
    const paused = agentOf(model([]), new Lab(), { stopWhen, limits: { turns: 9 } })
    const { exit } = yield* finish(Agent.resume(paused, "r", { limits: { turns: 9 } }))
    expectTag(exit, "StopConditionMet")
    expect(exit.run.operations).toHaveLength(1)
    expect(exit.run.operations[0]).not.toHaveProperty("handling")
    const last = yield* withTime(finish(Agent.resume(agent, "r", { limits: { turns: 3 } })))
    expect(last.exit.run.operations).toMatchObject([{ handling: "detached" }])
  })
})

describe("wherever else a run stops", () => {
  const untouched = { operations: "cancel" } as const
  const control: Operation.Control = { cancel: () => Effect.die(new Error("must not be asked")) }
  const lines = (...rest: ReadonlyArray<Scripted.Line>) => model([call("start_test", "c1"), ...rest])

  const endings: ReadonlyArray<readonly [string, Model, Options, string]> = [
    ["completed", lines(Scripted.text("done")), {}, "Completed"],
    ["for a person", lines(call("ask", "c2")), {}, "ApprovalRequired"],
    [
      "by a condition",
      lines(call("read", "c2")),
      { stopWhen: (s) => (s.turns > 1 ? "enough" : undefined) },
      "StopConditionMet"
    ],
    ["failed", lines(Scripted.fail(400)), {}, "RunFailed"]
  ]
  for (const [name, bot, options, tag] of endings) {
    check(`${name}, its operations are left alone and stay in its state`, function* () {
      const lab = new Lab()
      const agent = agentOf(bot, lab, { ...options, policy: untouched, control })
      const { events, exit } = yield* finish(Agent.run(agent, "go"))
      expect(exit._tag).toBe(tag)
      expect(RunState.live(exit.run)).toMatchObject([{ operationId: "t1" }])
      expect(exit.run.operations[0]).not.toHaveProperty("handling")
      expect(of(events, "operation_ended")).toEqual([])
    })
  }

  check("by a Stop", function* () {
    const lab = new Lab()
    const agent = agentOf(lines(Scripted.text("too late", { latency: "1 hour" })), lab, {
      policy: untouched,
      control
    })
    const fiber = yield* Effect.forkChild(Agent.run(agent, "go", { runId: "r" }), { startImmediately: true })
    yield* settle
    yield* Fiber.interrupt(fiber)
    const events = yield* journal("r")
    expect(events.at(-1)).toMatchObject({ type: "run_stopped", reason: "cancelled" })
    expectOnce(events)
    const state = Fold.fold(events)
    expect(state && RunState.live(state)).toMatchObject([{ operationId: "t1" }])
  })
})

describe("whatever tools say", () => {
  const Act = Tool.make("act", { parameters: question, success: Operation.Report })
  const Peek = Tool.make("peek", { parameters: question, success: Schema.Unknown }).annotate(
    Tool.Readonly,
    true
  )
  const id = Schema.Literals(["t1", "t2", "t3"])
  const outcome = Operation.Outcome
  const reports = Schema.Array(
    Schema.Union([
      Schema.TaggedStruct("checkrein/OperationStarted", { id, observe: Schema.Literals(["peek", "nope"]) }),
      Schema.TaggedStruct("checkrein/OperationRunning", { id }),
      Schema.TaggedStruct("checkrein/OperationEnded", {
        id,
        outcome,
        detail: Schema.Literals(["", "9 of 9"])
      })
    ])
  )
  const turns = Schema.Array(
    Schema.NonEmptyArray(
      Schema.Struct({ tool: Schema.Literals(["act", "peek"]), q: Schema.Literals(["a", "b"]) })
    )
  )
  const policy = Schema.Literals(["detach", "cancel"])
  const crash = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 30 }))

  it.effect.prop(
    "an operation is started once and ends at most once, over stops, crashes and processes",
    { reports, turns, policy, crash },
    ({ crash, policy, reports, turns }) =>
      Effect.gen(function* () {
        let said = 0
        const say = () =>
          Effect.sync(() => reports[said++ % reports.length] ?? Operation.running({ id: "t1" }))
        const tools = Toolkit.make(Act.annotate(Operation.Control, { cancel: () => Effect.void }), Peek)
        const handlers = tools.toLayer({ act: say, peek: say })
        const lines = turns.map((calls, turn) =>
          Scripted.turn(...calls.map(({ q, tool }, n) => call(tool, `c${turn}-${n}`, q)))
        )
        const agent = Agent.make("a", {
          toolkit: tools,
          policy: { operations: policy, repetition: "off" }
        }).pipe(Agent.provide(handlers), Agent.provide(model([...lines, Scripted.text("done")]).layer))
        const limits = { turns: 2 }
        yield* Effect.exit(
          crashing(Agent.run(agent, "go", { runId: "r", limits }), { before: ({ seq }) => seq === crash })
        )
        for (let allowed = 2; allowed < 8; allowed += 2) {
          const resumed = Agent.resume(agent, "r", { limits: { turns: allowed } })
          const exit = yield* Effect.exit(Agent.outcome(resumed))
          if (exit._tag === "Failure") return
          const events = yield* journal("r")
          checkLaws(events)
          expectOnce(events)
          const unknown = RunState.unknownOutcomes(exit.value.run)
          for (const { callId } of unknown) yield* Agent.resolve({ runId: "r", callId }, Agent.happened())
        }
      }).pipe(Effect.provide(MemoryRunStore.layer)),
    { arbitrary: { runs: 150 } }
  )
})
