import { describe, expect } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import {
  Agent,
  CurrentCall,
  type Limits,
  MemoryRunStore,
  PriceBook,
  type RunEvent,
  RunStore,
  ToolFailure,
  ToolPolicy
} from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import {
  call,
  check,
  crashing,
  expectTag,
  expectValidRequests,
  expectValidTranscript,
  finish,
  guarded,
  journal,
  type Model,
  model,
  of,
  reader,
  resultOf,
  results,
  said,
  settle,
  withTime,
  writer
} from "./support.ts"

const Prices = PriceBook.layer({
  lead: { input: 7, output: 13 },
  helper: { input: 3, output: 5 },
  leaf: { input: 11, output: 17 }
})
/** What one turn costs at ten tokens in and five out, in nano-dollars. */
const perTurn = { lead: 135_000, helper: 55_000, leaf: 195_000 }

const nano = (usd: number): number => Math.round(usd * 1e9)

const summary = (runId: string) => Effect.flatMap(RunStore.RunStore, (store) => store.summary(runId))

/** What a run has paid itself: its turns, and at its estimate each model call that never came back. */
const ownCost = (runId: string) =>
  Effect.map(journal(runId), (events) => {
    let [total, open] = [0, 0]
    for (const event of events) {
      if (event.type === "turn" || event.type === "turn_failed")
        [total, open] = [total + nano(event.costUsd), 0]
      if (event.type === "turn_started") open = nano(event.estimate.costUsd)
      if (event.type === "run_resumed") [total, open] = [total + open, 0]
    }
    return total + open
  })

/** A run costs what its own turns and its children cost, to the nano-dollar. */
const expectRolledUp = (runId: string, children: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const own = yield* ownCost(runId)
    const costs = yield* Effect.forEach(children, (id) =>
      Effect.map(summary(id), ({ costUsd }) => nano(costUsd))
    )
    expect(nano((yield* summary(runId)).costUsd)).toBe(own + costs.reduce((a, b) => a + b, 0))
  })

interface Family {
  readonly lead: Model
  readonly helper: Model
  readonly limits?: Limits.LimitsInput
  readonly helperLimits?: Limits.LimitsInput
  readonly helperPolicy?: Agent.PolicyInput
  readonly parallel?: boolean
  readonly policy?: Agent.PolicyInput
  readonly slow?: () => Effect.Effect<string, ToolFailure.ToolFailure>
}

/** A lead whose tool is a helper with tools of its own; `ran` is what the helper's tools executed. */
const family = ({
  helper: bot,
  helperLimits,
  helperPolicy,
  lead: leadBot,
  limits,
  parallel,
  policy,
  slow
}: Family) => {
  const ran: Array<string> = []
  const tools = Toolkit.make(
    reader("read"),
    writer("write"),
    guarded("ask"),
    reader("slow"),
    writer("hang").annotate(ToolPolicy.Timeout, "5 seconds")
  )
  const handler =
    (name: string) =>
    ({ q }: { readonly q: string }) =>
      Effect.sync(() => {
        ran.push(`${name} ${q}`)
        return `${name} ${q} done`
      })
  const handlers = tools.toLayer({
    read: handler("read"),
    write: handler("write"),
    ask: handler("ask"),
    slow: (params) =>
      Effect.andThen(handler("slow")(params), slow === undefined ? Effect.succeed("slow") : slow()),
    hang: (params) => Effect.andThen(handler("hang")(params), Effect.never)
  })
  const helper = Agent.make("helper", {
    instructions: "You help.",
    toolkit: tools,
    limits: helperLimits,
    policy: { modelRetries: 0, ...helperPolicy }
  }).pipe(Agent.provide(handlers), Agent.provide(bot.layer))
  const { layer, tool } = Agent.asTool(helper, {
    name: "help",
    description: "Asks the helper."
  })
  const lead = Agent.make("lead", {
    toolkit: Toolkit.make(parallel === true ? tool.annotate(Tool.Readonly, true) : tool),
    limits,
    policy: { modelRetries: 0, ...policy }
  }).pipe(Agent.provide(layer), Agent.provide(leadBot.layer))
  return { helper, lead, ran }
}

const help = (id: string, task = "look") => Scripted.call("help", { task }, { id })

/** A lead that asks once and then answers. */
const asksOnce = () => model([help("c"), Scripted.text("all done")], "lead")

const priced = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.provide(effect, Prices)
type Runnable<A> = Agent.Agent<A, never, RunStore.RunStore>
const run = <A>(agent: Runnable<A>) => priced(finish(Agent.run(agent, "go", { runId: "r" })))
const resume = <A>(agent: Runnable<A>, options = {}) => priced(finish(Agent.resume(agent, "r", options)))

