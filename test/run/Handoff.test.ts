import { describe, expect, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import * as Fold from "../../src/run/Fold.ts"
import { actionsOf, raised } from "../../src/run/GoingOn.ts"
import * as Handoff from "../../src/run/Handoff.ts"
import { type Limits, Resource } from "../../src/run/Limits.ts"
import type { Body, Evidence } from "../../src/run/RunEvent.ts"
import * as RunExit from "../../src/run/RunExit.ts"
import { lateFor } from "../../src/run/Waiting.ts"
import {
  asked,
  call,
  dateOf,
  decided,
  journals,
  many,
  ran,
  replied,
  result,
  resumed,
  start,
  started,
  stateOf,
  stopped,
  suspension,
  tools,
  turn,
  type Written
} from "./events.ts"

const of = (...bodies: ReadonlyArray<Written>): Handoff.Handoff => Handoff.of(stateOf(bodies))
const text = (...bodies: ReadonlyArray<Written>): string => Handoff.toMarkdown(of(...bodies))

const read = (callId: string, path: string) => call(tools.read, callId, { path })
const a = read("c1", "a.ts")
const b = read("c2", "b.ts")
const save = call(tools.append, "c3", { row: 1 })
const mail = call(tools.mail, "c4", { to: "ann" })
const remove = call(tools.remove, "c5", { path: "tmp.csv" })
const child = call(tools.child, "c6", { task: "find it" })
const question = call(tools.input, "c7", { question: "Which day?" })
const submit = call(tools.submit, "c8", { cause: "flush" })

const file = (name: string, digest: string, outcome?: string): Evidence => ({
  kind: "file",
  name,
  digest,
  ...(outcome === undefined ? undefined : { outcome })
})
const root: Evidence = { kind: "source", name: "/srv/app", digest: "3e4412b" }

const outOfTurns = stopped("max_turns_exceeded", "max_turns", {
  detail: "used 2 turns of a limit of 2",
  exhausted: { resource: "turns", used: 2, limit: 2 }
})
const refused = (asked: ReturnType<typeof call>): Body =>
  result(asked, { ok: false, disposition: "refused", content: "Not run." })

const contract = (schema?: Schema.Json): Body => ({
  ...startedWith({}),
  contract: { tool: "submit_result", ...(schema === undefined ? undefined : { schema }) }
})
const startedWith = (limits: Limits): Extract<Body, { readonly type: "run_started" }> => ({
  type: "run_started",
  agent: "analyst",
  messages: [{ role: "user", content: "Why is the last row lost?" }],
  limits
})

describe("why it stopped, and what it was asked", () => {
  it("status, reason, detail and the limit that was reached, of which run and agent", () => {
    expect(of(started({ turns: 2 }), ...turn(1, [a]), ...ran(a), ...turn(2, [b]), outOfTurns)).toMatchObject({
      runId: "run",
      agent: "analyst",
      status: "max_turns_exceeded",
      reason: "max_turns",
      detail: "used 2 turns of a limit of 2",
      exhausted: { resource: "turns", used: 2, limit: 2 },
      task: "Which log file mentions a timeout?",
      stoppedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT/)
    })
  })

  it("the task is what this run was asked, also where it follows another, and is cut when it is long", () => {
    const before = { role: "user", content: "an older task" } as const
    const said = { role: "assistant", content: [{ type: "text", text: "an older answer" }] } as const
    const followUp = of({
      ...startedWith({}),
      messages: [
        { role: "system", content: "You are." },
        before,
        said,
        { role: "user", content: "x".repeat(9000) }
      ]
    })
    expect(followUp.task).toMatch(/^x{4000}… \(9000 characters\)$/)
    expect(followUp.lastWords, "an answer of the run before is not this one's").toBeUndefined()
    const withFile = of({
      ...startedWith({}),
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "Look at this." },
            { type: "file", mediaType: "text/csv", data: "YSxi", fileName: "out.csv" }
          ]
        }
      ]
    })
    expect(withFile.task).toBe("Look at this.\n[out.csv]")
  })
})

