import { assert, describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Struct from "effect/Struct"
import * as Digest from "../../src/loop/Digest.ts"
import * as Summary from "../../src/loop/Summary.ts"
import * as Fold from "../../src/run/Fold.ts"
import { type Body, type Of, type RunEvent, version } from "../../src/run/RunEvent.ts"
import * as MemoryRunStore from "../../src/store/MemoryRunStore.ts"
import { RunStore, RunSummary } from "../../src/store/RunStore.ts"
import * as Audit from "../../src/testing/Audit.ts"
import { checkLaws } from "../loop/laws.ts"
import {
  asked,
  call,
  dateOf,
  decided,
  digestOf,
  journals,
  many,
  ran,
  replied,
  result,
  resumed,
  start,
  started,
  stopped,
  suspension,
  tools,
  turn,
  type Written,
  written
} from "../run/events.ts"
import { runs } from "./audit/journals.ts"

describe("a journal that keeps the laws", () => {
  it.prop(
    "is left alone, whatever a driver has been through, and counted as the core counts it",
    { journal: journals() },
    ({ journal: { events } }) => {
      expect(Audit.audit(events, { graceMs: 0 })).toEqual([])
      checkLaws(events)
    },
    many
  )

  it.effect(
    "is that of every run that was lived through, its children and the demo's scenarios included",
    () =>
      Effect.gen(function* () {
        for (const run of runs) {
          const { children, events, name } = yield* run
          expect([name, Audit.audit(events, { children, graceMs: 0 })]).toEqual([name, []])
        }
      })
  )

  it("may have been written by a clock that was set back: only the numbers and the time driven have an order", () => {
    const events = eventsOf([begun, stored(1, asked(1), { at: "2001-01-01T00:00:00.000Z" })])
    expect(Audit.audit(events, { graceMs: 0 })).toEqual([])
  })

  it("may answer a call from memory whose arguments a person has made those of another", () => {
    const approved = (asked: typeof secret) => [
      ask(asked),
      decided(asked, "approved", { args: edited, argsDigest: digestOf(edited) })
    ]
    const again = call(tools.readSecret, "c9", { path: "another" })
    const content = `With ${JSON.stringify(edited)}\nthe secret`
    const events = written([
      begun,
      ...turn(1, [secret]),
      ...approved(secret),
      start({ ...secret, args: edited }),
      result(secret, { content, digest: Digest.ofText("the secret") }),
      ...turn(2, [again]),
      ...approved(again),
      result(again, { disposition: "cached", content })
    ])
    expect(Audit.audit(events)).toEqual([])
  })

  it("may have no event at all", () => {
    expect(Audit.audit([])).toEqual([])
  })
})

// --- one breach each ------------------------------------------------------------------------------------------------

const read = call(tools.read, "c1")
const other = call(tools.read, "c2")
const secret = call(tools.readSecret, "c1")
const write = call(tools.append, "c3")
const remove = call(tools.remove, "c4")
const mail = call(tools.mail, "c5")
const child = call(tools.child, "c6")
const submit = call(tools.submit, "c7", { answer: 7 })
const input = call(tools.input, "c8", { question: "Which day?" })
const put = call(tools.put, "c9")

/** A journal that goes well until its last event. */
interface Breach {
  readonly law: Audit.Law
  readonly problem: string
  readonly events: ReadonlyArray<Written | RunEvent>
}

const isStored = (event: Written | RunEvent): event is RunEvent => "seq" in event

const eventsOf = (events: Breach["events"]): ReadonlyArray<RunEvent> => {
  const bodies = events.map((event): Written => (isStored(event) ? resumed : event))
  return written(bodies).map((event, index) => {
    const given = events[index]
    return given !== undefined && isStored(given) ? given : event
  })
}

const expectBreach = ({ events, law, problem }: Breach) =>
  expect(Audit.audit(eventsOf(events), { graceMs: 0 })).toEqual([
    { law, problem, runId: "run", seq: eventsOf(events).at(-1)?.seq }
  ])

const breach = (law: Audit.Law, problem: string, ...events: Breach["events"]): Breach => ({
  law,
  problem,
  events
})

const begun = started()
const one = (...calls: ReadonlyArray<Parameters<typeof start>[0]>): ReadonlyArray<Body> => [
  begun,
  ...turn(1, calls)
]
const ask = ({ args, callId, spec }: typeof remove): Body => ({
  type: "approval_required",
  callId,
  tool: spec.tool,
  args,
  argsDigest: digestOf(args)
})
const failed = (attempt: number, more: Partial<Omit<Of<"turn_failed">, "type">> = {}): Body => ({
  type: "turn_failed",
  turn: 1,
  attempt,
  reason: "rate_limit",
  detail: "429",
  costUsd: 0,
  ...more
})
const resolved = (
  { callId, spec }: typeof remove,
  more: Partial<Omit<Of<"outcome_resolved">, "type">> = {}
): Body => ({
  type: "outcome_resolved",
  callId,
  tool: spec.tool,
  outcome: "happened",
  content: "it did",
  ...more
})
const suspended = ({ callId }: typeof child, childCostUsd = 0.5): Body => ({
  type: "child_suspended",
  callId,
  suspension: suspension(`run/${callId}`, "approval"),
  childCostUsd
})
const operation = (more: Partial<Omit<Of<"operation_started">, "type">> = {}): Body => ({
  type: "operation_started",
  operationId: "o1",
  callId: "c3",
  tool: "append_row",
  argsDigest: digestOf(write.args),
  observe: "observe_test",
  label: "a test",
  ...more
})
const ended: Body = {
  type: "operation_ended",
  operationId: "o1",
  outcome: "failed",
  detail: "",
  by: "observed"
}
const handoff = (exhausted: Of<"handoff">["exhausted"]): Body => ({ type: "handoff", exhausted })
const cut = { ok: false, content: "cut off", disposition: "unknown" } as const
const rejected = { ok: false, content: "Declined. It did not run.", disposition: "rejected" } as const
const refused = { ok: false, content: "Not run.", disposition: "refused" } as const
const stored = (seq: number, body: Body, more: Partial<RunEvent> = {}): RunEvent => {
  const [event] = written([body])
  assert(event !== undefined)
  return Object.assign({ ...event, seq, at: dateOf(seq, seq), elapsedMs: seq }, more)
}

const sequence: ReadonlyArray<Breach> = [
  breach(5, "it is numbered 2, and the next number is 1", begun, stored(2, asked(1))),
  breach(5, "it is of run other, in the journal of run run", begun, stored(1, asked(1), { runId: "other" })),
  breach(5, `there is no version ${version + 1} of events`, begun, stored(1, asked(1), { v: version + 1 })),
  breach(5, "a run begins with run_started, and not with run_resumed", resumed),
  breach(5, "the run is started again", begun, begun),
  breach(
    5,
    'its date is "yesterday", which is no date in ISO 8601',
    begun,
    stored(1, asked(1), { at: "yesterday" })
  ),
  breach(
    5,
    "the run had been driven for 1 ms, and now for 0.5 ms",
    begun,
    asked(1),
    stored(2, replied(1, []), { elapsedMs: 0.5 })
  ),
  breach(
    6,
    "run_resumed comes after the run has completed",
    ...one(),
    stopped("completed", "answered"),
    resumed
  ),
  breach(
    6,
    "input_required comes after the run has stopped",
    ...one(input),
    stopped("interrupted", "input"),
    { type: "input_required", callId: "c8", question: "Which day?" }
  ),
  breach(
    4,
    "the inbox was read up to command 3, and now only up to 2",
    begun,
    { ...resumed, inbox: 3 },
    { ...resumed, inbox: 2 }
  ),
  breach(
    4,
    "command 4 is taken in after command 4",
    ...one(remove, call(tools.remove, "d")),
    decided(remove, "approved", { command: 4 }),
    decided(call(tools.remove, "d"), "approved", { command: 4 })
  )
]

const turns: ReadonlyArray<Breach> = [
  breach(1, "the model is asked for turn 2 while turn 1 is on its way", begun, asked(1), asked(2)),
  breach(3, "the model is asked although call c1 (read_file) has no result", ...one(read), asked(2)),
  breach(6, "the model is asked although it has answered", ...one(), asked(2)),
  breach(6, "turn 2 is asked for, and the next one is turn 1", begun, asked(2)),
  breach(1, "it is attempt 2 at turn 1, after 0 that failed", begun, asked(1, { attempt: 2 })),
  breach(
    6,
    "0.0010000001 is no cost: it is not a whole number of nano-dollars",
    begun,
    asked(1),
    replied(1, [], { costUsd: 0.0010000001, totalUsd: 0.001 })
  ),
  breach(
    3,
    "the model has asked for 1 calls, and 0 are planned",
    begun,
    asked(1),
    replied(1, [read], { calls: [] })
  ),
  breach(3, "a call has an empty id", begun, asked(1), replied(1, [call(tools.read, "")])),
  breach(3, "two calls have the id c1", begun, asked(1), replied(1, [read, read])),
  breach(
    3,
    "the model's call c1 is planned as call c2",
    begun,
    asked(1),
    replied(1, [read], { calls: [{ callId: "c2", argsDigest: digestOf(read.args), effect: "read" }] })
  ),
  breach(
    4,
    "call c1 (read_file) is planned with the digest of other arguments",
    begun,
    asked(1),
    replied(1, [read], { calls: [{ callId: "c1", argsDigest: "d", effect: "read" }] })
  ),
  breach(
    3,
    "a reply that is no answer is taken for one",
    begun,
    asked(1),
    replied(1, [read], { answers: true })
  ),
  breach(
    3,
    "a reply that is no answer is taken for one",
    begun,
    asked(1),
    replied(1, [], { note: "Answer, or call a tool." })
  ),
  breach(1, "turn 1 comes back without having been claimed", begun, replied(1, [])),
  breach(
    1,
    "turn 2 comes back without having been claimed",
    begun,
    asked(1),
    replied(2, [], { totalUsd: 0.001 })
  ),
  breach(
    6,
    "the run has cost $0.001 so far, and it says $0.002",
    begun,
    asked(1),
    replied(1, [], { totalUsd: 0.002 })
  ),
  breach(
    7,
    "the turn has used more than was held for it, and does not say so",
    started({ usd: 1, money: "hold" }),
    asked(1),
    replied(1, [], { costUsd: 0.0011, totalUsd: 0.0011 })
  ),
  breach(
    7,
    "the turn has used more than was held for it, and does not say so",
    started({ tokens: 1000, money: "hold" }),
    asked(1),
    replied(1, [], { usage: { promptTokens: 100, completionTokens: 11 } })
  ),
  breach(1, "attempt 1 at turn 1 fails without having been claimed", begun, failed(1)),
  breach(1, "attempt 2 at turn 1 fails without having been claimed", begun, asked(1), failed(2)),
  breach(
    6,
    "-1 is no cost: it is not a whole number of nano-dollars",
    begun,
    asked(1),
    failed(1, { costUsd: -1 })
  )
]

const edited = { path: "edited" }
const silent = "has other arguments than the model asked for, and its result does not say so"
const editing = { args: edited, argsDigest: digestOf(edited) }
const page = call(tools.putAsk, "c9")
/** A call that may be repeated was cut off, with the arguments that it was approved with for a while. */
const again: Breach["events"] = [
  ...one(page),
  ask(page),
  decided(page, "approved", { args: edited, argsDigest: digestOf(edited), expires: dateOf(6, 6) }),
  start({ ...page, args: edited }),
  resumed
]

const starts: ReadonlyArray<Breach> = [
  breach(1, "call c1 is started, and no turn has asked for it", begun, start(read)),
  breach(3, "call c8 (request_input) is no tool, and is started as one", ...one(input), start(input)),
  breach(2, "call c1 (read_file) is started while it is running", ...one(read), start(read), start(read, 2)),
  breach(
    2,
    "call c6 (ask_child) is started while the run in it waits for somebody",
    ...one(child),
    start(child),
    suspended(child),
    start(child, 2)
  ),
  breach(
    2,
    "call c3 (append_row) is started again, and nobody can tell whether it has happened",
    ...one(write),
    start(write),
    resumed,
    start(write, 2)
  ),
  breach(2, "call c1 (read_file) is started after its result", ...one(read), ...ran(read), start(read, 2)),
  breach(
    4,
    "call c4 (delete_file) is started although it was rejected",
    ...one(remove),
    decided(remove, "rejected"),
    start(remove)
  ),
  breach(
    4,
    "call c4 (delete_file) is started although nobody has approved it",
    ...one(remove),
    ask(remove),
    start(remove)
  ),
  breach(
    4,
    "call c4 (delete_file) is started as a call of append_row",
    ...one(remove),
    decided(remove, "approved"),
    { ...(start(remove) as Of<"tool_start">), tool: "append_row" }
  ),
  breach(
    4,
    "call c1 (read_file) is started with other arguments than the model has asked for",
    ...one(read),
    start({ ...read, args: edited })
  ),
  breach(
    4,
    "call c4 (delete_file) is started with other arguments than were approved",
    ...one(remove),
    decided(remove, "approved", editing),
    start(remove)
  ),
  breach(
    1,
    "call c1 (read_file) is started as attempt 2, after 0 that were started",
    ...one(read),
    start(read, 2)
  ),
  breach(
    2,
    "call c1 (read_file) is started again under another idempotency key",
    ...one(read),
    start(read),
    resumed,
    { ...(start(read, 2) as Of<"tool_start">), idempotencyKey: "another" }
  ),
  breach(
    2,
    "call c4 (delete_file) is started with other arguments under the key of those that were asked for",
    ...one(remove),
    decided(remove, "approved", editing),
    {
      ...(start({ ...remove, args: edited }) as Of<"tool_start">),
      idempotencyKey: Digest.idempotencyKey({
        runId: "run",
        turn: 1,
        callId: "c4",
        argsDigest: digestOf(remove.args)
      })
    }
  ),
  breach(
    4,
    "call c1 (read_file) is started before it is known whether call c5 (send_mail) needs a person",
    ...one(read, mail),
    start(read)
  ),
  breach(
    3,
    "call c9 (put_tag) is started while call c3 (append_row) is running, and one of them may change something",
    ...one(write, put),
    start(write),
    start(put)
  ),
  breach(
    3,
    "call c1 (read_secret) is started while call c3 (append_row) is running, and one of them may change something",
    ...one(write, secret),
    ask(secret),
    start(write),
    decided(secret, "approved"),
    start(secret)
  ),
  breach(
    3,
    "call c9 (put_tag) is started before call c4 (delete_file), which the model has asked for first",
    ...one(remove, put),
    ask(remove),
    start(put)
  ),
  breach(
    3,
    "call c3 (append_row) is started before call c1 (read_file), which changes nothing and could run",
    ...one(write, read),
    start(write)
  )
]

const results: ReadonlyArray<Breach> = [
  breach(
    2,
    "call c3 (append_row) is put down as executed, although nobody can tell whether it has happened",
    ...one(write),
    start(write),
    resumed,
    result(write)
  ),
  breach(1, "call c1 (read_file) is put down as executed, and was not started", ...one(read), result(read)),
  breach(
    2,
    "call c1 (read_file) is put down as refused while it is running",
    started({ toolCalls: 1 }),
    ...turn(1, [read]),
    start(read),
    result(read, { ...refused, short: "tool_calls" })
  ),
  breach(
    2,
    "call c1 (read_file) is put down as refused while it is tried again",
    ...one(read),
    start(read),
    result(read, { ok: false, disposition: "cancelled", mayRepeat: true }),
    result(read, { ...refused, wrongArguments: true })
  ),
  breach(3, "call c8 (request_input) is a question, and is answered by a tool", ...one(input), result(input)),
  breach(
    3,
    `call c4 (delete_file) ${silent}`,
    ...one(remove),
    decided(remove, "approved", editing),
    start({ ...remove, args: edited }),
    result(remove)
  ),
  ...(["happened", "did_not_happen"] as const).map((outcome) =>
    breach(
      3,
      `call c4 (delete_file) ${silent}`,
      ...one(remove),
      decided(remove, "approved", editing),
      start({ ...remove, args: edited }),
      stopped("interrupted", "cancelled"),
      resumed,
      { type: "outcome_resolved", callId: "c4", tool: "delete_file", outcome, content: "Somebody says." }
    )
  ),
  breach(
    3,
    `call c9 (read_secret) ${silent}`,
    ...one(secret),
    ask(secret),
    decided(secret, "approved", editing),
    start({ ...secret, args: edited }),
    result(secret, {
      content: `With ${JSON.stringify(edited)}\nsome text`,
      digest: Digest.ofText("some text")
    }),
    ...turn(2, [call(tools.readSecret, "c9")]),
    ask(call(tools.readSecret, "c9")),
    decided(call(tools.readSecret, "c9"), "approved", editing),
    result(call(tools.readSecret, "c9"), { disposition: "cached" })
  ),
  ...(["rejected", "refused"] as const).map((disposition) =>
    breach(
      3,
      `call c9 (put_page) ${silent}`,
      ...one(page),
      ask(page),
      decided(page, "approved", { ...editing, expires: dateOf(6, 6) }),
      start({ ...page, args: edited }),
      stopped("interrupted", "cancelled"),
      resumed,
      ...(disposition === "refused"
        ? []
        : [ask({ ...page, args: edited }), decided({ ...page, args: edited }, "rejected")]),
      result(page, {
        ok: false,
        disposition,
        content: "Declined: it did not run.",
        ...(disposition === "refused" ? { detail: "it has no key" } : undefined)
      })
    )
  ),
  breach(
    3,
    "call c1 (read_file) is answered with a result that this call has never brought",
    ...one(read),
    result(read, { disposition: "cached" })
  ),
  breach(
    3,
    "call c2 (read_file) is answered with a result that this call has never brought",
    ...one(call(tools.read, "c1", other.args), other),
    ...ran(call(tools.read, "c1", other.args)),
    result(other, { disposition: "cached", content: "another text" })
  ),
  breach(
    4,
    "call c4 (delete_file) is put down as rejected, and nobody has rejected it",
    ...one(remove),
    result(remove, rejected)
  ),
  breach(
    3,
    "call c4 (delete_file) was rejected, and its result does not say so in full",
    ...one(remove),
    decided(remove, "rejected"),
    result(remove, { ...rejected, content: "It ran." })
  ),
  breach(
    3,
    "call c4 (delete_file) was rejected, and its result does not say so in full",
    ...one(remove),
    decided(remove, "rejected", { reason: "not on a Friday" }),
    result(remove, rejected)
  ),
  breach(
    3,
    "call c4 (delete_file) was rejected, and its result says something else",
    started({ toolCalls: 0 }),
    ...turn(1, [remove]),
    decided(remove, "rejected"),
    result(remove, { ...refused, short: "tool_calls" })
  ),
  breach(
    2,
    "call c1 (read_file) may be repeated, and is put down as unknown",
    ...one(read),
    start(read),
    result(read, cut)
  ),
  breach(
    2,
    "call c3 (append_row) was cut off and may have happened, and is put down as cancelled",
    ...one(write),
    start(write),
    result(write, { ...cut, disposition: "cancelled" })
  ),
  breach(3, "call c1 has a result, and no turn has asked for it", begun, result(read)),
  breach(3, "call c1 (read_file) has a second result", ...one(read), ...ran(read), result(read)),
  breach(
    3,
    "call c1 (read_file) has a result of another",
    ...one(read),
    start(read),
    result(read, { tool: "another" })
  ),
  breach(
    3,
    "call c3 (append_row) is put down as unknown, and as having gone well",
    ...one(write),
    start(write),
    result(write, { ...cut, ok: true })
  ),
  breach(
    3,
    "call c3 (append_row) is answered without a word",
    ...one(write),
    start(write),
    result(write, { ...cut, content: " " })
  ),
  breach(
    6,
    "the run in call c6 (ask_child) is said to have used less than before",
    ...one(child),
    start(child),
    suspended(child, 0.5),
    resumed,
    start(child, 2),
    result(child, { childCostUsd: 0.25 })
  ),
  breach(
    6,
    "the run in call c6 (ask_child) is said to have used less than before",
    ...one(child),
    start(child),
    suspended(child, 0.5),
    resumed,
    start(child, 2),
    suspended(child, 0.25)
  )
]

const people: ReadonlyArray<Breach> = [
  breach(
    4,
    "a person is asked about call c5 (send_mail) when it is too late",
    started({ toolCalls: 0 }),
    ...turn(1, [mail]),
    result(mail, { ...refused, short: "tool_calls" }),
    ask(mail)
  ),
  breach(
    4,
    "call c4 (delete_file) is decided about when it is too late",
    started({ toolCalls: 0 }),
    ...turn(1, [remove]),
    result(remove, { ...refused, short: "tool_calls" }),
    decided(remove, "approved")
  ),
  breach(
    4,
    "a person is asked about call c4 (delete_file), which is decided",
    ...one(remove),
    decided(remove, "approved"),
    ask(remove)
  ),
  breach(4, "a person is asked about call c5 (send_mail) as a call of another", ...one(mail), {
    ...(ask(mail) as Of<"approval_required">),
    tool: "another"
  }),
  breach(
    4,
    "a person is asked about call c5 (send_mail) with other arguments than the model has asked for",
    ...one(mail),
    { ...(ask(mail) as Of<"approval_required">), args: edited }
  ),
  breach(
    4,
    "a person is asked about call c5 (send_mail) with other arguments than the model has asked for",
    ...one(mail),
    { ...(ask(mail) as Of<"approval_required">), argsDigest: "d" }
  ),
  breach(
    4,
    "call c4 (delete_file) is decided about twice",
    ...one(remove),
    decided(remove, "approved"),
    decided(remove, "approved")
  ),
  breach(
    4,
    "call c4 (delete_file) is said to need nobody, and that was not the question",
    ...one(remove),
    decided(remove, "not_required")
  ),
  breach(
    4,
    "call c5 (send_mail) is said to need nobody, and that was not the question",
    ...one(mail),
    ask(mail),
    decided(mail, "not_required")
  ),
  breach(4, "call c5 (send_mail) is approved, and nobody was asked", ...one(mail), decided(mail, "approved")),
  // The events are a second and a millisecond apart, and a turn is two of them.
  breach(
    4,
    `call c4 (delete_file) is started although its approval has expired, at ${dateOf(4, 4)}`,
    ...one(remove),
    decided(remove, "approved", { expires: dateOf(4, 4) }),
    start(remove)
  ),
  breach(
    4,
    "call c4 (delete_file) is approved with an approval that has expired",
    ...one(remove),
    decided(remove, "approved", { expires: dateOf(3, 3) })
  ),
  breach(
    4,
    "call c4 (delete_file) is approved with an approval that has expired",
    ...one(remove),
    decided(remove, "approved", { expires: "soon" })
  ),
  breach(
    4,
    "a person is asked about call c4 (delete_file), which is decided",
    ...one(remove),
    decided(remove, "approved", { expires: dateOf(5, 5) }),
    ask(remove)
  ),
  breach(
    4,
    "call c4 (delete_file) is started although nobody has approved it",
    ...one(remove),
    decided(remove, "approved", { expires: dateOf(4, 4) }),
    ask(remove),
    start(remove)
  ),
  breach(
    4,
    "a person is asked about call c9 (put_page) with other arguments than it was started with",
    ...again,
    ask(page)
  ),
  breach(
    4,
    "call c9 (put_page) is approved with other arguments than it was started with",
    ...again,
    ask({ ...page, args: edited }),
    decided({ ...page, args: { path: "a third" } }, "approved", { args: { path: "a third" } })
  ),
  breach(
    5,
    "it says what an event of version 1 cannot say",
    ...one(remove),
    stored(3, decided(remove, "approved", { expires: dateOf(9, 9) }), { v: 1 })
  ),
  breach(
    4,
    "call c4 (delete_file) is decided about with the digest of other arguments",
    ...one(remove),
    decided(remove, "approved", { argsDigest: "d" })
  ),
  breach(
    4,
    "call c4 (delete_file) is decided about with the digest of other arguments",
    ...one(remove),
    decided(remove, "approved", { args: edited })
  ),
  breach(
    3,
    "call c8 (request_input) is answered twice",
    ...one(input),
    { type: "input_given", callId: "c8", answer: "Tuesday" },
    { type: "input_given", callId: "c8", answer: "Friday" }
  ),
  breach(3, "call c1 (read_file) is answered by a person, and is no question", ...one(read), {
    type: "input_given",
    callId: "c1",
    answer: "Tuesday"
  }),
  breach(3, "a person is asked to answer call c1 (read_file), which is no open question", ...one(read), {
    type: "input_required",
    callId: "c1",
    question: "Which day?"
  }),
  breach(3, "input_given is about call c1, which no turn has asked for", begun, {
    type: "input_given",
    callId: "c1",
    answer: "Tuesday"
  }),
  breach(
    1,
    "call c6 (ask_child) is put down as suspended, and was not started",
    ...one(child),
    suspended(child)
  ),
  breach(3, "call c3 (append_row) has a second result", ...one(write), ...ran(write), resolved(write)),
  breach(
    2,
    "somebody says what became of call c3 (append_row), which was not in question",
    ...one(write),
    start(write),
    resolved(write)
  ),
  breach(
    3,
    "call c3 (append_row) is resolved as a call of another",
    ...one(write),
    start(write),
    resumed,
    resolved(write, { tool: "another" })
  ),
  breach(
    3,
    "call c3 (append_row) is resolved without a word",
    ...one(write),
    start(write),
    resumed,
    resolved(write, { content: "" })
  )
]

const working = [...one(write), start(write)]

const operations: ReadonlyArray<Breach> = [
  breach(2, "operation o1 is started twice", ...working, operation(), operation()),
  breach(1, "operation o1 is started by call c3, which is not running", ...one(write), operation()),
  breach(
    2,
    "operation o1 is not what call c3 (append_row) has started",
    ...working,
    operation({ argsDigest: "d" })
  ),
  breach(2, "operation o1 ends, and was never started", ...working, ended),
  breach(2, "operation o1 ends twice", ...working, operation(), ended, ended),
  breach(
    2,
    "operation o1 is still running, and does not go on",
    ...working,
    operation(),
    ended,
    result(write),
    stopped("interrupted", "cancelled", { operations: [{ operationId: "o1", handling: "still_running" }] })
  ),
  breach(
    2,
    "operation o1 goes on at the limit, and nothing is said of it",
    started({ tokens: 110 }),
    ...turn(1, [call(tools.append, "c3"), submit]),
    start(write),
    operation(),
    result(write),
    stopped("budget_exceeded", "max_budget", { exhausted: { resource: "tokens", used: 110, limit: 110 } })
  )
]

const reserved = { turns: 4, reserve: { turns: 3 } }
const short = { resource: "turns", used: 1, limit: 4 } as const

const limits: ReadonlyArray<Breach> = [
  breach(
    7,
    "turn 1 is to hand over, and the run is there to investigate",
    begun,
    asked(1, { purpose: "handoff" })
  ),
  breach(
    7,
    "turn 2 begins to investigate with 1 turns of 1 turns used",
    started({ turns: 1 }),
    ...turn(1, [], { answers: false, note: "Answer." }),
    asked(2)
  ),
  breach(
    7,
    "turn 2 begins to investigate with $0.001 of $0.001 used",
    started({ usd: 0.002, reserve: { usd: 0.001 } }),
    ...turn(1, [], { answers: false, note: "Answer." }),
    asked(2)
  ),
  breach(
    7,
    "turn 2 begins to investigate with 110 tokens of 100 tokens used",
    started({ tokens: 100 }),
    ...turn(1, [], { answers: false, note: "Answer." }),
    asked(2)
  ),
  breach(7, "turn 1 begins to investigate with 1000 ms of 1000 ms used", started({ timeMs: 1000 }), {
    ...asked(1),
    elapsedMs: 1000
  }),
  breach(
    7,
    "turn 2 begins to investigate with 1 tool calls of 1 tool calls used",
    started({ toolCalls: 2, reserve: { toolCalls: 1 } }),
    ...turn(1, [read]),
    ...ran(read),
    asked(2)
  ),
  breach(7, "turn 1 holds $0.001, and $0.0005 is left", started({ usd: 0.0005, money: "hold" }), asked(1)),
  breach(
    7,
    "turn 1 holds 110 tokens, and 50 are left",
    started({ tokens: 100, reserve: { tokens: 50 }, money: "hold" }),
    asked(1)
  ),
  breach(
    7,
    "call c6 (ask_child) holds $0.7, and $0.499 is left",
    started({ usd: 0.5 }),
    ...turn(1, [child]),
    { ...(start(child) as Of<"tool_start">), holdUsd: 0.7 }
  ),
  breach(
    7,
    "call c1 (read_file) begins to investigate with 0 tool calls of 0 tool calls used",
    started({ toolCalls: 0 }),
    ...turn(1, [read]),
    start(read)
  ),
  breach(
    7,
    "call c1 (read_file) begins to investigate with 1 turns of 1 turns used",
    started({ turns: 1 }),
    ...turn(1, [read]),
    start(read)
  ),
  breach(7, "call c1 (read_file) is started to hand over, which is not what its tool is for", ...one(read), {
    ...(start(read) as Of<"tool_start">),
    purpose: "handoff"
  }),
  breach(
    7,
    "call c1 (read_file) investigates while the run hands over",
    started(reserved),
    ...turn(1, [read]),
    handoff(short),
    start(read)
  ),
  breach(
    7,
    "call c1 (read_file) is refused for want of tool calls, and there was room",
    started({ toolCalls: 1 }),
    ...turn(1, [read]),
    result(read, { ...refused, short: "tool_calls" })
  ),
  breach(7, "call c1 (read_file) is refused, and there was room", ...one(read), result(read, refused)),
  breach(
    7,
    "a limit of 9 turns is said to be used up, and the limit is 4 turns",
    started(reserved),
    ...turn(1, [read]),
    handoff({ ...short, limit: 9 })
  ),
  breach(
    7,
    "2 turns are said to be used, and the journal counts 1 turns",
    started(reserved),
    ...turn(1, [read]),
    handoff({ ...short, used: 2 })
  ),
  breach(
    7,
    "the limit of 4 turns is said to be reached, and there is room",
    started({ turns: 4 }),
    ...turn(1, [read]),
    handoff(short)
  ),
  breach(
    7,
    "the limit of $1 is said to be reached, and there is room",
    started({ ...reserved, usd: 1, reserve: { ...reserved.reserve, usd: 0.1 } }),
    ...turn(1, [], { answers: false, note: "Answer." }),
    handoff(short),
    stopped("budget_exceeded", "max_budget", { exhausted: { resource: "usd", used: 0.001, limit: 1 } })
  ),
  breach(
    7,
    "the run hands over already",
    started(reserved),
    ...turn(1, [read]),
    handoff(short),
    handoff(short)
  )
]

const endings: ReadonlyArray<Breach> = [
  breach(
    6,
    "the run has taken 1 turns, and it says 2",
    ...one(),
    stopped("completed", "answered", { turns: 2 })
  ),
  breach(
    6,
    "the run has cost $0.001, and it says $0.002",
    ...one(),
    stopped("completed", "answered", { costUsd: 0.002 })
  ),
  breach(
    6,
    "the run has cost $0.001, and it says $0",
    begun,
    asked(1),
    stopped("interrupted", "cancelled", { costUsd: 0 })
  ),
  breach(
    3,
    "the run completes although call c1 (read_file) has no result",
    ...one(submit, read),
    result(submit),
    stopped("completed", "submitted")
  ),
  breach(
    6,
    "the run completes without an answer",
    ...one(read),
    ...ran(read),
    stopped("completed", "answered")
  ),
  breach(
    6,
    "the run completes with text, and its result has to be submitted with submit_result",
    { ...(begun as Of<"run_started">), contract: { tool: "submit_result" } },
    ...turn(1, []),
    stopped("completed", "answered")
  ),
  breach(
    6,
    "the run stops at a limit, and calls its handoff an answer",
    started({ turns: 4, reserve: { turns: 3 } }),
    ...turn(1, [read]),
    handoff(short),
    result(read, refused),
    asked(2, { purpose: "handoff" }),
    replied(2, []),
    stopped("completed", "answered", { turns: 2, costUsd: 0.002 })
  ),
  breach(
    6,
    "the run completes without a result",
    ...one(read),
    ...ran(read),
    stopped("completed", "submitted")
  ),
  breach(
    4,
    "the run waits for a decision, and no call needs one",
    ...one(),
    stopped("interrupted", "approval")
  ),
  breach(3, "the run waits for an answer, and nothing was asked", ...one(), stopped("interrupted", "input")),
  breach(
    2,
    "the run waits to be told of an outcome, and none is unknown",
    ...one(),
    stopped("interrupted", "unknown_outcome")
  ),
  breach(
    1,
    "the run waits for its model, and no model call has failed",
    ...one(),
    stopped("interrupted", "provider")
  ),
  breach(
    1,
    "the model has refused, and no model call has failed",
    ...one(),
    stopped("failed", "provider_refused")
  ),
  breach(6, "a run that stops for cancelled is not failed", ...one(), stopped("failed", "cancelled")),
  breach(
    7,
    "the run stops for max_turns, and no limit is said to be used up",
    ...one(),
    stopped("max_turns_exceeded", "max_turns")
  ),
  breach(
    7,
    "the run stops for cancelled, and a limit is said to be used up",
    started({ turns: 1 }),
    ...turn(1, []),
    stopped("interrupted", "cancelled", { exhausted: { resource: "turns", used: 1, limit: 1 } })
  ),
  breach(
    7,
    "the run stops for max_budget, and what is used up is turns",
    started({ turns: 1 }),
    ...turn(1, []),
    stopped("budget_exceeded", "max_budget", { exhausted: { resource: "turns", used: 1, limit: 1 } })
  )
]

describe("an event that breaks a law is named", () => {
  for (const [about, breaches] of Object.entries({
    "the sequence": sequence,
    "model calls": turns,
    "starts of calls": starts,
    "results of calls": results,
    "what people say": people,
    "work that goes on": operations,
    limits,
    endings
  })) {
    describe(about, () => {
      for (const one of breaches) it(`law ${one.law}: ${one.problem}`, () => expectBreach(one))
    })
  }
})

describe("a stop at a time limit", () => {
  const overdue = (used: number) =>
    eventsOf([
      started({ timeMs: 1000 }),
      ...turn(1, [write]),
      start(write),
      operation(),
      { ...(result(write) as Of<"tool_result">), elapsedMs: 1000 },
      { ...(ended as Of<"operation_ended">), elapsedMs: 5000 },
      stopped("budget_exceeded", "max_budget", { exhausted: { resource: "time", used, limit: 1000 } })
    ])

  it("may wait for work that goes on, and says what was used when it was reached", () => {
    expect(Audit.audit(overdue(1000), { graceMs: 0 })).toEqual([])
    expect(Audit.audit(overdue(999), { graceMs: 0 })).toMatchObject([
      { law: 7, problem: "the limit of 1000 ms is said to be reached, and there is room" }
    ])
    expect(Audit.audit(overdue(6000), { graceMs: 0 })).toMatchObject([
      { law: 7, problem: "6000 ms are said to be used, and the journal counts 5001 ms" }
    ])
  })
})

describe("the grace of a time limit", () => {
  const late = eventsOf([started({ timeMs: 1000 }), { ...asked(1), elapsedMs: 1099 }])

  it("is a tenth of a second, for a process may be held up between a decision and its event", () => {
    expect(Audit.audit(late)).toEqual([])
    const later = eventsOf([started({ timeMs: 1000 }), { ...asked(1), elapsedMs: 1100 }])
    expect(Audit.audit(later)).toMatchObject([{ law: 7, seq: 1 }])
  })

  it("is what it is said to be, and none for what was late already", () => {
    expect(Audit.audit(late, { graceMs: 50 })).toMatchObject([{ law: 7, seq: 1 }])
    const before = eventsOf([started({ timeMs: 1000 }), { ...resumed, elapsedMs: 1000 }, asked(1)])
    expect(Audit.audit(before)).toMatchObject([{ law: 7, seq: 2 }])
  })
})

// --- children -------------------------------------------------------------------------------------------------------

describe("a run with children", () => {
  const childId = "run/c6"
  const tell = (childCostUsd: number): ReadonlyArray<Written> => [
    begun,
    ...turn(1, [child]),
    start(child),
    result(child, { childCostUsd }),
    asked(2),
    replied(2, [], { totalUsd: childCostUsd + 0.002 }),
    stopped("completed", "answered", { turns: 2, costUsd: childCostUsd + 0.002 })
  ]
  const childOf = (callId = "c6", limits = {}): ReadonlyArray<RunEvent> =>
    written(
      [
        { ...(started(limits) as Of<"run_started">), parent: { runId: "run", callId } },
        ...turn(1, []),
        stopped("completed", "answered")
      ],
      childId
    ).map((event) => ({ ...event, at: "2023-11-14T22:13:23.003Z" }))
  const audit = (parent: ReadonlyArray<Written>, ...children: ReadonlyArray<ReadonlyArray<RunEvent>>) =>
    Audit.audit(written(parent), { children, graceMs: 0 })

  it("has cost what it says if its children have cost what it says", () => {
    expect(audit(tell(0.001), childOf())).toEqual([])
  })

  it("may have been driven by the clock of another machine", () => {
    for (const at of ["2023-11-14T21:00:00.000Z", "2023-11-15T08:00:00.000Z"]) {
      const elsewhere = childOf().map((event) => ({ ...event, at }))
      expect(audit(tell(0.001), elsewhere)).toEqual([])
      expect(audit(tell(0.003), elsewhere)).toMatchObject([{ law: 6, seq: 4 }])
    }
  })

  it("is found where what came to its end is told as less than it had cost then", () => {
    expect(audit(tell(0), childOf())).toMatchObject([{ law: 6, seq: 4 }])
  })

  it("is found where a child has cost something else, though every sum is right", () => {
    expect(audit(tell(0.003), childOf())).toEqual([
      {
        law: 6,
        runId: "run",
        seq: 4,
        problem: "the run in call c6 is said to have cost $0.003, and it has cost $0.001"
      }
    ])
    expect(Audit.audit(written(tell(0.003)))).toEqual([])
  })

  it("is found where there is no such child", () => {
    expect(audit(tell(0.001))).toMatchObject([
      { law: 6, problem: "the run in call c6 is said to have cost $0.001, and there is no such run" }
    ])
  })

  it("is found where it does not tell what a child has cost", () => {
    const silent: ReadonlyArray<Written> = [begun, ...turn(1, [child]), ...ran(child)]
    expect(audit(silent, childOf())).toMatchObject([
      { law: 6, seq: 4, problem: "the run in call c6 is said to have cost $0, and it has cost $0.001" }
    ])
  })

  it("has started each of them with a call", () => {
    expect(audit(tell(0.001), childOf(), childOf("c9"))).toEqual([
      { law: 1, runId: childId, seq: 0, problem: "call c9 of its parent has not been started" }
    ])
  })

  it("lets none use more than it has held for it", () => {
    const holding = tell(0.001).map((body) =>
      body.type === "tool_start" ? { ...body, holdUsd: 0.5, holdTokens: 500 } : body
    )
    expect(audit(holding, childOf("c6", { usd: 0.5, tokens: 500 }))).toEqual([])
    expect(audit(holding, childOf())).toMatchObject([
      { law: 7, runId: childId, problem: "it may spend $Infinity, and its parent has held $0.5 for it" },
      { law: 7, runId: childId, problem: "it may use Infinity tokens, and its parent has held 500 for it" }
    ])
  })

  it("is suspended with the child that its call has started", () => {
    const waits: ReadonlyArray<Written> = [
      begun,
      ...turn(1, [child]),
      start(child),
      {
        type: "child_suspended",
        callId: "c6",
        suspension: suspension("run/another", "approval"),
        childCostUsd: 0.001
      }
    ]
    expect(audit(waits, childOf())).toMatchObject([
      { law: 3, seq: 4, problem: "call c6 is suspended with run run/another, which it has not started" }
    ])
  })

  it("does not go on from a child of which nobody can tell what it has done", () => {
    const lost = (...rest: ReadonlyArray<Written>): ReadonlyArray<RunEvent> =>
      written(
        [
          { ...(started() as Of<"run_started">), parent: { runId: "run", callId: "c6" } },
          ...turn(1, [write]),
          start(write),
          result(write, { disposition: "unknown", ok: false }),
          stopped("interrupted", "cancelled"),
          ...rest
        ],
        childId
      )
    expect(audit(tell(0.001), lost())).toEqual([
      {
        law: 2,
        runId: "run",
        seq: 4,
        problem: `call c6 has a result, and nobody can tell whether call c3 (${write.spec.tool}) of run ${childId} happened`
      }
    ])
    const found = [resumed, resolved(write), stopped("interrupted", "cancelled")]
    expect(audit(tell(0.001), lost(...found))).toEqual([])
  })

  it("is audited with them, and they are named", () => {
    const broken = childOf().map((event) => (event.type === "turn" ? { ...event, totalUsd: 0.002 } : event))
    expect(audit(tell(0.001), broken)).toMatchObject([{ law: 6, runId: childId, seq: 2 }])
  })
})

// --- stored runs ----------------------------------------------------------------------------------------------------

describe("a stored run", () => {
  const storeOf = (...journals: ReadonlyArray<ReadonlyArray<RunEvent>>) =>
    Effect.gen(function* () {
      const store = yield* MemoryRunStore.make
      for (const events of journals) {
        const state = Fold.fold(events)
        if (state === undefined) continue
        const { runId } = state
        const summary = Summary.of(state)
        yield* store.append({ runId, expected: 0, events, summary, durability: "process" })
      }
      return store
    })
  const audited = (runId: string, store: RunStore["Service"]) =>
    Effect.provideService(Audit.run(runId), RunStore, store)

  it.effect("is audited with every run below it", () =>
    Effect.gen(function* () {
      const lived = yield* Effect.forEach(runs, (run) => run)
      for (const { children, events } of lived) {
        const report = yield* audited("r", yield* storeOf(events, ...children))
        expect(report).toEqual({ runId: "r", events: events.length, children: children.length, findings: [] })
      }
      expect(lived.some(({ children }) => children.length > 1)).toBe(true)
    })
  )

  it.effect("is found where the journal of a child has another cost, and where it is gone", () =>
    Effect.gen(function* () {
      for (const run of runs) {
        const { children, events } = yield* run
        const [first, ...others] = children
        if (first === undefined) continue
        const without = yield* audited("r", yield* storeOf(events, ...others))
        expect(without.children).toBe(others.length)
        expect(without.findings).toContainEqual(expect.objectContaining({ law: 6, runId: "r" }))
      }
    })
  )

  it.effect("that is not there is not found", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(audited("r", yield* storeOf()))
      expect(error).toMatchObject({ _tag: "RunNotFound", runId: "r" })
    })
  )

  const asked = eventsOf([begun, ...turn(1, [secret]), ask(secret), stopped("interrupted", "approval")])
  it.effect("is found where its summary says something else than its journal, and the field is named", () =>
    Effect.gen(function* () {
      const store = yield* storeOf(asked)
      expect((yield* audited("run", store)).findings).toEqual([])
      const right = yield* store.summary("run")
      for (const name of Struct.keys(RunSummary.fields)) {
        const other = typeof right[name] === "number" ? 3 : "another"
        const summary = Effect.succeed({ ...right, [name]: other })
        const { findings } = yield* audited("run", { ...store, summary: () => summary })
        expect(findings).toEqual([
          {
            law: 9,
            runId: "run",
            seq: asked.length - 1,
            problem: expect.stringMatching(
              new RegExp(`^the summary of the run says .* for its ${name}, and the journal `)
            )
          }
        ])
      }
      // As somebody would who wants the call approved: everything else is right.
      const approvals = right.approvals.map((call) => ({ ...call, args: { path: "harmless" } }))
      const lower = Effect.succeed({ ...right, approvals })
      const { findings } = yield* audited("run", { ...store, summary: () => lower })
      expect(findings).toMatchObject([{ law: 9, problem: expect.stringContaining("harmless") }])
    })
  )

  it.effect("is found where no list has it that should have", () =>
    Effect.gen(function* () {
      const store = yield* storeOf(asked)
      const { findings } = yield* audited("run", { ...store, list: () => Effect.succeed([]) })
      expect(findings).toMatchObject([
        {
          law: 9,
          runId: "run",
          problem: expect.stringMatching(/^the run is not listed as .*interrupted \(approval\)$/)
        }
      ])
    })
  )

  it.effect("may be written to while it is audited", () =>
    Effect.gen(function* () {
      const [begins, all] = [yield* storeOf(asked.slice(0, 2)), yield* storeOf(asked)]
      let reads = 0
      const read: typeof all.read = (...from) => (reads++ === 0 ? begins : all).read(...from)
      expect((yield* audited("run", { ...all, read })).findings).toEqual([])
      // What was written later still is no part of the summary either.
      reads = 0
      const state = Fold.fold(asked.slice(0, 3))
      if (state === undefined) throw new Error("there are events")
      const summary = Effect.succeed(Summary.of(state))
      let asks = 0
      const moving = { ...all, read, summary: () => (asks++ === 0 ? summary : all.summary("run")) }
      expect((yield* audited("run", moving)).findings).toEqual([])
    })
  )
})