describe("a sub-agent", () => {
  check("is a run of its own: id, parent, transcript, model, turns; its answer is the result", function* () {
    const bots = {
      lead: asksOnce(),
      helper: model([call("read", "c", "x"), Scripted.text("found it")], "helper")
    }
    const { lead, ran } = family({ ...bots, limits: { turns: 2 } })
    const { events, exit } = yield* run(lead)
    const { output, run: state } = expectTag(exit, "Completed")
    expect(output).toBe("all done")
    expect(resultOf(exit, "c")).toMatchObject({
      ok: true,
      content: "found it"
    })
    expect(state.turns).toBe(2)
    expect(ran).toEqual(["read x"])
    const child = yield* summary("r/c")
    expect(child).toMatchObject({
      agent: "helper",
      parent: { runId: "r", callId: "c" },
      status: "completed",
      turns: 2
    })
    const started = of(yield* journal("r/c"), "run_started")
    expect(started).toHaveLength(1)
    expect(started[0]?.messages).toEqual([
      { role: "system", content: "You help." },
      { role: "user", content: "look" }
    ])
    expect(said(exit)).not.toContain("read x done")
    expect(bots.helper.requests).toHaveLength(2)
    expect(bots.lead.requests).toHaveLength(2)
    expect(of(events, "tool_start").map(({ callId }) => callId)).toEqual(["c"])
    expectValidRequests(bots.lead.requests)
    expectValidRequests(bots.helper.requests)
  })

  check("answers with all of an answer that was cut off", function* () {
    const { lead } = family({
      lead: asksOnce(),
      helper: model([Scripted.text("One, ", { finish: "length" }), Scripted.text("two.")], "helper")
    })
    const { exit } = yield* run(lead)
    expect(resultOf(expectTag(exit, "Completed"), "c").content).toBe("One, two.")
  })

  check("costs its parent exactly what it cost", function* () {
    const { lead } = family({
      lead: model([help("c1"), help("c2"), Scripted.text("done")], "lead"),
      helper: model([call("read", "c", "x"), Scripted.text("found it")], "helper")
    })
    const { events, exit } = yield* run(lead)
    expectTag(exit, "Completed")
    expect(nano(exit.run.costUsd)).toBe(3 * perTurn.lead + 4 * perTurn.helper)
    expect(of(events, "tool_result").map(({ childCostUsd }) => nano(childCostUsd ?? 0))).toEqual([
      2 * perTurn.helper,
      2 * perTurn.helper
    ])
    expect(nano(of(events, "run_stopped")[0]?.costUsd ?? 0)).toBe(nano(exit.run.costUsd))
    yield* expectRolledUp("r", ["r/c1", "r/c2"])
  })

  check("is paid from its parent's money: the parent's limit sees it", function* () {
    const { lead } = family({
      lead: asksOnce(),
      helper: model([call("read", "c", "x"), Scripted.text("found it")], "helper"),
      limits: { usd: 0.0002 }
    })
    const { exit } = yield* run(lead)
    const { resource, used } = expectTag(exit, "BudgetExceeded")
    expect(resource).toBe("usd")
    expect(nano(used)).toBe(perTurn.lead + 2 * perTurn.helper)
    expect(resultOf(exit, "c").content).toBe("found it")
  })

  check("whose model has no known price makes its parent's cost one that is not known", function* () {
    const noLimit = { usd: Number.POSITIVE_INFINITY }
    for (const helper of [
      model([call("read", "c", "x"), Scripted.text("found it")], "helper"),
      model([call("ask", "c", "x")], "helper")
    ]) {
      const { lead } = family({ lead: asksOnce(), helper, limits: noLimit, helperLimits: noLimit })
      const { exit } = yield* finish(Agent.run(lead, "go", { runId: "r" })).pipe(
        Effect.provide(PriceBook.layer({ lead: { input: 7, output: 13 } })),
        Effect.provide(Layer.fresh(MemoryRunStore.layer))
      )
      expect(exit.run.unpriced).toBe(true)
    }
  })

  check("takes other parameters and gives a structured answer", function* () {
    const Report = Schema.Struct({
      files: Schema.Array(Schema.String),
      at: Schema.DateFromString
    })
    const bot = model([
      Scripted.call("submit_result", { files: ["a"], at: "1970-01-01T00:00:00.000Z" }, { id: "s" })
    ])
    const helper = Agent.make("helper", { output: Report }).pipe(Agent.provide(bot.layer))
    const { layer, tool } = Agent.asTool(helper, {
      name: "help",
      description: "Asks.",
      parameters: Schema.Struct({ folder: Schema.String }),
      success: Report,
      input: ({ folder }) => `Look into ${folder}.`
    })
    const leadBot = model([Scripted.call("help", { folder: "logs" }, { id: "c" }), Scripted.text("done")])
    const lead = Agent.make("lead", { toolkit: Toolkit.make(tool) }).pipe(
      Agent.provide(layer),
      Agent.provide(leadBot.layer)
    )
    const { exit } = yield* finish(Agent.run(lead, "go", { runId: "r" }))
    expectTag(exit, "Completed")
    expect(JSON.parse(resultOf(exit, "c").content)).toEqual({
      files: ["a"],
      at: "1970-01-01T00:00:00.000Z"
    })
    expect(bot.requests[0]?.at(-1)?.content).toBe("Look into logs.")
  })

  check("with wrong parameters is answered in words, and no run begins", function* () {
    const { lead } = family({
      lead: model([Scripted.call("help", { job: 1 }, { id: "c" }), Scripted.text("done")], "lead"),
      helper: model([Scripted.text("hello")], "helper")
    })
    const { exit } = yield* run(lead)
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c").ok).toBe(false)
    expect((yield* Effect.flip(summary("r/c")))._tag).toBe("RunNotFound")
  })

  check("calls run one after the other", function* () {
    const { lead, ran } = family({
      lead: model([Scripted.turn(help("c1", "1"), help("c2", "2")), Scripted.text("done")], "lead"),
      helper: model(
        [
          (t) => Scripted.turn(call("read", "a", t.task)),
          (t) => call("write", "b", t.task),
          Scripted.text("ok")
        ],
        "helper"
      )
    })
    const { exit } = yield* run(lead)
    expectTag(exit, "Completed")
    expect(ran).toEqual(["read 1", "write 1", "read 2", "write 2"])
    yield* expectRolledUp("r", ["r/c1", "r/c2"])
  })

  check("calls of a tool that is Readonly run at the same time", function* () {
    const both = yield* Deferred.make<void>()
    let here = 0
    const { lead } = family({
      lead: model([Scripted.turn(help("c1", "1"), help("c2", "2")), Scripted.text("done")], "lead"),
      helper: model([(t) => call("slow", "a", t.task), (t) => Scripted.text(`ok ${t.task}`)], "helper"),
      parallel: true,
      slow: () =>
        Effect.suspend(() => (++here === 2 ? Deferred.succeed(both, undefined) : Effect.void)).pipe(
          Effect.andThen(Deferred.await(both)),
          Effect.as("slow")
        )
    })
    const { exit } = yield* run(lead)
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c1").content).toBe("ok 1")
    expect(resultOf(exit, "c2").content).toBe("ok 2")
    yield* expectRolledUp("r", ["r/c1", "r/c2"])
  })
})