describe("what was looked at and found", () => {
  it("roots and files by digest, each once; a file that has changed in between is there twice", () => {
    const { files, observations, sources } = of(
      started(),
      ...turn(1, [a, b]),
      ...ran(a, { evidence: [root, file("a.ts", "1"), file("b.ts", "2", "bytes 0 to 9 of 20")] }),
      ...ran(b, { evidence: [root, file("a.ts", "1"), file("a.ts", "3")] })
    )
    expect(sources).toEqual([{ name: "/srv/app", digest: "3e4412b" }])
    expect(files).toEqual([
      { callId: "c1", name: "a.ts", digest: "1" },
      { callId: "c1", name: "b.ts", digest: "2", part: "bytes 0 to 9 of 20" },
      { callId: "c2", name: "a.ts", digest: "3" }
    ])
    expect(observations, "these calls are told as the files that they have read").toEqual([])
  })

  it("commands that came to their end, and how, each time that they did", () => {
    const ended = (outcome?: string): Evidence => ({
      kind: "command",
      name: "npm test",
      ...(outcome === undefined ? undefined : { outcome })
    })
    const { commands } = of(
      started(),
      ...turn(1, [save, mail]),
      ...ran(save, { ok: false, evidence: [ended("exit code 1"), ended("exit code 1")] }),
      ...ran(mail, { evidence: [ended()] })
    )
    expect(commands).toEqual([
      { callId: "c3", tool: "append_row", name: "npm test", outcome: "exit code 1" },
      { callId: "c3", tool: "append_row", name: "npm test", outcome: "exit code 1" },
      { callId: "c4", tool: "send_mail", name: "npm test" }
    ])
  })

  it("a call whose tool has reported nothing, or only where it looked, by the digest of its result", () => {
    const { observations } = of(
      started(),
      ...turn(1, [a, b]),
      ...ran(a, { digest: "d1", content: "12 rows" }),
      ...ran(b, { digest: "d2", evidence: [root] })
    )
    expect(observations).toEqual([
      {
        callId: "c1",
        tool: "read_file",
        args: '{"path":"a.ts"}',
        effect: "read",
        ok: true,
        digest: "d1",
        result: "12 rows",
        times: 1
      },
      expect.objectContaining({ callId: "c2", digest: "d2" })
    ])
  })

  it("what a tool says that it has seen, in its words", () => {
    const { observations } = of(
      started(),
      ...turn(1, [a]),
      ...ran(a, {
        digest: "d1",
        evidence: [
          { kind: "observation", name: "rows", outcome: "11 of 12" },
          { kind: "observation", name: "no trailer", digest: "own" }
        ]
      })
    )
    expect(observations.map(({ digest, saw }) => [saw, digest])).toEqual([
      ["rows: 11 of 12", "d1"],
      ["no trailer", "own"]
    ])
  })

  it("a failure is there as one, whatever was seen before it", () => {
    const { files, observations } = of(
      started(),
      ...turn(1, [a]),
      ...ran(a, { ok: false, content: "Error: the disk is gone", evidence: [file("a.ts", "1")] })
    )
    expect(files).toHaveLength(1)
    expect(observations).toEqual([expect.objectContaining({ ok: false, result: "Error: the disk is gone" })])
  })

  it("calls that may have changed something stand apart, and the very same ones are counted", () => {
    const same = (callId: string) => read(callId, "a.ts")
    const { changes, observations } = of(
      started(),
      ...turn(1, [same("x1"), same("x2"), save]),
      ...ran(same("x1")),
      ...ran(same("x2")),
      ...ran(save)
    )
    expect(observations).toEqual([expect.objectContaining({ callId: "x1", times: 2 })])
    expect(changes).toEqual([expect.objectContaining({ callId: "c3", effect: "write", times: 1 })])
  })

  it("what never ran is nothing that was found", () => {
    const { changes, observations } = of(
      started(),
      ...turn(1, [a, b, mail]),
      refused(a),
      result(b, { ok: false, disposition: "refused", wrongArguments: true }),
      result(mail, { ok: false, disposition: "rejected" })
    )
    expect([...changes, ...observations]).toEqual([])
  })

  it("what the provider's own tools have brought; nobody here knows what they did", () => {
    const { changes } = of(
      started(),
      asked(1),
      replied(1, [], {
        message: {
          role: "assistant",
          content: [
            { type: "tool-call", id: "p1", name: "web_search", params: { q: "csv" }, providerExecuted: true },
            { type: "tool-result", id: "p1", name: "web_search", isFailure: false, result: ["a page"] },
            { type: "text", text: "So." }
          ]
        }
      })
    )
    expect(changes).toEqual([
      {
        callId: "p1",
        tool: "web_search",
        args: '{"q":"csv"}',
        effect: "write",
        ok: true,
        result: '["a page"]',
        times: 1
      }
    ])
  })

  it("sub-agents by the ids of their runs, with what they cost and how what they said begins", () => {
    const { children, observations, waiting } = of(
      started(),
      ...turn(1, [child, call(tools.child, "k2"), call(tools.child, "k3")]),
      ...ran(child, { childCostUsd: 0.25, content: `flush() is late${"!".repeat(1000)}` }),
      ...ran(call(tools.child, "k2"), { childCostUsd: 0.5, ok: false, content: "it ran out of turns" }),
      start(call(tools.child, "k3")),
      {
        type: "child_suspended",
        callId: "k3",
        suspension: suspension("run/k3", "provider"),
        childCostUsd: 0.125
      }
    )
    expect(children.map(({ costUsd, runId, standing }) => [runId, standing, costUsd])).toEqual([
      ["run/c6", "answered", 0.25],
      ["run/k2", "no_answer", 0.5],
      ["run/k3", "not_over", 0.125]
    ])
    expect(children.map(({ result = "" }) => result)).toEqual([
      expect.stringMatching(/^flush\(\) is late!{500,700}… \(1015 characters\)$/),
      "it ran out of turns",
      ""
    ])
    expect(observations).toEqual([])
    expect(waiting.calls).toEqual([
      expect.objectContaining({ callId: "k3", standing: "child_waits", child: "run/k3" })
    ])
  })
})

