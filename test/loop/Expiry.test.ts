/** Approvals that expire: a call starts while its approval counts, or waits for another one. */
import { describe, expect } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { Agent, type RunExit, RunStore, ToolFailure } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import type { RunEvent } from "../../src/run/RunEvent.ts"
import {
  call,
  check,
  crashing,
  expectTag,
  finish,
  guarded,
  journal,
  of,
  once,
  resultOf,
  withTime
} from "./support.ts"

interface Handler {
  readonly fails?: () => boolean
}

/** An agent with tools that ask; `ran` is what was executed. */
const asking = (bot: ReturnType<typeof once>, { fails = () => false }: Handler = {}) => {
  const ran: Array<string> = []
  const tools = Toolkit.make(guarded("ask"), guarded("put").annotate(Tool.Idempotent, true))
  const handler =
    (name: string) =>
    ({ q }: { readonly q: string }) =>
      Effect.suspend(() => {
        ran.push(`${name} ${q}`)
        return fails() ? Effect.fail(ToolFailure.transient("away")) : Effect.succeed(`${name} ${q} done`)
      })
  const handlers = tools.toLayer({ ask: handler("ask"), put: handler("put") })
  const agent = Agent.make("a", { toolkit: tools }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
  return { agent, ran }
}

type Asked = ReturnType<typeof asking>

const run = ({ agent }: Asked) => finish(Agent.run(agent, "go", { runId: "r" }))
const resume = ({ agent }: Asked, options: Agent.ResumeOptions = {}) =>
  finish(Agent.resume(agent, "r", options))
const decide = (callId: string, decision: Agent.Decision, by = "ann") =>
  Agent.decide({ runId: "r", callId }, decision, { by })

const inAnHour = Agent.approve({ expires: "1 hour" })
const hour = Duration.toMillis("1 hour")
const hoursOn = (hours: number) => new Date(hours * hour).toISOString()

/** Moments around the expiry, in milliseconds from it on, and whether a call may start then. */
const moments = [
  [-hour, true],
  [-1, true],
  [0, false],
  [1, false],
  [hour, false]
] as const

type Ended = RunExit.Completed<unknown> | RunExit.RunExit

const waits = (exit: Ended, problem: string | undefined, ...callIds: ReadonlyArray<string>) => {
  const { calls, message } = expectTag(exit, "ApprovalRequired")
  expect(calls.map(({ callId }) => callId)).toEqual(callIds)
  expect(calls[0].problem).toBe(problem)
  if (problem !== undefined) expect(message).toContain(problem)
}

const expired = "the approval by ann expired at 1970-01-01T01:00:00.000Z"

describe("an approval that expires", () => {
  for (const [late, starts] of moments) {
    check(`${late} ms after its expiry, taken in at that moment: ${starts ? "used" : "void"}`, function* () {
      const world = asking(once(call("ask", "c", "x")))
      yield* run(world)
      yield* decide("c", inAnHour)
      yield* TestClock.adjust(hour + late)
      const { events, exit } = yield* resume(world)
      expect(world.ran).toEqual(starts ? ["ask x"] : [])
      if (starts) {
        expectTag(exit, "Completed")
        expect(of(events, "approval_resolved")).toMatchObject([{ v: 2, expires: hoursOn(1), by: "ann" }])
        return
      }
      waits(exit, expired, "c")
      expect(of(events, "approval_resolved")).toEqual([])
      yield* decide("c", Agent.approve(), "bob")
      const { exit: end } = yield* resume(world)
      expect(resultOf(expectTag(end, "Completed"), "c").content).toBe("ask x done")
      expect(world.ran).toEqual(["ask x"])
    })

    check(
      `${late} ms after its expiry, while the call waits behind another: ${starts ? "used" : "void"}`,
      function* () {
        const world = asking(once(call("ask", "c1", "x"), call("ask", "c2", "y")))
        yield* run(world)
        yield* decide("c2", inAnHour)
        const { exit: between } = yield* resume(world)
        waits(between, undefined, "c1")
        yield* decide("c1", Agent.approve())
        yield* TestClock.adjust(hour + late)
        const { events, exit } = yield* resume(world)
        expect(world.ran).toEqual(starts ? ["ask x", "ask y"] : ["ask x"])
        if (starts) return void expectTag(exit, "Completed")
        waits(exit, expired, "c2")
        expect(of(events, "tool_start").map(({ callId }) => callId)).toEqual(["c1"])
        yield* decide("c2", Agent.approve({ expires: "1 hour" }), "bob")
        yield* TestClock.adjust(hour - 1)
        expectTag((yield* resume(world)).exit, "Completed")
        expect(world.ran).toEqual(["ask x", "ask y"])
      }
    )

    check(
      `${late} ms after its expiry, in a run that had stopped at a limit: ${starts ? "used" : "void"}`,
      function* () {
        const world = asking(once(call("ask", "c", "x")))
        yield* run(world)
        yield* decide("c", inAnHour)
        expectTag((yield* resume(world, { limits: { turns: 1 } })).exit, "MaxTurnsExceeded")
        yield* TestClock.adjust(hour + late)
        const { exit } = yield* resume(world, { limits: { turns: 5 } })
        expect(world.ran).toEqual(starts ? ["ask x"] : [])
        if (starts) return void expectTag(exit, "Completed")
        waits(exit, expired, "c")
        yield* decide("c", Agent.reject("too late"))
        const { exit: end } = yield* resume(world)
        const { content } = resultOf(expectTag(end, "Completed"), "c")
        expect(content).toBe(
          "Declined: a person was asked about this call and declined it: too late. It did not run."
        )
      }
    )

    check(
      `${late} ms after its expiry, after a crash between the approval and the start: ${starts ? "used" : "void"}`,
      function* () {
        const world = asking(once(call("ask", "c", "x")))
        yield* run(world)
        yield* decide("c", inAnHour)
        const before = (event: RunEvent) => event.type === "tool_start"
        const lost = yield* Effect.flip(crashing(Agent.resume(world.agent, "r"), { before }))
        expect(lost._tag).toBe("RunStoreError")
        expect(world.ran).toEqual([])
        yield* TestClock.adjust(hour + late)
        const { exit } = yield* resume(world)
        expect(world.ran).toEqual(starts ? ["ask x"] : [])
        if (starts) expectTag(exit, "Completed")
        else waits(exit, expired, "c")
      }
    )

    check(
      `${late} ms after its expiry, after a crash in a call that may be repeated: ${starts ? "used" : "void"}`,
      function* () {
        const world = asking(once(call("put", "c", "x")))
        yield* run(world)
        yield* decide("c", Agent.approve({ args: { q: "y" }, expires: "1 hour" }))
        const before = (event: RunEvent) => event.type === "tool_result"
        yield* Effect.flip(crashing(Agent.resume(world.agent, "r"), { before }))
        yield* TestClock.adjust(hour + late)
        const { exit } = yield* resume(world)
        expect(world.ran).toEqual(starts ? ["put y", "put y"] : ["put y"])
        if (starts) return void expectTag(exit, "Completed")
        waits(exit, `${expired}, and the call was started before that and cut off`, "c")
        // It is the same call still: with other arguments it would be another.
        expect(expectTag(exit, "ApprovalRequired").calls[0].args).toEqual({ q: "y" })
        yield* decide("c", Agent.approve({ args: { q: "z" } }))
        const { exit: same } = yield* resume(world)
        expect(expectTag(same, "ApprovalRequired").message).toContain("with the same arguments alone")
        yield* decide("c", Agent.approve())
        const { events, exit: end } = yield* resume(world)
        expectTag(end, "Completed")
        expect(world.ran).toEqual(["put y", "put y"])
        expect(new Set(of(events, "tool_start").map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1)
      }
    )

    check(
      `${late} ms after its expiry, for a call of a sub-agent: ${starts ? "used" : "void"}`,
      function* () {
        const helper = asking(once(call("ask", "c", "x")))
        const { layer, tool } = Agent.asTool(helper.agent, { name: "help", description: "helps" })
        const toolkit = Toolkit.make(tool)
        const lead = Agent.make("lead", { toolkit }).pipe(
          Agent.provide(layer),
          Agent.provide(once(Scripted.call("help", { task: "go" }, { id: "h" })).layer)
        )
        const { exit: first } = yield* finish(Agent.run(lead, "go", { runId: "r" }))
        const [asked] = expectTag(first, "ApprovalRequired").calls
        expect(asked.runId).toBe("r/h")
        yield* Agent.decide(asked, inAnHour, { by: "ann" })
        yield* TestClock.adjust(hour + late)
        const { exit } = yield* finish(Agent.resume(lead, "r"))
        expect(helper.ran).toEqual(starts ? ["ask x"] : [])
        if (starts) return void expectTag(exit, "Completed")
        waits(exit, expired, "c")
        yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
        expectTag((yield* finish(Agent.resume(lead, "r"))).exit, "Completed")
        expect(helper.ran).toEqual(["ask x"])
      }
    )
  }

  check("is made up for by one that still counts, whoever of the two was first", function* () {
    const world = asking(once(call("ask", "c", "x")))
    yield* run(world)
    yield* decide("c", inAnHour)
    const early = yield* Effect.flip(decide("c", Agent.approve(), "bob"))
    expect(early.message).toContain("ann was first")
    yield* TestClock.adjust(hour)
    yield* decide("c", Agent.approve({ args: { q: "y" } }), "bob")
    const { events, exit } = yield* resume(world)
    expectTag(exit, "Completed")
    expect(of(events, "approval_resolved")).toMatchObject([{ by: "bob", args: { q: "y" } }])
    expect(world.ran).toEqual(["ask y"])
  })

  check("takes the arguments with it that were given with it", function* () {
    const world = asking(once(call("ask", "c1", "x"), call("ask", "c2", "y")))
    const { exit: first } = yield* run(world)
    yield* decide("c2", Agent.approve({ args: { q: "z" }, expires: "1 hour" }))
    yield* resume(world)
    yield* decide("c1", Agent.approve())
    yield* TestClock.adjust(hour)
    const { exit } = yield* resume(world)
    const [, asked] = expectTag(first, "ApprovalRequired").calls
    expect(expectTag(exit, "ApprovalRequired").calls).toEqual([{ ...asked, problem: expired }])
    yield* decide("c2", Agent.approve())
    expectTag((yield* resume(world)).exit, "Completed")
    expect(world.ran).toEqual(["ask x", "ask y"])
  })

  check("is not used for another attempt after its expiry: the failure stays the result", function* () {
    const world = asking(once(call("put", "c", "x")), { fails: () => true })
    yield* run(world)
    yield* decide("c", Agent.approve({ expires: "1 second" }))
    yield* TestClock.adjust("900 millis")
    const { events, exit } = yield* withTime(resume(world), "50 millis")
    expectTag(exit, "Completed")
    expect(world.ran).toEqual(["put x"])
    expect(of(events, "tool_result").at(-1)).toMatchObject({ callId: "c", ok: false })
  })

  check("is not asked about again while the run in its call, which began in time, goes on", function* () {
    const helper = asking(once(call("ask", "c", "x")))
    const { layer, tool } = Agent.asTool(helper.agent, { name: "help", description: "helps" })
    const toolkit = Toolkit.make(Object.assign(tool, { needsApproval: true }))
    const lead = Agent.make("lead", { toolkit }).pipe(
      Agent.provide(layer),
      Agent.provide(once(Scripted.call("help", { task: "go" }, { id: "h" })).layer)
    )
    yield* finish(Agent.run(lead, "go", { runId: "r" }))
    yield* decide("h", inAnHour)
    const { exit } = yield* finish(Agent.resume(lead, "r"))
    yield* TestClock.adjust("2 hours")
    yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
    expectTag((yield* finish(Agent.resume(lead, "r"))).exit, "Completed")
    expect(helper.ran).toEqual(["ask x"])
  })

  check("has a date, unless it never expires; one that would expire at once is refused", function* () {
    const world = asking(once(call("ask", "c", "x")))
    yield* run(world)
    for (const [expires, problem] of [
      [0, "an approval that expires at once is of no use"],
      [-1, '-1 is no duration that it could expire after, as "1 hour" is'],
      [Number.NaN, 'NaN is no duration that it could expire after, as "1 hour" is']
    ] as const) {
      const refused = yield* Effect.flip(decide("c", Agent.approve({ expires })))
      expect(refused).toMatchObject({ _tag: "RunStoreError", kind: "invalid", problem })
    }
    const misspelt = yield* Effect.flip(decide("c", Agent.approve({ expires: "1h" as Duration.Input })))
    expect(misspelt).toMatchObject({ _tag: "RunStoreError", kind: "invalid" })
    expect(misspelt.message).toContain(`"1h" is no duration`)
    const store = yield* RunStore.RunStore
    expect(yield* store.inbox("r", 0)).toEqual([])
    yield* decide("c", Agent.approve({ expires: Duration.infinity }))
    expect((yield* store.inbox("r", 0)).map(({ command }) => "expires" in command)).toEqual([false])
    yield* resume(world)
    expect(of(yield* journal("r"), "approval_resolved")).toMatchObject([{ v: 1 }])
  })

  check("whose date cannot be read is void", function* () {
    const world = asking(once(call("ask", "c", "x")))
    yield* run(world)
    const store = yield* RunStore.RunStore
    yield* store.send("r", { type: "decide", callId: "c", decision: "approved", expires: "soon" })
    waits((yield* resume(world)).exit, "the approval expired at soon", "c")
    expect(world.ran).toEqual([])
  })
})