describe("what ends a sub-agent short comes back in words", () => {
  const endsWith = (options: Omit<Family, "lead">, words: RegExp) =>
    Effect.gen(function* () {
      const bot = asksOnce()
      const { lead, ran } = family({ ...options, lead: bot })
      const { exit } = yield* withTime(run(lead))
      expectTag(exit, "Completed")
      const result = resultOf(exit, "c")
      expect(result.ok).toBe(false)
      expect(result.content).toMatch(words)
      expect(result.content).not.toMatch(/undefined|\[object|\bat .*\.ts:/)
      expectValidRequests(bot.requests)
      yield* expectRolledUp("r", ["r/c"])
      return { content: result.content, ran }
    })

  check("its turn limit, with all that it had said of an answer that was cut off", function* () {
    const { content } = yield* endsWith(
      {
        helper: model(
          ["One, ", "two, "].map((text) => Scripted.text(text, { finish: "length" })),
          "helper"
        ),
        helperLimits: { turns: 2 }
      },
      /turn/i
    )
    expect(content).toContain("One, two,")
  })

  const digging = (text: string) =>
    model((turn) => Scripted.turn(Scripted.text(text), call("read", `c${turn}`, `${turn}`)), "helper")

  check("its turn limit, with results that are cut between characters", function* () {
    const digs = model((turn) => call("slow", `c${turn}`, `${turn}`), "helper")
    const slow = () => Effect.succeed(`x${"😀".repeat(400)}`)
    const { content } = yield* endsWith({ helper: digs, helperLimits: { turns: 2 }, slow }, /turn/i)
    expect(content).toContain("😀 …")
    expect(content.isWellFormed()).toBe(true)
  })

  check("its turn limit, with what it had said", function* () {
    const { content } = yield* endsWith(
      { helper: digging("So far: alpha is down."), helperLimits: { turns: 3 } },
      /turn/i
    )
    expect(content).toContain("alpha is down")
    expect(yield* summary("r/c")).toMatchObject({
      status: "max_turns_exceeded",
      turns: 3
    })
  })

  check("its turn limit, with what its tools had found, if it said nothing", function* () {
    const { content } = yield* endsWith({ helper: digging(""), helperLimits: { turns: 3 } }, /turn/i)
    expect(content).toContain("read 0 done")
    expect(content).not.toMatch(/the last/)
  })

  check("of more than it can tell, how much was left out", function* () {
    const { content } = yield* endsWith({ helper: digging(""), helperLimits: { turns: 6 } }, /turn/i)
    expect(content).toContain("the last 3 of 5 results: ")
    expect(content).not.toContain("read 1 done")
    expect(content).toContain("read 4 done")
  })

  check("its budget", function* () {
    const { content } = yield* endsWith(
      {
        helper: digging("So far: beta is slow."),
        helperLimits: { usd: 0.0001 }
      },
      /usd|money|budget|\$/i
    )
    expect(content).toContain("beta is slow")
    expect((yield* summary("r/c")).status).toBe("budget_exceeded")
  })

  check("its deadline", function* () {
    yield* endsWith(
      {
        helper: model([call("slow", "c", "x")], "helper"),
        helperLimits: { time: "10 seconds" },
        slow: () => Effect.never
      },
      /time|second|ms/i
    )
    expect(yield* summary("r/c")).toMatchObject({
      status: "budget_exceeded",
      reason: "max_budget"
    })
  })

  check("a refusal of its provider", function* () {
    const helper = model([call("read", "c", "x"), Scripted.fail(400, { message: "bad request" })], "helper")
    const { content } = yield* endsWith({ helper }, /./)
    expect(content).toMatch(/refused|provider|fail/i)
    expect(yield* summary("r/c")).toMatchObject({
      status: "failed",
      reason: "provider_refused"
    })
  })

  check("a permanent failure of one of its tools stops the child, not the parent", function* () {
    const { content } = yield* endsWith(
      {
        helper: model([call("slow", "c", "x")], "helper"),
        slow: () => Effect.fail(ToolFailure.permanent("you have no access to these logs"))
      },
      /./
    )
    expect(content).toContain("no access")
    expect(yield* summary("r/c")).toMatchObject({
      status: "failed",
      reason: "tool_permanent"
    })
  })

  check("and a policy of generic words for tool errors does not hide what the child had found", function* () {
    const { lead } = family({
      lead: asksOnce(),
      helper: digging("So far: gamma leaks."),
      helperLimits: { turns: 2 },
      policy: { toolErrors: "generic" }
    })
    const { exit } = yield* run(lead)
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c").content).toContain("gamma leaks")
  })

  check("a child that repeats itself", function* () {
    const helper = model((turn) => call("read", `c${turn}`, "same"), "helper")
    yield* endsWith({ helper }, /same|repeat|stall|again/i)
    expect((yield* summary("r/c")).reason).toBe("stalled")
  })
})

describe("what waits for somebody suspends the parent", () => {
  const askingHelper = () =>
    model([call("read", "a", "1"), call("ask", "b", "2"), Scripted.text("helped")], "helper")

  check("an approval: it names the child's run, and the child continues where it was (case 5)", function* () {
    const bots = { lead: asksOnce(), helper: askingHelper() }
    const { lead, ran } = family(bots)
    const { events, exit } = yield* run(lead)
    const { calls } = expectTag(exit, "ApprovalRequired")
    expect(calls).toMatchObject([{ runId: "r/c", callId: "b", tool: "ask", args: { q: "2" } }])
    expect(ran).toEqual(["read 1"])
    expect(of(events, "child_suspended")).toMatchObject([{ callId: "c", suspension: { runId: "r/c" } }])
    expect(results(exit.run.messages)).toEqual({})
    expect(yield* summary("r")).toMatchObject({
      status: "interrupted",
      reason: "approval",
      approvals: calls
    })
    expect(nano(exit.run.costUsd)).toBe(perTurn.lead + 2 * perTurn.helper)
    // Nobody has decided: nothing happens.
    expectTag((yield* resume(lead)).exit, "ApprovalRequired")
    expect(bots.helper.requests).toHaveLength(2)
    yield* Agent.decide(calls[0], Agent.approve())
    const { events: after, exit: end } = yield* resume(lead)
    expectTag(end, "Completed")
    expect(ran).toEqual(["read 1", "ask 2"])
    expect(bots.helper.requests).toHaveLength(3)
    expect(bots.lead.requests).toHaveLength(2)
    expect(resultOf(end, "c")).toMatchObject({ ok: true, content: "helped" })
    expect(of(after, "tool_result", "c").filter(({ ok }) => ok)).toHaveLength(1)
    const child = yield* journal("r/c")
    expect(of(child, "run_started")).toHaveLength(1)
    expect(of(child, "tool_start").map(({ callId }) => callId)).toEqual(["a", "b"])
    expect(nano(end.run.costUsd)).toBe(2 * perTurn.lead + 3 * perTurn.helper)
    yield* expectRolledUp("r", ["r/c"])
    expectValidRequests(bots.helper.requests)
    expectValidRequests(bots.lead.requests)
  })

  check("a rejection and edited arguments reach the child", function* () {
    const first = family({ lead: asksOnce(), helper: askingHelper() })
    const { exit } = yield* run(first.lead)
    const { calls } = expectTag(exit, "ApprovalRequired")
    const digest = yield* Effect.flip(Agent.decide({ ...calls[0], argsDigest: "other" }, Agent.approve()))
    expect(digest._tag).toBe("CallNotPending")
    yield* Agent.decide(calls[0], Agent.approve({ args: { q: "two" } }))
    expectTag((yield* resume(first.lead)).exit, "Completed")
    expect(first.ran).toEqual(["read 1", "ask two"])
    const second = family({ lead: asksOnce(), helper: askingHelper() })
    const other = yield* priced(finish(Agent.run(second.lead, "go", { runId: "s" })))
    yield* Agent.decide(expectTag(other.exit, "ApprovalRequired").calls[0], Agent.reject("not now"))
    const end = yield* priced(finish(Agent.resume(second.lead, "s")))
    expectTag(end.exit, "Completed")
    expect(second.ran).toEqual(["read 1"])
    const child = of(yield* journal("s/c"), "tool_result", "b")[0]
    expect(child?.content).toContain("not now")
  })

  check("two resume the parent at the same moment: the child's call runs once (case 2)", function* () {
    const { lead, ran } = family({
      lead: asksOnce(),
      helper: askingHelper()
    })
    const { exit } = yield* run(lead)
    yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
    const exits = yield* Effect.all(
      [1, 2].map(() => Effect.exit(priced(Agent.resume(lead, "r")))),
      { concurrency: "unbounded" }
    )
    expect(exits.some((each) => each._tag === "Success")).toBe(true)
    expect(ran).toEqual(["read 1", "ask 2"])
  })

  check("a child that was resumed by itself is not run again by its parent", function* () {
    const bots = { lead: asksOnce(), helper: askingHelper() }
    const { helper, lead, ran } = family(bots)
    const { exit } = yield* run(lead)
    yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
    expectTag((yield* priced(finish(Agent.resume(helper, "r/c")))).exit, "Completed")
    const { exit: end } = yield* resume(lead)
    expectTag(end, "Completed")
    expect(ran).toEqual(["read 1", "ask 2"])
    expect(bots.helper.requests).toHaveLength(3)
    expect(resultOf(end, "c").content).toBe("helped")
    yield* expectRolledUp("r", ["r/c"])
  })

  check("several children at once: all their approvals, some decided now and some later", function* () {
    const { lead, ran } = family({
      lead: model([Scripted.turn(help("c1", "1"), help("c2", "2")), Scripted.text("done")], "lead"),
      helper: model([(t) => call("ask", "b", t.task), (t) => Scripted.text(`ok ${t.task}`)], "helper"),
      parallel: true
    })
    const { exit } = yield* run(lead)
    const { calls } = expectTag(exit, "ApprovalRequired")
    expect(calls.map(({ runId }) => runId).sort()).toEqual(["r/c1", "r/c2"])
    yield* Agent.decide({ runId: "r/c2", callId: "b" }, Agent.approve())
    const second = yield* resume(lead)
    const { calls: left } = expectTag(second.exit, "ApprovalRequired")
    expect(left.map(({ runId }) => runId)).toEqual(["r/c1"])
    expect(ran).toEqual(["ask 2"])
    expect(resultOf(second.exit, "c2").content).toBe("ok 2")
    yield* Agent.decide(left[0], Agent.approve())
    const { exit: end } = yield* resume(lead)
    expectTag(end, "Completed")
    expect(ran).toEqual(["ask 2", "ask 1"])
    expect(resultOf(end, "c1").content).toBe("ok 1")
    yield* expectRolledUp("r", ["r/c1", "r/c2"])
  })

  check("one after the other: a child that waits holds back the next one", function* () {
    const { lead, ran } = family({
      lead: model([Scripted.turn(help("c1", "1"), help("c2", "2")), Scripted.text("done")], "lead"),
      helper: model([(t) => call("ask", "b", t.task), (t) => Scripted.text(`ok ${t.task}`)], "helper")
    })
    const { exit } = yield* run(lead)
    const { calls } = expectTag(exit, "ApprovalRequired")
    expect(calls.map(({ runId }) => runId)).toEqual(["r/c1"])
    yield* Agent.decide(calls[0], Agent.approve())
    const second = yield* resume(lead)
    expect(expectTag(second.exit, "ApprovalRequired").calls.map(({ runId }) => runId)).toEqual(["r/c2"])
    expect(ran).toEqual(["ask 1"])
  })

  check("an outage of the child's provider", function* () {
    let down = true
    const bots = {
      lead: asksOnce(),
      helper: model((turn) => {
        if (turn === 0) return call("write", "a", "1")
        return down ? Scripted.fail(500) : Scripted.text("helped")
      }, "helper")
    }
    const { lead, ran } = family(bots)
    const { exit } = yield* run(lead)
    expectTag(exit, "ProviderUnavailable")
    expect(exit.run).toMatchObject({
      status: "interrupted",
      reason: "provider"
    })
    expect(results(exit.run.messages)).toEqual({})
    down = false
    const { exit: end } = yield* resume(lead)
    expectTag(end, "Completed")
    expect(ran).toEqual(["write 1"])
    expect(resultOf(end, "c").content).toBe("helped")
    expect(bots.lead.requests).toHaveLength(2)
    yield* expectRolledUp("r", ["r/c"])
  })

  check("a call of the child whose outcome is unknown", function* () {
    const bots = {
      lead: asksOnce(),
      helper: model([call("hang", "a", "1"), Scripted.text("helped")], "helper")
    }
    const { lead, ran } = family(bots)
    const { exit } = yield* withTime(run(lead))
    const { calls } = expectTag(exit, "OutcomeUnknown")
    expect(calls).toMatchObject([{ runId: "r/c", callId: "a", tool: "hang" }])
    expect((yield* summary("r")).unknown).toEqual(calls)
    yield* Agent.resolve(calls[0], Agent.happened("it did"))
    const { exit: end } = yield* resume(lead)
    expectTag(end, "Completed")
    expect(ran).toEqual(["hang 1"])
    expect(of(yield* journal("r/c"), "outcome_resolved")).toHaveLength(1)
  })

  check("a question of the child: the answer is given to the parent's resume", function* () {
    const bot = model([
      Scripted.call("request_input", { question: "Which server?" }, { id: "q" }),
      (t) => Scripted.call("submit_result", { answer: t.saw("alpha") ? "alpha" : "lost" }, { id: "s" })
    ])
    const Answer = Schema.Struct({ answer: Schema.String })
    const helper = Agent.make("helper", { output: Answer }).pipe(Agent.provide(bot.layer))
    const { layer, tool } = Agent.asTool(helper, {
      name: "help",
      description: "Asks.",
      success: Answer
    })
    const lead = Agent.make("lead", { toolkit: Toolkit.make(tool) }).pipe(
      Agent.provide(layer),
      Agent.provide(asksOnce().layer)
    )
    const { exit } = yield* run(lead)
    const asked = expectTag(exit, "InputRequired")
    expect(asked).toMatchObject({
      question: "Which server?",
      runId: "r/c",
      callId: "q"
    })
    const { exit: end } = yield* resume(lead, { message: "alpha" })
    expectTag(end, "Completed")
    expect(JSON.parse(resultOf(end, "c").content)).toEqual({
      answer: "alpha"
    })
    expect(bot.requests).toHaveLength(2)
  })
})

describe("nesting", () => {
  const nested = (
    leafBot: Model,
    { limits, read }: { readonly limits?: Limits.LimitsInput; readonly read?: Effect.Effect<string> } = {}
  ) => {
    const ran: Array<string> = []
    const tools = Toolkit.make(reader("read"), guarded("ask"))
    const handler =
      (name: string) =>
      ({ q }: { readonly q: string }) =>
        Effect.sync(() => `${ran.push(`${name} ${q}`)}`)
    const leaf = Agent.make("leaf", { toolkit: tools, limits }).pipe(
      Agent.provide(
        tools.toLayer({ read: read === undefined ? handler("read") : () => read, ask: handler("ask") })
      ),
      Agent.provide(leafBot.layer)
    )
    const inner = Agent.asTool(leaf, {
      name: "inner",
      description: "Asks the leaf."
    })
    const helperBot = model(
      [Scripted.call("inner", { task: "dig" }, { id: "c" }), Scripted.text("helped")],
      "helper"
    )
    const helper = Agent.make("helper", {
      toolkit: Toolkit.make(inner.tool),
      limits
    }).pipe(Agent.provide(inner.layer), Agent.provide(helperBot.layer))
    const outer = Agent.asTool(helper, {
      name: "help",
      description: "Asks the helper."
    })
    const lead = Agent.make("lead", { toolkit: Toolkit.make(outer.tool), limits }).pipe(
      Agent.provide(outer.layer),
      Agent.provide(asksOnce().layer)
    )
    return { lead, ran }
  }

  check("two levels: ids, cost, approval and answer go all the way", function* () {
    const { lead, ran } = nested(
      model([call("read", "a", "1"), call("ask", "b", "2"), Scripted.text("dug")], "leaf")
    )
    const { exit } = yield* run(lead)
    const { calls } = expectTag(exit, "ApprovalRequired")
    expect(calls).toMatchObject([{ runId: "r/c/c", callId: "b" }])
    expect(nano(exit.run.costUsd)).toBe(perTurn.lead + perTurn.helper + 2 * perTurn.leaf)
    yield* Agent.decide(calls[0], Agent.approve())
    const { exit: end } = yield* resume(lead)
    expectTag(end, "Completed")
    expect(ran).toEqual(["read 1", "ask 2"])
    expect(nano(end.run.costUsd)).toBe(2 * perTurn.lead + 2 * perTurn.helper + 3 * perTurn.leaf)
    yield* expectRolledUp("r", ["r/c"])
    yield* expectRolledUp("r/c", ["r/c/c"])
    expect((yield* summary("r/c/c")).parent).toEqual({
      runId: "r/c",
      callId: "c"
    })
  })

  check("two levels: a Stop tells the top what was used below, and that it has no known price", function* () {
    const started = yield* Deferred.make<void>()
    const { lead } = nested(model([call("read", "a", "1"), call("read", "b", "2")], "leaf"), {
      limits: { usd: Number.POSITIVE_INFINITY },
      read: Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
    })
    const noLeaf = PriceBook.layer({ lead: { input: 7, output: 13 }, helper: { input: 3, output: 5 } })
    const fiber = yield* Effect.forkChild(
      Effect.provide(finish(Agent.run(lead, "go", { runId: "r" })), noLeaf)
    )
    yield* Deferred.await(started)
    yield* Fiber.interrupt(fiber)
    for (const [runId, turns] of [
      ["r", 3],
      ["r/c", 2],
      ["r/c/c", 1]
    ] as const) {
      expect((yield* summary(runId)).unpriced, runId).toBe(true)
      expect((yield* journal(runId)).at(-1), runId).toMatchObject({ tokens: 15 * turns, unpriced: true })
    }
  })

  check(
    "a crash at any append of any level: resumed, nothing is lost or doubled and the cost is exact",
    function* () {
      const wrong: Array<string> = []
      let at = 0
      for (;;) {
        at++
        const { lead, ran } = nested(model([call("read", "a", "1"), Scripted.text("dug")], "leaf"))
        const id = `n${at}`
        let count = 0
        const died = yield* priced(
          Effect.exit(
            crashing(Agent.run(lead, "go", { runId: id }), {
              before: () => ++count > at
            })
          )
        )
        if (died._tag === "Success") break
        const end = yield* priced(finish(Agent.run(lead, "go", { runId: id })))
        expectTag(end.exit, "Completed")
        expect(ran.length, `crash at ${at}`).toBeLessThanOrEqual(2)
        for (const run of [`${id}/c`, `${id}/c/c`]) {
          expect(of(yield* journal(run), "run_started"), `crash at ${at}`).toHaveLength(1)
        }
        for (const [run, child] of [
          [id, `${id}/c`],
          [`${id}/c`, `${id}/c/c`]
        ] as const) {
          const own = yield* ownCost(run)
          const { costUsd } = yield* summary(run)
          const below = yield* summary(child)
          if (nano(costUsd) !== own + nano(below.costUsd)) {
            wrong.push(
              `crash at event ${at}: ${run} costs ${nano(costUsd)}, not ${own} + ${nano(below.costUsd)}`
            )
          }
        }
      }
      expect(at).toBeGreaterThan(20)
      expect(wrong).toEqual([])
    }
  )
})

describe("one Stop for the tree", () => {
  const stopping = (slow: Deferred.Deferred<void>, ended: () => void) => {
    let first = true
    return family({
      lead: asksOnce(),
      helper: model([call("write", "a", "1"), call("slow", "b", "2"), Scripted.text("helped")], "helper"),
      slow: () => {
        if (!first) return Effect.succeed("slow")
        first = false
        return Effect.andThen(Deferred.succeed(slow, undefined), Effect.never).pipe(
          Effect.onInterrupt(() => Effect.sync(ended))
        )
      }
    })
  }

  check("stops the child and its tool, keeps what was paid, and a resume goes on from there", function* () {
    const started = yield* Deferred.make<void>()
    let ended = 0
    const { lead, ran } = stopping(started, () => ended++)
    const fiber = yield* Effect.forkChild(priced(Agent.run(lead, "go", { runId: "r" })))
    yield* Deferred.await(started)
    yield* Fiber.interruptAs(fiber, undefined, Context.make(Agent.CancelReason, "user pressed Stop"))
    expect(ended).toBe(1)
    const exit = yield* Fiber.await(fiber)
    expect(exit._tag === "Failure" && Cause.hasInterruptsOnly(exit.cause)).toBe(true)
    const parent = yield* journal("r")
    const child = yield* journal("r/c")
    expect(parent.at(-1)).toMatchObject({
      type: "run_stopped",
      reason: "cancelled",
      detail: "user pressed Stop"
    })
    expect(child.at(-1)).toMatchObject({
      type: "run_stopped",
      reason: "cancelled"
    })
    expect(nano((yield* summary("r/c")).costUsd)).toBe(2 * perTurn.helper)
    expect(nano((yield* summary("r")).costUsd)).toBe(perTurn.lead + 2 * perTurn.helper)
    const { exit: end } = yield* resume(lead)
    expectTag(end, "Completed")
    expect(ran).toEqual(["write 1", "slow 2", "slow 2"])
    expect(nano(end.run.costUsd)).toBe(2 * perTurn.lead + 3 * perTurn.helper)
    yield* expectRolledUp("r", ["r/c"])
    expectValidTranscript(end.run)
  })

  check("by a command to the parent's inbox", function* () {
    const started = yield* Deferred.make<void>()
    let ended = 0
    const { lead } = stopping(started, () => ended++)
    const fiber = yield* Effect.forkChild(priced(Agent.run(lead, "go", { runId: "r" })))
    yield* Deferred.await(started)
    const store = yield* RunStore.RunStore
    yield* store.send("r", { type: "cancel", reason: "enough" })
    const exit = yield* Fiber.await(fiber)
    expect(exit._tag).toBe("Failure")
    expect(ended).toBe(1)
    expect(yield* summary("r")).toMatchObject({
      status: "interrupted",
      reason: "cancelled",
      detail: "enough"
    })
    expect(yield* summary("r/c")).toMatchObject({
      status: "interrupted",
      reason: "cancelled"
    })
    // The command is used up: a resume is not stopped by it once more.
    expectTag((yield* resume(lead)).exit, "Completed")
  })

  check("a Stop of the child alone, by its inbox, does not kill the parent without a word", function* () {
    const started = yield* Deferred.make<void>()
    let ended = 0
    const { lead } = stopping(started, () => ended++)
    const fiber = yield* Effect.forkChild(priced(Agent.run(lead, "go", { runId: "r" })))
    yield* Deferred.await(started)
    const store = yield* RunStore.RunStore
    yield* store.send("r/c", { type: "cancel", reason: "only the helper" })
    yield* Fiber.await(fiber)
    expect(ended).toBe(1)
    expect((yield* summary("r/c")).reason).toBe("cancelled")
    const parent = yield* summary("r")
    expect(parent.status).not.toBe("running")
    expect(parent.status).not.toBe("failed")
  })

  check("a tool timeout of the parent stops the child, which is told in words and paid for", function* () {
    let ended = 0
    const { lead } = family({
      lead: asksOnce(),
      helper: model([call("read", "a", "1"), call("slow", "b", "2"), Scripted.text("helped")], "helper"),
      policy: { toolTimeout: "10 seconds" },
      slow: () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => ended++))
    })
    const { exit } = yield* withTime(run(lead))
    expectTag(exit, "Completed")
    expect(ended).toBe(1)
    expect(resultOf(exit, "c")).toMatchObject({
      ok: false,
      content:
        "helper ended without an answer: used 9000 ms of a limit of 9000 ms. What it had found: read: read 1 done"
    })
    expect(yield* summary("r/c")).toMatchObject({ status: "budget_exceeded", reason: "max_budget" })
    expect(nano(exit.run.costUsd)).toBe(2 * perTurn.lead + 2 * perTurn.helper)
    yield* expectRolledUp("r", ["r/c"])
  })

  check("a failure that ends the parent stops the child beside it, which is paid for", function* () {
    let ended = 0
    const started = yield* Deferred.make<void>()
    const helper = Agent.make("helper", { toolkit: Toolkit.make(reader("slow")) }).pipe(
      Agent.provide(
        Toolkit.make(reader("slow")).toLayer({
          slow: () =>
            Effect.andThen(Deferred.succeed(started, undefined), Effect.never).pipe(
              Effect.onInterrupt(() => Effect.sync(() => ended++))
            )
        })
      ),
      Agent.provide(model([call("slow", "b"), Scripted.text("helped")], "helper").layer)
    )
    const ask = Agent.asTool(helper, { name: "help", description: "Asks the helper." })
    const tools = Toolkit.make(reader("read"))
    const denied = Effect.andThen(Deferred.await(started), Effect.fail(ToolFailure.permanent("denied")))
    const lead = Agent.make("lead", {
      toolkit: Toolkit.merge(tools, Toolkit.make(ask.tool.annotate(Tool.Readonly, true)))
    }).pipe(
      Agent.provide(Layer.merge(ask.layer, tools.toLayer({ read: () => denied }))),
      Agent.provide(model([Scripted.turn(help("c"), call("read", "d")), Scripted.text("done")], "lead").layer)
    )
    const { events, exit } = yield* run(lead)
    expectTag(exit, "RunFailed")
    expect(ended).toBe(1)
    expect(yield* summary("r/c")).toMatchObject({ reason: "cancelled", detail: "run r was stopped" })
    expect(of(events, "tool_result", "c")).toMatchObject([{ disposition: "cancelled" }])
    expect(nano(exit.run.costUsd)).toBe(perTurn.lead + perTurn.helper)
    yield* expectRolledUp("r", ["r/c"])
  })

  check("what ignores its interruption is waited for beyond the parent's deadline", function* () {
    const { lead } = family({
      lead: asksOnce(),
      helper: model([call("slow", "b", "2"), Scripted.text("helped")], "helper"),
      limits: { time: "10 seconds" },
      slow: () => Effect.uninterruptible(Effect.as(Effect.sleep("12 seconds"), "at last"))
    })
    const { exit } = yield* withTime(run(lead))
    expect(expectTag(exit, "BudgetExceeded").resource).toBe("time")
    expect((yield* summary("r/c")).status).not.toBe("running")
    yield* expectRolledUp("r", ["r/c"])
  })
})