describe("what is not over", () => {
  const begun = (operationId: string, label: string): Body => ({
    type: "operation_started",
    operationId,
    callId: "c3",
    tool: "start_test",
    argsDigest: "d",
    observe: "observe_test",
    label
  })
  const bodies: ReadonlyArray<Written> = [
    started({ turns: 1 }),
    ...turn(1, [save]),
    ...ran(save),
    begun("t1", "test export"),
    begun("t2", "test csv"),
    begun("t3", "test all"),
    { type: "operation_ended", operationId: "t2", outcome: "failed", detail: "1 of 9", by: "observed" },
    stopped("max_turns_exceeded", "max_turns", {
      operations: [
        { operationId: "t1", handling: "detached" },
        { operationId: "t3", handling: "still_running" }
      ]
    })
  ]

  it("operations that go on, with how to look at them and what was done about them; others with their end", () => {
    const { endedOperations, operations } = of(...bodies)
    const live = { callId: "c3", tool: "start_test", observe: "observe_test" }
    expect(operations).toEqual([
      { operationId: "t1", label: "test export", handling: "detached", ...live },
      { operationId: "t3", label: "test all", handling: "still_running", ...live }
    ])
    expect(of(...bodies).changes, "their start is told as what it has started").toEqual([])
    expect(endedOperations).toEqual([
      {
        operationId: "t2",
        callId: "c3",
        tool: "start_test",
        label: "test csv",
        outcome: "failed",
        detail: "1 of 9"
      }
    ])
  })

  it("what still runs is called neither a failure nor a success", () => {
    for (const handling of ["detached", "still_running", "cancel_failed"] as const) {
      const words = text(
        started(),
        ...turn(1, [save]),
        ...ran(save),
        begun("t1", "test export"),
        stopped("max_turns_exceeded", "max_turns", { operations: [{ operationId: "t1", handling }] })
      )
      const section = words.slice(words.indexOf("## Still going on"), words.indexOf("## Calls that may"))
      expect(section).toContain("`t1`")
      expect(section).toContain("Look at it with `observe_test`.")
      expect(section).not.toMatch(/fail|succe|error|done|passed/i)
    }
  })

  it("calls of unknown outcome, which are nowhere called failed, and what they had seen", () => {
    const cutOff: ReadonlyArray<Written> = [
      started(),
      ...turn(1, [save]),
      start(save),
      result(save, { ok: false, disposition: "unknown", evidence: [file("a.ts", "1")] }),
      stopped("interrupted", "unknown_outcome")
    ]
    const handoff = of(...cutOff)
    expect(handoff.unknown).toEqual([{ runId: "run", callId: "c3", tool: "append_row", args: '{"row":1}' }])
    expect(handoff.files).toEqual([{ callId: "c3", name: "a.ts", digest: "1" }])
    expect([...handoff.changes, ...handoff.waiting.calls]).toEqual([])
    expect(Handoff.toMarkdown(handoff)).not.toMatch(/fail/i)
    const happened = of(...cutOff, resumed, {
      type: "outcome_resolved",
      callId: "c3",
      tool: "append_row",
      outcome: "happened",
      content: "It did."
    })
    expect(happened.unknown).toEqual([])
    expect(happened.files, "what it had seen is not forgotten").toHaveLength(1)
  })
})

describe("what it waits for", () => {
  it("undecided calls, those of children included; what is decided runs with the run, or never", () => {
    const approved = call(tools.remove, "x1", { path: "x" })
    const declined = call(tools.remove, "x2", { path: "y" })
    const { waiting } = of(
      started(),
      ...turn(1, [remove, approved, declined, mail, child, a]),
      decided(approved, "approved"),
      decided(declined, "rejected"),
      start(child),
      {
        type: "child_suspended",
        callId: "c6",
        suspension: suspension("run/c6", "approval"),
        childCostUsd: 0
      },
      stopped("interrupted", "approval")
    )
    expect(waiting.approvals.map(({ callId, runId }) => [runId, callId])).toEqual([
      ["run", "c5"],
      ["run/c6", "x1"]
    ])
    expect(waiting.calls.map(({ callId, standing }) => [callId, standing])).toEqual([
      ["x1", "will_run"],
      ["c4", "will_ask"],
      ["c6", "child_waits"],
      ["c1", "will_run"]
    ])
  })

  it("a call whose approval expires, which may need another by the time that the run goes on", () => {
    const { calls } = of(
      started({ turns: 1 }),
      ...turn(1, [remove]),
      decided(remove, "approved", { expires: dateOf(9, 9) }),
      outOfTurns
    ).waiting
    expect(calls.map(({ callId, standing }) => [callId, standing])).toEqual([["c5", "will_ask"]])
  })

  it("a question", () => {
    expect(of(started(), ...turn(1, [question]), stopped("interrupted", "input")).waiting.question).toEqual({
      runId: "run",
      callId: "c7",
      text: "Which day?"
    })
  })

  it("what the model still asked for when it was too late, until the run goes on", () => {
    const bodies: ReadonlyArray<Written> = [
      started({ turns: 2, reserve: { turns: 1 } }),
      ...turn(1, [a, b]),
      { type: "handoff", exhausted: { resource: "turns", used: 1, limit: 2 } },
      refused(a),
      refused(b),
      ...turn(2, []),
      outOfTurns
    ]
    expect(of(...bodies).refused.map(({ args }) => args)).toEqual(['{"path":"a.ts"}', '{"path":"b.ts"}'])
    expect(of(...bodies).waiting.calls).toEqual([])
    expect(of(...bodies, resumed).refused).toEqual([])
    expect(of(...bodies.slice(0, -1), resumed).refused, "its driver died").toHaveLength(2)
    const short = of(
      started({ toolCalls: 0 }),
      ...turn(1, [a]),
      result(a, { ok: false, disposition: "refused", short: "tool_calls" })
    )
    expect(short.refused).toEqual([{ callId: "c1", tool: "read_file", args: '{"path":"a.ts"}' }])
  })
})

