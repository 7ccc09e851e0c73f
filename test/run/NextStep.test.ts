/** The order in which the core decides, tried on states in which several things are true at once. */
import { describe, expect, it } from "@effect/vitest"
import type { Limits } from "../../src/run/Limits.ts"
import { nextStep, type Rules, type Step } from "../../src/run/NextStep.ts"
import type { Body } from "../../src/run/RunEvent.ts"
import {
  type Asked,
  call,
  dateOf,
  decided,
  digestOf,
  ran,
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

const plain: Rules = { repetition: undefined, stopWhen: [] }
const always: Rules = { ...plain, stopWhen: [() => "enough"] }

const next = (bodies: ReadonlyArray<Written>, rules: Rules = plain, elapsedMs?: number): Step => {
  const state = stateOf(bodies)
  return nextStep(state, rules, elapsedMs ?? state.elapsedMs)
}

/** A step in short: its tag, and what it names. */
const brief = (step: Step): ReadonlyArray<unknown> => {
  switch (step._tag) {
    case "AskModel":
      return ["AskModel", step.purpose]
    case "BeginHandoff":
      return ["BeginHandoff", step.exhausted.resource]
    case "AnswerCalls":
      return ["AnswerCalls", ...step.answers.map(({ call, refusal }) => `${call.callId} ${refusal._tag}`)]
    case "Stop":
      return ["Stop", step.ending.status, step.ending.reason]
    default:
      return [step._tag, ...step.calls.map((call) => call.callId)]
  }
}

/** What comes next at the date of the event so many after the last. */
const decidesAt = (bodies: ReadonlyArray<Written>, later: number) => {
  const state = stateOf(bodies)
  return expect(brief(nextStep(state, plain, state.elapsedMs, dateOf(state.seq + later, state.elapsedMs))))
}

const decides = (bodies: ReadonlyArray<Written>, rules?: Rules, elapsedMs?: number) =>
  expect(brief(next(bodies, rules, elapsedMs)))

const read = call(tools.read, "read")
const read2 = call(tools.read, "read2")
const put = call(tools.put, "put")
const append = call(tools.append, "append")
const mail = call(tools.mail, "mail")
const remove = call(tools.remove, "remove")
const secret = call(tools.readSecret, "secret")
const observe = call(tools.observe, "observe")
const child = call(tools.child, "child")
const submit = call(tools.submit, "submit", { answer: "errors.log" })
const input = call(tools.input, "input", { question: "Which day?" })

const one = (limits: Limits, calls: ReadonlyArray<Asked>) => [started(limits), ...turn(1, calls)]
/** A turn with these calls, and a write of it that was started and lost. */
const lost = (limits: Limits, calls: ReadonlyArray<Asked>, write: Asked = append) => [
  ...one(limits, [write, ...calls]),
  start(write),
  resumed
]
const handoff: Body = { type: "handoff", exhausted: { resource: "turns", used: 1, limit: 3 } }
const suspended = (asked: Asked, reason: Parameters<typeof suspension>[1], costUsd = 0): Body => ({
  type: "child_suspended",
  callId: asked.callId,
  suspension: suspension(`run/${asked.callId}`, reason),
  childCostUsd: costUsd
})

describe("the beginning and the end", () => {
  it("a new run asks the model", () => {
    decides([started()]).toEqual(["AskModel", "investigate"])
  })

  it("an answer completes the run, at a limit and against a stop condition too", () => {
    decides(one({}, [])).toEqual(["Stop", "completed", "answered"])
    decides(one({ turns: 1, usd: 0.001, tokens: 110, timeMs: 1 }, []), always).toEqual([
      "Stop",
      "completed",
      "answered"
    ])
  })

  it("prose that does not answer costs its turn, and the model is asked again", () => {
    const note = "Submit a result."
    decides([started(), ...turn(1, [], { answers: false, note })]).toEqual(["AskModel", "investigate"])
    decides([started({ turns: 1 }), ...turn(1, [], { answers: false, note })]).toEqual([
      "Stop",
      "max_turns_exceeded",
      "max_turns"
    ])
  })

  it("replies that bring nothing end the run at the third in a row, and before that a limit does", () => {
    const note = "It was empty."
    const silent = { answers: false, note, message: { role: "assistant", content: [] } } as const
    const filtered = { answers: false, note, finish: "content_filter" }
    const row = (limits: Limits, ...replies: ReadonlyArray<typeof silent | typeof filtered>) => [
      started(limits),
      ...replies.flatMap((reply, index) => turn(index + 1, [], reply))
    ]
    decides(row({}, silent, filtered)).toEqual(["AskModel", "investigate"])
    decides(row({}, silent, silent, silent)).toEqual(["Stop", "interrupted", "provider"])
    decides(row({}, filtered, silent, filtered)).toEqual(["Stop", "interrupted", "provider"])
    decides(row({}, filtered, filtered, filtered)).toEqual(["Stop", "failed", "provider_refused"])
    decides(row({ turns: 3 }, silent, silent, silent)).toEqual(["Stop", "max_turns_exceeded", "max_turns"])
    decides([...row({}, silent, silent, silent), resumed]).toEqual(["AskModel", "investigate"])
    const kept = { turns: 9, reserve: { turns: 8 } }
    const handedOver = [
      ...row(kept, silent),
      handoff,
      ...[2, 3, 4].flatMap((number) => turn(number, [], filtered))
    ]
    decides(handedOver.slice(0, -2)).toEqual(["AskModel", "handoff"])
    decides(handedOver).toEqual(["Stop", "max_turns_exceeded", "max_turns"])
  })

  it("a valid submission completes the run, at every limit", () => {
    decides(one({}, [submit])).toEqual(["Stop", "completed", "submitted"])
    decides(one({ turns: 1, usd: 0.001, tokens: 110, timeMs: 1 }, [submit]), always).toEqual([
      "Stop",
      "completed",
      "submitted"
    ])
  })

  it("the sibling calls of a submission run first, whatever the limits of turns and money say", () => {
    const begun = one({ turns: 1, usd: 0.001 }, [submit, read, append])
    decides(begun, always).toEqual(["ExecuteCalls", "read"])
    decides([...begun, ...ran(read)], always).toEqual(["ExecuteCalls", "append"])
    decides([...begun, ...ran(read), ...ran(append)], always).toEqual(["Stop", "completed", "submitted"])
  })

  it("a sibling that waits for a person keeps a submission from completing the run", () => {
    decides(one({ turns: 1 }, [submit, remove])).toEqual(["Stop", "interrupted", "approval"])
  })

  it("a sibling of unknown outcome keeps a submission from completing the run", () => {
    decides(lost({}, [submit])).toEqual(["Stop", "interrupted", "unknown_outcome"])
  })

  it("two submissions in one turn do not leave the model asked while they have no result", () => {
    const again = call(tools.submit, "submit2", { answer: "notes.txt" })
    expect(next(one({}, [submit, again]))._tag).not.toBe("AskModel")
  })

  it("an answer in a handoff is a summary: the run stops at the limit that was hit", () => {
    const step = next([
      started({ turns: 3, reserve: { turns: 2 } }),
      ...turn(1, [read]),
      handoff,
      ...ran(read),
      ...turn(2, [])
    ])
    expect(brief(step)).toEqual(["Stop", "max_turns_exceeded", "max_turns"])
  })

  it("a valid submission in a handoff still completes the run", () => {
    decides([started({ turns: 3, reserve: { turns: 2 } }), handoff, ...turn(1, [submit])]).toEqual([
      "Stop",
      "completed",
      "submitted"
    ])
  })

  it("a run that stopped with a summary goes on when it is resumed with more: the summary was no answer", () => {
    const summarised = [
      started({ turns: 3, reserve: { turns: 2 } }),
      handoff,
      ...turn(1, []),
      stopped("max_turns_exceeded", "max_turns", { exhausted: { resource: "turns", used: 1, limit: 3 } })
    ]
    decides([...summarised, resumed, { type: "limits_changed", limits: { turns: 10 } }]).toEqual([
      "AskModel",
      "investigate"
    ])
  })

  it("a driver that died between the summary and the stop leaves no completed run behind", () => {
    const step = next([started({ turns: 3, reserve: { turns: 2 } }), handoff, ...turn(1, []), resumed])
    expect(brief(step)).not.toContain("completed")
  })

  it("an answer whose driver died before the stop is still an answer", () => {
    decides([...one({}, []), resumed]).toEqual(["Stop", "completed", "answered"])
  })

  it("what a person adds on resume has to be answered", () => {
    const said = {
      type: "run_resumed",
      inbox: 0,
      messages: [{ role: "user", content: "And the other one?" }]
    } as const
    decides([...one({}, []), said]).toEqual(["AskModel", "investigate"])
  })

  it("a question for a person stops the run", () => {
    decides(one({}, [input])).toEqual(["Stop", "interrupted", "input"])
    decides([...one({}, [input]), { type: "input_given", callId: "input", answer: "Tuesday" }]).toEqual([
      "AskModel",
      "investigate"
    ])
  })

  it("a question in the last turn is asked: settling comes before the limits", () => {
    decides(one({ turns: 1 }, [input])).toEqual(["Stop", "interrupted", "input"])
  })
})

describe("one state in which everything is true, peeled off layer by layer", () => {
  // a lost mail that can be looked up, a lost row that cannot, the turn limit, a stop condition, a read that may run, a
  // deletion nobody has decided about, and three times the same result
  const stuck = ["s1", "s2", "s3"].flatMap((id, index) => {
    const again = call(tools.read, id, { path: "same" })
    return [...turn(index + 1, [again]), ...ran(again)]
  })
  const strict: Rules = { repetition: { nameAt: 2, stopAt: 3 }, stopWhen: [() => "enough"] }
  const patient: Rules = { ...strict, stopWhen: [] }
  const full = (limits: Limits) => [
    started(limits),
    ...stuck,
    ...turn(4, [mail, append, read, remove]),
    decided(mail, "approved"),
    start(mail),
    start(append),
    resumed
  ]
  const found: Body = {
    type: "outcome_resolved",
    callId: "mail",
    tool: "send_mail",
    outcome: "happened",
    content: "sent"
  }
  const told: Body = { ...found, callId: "append", tool: "append_row" }
  // resuming forgets how often something was repeated, so for the last layer the same is read three times again
  const again = ["r1", "r2", "r3"].flatMap((id, index) => {
    const same = call(tools.read, id, { path: "same" })
    return [...turn(5 + index, [same]), ...ran(same)]
  })

  it("1. unknown outcomes are looked up", () => {
    decides(full({ turns: 4 }), strict).toEqual(["Reconcile", "mail"])
  })
  it("2. what cannot be looked up, or was looked up in vain, stops the run", () => {
    decides([...full({ turns: 4 }), found], strict).toEqual(["Stop", "interrupted", "unknown_outcome"])
    const still: Body = { ...found, outcome: "still_unknown" }
    const step = next([...full({ turns: 4 }), still], strict)
    expect(brief(step)).toEqual(["Stop", "interrupted", "unknown_outcome"])
    if (step._tag === "Stop") expect(step.ending.detail).toMatch(/mail.*append/)
  })
  it("3. then the limits", () => {
    decides([...full({ turns: 4 }), found, told], strict).toEqual(["Stop", "max_turns_exceeded", "max_turns"])
  })
  it("4. then the stop conditions", () => {
    decides([...full({ turns: 9 }), found, told], strict).toEqual(["Stop", "interrupted", "stop_condition"])
  })
  it("5. then the approvals that have to be asked for, and the calls that may run", () => {
    const calls = [...full({ turns: 9 }), found, told]
    decides(calls, patient).toEqual(["ExecuteCalls", "read"])
    const ask = call(tools.putAsk, "ask")
    decides([started(), ...stuck, ...turn(4, [read, ask, remove])], patient).toEqual([
      "CheckApprovals",
      "ask"
    ])
  })
  it("6. then the undecided approvals", () => {
    const calls = [...full({ turns: 9 }), found, told, ...ran(read)]
    decides(calls, patient).toEqual(["Stop", "interrupted", "approval"])
  })
  it("7. then what is stalled", () => {
    const calls = [...full({ turns: 9 }), found, told, ...ran(read), ...ran(remove), ...again]
    decides(calls, patient).toEqual(["Stop", "interrupted", "stalled"])
  })
  it("8. and only then the model", () => {
    const calls = [...full({ turns: 9 }), found, told, ...ran(read), ...ran(remove), ...again]
    decides(calls, plain).toEqual(["AskModel", "investigate"])
  })
})

describe("unknown outcomes", () => {
  it("all that can be looked up are, also those beside one that cannot", () => {
    const other = call(tools.mail, "mail2")
    const state = [...one({}, [mail, other, append]), start(mail), start(other), start(append), resumed]
    decides(state).toEqual(["Reconcile", "mail", "mail2"])
  })

  it("are looked up once per driver: in vain stops the run, a resume looks again", () => {
    const still: Body = {
      type: "outcome_resolved",
      callId: "mail",
      tool: "send_mail",
      outcome: "still_unknown",
      content: ""
    }
    const vain = [...lost({}, [], mail), still]
    decides(vain).toEqual(["Stop", "interrupted", "unknown_outcome"])
    decides([...vain, stopped("interrupted", "unknown_outcome"), resumed]).toEqual(["Reconcile", "mail"])
  })

  it("come before calls that could run", () => {
    decides(lost({}, [read])).toEqual(["Stop", "interrupted", "unknown_outcome"])
  })

  it("of a child suspend the parent", () => {
    decides([...one({}, [child]), start(child), suspended(child, "unknown_outcome")]).toEqual([
      "Stop",
      "interrupted",
      "unknown_outcome"
    ])
  })
})

describe("limits", () => {
  it("without a reserve stop the run, and leave the calls of the last turn pending", () => {
    const bodies = one({ turns: 1 }, [read, append])
    decides(bodies).toEqual(["Stop", "max_turns_exceeded", "max_turns"])
    decides([
      ...bodies,
      stopped("max_turns_exceeded", "max_turns"),
      resumed,
      { type: "limits_changed", limits: { turns: 2 } }
    ]).toEqual(["ExecuteCalls", "read"])
  })

  it("are looked at in the order turns, usd, tokens, time", () => {
    const all = { turns: 1, usd: 0.001, tokens: 110, timeMs: 1 }
    const resources = (limits: Limits) => {
      const step = next(one(limits, [read]), always)
      return step._tag === "Stop" ? [step.ending.reason, step.ending.exhausted?.resource] : step
    }
    const { turns: _, ...money } = all
    const { usd: __, ...tokens } = money
    const { tokens: ___, ...time } = tokens
    expect(resources(all)).toEqual(["max_turns", "turns"])
    expect(resources(money)).toEqual(["max_budget", "usd"])
    expect(resources(tokens)).toEqual(["max_budget", "tokens"])
    expect(resources(time)).toEqual(["max_budget", "time"])
    expect(resources({ toolCalls: 0, reserve: { toolCalls: 0 } })).toEqual(["max_budget", "tool_calls"])
    expect(resources({})).toEqual(["stop_condition", undefined])
  })

  it("say what was used and what the limit was", () => {
    const step = next([started({ usd: 0.01 }), ...turn(1, [read], { costUsd: 0.01078, totalUsd: 0.01078 })])
    expect(step).toMatchObject({
      _tag: "Stop",
      ending: {
        status: "budget_exceeded",
        reason: "max_budget",
        exhausted: { resource: "usd", used: 0.01078, limit: 0.01 }
      }
    })
    if (step._tag === "Stop") expect(step.ending.detail).toContain("$0.01078")
  })

  it("of time are held against the time that is told, not against the last event", () => {
    decides([started({ timeMs: 1000 })], plain, 999.9).toEqual(["AskModel", "investigate"])
    decides([started({ timeMs: 1000 })], plain, 1000).toEqual(["Stop", "budget_exceeded", "max_budget"])
  })

  it("of nothing stop a run before its first turn", () => {
    decides([started({ turns: 0 })]).toEqual(["Stop", "max_turns_exceeded", "max_turns"])
    decides([started({ usd: 0 })]).toEqual(["Stop", "budget_exceeded", "max_budget"])
  })

  it("that were lowered on resume count at once", () => {
    decides([
      ...one({ turns: 9 }, [read]),
      resumed,
      { type: "limits_changed", limits: { turns: 1 } }
    ]).toEqual(["Stop", "max_turns_exceeded", "max_turns"])
  })

  it("a second time make a stop, as long as nothing was raised", () => {
    const bodies = [...one({ turns: 1 }, [read]), stopped("max_turns_exceeded", "max_turns"), resumed]
    decides(bodies).toEqual(["Stop", "max_turns_exceeded", "max_turns"])
  })
})

describe("a reserve", () => {
  const limits: Limits = { turns: 3, reserve: { turns: 2 } }

  it("begins the handoff when the rest is used, and stops the run when it is used itself", () => {
    decides(one(limits, [read])).toEqual(["BeginHandoff", "turns"])
    decides([...one(limits, [read]), handoff, ...turn(2, [observe]), ...turn(3, [observe])]).toEqual([
      "Stop",
      "max_turns_exceeded",
      "max_turns"
    ])
  })

  it("that a single turn jumps over stops the run without a handoff: nobody can know what the first one costs", () => {
    const jump = { costUsd: 0.02, totalUsd: 0.02 }
    decides([started({ usd: 0.01, reserve: { usd: 0.005 } }), ...turn(1, [read], jump)]).toEqual([
      "Stop",
      "budget_exceeded",
      "max_budget"
    ])
  })

  describe("of money or tokens is not touched by one more turn like the last", () => {
    const costs = { costUsd: 0.3, usage: { promptTokens: 250, completionTokens: 50 } }
    const turns = (limits: Limits, count: number) => [
      started(limits),
      ...Array.from({ length: count }, (_, index) => {
        const asked = call(tools.read, `c${index + 1}`)
        return [...turn(index + 1, [asked], { ...costs, totalUsd: 0.3 * (index + 1) }), ...ran(asked)]
      }).flat()
    ]

    const kept: ReadonlyArray<readonly [name: string, limits: Limits, most: number]> = [
      ["money, more than a turn", { usd: 1, reserve: { usd: 0.35 } }, 2],
      ["money, just a turn", { usd: 0.9, reserve: { usd: 0.3 } }, 2],
      ["money, less than a turn", { usd: 1, reserve: { usd: 0.05 } }, 3],
      ["tokens, more than a turn", { tokens: 1000, reserve: { tokens: 350 } }, 2],
      ["tokens, less than a turn", { tokens: 1000, reserve: { tokens: 50 } }, 3]
    ]

    it.each(kept)("%s", (_, limits, most) => {
      decides(turns(limits, most - 1)).toEqual(["AskModel", "investigate"])
      const step = next(turns(limits, most))
      const resource = "usd" in limits ? "usd" : "tokens"
      expect(step).toMatchObject({ _tag: "BeginHandoff", exhausted: { resource, limit: limits[resource] } })
      const exhausted = step._tag === "BeginHandoff" ? step.exhausted : undefined
      if (exhausted === undefined) return
      // The handoff's own turns are what it is kept for.
      decides([...turns(limits, most), { type: "handoff", exhausted }]).toEqual(["AskModel", "handoff"])
    })

    it("unless none is kept, or the worst case is held before each turn", () => {
      decides(turns({ usd: 1 }, 3)).toEqual(["AskModel", "investigate"])
      decides(turns({ usd: 1, reserve: { usd: 0, turns: 1 } }, 3)).toEqual(["AskModel", "investigate"])
      decides(turns({ usd: 1, reserve: { usd: 0.35 }, money: "hold" }, 2)).toEqual([
        "AskModel",
        "investigate"
      ])
    })

    it("and its calls still run before that, with what they use of other things", () => {
      const limits = { usd: 1, reserve: { usd: 0.35 } }
      const asked = call(tools.read, "c2")
      const pending = turns(limits, 2).slice(0, -2)
      decides(pending).toEqual(["ExecuteCalls", asked.callId])
    })
  })

  it("answers pending investigation as refused, runs handoff work, and asks the model for handoff", () => {
    const bodies = [...one(limits, [read, observe, remove]), handoff]
    decides(bodies).toEqual(["AnswerCalls", "read HandoffOnly", "remove HandoffOnly"])
    const refused = [
      ...bodies,
      result(read, { disposition: "refused" }),
      result(remove, { disposition: "refused" })
    ]
    decides(refused).toEqual(["ExecuteCalls", "observe"])
    decides([...refused, ...ran(observe)]).toEqual(["AskModel", "handoff"])
  })

  it("tells the model that a call was rejected, and not that there is no room for it", () => {
    const bodies = [...one(limits, [read, remove]), decided(remove, "rejected"), handoff]
    decides(bodies).toEqual(["AnswerCalls", "read HandoffOnly"])
    decides([...bodies, result(read, { disposition: "refused" })]).toEqual(["AnswerCalls", "remove Rejected"])
  })

  it("is not begun over a submission", () => {
    decides(one(limits, [submit])).toEqual(["Stop", "completed", "submitted"])
  })

  it("counts tool calls too", () => {
    const calls: Limits = { toolCalls: 2, reserve: { toolCalls: 1 } }
    decides([...one(calls, [read, read2]), ...ran(read)]).toEqual(["BeginHandoff", "tool_calls"])
    decides([...one(calls, [read]), ...ran(read)]).toEqual(["BeginHandoff", "tool_calls"])
  })

  it("a stop in the handoff names the limit that began it", () => {
    const bodies = [
      started({ turns: 2, usd: 0.002, reserve: { usd: 0.001 } }),
      ...turn(1, [observe]),
      ...ran(observe)
    ]
    decides(bodies).toEqual(["BeginHandoff", "usd"])
    const exhausted = { resource: "usd", used: 0.001, limit: 0.002 } as const
    decides([...bodies, { type: "handoff", exhausted }, ...turn(2, [observe])]).toEqual([
      "Stop",
      "budget_exceeded",
      "max_budget"
    ])
  })

  it("a stop in the handoff says what was used when the run stopped, not when the handoff began", () => {
    const exhausted = { resource: "tool_calls", used: 1, limit: 2 } as const
    const step = next([
      ...one({ toolCalls: 2, reserve: { toolCalls: 1 } }, [read]),
      ...ran(read),
      { type: "handoff", exhausted },
      ...turn(2, [observe]),
      ...ran(observe)
    ])
    expect(step).toMatchObject({
      _tag: "Stop",
      ending: { reason: "max_budget", exhausted: { resource: "tool_calls", used: 2, limit: 2 } }
    })
    if (step._tag === "Stop") expect(step.ending.detail).toContain("used 2 tool calls")
  })

  it("of money is compared in whole nano-dollars: $0.8 with a reserve of $0.1 is $0.7 to investigate with", () => {
    const money: Limits = { usd: 0.8, reserve: { usd: 0.1 } }
    decides([started(money), ...turn(1, [read], { costUsd: 0.7, totalUsd: 0.7 })]).toEqual([
      "BeginHandoff",
      "usd"
    ])
    decides([started(money), ...turn(1, [read], { costUsd: 0.699999999, totalUsd: 0.699999999 })]).toEqual([
      "ExecuteCalls",
      "read"
    ])
  })
})

describe("claims of tool calls", () => {
  it("are made in the model's order: the first calls run, the rest is answered", () => {
    const bodies = one({ toolCalls: 1 }, [read, read2])
    decides(bodies).toEqual(["ExecuteCalls", "read"])
    decides([...bodies, ...ran(read)]).toEqual(["AnswerCalls", "read2 NoBudget"])
  })

  it("refused once, the model may still answer; asking for investigation again is the end", () => {
    const refused = [
      ...one({ toolCalls: 1 }, [read, read2]),
      ...ran(read),
      result(read2, { disposition: "refused", ok: false, short: "tool_calls" })
    ]
    decides(refused).toEqual(["AskModel", "investigate"])
    decides([...refused, ...turn(2, [])]).toEqual(["Stop", "completed", "answered"])
    const step = next([...refused, ...turn(2, [call(tools.read, "read3")])])
    expect(step).toMatchObject({
      _tag: "Stop",
      ending: {
        status: "budget_exceeded",
        reason: "max_budget",
        exhausted: { resource: "tool_calls", used: 1, limit: 1 }
      }
    })
  })

  it("several refused in one turn are all answered", () => {
    const refused = [
      ...one({ toolCalls: 0 }, [read, append]),
      result(read, { disposition: "refused", short: "tool_calls" })
    ]
    decides(refused).toEqual(["AnswerCalls", "append NoBudget"])
  })

  it("resumed with more, the run investigates again", () => {
    const bodies = [
      ...one({ toolCalls: 0 }, [read]),
      result(read, { disposition: "refused", ok: false, short: "tool_calls" }),
      ...turn(2, [read2]),
      stopped("budget_exceeded", "max_budget"),
      resumed,
      { type: "limits_changed", limits: { toolCalls: 4 } }
    ] as const
    decides(bodies).toEqual(["ExecuteCalls", "read2"])
  })

  it("work of a handoff may use the reserve of calls while investigation may not", () => {
    const calls: Limits = { toolCalls: 3, reserve: { toolCalls: 1 } }
    const used = [...one(calls, [read, read2, observe, submit]), ...ran(read)]
    decides(used).toEqual(["ExecuteCalls", "read2", "observe"])
  })
})

describe("calls of one turn", () => {
  it("the reads run together, then the writers one by one in the model's order", () => {
    const bodies = one({}, [append, read, put, read2])
    decides(bodies).toEqual(["ExecuteCalls", "read", "read2"])
    decides([...bodies, ...ran(read), ...ran(read2)]).toEqual(["ExecuteCalls", "append"])
    decides([...bodies, ...ran(read), ...ran(read2), ...ran(append)]).toEqual(["ExecuteCalls", "put"])
  })

  it("a writer waits for the decision about one before it, and the reads do not", () => {
    const bodies = one({}, [put, remove, append, read])
    decides(bodies).toEqual(["ExecuteCalls", "read"])
    decides([...bodies, ...ran(read)]).toEqual(["ExecuteCalls", "put"])
    const waiting = [...bodies, ...ran(read), ...ran(put)]
    decides(waiting).toEqual(["Stop", "interrupted", "approval"])
    decides([...waiting, decided(remove, "approved")]).toEqual(["ExecuteCalls", "remove"])
    decides([...waiting, decided(remove, "rejected"), result(remove, { disposition: "rejected" })]).toEqual([
      "ExecuteCalls",
      "append"
    ])
  })

  it("a read that waits for a decision holds nobody up", () => {
    const bodies = one({}, [secret, append])
    decides(bodies).toEqual(["ExecuteCalls", "append"])
    decides([...bodies, ...ran(append)]).toEqual(["Stop", "interrupted", "approval"])
  })

  it("whether approval is needed is found out before anything starts", () => {
    const ask = call(tools.putAsk, "ask")
    const bodies = one({}, [read, ask, append])
    decides(bodies).toEqual(["CheckApprovals", "ask"])
    decides([...bodies, decided(ask, "not_required")]).toEqual(["ExecuteCalls", "read"])
    const required: Body = {
      type: "approval_required",
      callId: "ask",
      tool: "put_page",
      args: {},
      argsDigest: "d"
    }
    decides([...bodies, required, ...ran(read)]).toEqual(["Stop", "interrupted", "approval"])
  })

  it("all undecided approvals are named, a suspended child's included", () => {
    const other = call(tools.remove, "remove2")
    const step = next([...one({}, [child, remove, other]), start(child), suspended(child, "approval")])
    expect(brief(step)).toEqual(["Stop", "interrupted", "approval"])
    if (step._tag === "Stop") {
      for (const id of ["remove", "remove2", "x1"]) expect(step.ending.detail).toContain(id)
    }
  })

  it("a rejection is answered in words, with or without a reason", () => {
    decides([...one({}, [remove]), decided(remove, "rejected")]).toEqual(["AnswerCalls", "remove Rejected"])
    decides([...one({}, [remove]), decided(remove, "rejected", { reason: "no" })]).toEqual([
      "AnswerCalls",
      "remove Rejected"
    ])
  })

  it("a call that was approved with other arguments runs with those", () => {
    const args = { path: "b" }
    const step = next([
      ...one({}, [remove]),
      decided(remove, "approved", { args, argsDigest: digestOf(args) })
    ])
    expect(step).toMatchObject({ _tag: "ExecuteCalls", calls: [{ callId: "remove", args }] })
  })

  it("a call whose approval has expired is asked about again, before any other starts", () => {
    const bodies = one({}, [read, remove])
    // The next event would be the fourth after the last of these.
    const expires = dateOf(bodies.length + 4, bodies.length)
    const approved = [...bodies, decided(remove, "approved", { expires })]
    decidesAt(approved, 2).toEqual(["ExecuteCalls", "read"])
    decidesAt(approved, 3).toEqual(["AskAgain", "remove"])
    decidesAt(approved, 9).toEqual(["AskAgain", "remove"])
    decides(approved).toEqual(["ExecuteCalls", "read"])
  })

  it("a child run that was started in time goes on, whenever", () => {
    const child = call(tools.child, "child")
    const expires = dateOf(6, 6)
    const required: Body = {
      type: "approval_required",
      callId: "child",
      tool: child.spec.tool,
      args: child.args,
      argsDigest: digestOf(child.args)
    }
    const asked = one({}, [child]).map((body) =>
      body.type === "turn"
        ? { ...body, calls: body.calls.map((each) => ({ ...each, agent: true as const })) }
        : body
    )
    const approved = [...asked, required, decided(child, "approved", { expires })]
    decidesAt(approved, 9).toEqual(["AskAgain", "child"])
    const cut = [...approved, start(child), suspended(child, "approval"), resumed]
    decidesAt(cut, 9).toEqual(["ExecuteCalls", "child"])
  })

  it("an approval of other arguments than the call has is no approval", () => {
    const step = next([
      ...one({}, [remove]),
      decided(remove, "approved", { argsDigest: digestOf({ path: "other" }) })
    ])
    expect(step._tag).not.toBe("ExecuteCalls")
  })

  it("a suspended child stops the parent for the child's reason, after the other calls", () => {
    for (const reason of ["approval", "input", "provider", "unknown_outcome"] as const) {
      const bodies = [...one({}, [child, read]), start(child), suspended(child, reason)]
      decides(bodies).toEqual(["ExecuteCalls", "read"])
      decides([...bodies, ...ran(read)]).toEqual(["Stop", "interrupted", reason])
    }
  })

  it("however deep it is, the run that waits is named once", () => {
    let waiting = suspension("run/ask/ask/ask", "provider")
    for (const runId of ["run/ask/ask", "run/ask"]) {
      const bodies = [
        ...one({}, [child]),
        start(child),
        { ...suspended(child, "provider"), suspension: waiting }
      ]
      const step = next(bodies)
      const detail = step._tag === "Stop" ? step.ending.detail : ""
      expect(detail).toBe("run/ask/ask/ask: waits (provider)")
      waiting = { ...waiting, runId, detail }
    }
  })

  it("a resumed run starts a suspended child again", () => {
    const bodies = [
      ...one({}, [child]),
      start(child),
      suspended(child, "input"),
      stopped("interrupted", "input"),
      resumed
    ]
    decides(bodies).toEqual(["ExecuteCalls", "child"])
  })
})