describe("the time that its parent has left", () => {
  const endless = () => model((n: number) => call("slow", `b${n}`, `${n}`), "helper")
  const second = () => Effect.as(Effect.sleep("1 second"), "a clue")

  check("ends a child that then tells what it had found, and the parent goes on with that", function* () {
    let ended = 0
    const { lead } = family({
      lead: asksOnce(),
      helper: model([call("read", "a", "1"), call("slow", "b", "2"), Scripted.text("helped")], "helper"),
      limits: { time: "10 seconds" },
      slow: () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => ended++))
    })
    const { exit } = yield* withTime(run(lead))
    expect(expectTag(exit, "Completed").output).toBe("all done")
    expect(ended).toBe(1)
    expect(resultOf(exit, "c")).toMatchObject({
      ok: false,
      content:
        "helper ended without an answer: used 9000 ms of a limit of 9000 ms. What it had found: read: read 1 done"
    })
    expect(yield* summary("r/c")).toMatchObject({
      status: "budget_exceeded",
      detail: "used 9000 ms of a limit of 9000 ms"
    })
    yield* expectRolledUp("r", ["r/c"])
  })

  check("is that before the parent's reserve", function* () {
    const { lead } = family({
      lead: asksOnce(),
      helper: endless(),
      limits: { time: "30 seconds", reserve: { time: "20 seconds" } },
      helperLimits: { turns: 50 },
      helperPolicy: { repetition: "off" },
      slow: second
    })
    const { exit } = yield* withTime(run(lead))
    expect(resultOf(exit, "c").content).toMatch(
      /^helper ended without an answer: used \d+ ms of a limit of 9000 ms. What it had found: .*slow: a clue/
    )
    expect(exit.run.elapsedMs).toBeLessThan(10_000)
  })

  check("is what a tool of the child, and of a child of that, sees", function* () {
    const seen: Array<number> = []
    const Look = reader("look")
    const tools = Toolkit.make(Look)
    const bottom = Agent.make("bottom", { toolkit: tools }).pipe(
      Agent.provide(
        tools.toLayer({
          look: () =>
            Effect.gen(function* () {
              const { timeLeft } = yield* CurrentCall.CurrentCall
              const left = yield* timeLeft
              seen.push(left._tag === "Some" ? Duration.toMillis(left.value) : Number.POSITIVE_INFINITY)
              return "seen"
            })
        })
      ),
      Agent.provide(model([call("look", "l"), Scripted.text("ok")], "bottom").layer)
    )
    const askBottom = Agent.asTool(bottom, { name: "help", description: "Asks." })
    const middle = Agent.make("middle", { toolkit: Toolkit.make(askBottom.tool) }).pipe(
      Agent.provide(askBottom.layer),
      Agent.provide(model([help("m"), Scripted.text("ok")], "middle").layer)
    )
    const askMiddle = Agent.asTool(middle, { name: "help", description: "Asks." })
    const top = Agent.make("top", {
      toolkit: Toolkit.make(askMiddle.tool),
      limits: { time: "1 minute" }
    }).pipe(
      Agent.provide(askMiddle.layer),
      Agent.provide(model([help("c"), Scripted.text("ok")], "top").layer)
    )
    expectTag((yield* run(top)).exit, "Completed")
    expect(seen).toEqual([58_000])
  })

  check("keeps a child from a wait that would pass it", function* () {
    const { lead } = family({
      lead: asksOnce(),
      helper: model([Scripted.fail(429, { retryAfter: "60" }), Scripted.text("helped")], "helper"),
      limits: { time: "10 seconds" },
      helperPolicy: { modelRetries: 3 }
    })
    const { exit } = yield* withTime(run(lead))
    expect(exit.run.elapsedMs).toBeLessThan(1000)
    const child = yield* journal("r/c")
    expect(of(child, "turn_failed")[0]?.retryInMs).toBeUndefined()
  })

  check("is what it has left when both are taken up again", function* () {
    const { lead } = family({
      lead: asksOnce(),
      helper: model([call("ask", "b", "2"), call("slow", "s", "1"), Scripted.text("helped")], "helper"),
      limits: { time: "10 seconds" },
      slow: second
    })
    const { exit } = yield* withTime(run(lead))
    const { calls } = expectTag(exit, "ApprovalRequired")
    expect(of(yield* journal("r/c"), "run_started")).toMatchObject([{ limits: { timeMs: 9000 } }])
    yield* Agent.decide(calls[0], Agent.approve())
    const again = yield* withTime(resume(lead, { limits: { time: "1 minute" } }))
    expectTag(again.exit, "Completed")
    expect(resultOf(again.exit, "c").content).toBe("helped")
    expect(of(yield* journal("r/c"), "limits_changed")).toMatchObject([{ limits: { timeMs: 59_000 } }])
  })

  check("leaves a shorter limit of the child's own as it is", function* () {
    const { lead } = family({
      lead: asksOnce(),
      helper: endless(),
      limits: { time: "1 minute" },
      helperLimits: { time: "3 seconds" },
      helperPolicy: { repetition: "off" },
      slow: second
    })
    yield* withTime(run(lead))
    expect((yield* summary("r/c")).detail).toMatch(/of a limit of 3000 ms$/)
  })
})