describe("the contract", () => {
  it("nothing is said of one where text is the answer, or where it is fulfilled", () => {
    expect(of(started(), outOfTurns).contract).toBeUndefined()
    const done = [
      contract(),
      ...turn(1, [submit]),
      result(submit),
      stopped("completed", "submitted")
    ] as const
    expect(of(...done).contract).toEqual({ tool: "submit_result" })
    expect(text(...done)).not.toContain("Still missing")
  })

  it("what has to be submitted, and that nothing valid was", () => {
    const schema = {
      type: "object",
      required: ["cause"],
      properties: { cause: { type: "string", description: "The code path" }, fixed: { type: "boolean" } }
    }
    expect(of(contract(schema), outOfTurns).contract).toEqual({
      tool: "submit_result",
      schema,
      lacks: "no valid result was submitted with submit_result"
    })
    expect(text(contract(schema), outOfTurns)).toContain(
      [
        "- no valid result was submitted with submit_result",
        "- a valid one has:",
        "  - `cause` (string): `The code path`",
        "  - `fixed` (boolean, optional)"
      ].join("\n")
    )
  })

  it("why the last submission was not taken", () => {
    const wrong = call({ ...tools.read, tool: "submit_result" }, "s1", {})
    const { contract: lacking } = of(
      contract(),
      ...turn(1, [wrong]),
      ...ran(wrong, { ok: false, wrongArguments: true, content: "Error: cause is missing" }),
      outOfTurns
    )
    expect(lacking?.refused).toBe("Error: cause is missing")
  })

  it("a valid result that waits for the calls beside it is not missing", () => {
    const { contract: lacking } = of(
      contract(),
      ...turn(1, [submit, remove]),
      stopped("interrupted", "approval")
    )
    expect(lacking?.lacks).toMatch(/^a valid result was submitted; /)
  })
})

describe("what the model has said", () => {
  const handedOver: ReadonlyArray<Written> = [
    started({ turns: 2, reserve: { turns: 1 } }),
    ...turn(1, [a]),
    { type: "handoff", exhausted: { resource: "turns", used: 1, limit: 2 } },
    refused(a),
    ...turn(2, []),
    outOfTurns
  ]

  it("in the handoff: its summary", () => {
    const { earlierSummary, lastWords, summary } = of(...handedOver)
    expect([summary, earlierSummary, lastWords]).toEqual(["errors.log", undefined, undefined])
  })

  it("in an earlier handoff, when there was no room for another: as that", () => {
    const again = of(
      ...handedOver,
      resumed,
      { type: "limits_changed", limits: { turns: 3 } },
      ...turn(3, [b]),
      stopped("max_turns_exceeded", "max_turns")
    )
    expect([again.summary, again.earlierSummary]).toEqual([undefined, "errors.log"])
    expect(Handoff.toMarkdown(again)).toContain("Said in an earlier handoff")
  })

  it("without a handoff: its last words, if it said any", () => {
    const prose = replied(1, [a], {
      message: {
        role: "assistant",
        content: [
          { type: "text", text: "I suspect flush." },
          { type: "tool-call", id: "c1", name: "read_file", params: { path: "a.ts" } }
        ]
      }
    })
    const spoken = [started({ turns: 2 }), asked(1), prose, ...ran(a), ...turn(2, [b]), outOfTurns] as const
    expect(of(...spoken).lastWords).toBe("I suspect flush.")
    expect(of(started({ turns: 1 }), ...turn(1, [a]), outOfTurns).lastWords).toBeUndefined()
  })
})

describe("what was used", () => {
  it("of each resource, of which limit, and how much of it is kept; time in ms", () => {
    const limits: Limits = {
      turns: 4,
      usd: 0.5,
      toolCalls: 12,
      timeMs: 600_000,
      reserve: { turns: 1, toolCalls: 2, timeMs: 30_000 }
    }
    const bodies: ReadonlyArray<Written> = [
      started(limits),
      ...turn(1, [a]),
      ...ran(a),
      { ...outOfTurns, elapsedMs: 90_500 }
    ]
    expect(of(...bodies).spend).toEqual({
      turns: { used: 1, limit: 4, reserve: 1 },
      usd: { used: 0.001, limit: 0.5 },
      tokens: { used: 110 },
      toolCalls: { used: 1, limit: 12, reserve: 2 },
      timeMs: { used: 90_500, limit: 600_000, reserve: 30_000 }
    })
    expect(text(...bodies)).toContain(
      [
        "- turns: 1 of 4 (1 kept for a handoff)",
        "- money: $0.001 of $0.50",
        "- tokens: 110, no limit",
        "- tool calls: 1 of 12 (2 kept for a handoff)",
        "- time: 90.5 s of 600 s (30 s kept for a handoff)"
      ].join("\n")
    )
  })
})

describe("how to go on", () => {
  const steps = (...bodies: ReadonlyArray<Written>) => of(...bodies).next.map(({ api }) => api)
  const stops = (
    resource: "turns" | "usd" | "tokens" | "time" | "tool_calls",
    limit: number,
    used = limit
  ): Body =>
    stopped(
      resource === "turns" ? "max_turns_exceeded" : "budget_exceeded",
      resource === "turns" ? "max_turns" : "max_budget",
      {
        exhausted: { resource, used, limit }
      }
    )

  it.each([
    [stops("turns", 20), "turns: 40"],
    [stops("usd", 0.05, 0.0512), "usd: 0.1"],
    [stops("usd", 0.07), "usd: 0.14"],
    [stops("usd", 0), "usd: 0.01"],
    [stops("usd", 0.0000002), "usd: 0.000001"],
    [stops("usd", 0.0000012, 0.0000023), "usd: 0.000005"],
    [stops("tokens", 1000), "tokens: 2000"],
    [stops("time", 600_000), 'time: "1200 seconds"'],
    [stops("tool_calls", 12), "toolCalls: 24"],
    [stops("turns", 0), "turns: 1"],
    [stops("turns", 2, 9), "turns: 18"]
  ])("from a limit: with twice as much (%#)", (ending, code) => {
    expect(steps(started(), ending)).toEqual([`Agent.resume(agent, "run", { limits: { ${code} } })`])
  })

  /** From nothing over a tenth of a nano-dollar to ten billion. */
  const amount = Arbitrary.map(
    Arbitrary.schema(
      Schema.Struct({
        digits: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9999 })),
        exponent: Schema.Int.check(Schema.isBetween({ minimum: -10, maximum: 6 }))
      })
    ),
    ({ digits, exponent }) => digits * 10 ** exponent
  )
  const times = Arbitrary.schema(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 4 })))

  it.prop(
    "a limit is raised above what it was and what was used of it, whatever the resource",
    { resource: Arbitrary.schema(Resource), limit: amount, other: amount, times },
    ({ limit, other, resource, times }) => {
      const isWhole = resource !== "usd" && resource !== "time"
      for (const used of [other, limit, limit * times]) {
        const exhausted = isWhole
          ? { resource, limit: Math.round(limit), used: Math.round(used) }
          : { resource, limit, used }
        const amount = raised(exhausted) * (resource === "time" ? 1000 : 1)
        expect(amount).toBeGreaterThan(exhausted.limit)
        expect(amount).toBeGreaterThan(exhausted.used)
      }
    },
    { arbitrary: { runs: 3000 } }
  )

  it("from the limit of a shared budget: as it is, once that has room again", () => {
    const exhausted = { resource: "usd", used: 1, limit: 1, pool: "team" } as const
    expect(of(started({ turns: 20 }), stopped("budget_exceeded", "max_budget", { exhausted })).next).toEqual([
      {
        what: "resume the run, once the budget pool team has room again or is given more; no limit of the run's own was reached",
        api: 'Agent.resume(agent, "run")'
      }
    ])
  })

  it("what is undecided, unknown or asked comes first", () => {
    expect(
      steps(
        started(),
        ...turn(1, [remove, save]),
        start(save),
        result(save, { disposition: "unknown" }),
        outOfTurns
      )
    ).toEqual([
      'Agent.resolve({ runId: "run", callId: "c3" }, Agent.happened()) // or Agent.didNotHappen',
      'Agent.decide({ runId: "run", callId: "c5" }, Agent.approve()) // or Agent.reject()',
      'Agent.resume(agent, "run", { limits: { turns: 4 } })'
    ])
    expect(steps(started(), ...turn(1, [question]), stopped("interrupted", "input"))).toEqual([
      'Agent.answer("run", "THE ANSWER")',
      'Agent.resume(agent, "run")'
    ])
  })

  it("a call that its tool can look up is no errand for a person, until the tool was asked in vain", () => {
    const lost = [start(mail), result(mail, { disposition: "unknown", ok: false })]
    const approved = [decided(mail, "approved"), ...lost]
    const cancelled = stopped("interrupted", "cancelled")
    const [first, ...rest] = of(started(), ...turn(1, [mail]), ...approved, cancelled).next
    expect([first, rest]).toEqual([
      {
        what: "resume the run; before all else it has the tool look up whether send_mail (c4) happened",
        api: 'Agent.resume(agent, "run")'
      },
      []
    ])
    const other = [start(save), result(save, { disposition: "unknown", ok: false })]
    expect(steps(started(), ...turn(1, [mail, save]), ...approved, ...other, cancelled)).toEqual([
      'Agent.resolve({ runId: "run", callId: "c3" }, Agent.happened()) // or Agent.didNotHappen',
      'Agent.resume(agent, "run")'
    ])
    const inVain: Body = {
      type: "outcome_resolved",
      callId: "c4",
      tool: "send_mail",
      by: "reconcile",
      outcome: "still_unknown",
      content: "Not known."
    }
    const asked = [...turn(1, [mail]), ...approved, inVain, stopped("interrupted", "unknown_outcome")]
    expect(steps(started(), ...asked)[0]).toMatch(/^Agent\.resolve\(/)
  })

  it("from a failure by force, from a Stop as it is, and nothing for what has completed", () => {
    expect(steps(started(), stopped("failed", "defect"))).toEqual([
      'Agent.resume(agent, "run", { force: true })'
    ])
    expect(steps(started(), stopped("interrupted", "cancelled"))).toEqual(['Agent.resume(agent, "run")'])
    expect(steps(started())).toEqual(['Agent.resume(agent, "run")'])
    expect(steps(started(), ...turn(1, []), stopped("completed", "answered"))).toEqual([])
  })

  it("a child goes on with its parent, unless that was told of its end", () => {
    const parent = { runId: "top", callId: "k1" }
    const suspended = steps({ ...startedWith({}), parent }, stopped("interrupted", "provider"))
    expect(suspended).toEqual(['Agent.resume(agent, "top")'])
    const below = Handoff.of(stateOf([{ ...startedWith({}), parent }, stopped("interrupted", "provider")]), {
      root: "root"
    })
    expect(below.next).toEqual([
      { what: "resume run root, under which this one was started", api: 'Agent.resume(agent, "root")' }
    ])
    const ended = steps({ ...startedWith({}), parent }, outOfTurns)
    expect(ended).toEqual(['Agent.resume(agent, "run", { limits: { turns: 4 } })'])
  })

  const child = { ...startedWith({}), parent: { runId: "top", callId: "k1" } }

  it.each(["approval", "input", "provider", "unknown_outcome", "cancelled"] as const)(
    "the parent of a child that has stopped for %s is resumed with it",
    (reason) => {
      const detail = "run top was stopped"
      expect(steps(child, stopped("interrupted", reason, { detail }))).toEqual(['Agent.resume(agent, "top")'])
    }
  )

  it("the parent of a child that was cancelled alone waits to hear what became of its calls", () => {
    const lost = [start(save), result(save, { disposition: "unknown", ok: false })]
    const cancelled = stopped("interrupted", "cancelled", { detail: "enough" })
    expect(steps(child, ...turn(1, [save]), ...lost, cancelled)).toEqual([
      `Agent.resolve({ runId: "run", callId: "${save.callId}" }, Agent.happened()) // or Agent.didNotHappen`,
      'Agent.resume(agent, "top")'
    ])
  })

  it.each([
    [stopped("interrupted", "cancelled", { detail: "enough" }), 'Agent.resume(agent, "run")'],
    [stopped("interrupted", "cancelled", { detail: lateFor("top") }), 'Agent.resume(agent, "run")'],
    [stopped("interrupted", "stalled"), 'Agent.resume(agent, "run")'],
    [stopped("interrupted", "stop_condition"), 'Agent.resume(agent, "run")'],
    [stops("usd", 0.05), 'Agent.resume(agent, "run", { limits: { usd: 0.1 } })'],
    [stopped("failed", "provider_refused"), 'Agent.resume(agent, "run", { force: true })'],
    [stopped("failed", "tool_fatal"), 'Agent.resume(agent, "run", { force: true })'],
    [stopped("failed", "tool_permanent"), 'Agent.resume(agent, "run", { force: true })'],
    [stopped("failed", "defect"), 'Agent.resume(agent, "run", { force: true })']
  ])(
    "a child that has ended otherwise is taken up by itself, for its parent was told (%#)",
    (ending, code) => {
      expect(of(child, ending).next).toEqual([
        {
          what: expect.stringMatching(/^run top is told of this ending and goes on without it; /),
          api: code
        }
      ])
    }
  )

  it("has the commands of a program that shows it, for each thing that is to be done", () => {
    const waits = [
      started(),
      ...turn(1, [remove, save, question]),
      start(save),
      result(save, { disposition: "unknown" }),
      outOfTurns
    ]
    const seen: Array<Handoff.Action> = []
    const shown = Handoff.of(stateOf(waits), {
      commands: (action) => {
        seen.push(action)
        return action._tag === "Resume" ? [] : [`${action._tag} ${action.callId}`]
      }
    })
    expect(seen).toEqual([
      { _tag: "Resolve", runId: "run", callId: "c3", tool: "append_row" },
      { _tag: "Decide", runId: "run", callId: "c5", tool: "delete_file" },
      { _tag: "Answer", runId: "run", callId: "c7" },
      { _tag: "Resume", runId: "run", more: { resource: "turns", amount: 4 } }
    ])
    expect(shown.next.map(({ commands }) => commands)).toEqual([
      ["Resolve c3"],
      ["Decide c5"],
      ["Answer c7"],
      undefined
    ])
    expect(Handoff.toMarkdown(shown)).toContain(
      "2. decide whether delete_file (call c5) may run: approve or reject it\n   - `Decide c5`\n   - `Agent.decide("
    )
    expect(of(...waits).next.every(({ commands }) => commands === undefined)).toBe(true)
  })
})