describe("a crash of the parent during the child", () => {
  const stages: ReadonlyArray<readonly [string, (event: RunEvent.RunEvent) => boolean]> = [
    ["before the child begins", ({ runId, type }) => runId === "r/c" && type === "run_started"],
    ["before the child's tool begins", ({ runId, type }) => runId === "r/c" && type === "tool_start"],
    [
      "before the child's second model call",
      (e) => e.runId === "r/c" && e.type === "turn_started" && e.turn === 2
    ],
    ["during the child's second model call", (e) => e.runId === "r/c" && e.type === "turn" && e.turn === 2],
    ["before the child's end is stored", ({ runId, type }) => runId === "r/c" && type === "run_stopped"],
    ["before the child's result is stored", ({ runId, type }) => runId === "r" && type === "tool_result"]
  ]
  for (const [when, before] of stages) {
    check(`${when}: the resume continues the child, and nothing runs twice`, function* () {
      const bots = {
        lead: asksOnce(),
        helper: model([call("write", "a", "1"), call("write", "b", "2"), Scripted.text("helped")], "helper")
      }
      const { lead, ran } = family(bots)
      const died = yield* priced(Effect.flip(crashing(Agent.run(lead, "go", { runId: "r" }), { before })))
      expect(died._tag).toBe("RunStoreError")
      const { exit } = yield* resume(lead)
      expectTag(exit, "Completed")
      expect(ran).toEqual(["write 1", "write 2"])
      expect(resultOf(exit, "c").content).toBe("helped")
      expect(of(yield* journal("r/c"), "run_started")).toHaveLength(1)
      yield* expectRolledUp("r", ["r/c"])
      expectValidRequests(bots.lead.requests)
      expectValidRequests(bots.helper.requests)
    })
  }

  check("after the child has failed for good: the parent is told once, and pays once", function* () {
    const { lead } = family({
      lead: asksOnce(),
      helper: model([call("read", "a", "1"), Scripted.fail(400)], "helper")
    })
    const died = yield* priced(
      Effect.flip(
        crashing(Agent.run(lead, "go", { runId: "r" }), {
          before: ({ runId, type }) => runId === "r" && type === "tool_result"
        })
      )
    )
    expect(died._tag).toBe("RunStoreError")
    const { exit } = yield* resume(lead)
    expectTag(exit, "Completed")
    expect(resultOf(exit, "c").ok).toBe(false)
    yield* expectRolledUp("r", ["r/c"])
  })

  check(
    "a store that fails under the child stops the tree; it is never told to the model as a failure",
    function* () {
      const bots = {
        lead: asksOnce(),
        helper: model([call("read", "a", "1"), Scripted.text("helped")], "helper")
      }
      const { lead, ran } = family(bots)
      const died = yield* priced(
        Effect.exit(
          crashing(Agent.run(lead, "go", { runId: "r" }), {
            before: ({ runId, type }) => runId === "r/c" && type === "tool_result",
            only: "r/c"
          })
        )
      )
      expect(died._tag).toBe("Failure")
      expect(String(died)).toContain("RunStoreError")
      expect(bots.lead.requests).toHaveLength(1)
      const { exit } = yield* resume(lead)
      expectTag(exit, "Completed")
      expect(resultOf(exit, "c").content).toBe("helped")
      expect(ran).toEqual(["read 1", "read 1"])
    }
  )

  check("a child that somebody else drives is not told to the model as a failure", function* () {
    const started = yield* Deferred.make<void>()
    const release = yield* Deferred.make<void>()
    const bots = {
      lead: asksOnce(),
      helper: model([call("ask", "a", "1"), call("slow", "b", "2"), Scripted.text("helped")], "helper")
    }
    const { helper, lead } = family({
      ...bots,
      slow: () =>
        Effect.as(Effect.andThen(Deferred.succeed(started, undefined), Deferred.await(release)), "slow")
    })
    const { exit } = yield* run(lead)
    yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
    const other = yield* Effect.forkChild(priced(Agent.resume(helper, "r/c")))
    yield* Deferred.await(started)
    yield* Effect.exit(priced(Agent.resume(lead, "r")))
    expect(bots.lead.requests).toHaveLength(1)
    yield* Deferred.succeed(release, undefined)
    yield* Fiber.join(other)
    const { exit: end } = yield* resume(lead)
    expectTag(end, "Completed")
    expect(resultOf(end, "c").content).toBe("helped")
  })

  check("during a writer of the child: an unknown outcome of the child, named with its run", function* () {
    const { lead, ran } = family({
      lead: asksOnce(),
      helper: model([call("write", "a", "1"), Scripted.text("helped")], "helper")
    })
    yield* priced(
      Effect.flip(
        crashing(Agent.run(lead, "go", { runId: "r" }), {
          before: ({ runId, type }) => runId === "r/c" && type === "tool_result"
        })
      )
    )
    const { exit } = yield* resume(lead)
    const { calls } = expectTag(exit, "OutcomeUnknown")
    expect(calls).toMatchObject([{ runId: "r/c", callId: "a", tool: "write" }])
    yield* Agent.resolve(calls[0], Agent.happened("written"))
    const { exit: end } = yield* resume(lead)
    expectTag(end, "Completed")
    expect(ran).toEqual(["write 1"])
    yield* settle
  })

  const turnOf = (n: number) => (event: RunEvent.RunEvent) =>
    event.runId === "r/c" && event.type === "turn" && event.turn === n

  check(
    "what the child has used that its parent has not heard of comes out of what it may use",
    function* () {
      const turns = Array.from({ length: 60 }, (_, i) => call("read", `${i}`, `${i}`))
      const { lead } = family({
        lead: asksOnce(),
        helper: model(turns, "helper"),
        helperLimits: { turns: 100 },
        helperPolicy: { repetition: "off" },
        limits: { usd: (perTurn.lead + 20 * perTurn.helper) / 1e9 }
      })
      yield* priced(Effect.exit(crashing(Agent.run(lead, "go", { runId: "r" }), { after: turnOf(15) })))
      const { exit } = yield* resume(lead)
      expectTag(exit, "BudgetExceeded")
      expect(nano(exit.run.costUsd)).toBe(perTurn.lead + 20 * perTurn.helper)
    }
  )

  check("a child that was driven on by itself meanwhile gets no more than what is left", function* () {
    const turns = Array.from({ length: 60 }, (_, i) => call(i === 0 ? "ask" : "read", `${i}`, `${i}`))
    const { helper, lead } = family({
      lead: asksOnce(),
      helper: model(turns, "helper"),
      helperLimits: { turns: 100 },
      helperPolicy: { repetition: "off" },
      limits: { usd: (perTurn.lead + 20 * perTurn.helper) / 1e9 }
    })
    const { exit } = yield* run(lead)
    yield* Agent.decide(expectTag(exit, "ApprovalRequired").calls[0], Agent.approve())
    yield* priced(Agent.outcome(Agent.resume(helper, "r/c", { limits: { turns: 15 } })))
    yield* priced(Agent.outcome(Agent.resume(helper, "r/c", { limits: { turns: 100, usd: 1 } }))).pipe(
      (rest) => crashing(Effect.exit(rest), { after: turnOf(18) })
    )
    const { exit: end } = yield* resume(lead)
    expectTag(end, "BudgetExceeded")
    expect(nano(end.run.costUsd)).toBe(perTurn.lead + 20 * perTurn.helper)
  })

  for (const [what, end] of [
    ["a deadline", (lead: Runnable<string>) => resume(lead)],
    ["a Stop", () => Agent.cancel("r", "enough")]
  ] as const) {
    check(`the parent pays for the child also if ${what} ends it before the child goes on`, function* () {
      const { lead } = family({
        lead: asksOnce(),
        helper: model([call("read", "a", "1"), call("read", "b", "2"), Scripted.text("helped")], "helper"),
        limits: { deadline: new Date(60_000) }
      })
      yield* priced(Effect.exit(crashing(Agent.run(lead, "go", { runId: "r" }), { after: turnOf(2) })))
      yield* TestClock.adjust("2 minutes")
      yield* end(lead)
      expect((yield* summary("r")).status).not.toBe("running")
      expect(nano((yield* summary("r")).costUsd)).toBe(perTurn.lead + 2 * perTurn.helper)
      yield* expectRolledUp("r", ["r/c"])
    })
  }
})