describe("a long run", () => {
  const many = Array.from({ length: 260 }, (_, index) => read(`r${index}`, `${index}.ts`))
  const long = of(
    started(),
    ...turn(1, many),
    ...many.flatMap((each, index) =>
      ran(each, index % 2 === 0 ? { digest: `d${index}` } : { evidence: [file(`${index}.ts`, `d${index}`)] })
    ),
    outOfTurns
  )

  it("keeps the newest of each list and counts the others", () => {
    const longer = of(
      started(),
      ...turn(1, [...many, ...many.map(({ args, callId, spec }) => ({ callId: `${callId}b`, spec, args }))]),
      ...many.flatMap((each, index) => ran(each, { digest: `d${index}`, content: String(index) })),
      outOfTurns
    )
    expect(long.observations.length + long.files.length).toBe(260)
    expect(long.leftOut.observations + long.leftOut.files).toBe(0)
    expect(longer.observations).toHaveLength(200)
    expect(longer.leftOut.observations).toBe(60)
    expect(longer.observations.at(-1)?.callId).toBe("r259")
    expect(Handoff.toMarkdown(longer)).toContain("- and 60 more before these, which are in the journal\n")
    expect(longer.waiting.calls, "what waits is there in full").toHaveLength(260)
  })

  it("cuts arguments, results and what was said, and says how long they are", () => {
    const big = call(tools.read, "c1", { path: "x".repeat(5000) })
    const { observations } = of(started(), ...turn(1, [big]), ...ran(big, { content: "é".repeat(900) }))
    expect(observations[0]?.args).toMatch(/^\{"path":"x+… \(5011 characters\)$/)
    expect(observations[0]?.result).toMatch(/^é{200}… \(900 characters\)$/)
    const emoji = call(tools.read, "c1", { path: `${"x".repeat(190)}😀` })
    const cut = of(started(), ...turn(1, [emoji]), ...ran(emoji)).observations[0]?.args ?? ""
    expect(cut.isWellFormed()).toBe(true)
  })
})

describe("as Markdown", () => {
  it("reads like this", () => {
    const words = text(
      started({ turns: 3, toolCalls: 12, reserve: { turns: 1 } }),
      ...turn(1, [a, b]),
      ...ran(a, { evidence: [root, file("src/a.ts", "sha256:0123456789abcdef0123456789abcdef")] }),
      ...ran(b, { ok: false, content: "Error: no such file: b.ts", digest: "qDmWfEeV5HyWmk3AJp3WYP" }),
      ...turn(2, [read("c9", "c.ts")]),
      { type: "handoff", exhausted: { resource: "turns", used: 2, limit: 3 } },
      refused(read("c9", "c.ts")),
      ...turn(3, []),
      stopped("max_turns_exceeded", "max_turns", {
        detail: "used 3 turns of a limit of 3",
        exhausted: { resource: "turns", used: 3, limit: 3 }
      })
    )
    expect(
      words.replace(/\d{4}-\S+Z/, "TIME").replace(/time: \d+ ms/, "time: N ms")
    ).toBe(`# Handoff of run \`run\`

A run of \`analyst\`. It stopped at TIME without an answer, max turns exceeded: \`used 3 turns of a limit of 3\`.

## Task

> Which log file mentions a timeout?

## What the model hands over, in its own words

> errors.log

## Wanted next, and not run

- \`read_file {"path":"c.ts"}\`

## Looked at

- \`/srv/app\` (\`3e4412b\`)

## Files read

- \`src/a.ts\` (\`sha256:0123456789ab\`)

## Observed

- \`read_file {"path":"b.ts"}\` failed: \`Error: no such file: b.ts\` (\`qDmWfEeV5HyW\`)

## Used

- turns: 3 of 3 (1 kept for a handoff)
- money: $0.003, no limit
- tokens: 330, no limit
- tool calls: 2 of 12
- time: N ms, no limit

## To go on

1. resume the run with more room, say twice as much
   - \`Agent.resume(agent, "run", { limits: { turns: 6 } })\`
`)
  })

  it("what a sub-agent has answered, beside what it cost", () => {
    const words = text(
      started(),
      ...turn(1, [child]),
      ...ran(child, { childCostUsd: 0.0032, content: "The last\nflush is late." }),
      outOfTurns
    )
    expect(words).toContain(
      '- run `run/c6` (`ask_child {"task":"find it"}`) answered, $0.0032: `The last flush is late.`\n'
    )
  })

  for (const [childCostUsd, words] of [
    [0, "not priced"],
    [0.0032, "$0.0032 + unpriced"]
  ] as const) {
    it(`of a sub-agent that has used what has no price, no more than is known: ${words}`, () => {
      const use = { childCostUsd, childUnpriced: true } as const
      const waits = { type: "child_suspended", callId: "c6", ...use } as const
      const after = [started(), ...turn(1, [child])]
      const over = of(...after, ...ran(child, { ...use, content: "late" }), outOfTurns)
      const waiting = of(...after, start(child), { ...waits, suspension: suspension("run/c6", "provider") })
      // What is heard of a child later may say no more than that it is over.
      const { childUnpriced: _, ...silent } = use
      const heard = of(
        ...after,
        start(child),
        { ...waits, suspension: suspension("run/c6", "provider") },
        resumed,
        ...ran(child, { ...silent, content: "late" })
      )
      for (const handoff of [over, waiting, heard]) {
        expect(handoff.children).toMatchObject([{ costUsd: childCostUsd, unpriced: true }])
        expect(Handoff.toMarkdown(handoff)).toContain(
          `${handoff === waiting ? "is not over" : "answered"}, ${words}`
        )
      }
    })
  }

  it("what was written by others stays in its place, and moves no cursor", () => {
    const evil = call(tools.read, "c1", { path: "`` ` \n# Heading\u001b[2J" })
    const words = text(
      {
        ...startedWith({}),
        messages: [{ role: "user", content: "Look.\n## To go on\n\u001b[31mred\u202e" }]
      },
      ...turn(1, [evil]),
      ...ran(evil, { content: "a\n## Used\n```" }),
      outOfTurns
    )
    expect(words.split("\n").filter((line) => line.startsWith("#"))).toEqual([
      "# Handoff of run `run`",
      "## Task",
      "## Observed",
      "## Used",
      "## To go on"
    ])
    expect(words).not.toContain("\u001b[31m")
    expect(words).not.toContain("\u202e")
    expect(words).toContain('``` read_file {"path":"`` ` \\n# Heading\\u001b[2J"} ```')
  })
})

describe("the exits at a limit", () => {
  const stops = (reason: "max_turns" | "max_budget") =>
    stateOf([
      started(),
      ...turn(1, [a]),
      ...ran(a),
      stopped(reason === "max_turns" ? "max_turns_exceeded" : "budget_exceeded", reason, {
        exhausted: { resource: reason === "max_turns" ? "turns" : "usd", used: 1, limit: 1 }
      })
    ])

  it.each(["max_turns", "max_budget"] as const)(
    "%s carries the handoff of its run, through JSON too",
    (reason) => {
      const run = stops(reason)
      const exit = RunExit.fromState(run)
      if (exit?._tag !== "MaxTurnsExceeded" && exit?._tag !== "BudgetExceeded")
        throw new Error("another exit")
      expect(exit.handoff).toEqual(Handoff.of(run))
      const codec = Schema.toCodecJson(RunExit.RunExit)
      const back = Schema.decodeUnknownSync(codec)(JSON.parse(JSON.stringify(Schema.encodeSync(codec)(exit))))
      expect("handoff" in back && back.handoff).toEqual(exit.handoff)
    }
  )

  it("are built without it: it is worked out when somebody asks", () => {
    const run = stops("max_turns")
    const untouched = Object.defineProperty({ ...run }, "findings", {
      get: () => {
        throw new Error("somebody looked")
      }
    })
    const exit = RunExit.fromState(untouched)
    expect(exit?.message).toContain("run stopped")
    expect(() => exit?._tag === "MaxTurnsExceeded" && exit.handoff).toThrow("somebody looked")
  })
})

describe("over generated runs", () => {
  it.prop(
    "it is plain JSON, the same each time, and leaves the state alone",
    { journal: journals() },
    ({ journal: { events } }) => {
      const state = Fold.fold(events)!
      const before = structuredClone(state)
      const handoff = Handoff.of(state)
      expect(Handoff.of(state)).toEqual(handoff)
      expect(state).toEqual(before)
      const codec = Schema.toCodecJson(Handoff.Handoff)
      const json: unknown = JSON.parse(JSON.stringify(handoff))
      expect(json).toEqual(handoff)
      expect(Schema.decodeUnknownSync(codec)(json)).toEqual(handoff)
    },
    many
  )

  it.prop(
    "every call that ran is told once, and every pending one stands in one place",
    { journal: journals() },
    ({ journal: { events } }) => {
      const state = Fold.fold(events)!
      const handoff = Handoff.of(state)
      const told = [...handoff.changes, ...handoff.observations].reduce((sum, { times }) => sum + times, 0)
      const children = handoff.children.filter(({ standing }) => standing !== "not_over")
      const byProvider = state.messages.flatMap((message) =>
        message.role === "assistant" ? message.content.filter(({ type }) => type === "tool-result") : []
      )
      expect(Object.values(handoff.leftOut)).toEqual(Object.values(handoff.leftOut).fill(0))
      const begun = new Set(state.operations.map(({ callId }) => callId))
      const others = state.findings.filter(({ callId, ok }) => !ok || !begun.has(callId))
      expect(told + children.length).toBe(others.length + byProvider.length)
      const places = [
        ...handoff.unknown.filter(({ runId }) => runId === state.runId),
        ...handoff.waiting.approvals.filter(({ runId }) => runId === state.runId),
        ...handoff.waiting.calls
      ].map(({ callId }) => callId)
      const expected = state.pending
        .filter(({ approval, kind }) => kind === "tool" && approval !== "rejected")
        .map(({ callId }) => callId)
      expect([...places].sort()).toEqual([...expected].sort())
    },
    many
  )

  it.prop(
    "what the run has stopped for is what is to be done first, and to take it up is the last",
    { journal: journals() },
    ({ journal: { events } }) => {
      const state = Fold.fold(events)!
      const actions = actionsOf(state)
      expect(actions.at(-1)?._tag).toBe(state.status === "completed" ? undefined : "Resume")
      expect(actions.slice(0, -1).map(({ _tag }) => _tag)).not.toContain("Resume")
      const { reason } = state
      if (reason !== "unknown_outcome" && reason !== "approval" && reason !== "input") return
      const tags = { unknown_outcome: "Resolve", approval: "Decide", input: "Answer" } as const
      // For a call of its own of unknown outcome a run stops before all else, for that of a child after it.
      const isFirst = ({ _tag, runId }: Handoff.Action) =>
        reason === "unknown_outcome" || _tag !== "Resolve" || runId === state.runId
      expect(actions.find(isFirst)?._tag).toBe(tags[reason])
    },
    many
  )

  it.prop(
    "its Markdown has no empty part, and the same order of parts",
    { journal: journals() },
    ({ journal: { events } }) => {
      const handoff = Handoff.of(Fold.fold(events)!)
      const order = Handoff.sections(handoff).map(({ title }) => title)
      const words = Handoff.toMarkdown(handoff)
      const headings = words.split("\n").filter((line) => line.startsWith("## "))
      expect(headings).toEqual(order.map((title) => `## ${title}`))
      expect(words).not.toMatch(/^## .*\n\n(?=#|$)/m)
      expect(words).not.toMatch(/undefined|NaN|\[object/)
      expect(order.at(-1)).toBe(handoff.status === "completed" ? "Used" : "To go on")
    },
    many
  )
})
