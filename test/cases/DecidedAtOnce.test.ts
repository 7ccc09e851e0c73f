/**
 * The fault: the same approval is sent from two browser tabs, or the same page is clicked twice, and the call is made
 * twice, because each decision, or each resume, starts it; or both are told that theirs counts.
 */
import { expect, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent, RunHost, RunStore } from "../../src/index.ts"
import * as Digest from "../../src/loop/Digest.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { append } from "../../src/testing/conformance/Samples.ts"
import { open } from "../store/opening.ts"
import { describeShared } from "../store/stores.ts"
import { type Planner, plan, planner, taskOf } from "./plans.ts"
import { examples, expectLawful, forAny, journal, of, onEveryStore, summary } from "./support.ts"
import { untilFree } from "./tab.ts"

type Store = RunStore.RunStore["Service"]

/** A store whose users get into each other's way: each question to it waits for others first, as the tape says. */
const jostling = (store: Store, tape: ReadonlyArray<number>): Store => {
  let asked = 0
  const wait = Effect.suspend(() =>
    Effect.forEach(Array.from({ length: tape[asked++ % tape.length] ?? 0 }), () => Effect.yieldNow, {
      discard: true
    })
  )
  return {
    ...store,
    summary: (runId) => Effect.andThen(wait, store.summary(runId)),
    inbox: (runId, after) => Effect.andThen(wait, store.inbox(runId, after)),
    send: (runId, command) => Effect.andThen(wait, store.send(runId, command)),
    read: (runId, from) => Effect.andThen(wait, store.read(runId, from)),
    append: (append) => Effect.andThen(wait, store.append(append)),
    lease: (runId) => Effect.andThen(wait, store.lease(runId))
  }
}

/** A browser tab: which of two calls it answers, how, and whether its server drives runs itself or has a host. */
const Tab = Schema.Struct({
  calls: Schema.Array(Schema.Literals([0, 1])).check(Schema.isMinLength(1), Schema.isMaxLength(2)),
  decision: Schema.Literals(["approve", "edit", "reject"]),
  server: Schema.Literals([0, 1]),
  hosted: Schema.Boolean
})
type Tab = typeof Tab.Type

const situations = Arbitrary.all({
  tabs: Arbitrary.array(Arbitrary.schema(Tab), { minLength: 2, maxLength: 6 }),
  tape: Arbitrary.array(Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 12 }))), {
    minLength: 1,
    maxLength: 40
  })
})

const decisionOf = ({ decision }: Tab, q: string): Agent.Decision =>
  decision === "reject" ? Agent.reject() : Agent.approve(decision === "edit" ? { args: { q } } : {})

/** Resumes a run as a server does that has no host: until nobody else drives it. */
const resume = (agent: Planner, runId: string) =>
  Agent.outcome(Agent.resume(agent, runId)).pipe(Effect.retry(untilFree))

/** Some tabs answer two calls of a run at the same moment, and each has the run go on; there is one answer to each call. */
const race = Effect.fnUntraced(function* (
  servers: readonly [Store, Store],
  runId: string,
  { tabs, tape }: { readonly tabs: ReadonlyArray<Tab>; readonly tape: ReadonlyArray<number> }
) {
  const did: Array<string> = []
  const succeeded: Array<string> = []
  const agent = planner({ did: (what) => Effect.sync(() => did.push(what)) })
  const stores = servers.map((store) => jostling(store, tape))
  const hosts = yield* Effect.forEach(stores, (store) =>
    Effect.map(
      Layer.build(Layer.provide(RunHost.layer([agent]), Layer.succeed(RunStore.RunStore, store))),
      Context.get(RunHost.RunHost)
    )
  )
  const exit = yield* Agent.outcome(Agent.run(agent, taskOf(plan([["pay", "pay"]])), { runId }))
  expect(exit._tag).toBe("ApprovalRequired")
  const asked = (yield* summary(runId)).approvals

  const open = Effect.fnUntraced(function* (tab: Tab, name: string) {
    const [store, host] = [stores[tab.server], hosts[tab.server]]
    if (store === undefined || host === undefined) throw new Error("there are two servers")
    const inStore = Effect.provideService(RunStore.RunStore, store)
    for (const i of tab.calls) {
      const [call, decision] = [asked[i], decisionOf(tab, `0.${i} by ${name}`)]
      if (call === undefined) throw new Error("two calls wait")
      yield* inStore(Agent.decide(call, decision, { by: name })).pipe(
        Effect.andThen(Effect.sync(() => succeeded.push(`${call.callId} by ${name}`))),
        Effect.catchTag("CallNotPending", () => Effect.void)
      )
      if (tab.hosted) yield* Effect.andThen(host.resume(runId), host.ended(runId))
      else yield* inStore(resume(agent, runId))
    }
  })
  const left = ([0, 1] as const).filter((i) => !tabs.some(({ calls }) => calls.includes(i)))
  const all = [
    ...tabs,
    ...left.map((i): Tab => ({ calls: [i], decision: "approve", server: 0, hosted: false }))
  ]
  yield* Effect.all(
    all.map((tab, i) => open(tab, `tab ${i}`)),
    { concurrency: "unbounded" }
  )

  expect(yield* summary(runId)).toMatchObject({ status: "completed" })
  const events = yield* journal(runId)
  const expected: Array<string> = []
  for (const [i, { callId }] of asked.entries()) {
    const resolved = of(events, "approval_resolved").filter((event) => event.callId === callId)
    expect(resolved).toHaveLength(1)
    const by = resolved[0]?.by ?? ""
    expect(succeeded.filter((one) => one.startsWith(`${callId} `))).toEqual([`${callId} by ${by}`])
    const tab = all[Number(by.slice("tab ".length))]
    expect(tab?.calls).toContain(i)
    if (tab?.decision !== "reject") expected.push(`pay 0.${i}${tab?.decision === "edit" ? ` by ${by}` : ""}`)
    const results = of(events, "tool_result").filter((event) => event.callId === callId)
    expect(results.map(({ disposition }) => disposition)).toEqual([
      tab?.decision === "reject" ? "rejected" : "executed"
    ])
  }
  expect(did).toEqual(expected)
  for (const call of asked) {
    const late = yield* Effect.flip(Agent.decide(call, Agent.approve()))
    expect(late._tag).toBe("CallNotPending")
  }
  yield* expectLawful(runId)
}, Effect.scoped)

/** What can be said of a call, and why the store says that it waits for that. */
const sayings = {
  decide: (by: string) =>
    Agent.decide({ runId: "w", callId: "c" }, by.endsWith("0") ? Agent.reject() : Agent.approve(), { by }),
  resolve: (by: string) => Agent.resolve({ runId: "w", callId: "c" }, Agent.didNotHappen, { by }),
  answer: (by: string) => Agent.answer("w", "yes", { by })
}

const Together = Schema.Struct({
  saying: Schema.Literals(["decide", "resolve", "answer"]),
  people: Schema.Int.check(Schema.isBetween({ minimum: 2, maximum: 8 })),
  tape: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 12 }))).check(
    Schema.isMinLength(1),
    Schema.isMaxLength(40)
  ),
  /** Somebody has approved it before, and that does not count any more. */
  expired: Schema.Boolean
})
const together = Arbitrary.schema(Together)

/** Some people say the same sort of thing of a call at the same moment, and exactly one is told that it counts. */
const oneOf = Effect.fnUntraced(function* (
  servers: readonly [Store, Store],
  { expired, people, saying, tape }: typeof Together.Type
) {
  const [server] = servers
  const waiting = { runId: "w", callId: "c", tool: "pay", args: {}, argsDigest: Digest.ofArgs({}) }
  const seq = yield* server.summary("w").pipe(
    Effect.map((run) => run.seq),
    Effect.catchTag("RunNotFound", () => Effect.succeed(0))
  )
  const inbox = (yield* server.inbox("w", 0)).length
  const waits = { approvals: [waiting], unknown: [waiting], question: { runId: "w", callId: "c", text: "?" } }
  yield* server.append(append("w", seq, 1, { ...waits, inbox }))
  if (expired && saying === "decide") {
    const expires = new Date(0).toISOString()
    yield* server.send("w", { type: "decide", callId: "c", decision: "approved", expires, by: "late" })
  }
  const stores = servers.map((store) => jostling(store, tape))
  const told = yield* Effect.forEach(
    Array.from({ length: people }, (_, i) => `person ${i}`),
    (by, i) =>
      sayings[saying](by).pipe(
        Effect.as(by),
        Effect.catchTag("CallNotPending", ({ problem }) => Effect.succeed(problem)),
        Effect.provideService(RunStore.RunStore, stores[i % 2] ?? server)
      ),
    { concurrency: "unbounded" }
  )
  const commands = (yield* server.inbox("w", inbox)).map(({ command }) => command)
  const speakers = commands.flatMap((command) => ("by" in command ? [command.by ?? "nobody"] : []))
  const winner = speakers.find((by) => by !== "late") ?? "nobody"
  expect(told.filter((one) => one.startsWith("person") && !one.includes("first"))).toEqual([winner])
  for (const one of told) if (one !== winner) expect(one).toContain(`${winner} was first`)
})

onEveryStore((check, store) => {
  check("however many speak of a call at the same moment: exactly one is told that it counts", function* () {
    const server = yield* RunStore.RunStore
    yield* forAny(together, 2 * examples[store], (situation) => oneOf([server, server], situation))
  })

  check(
    "however many answer and resume at the same moment: each call is made once, as one said",
    function* () {
      const server = yield* RunStore.RunStore
      let run = 0
      yield* forAny(situations, examples[store], (situation) =>
        race([server, server], `r${run++}`, situation)
      )
    }
  )

  check("an approval that was sent twice is not kept for the same call on the next turn", function* () {
    const did: Array<string> = []
    const agent = planner({
      did: (what) => Effect.sync(() => did.push(what)),
      // The very same call again, id and all.
      instead: (_, turn) => (turn < 2 ? Scripted.call("pay", { q: "x" }, { id: "c" }) : undefined)
    })
    const first = yield* Agent.outcome(Agent.run(agent, taskOf([]), { runId: "r" }))
    if (first._tag !== "ApprovalRequired") throw new Error(first._tag)
    const store = yield* RunStore.RunStore
    for (const by of ["one tab", "another tab"]) {
      const { argsDigest, callId } = first.calls[0]
      yield* store.send("r", { type: "decide", callId, argsDigest, decision: "approved", by })
    }
    const second = yield* Agent.outcome(Agent.resume(agent, "r"))
    if (second._tag !== "ApprovalRequired") throw new Error(second._tag)
    expect(did).toEqual(["pay x"])
    yield* Effect.exit(Agent.resume(agent, "r"))
    expect(did).toEqual(["pay x"])
    yield* Agent.decide(second.calls[0], Agent.reject())
    yield* Agent.resume(agent, "r")
    expect(did).toEqual(["pay x"])
    yield* expectLawful("r")
  })
})

describeShared((where) => {
  it.live(
    "exactly one is told that it counts, also by servers that know of each other only by the database",
    () =>
      Effect.gen(function* () {
        const at = yield* where
        const opened = Effect.map(Layer.build(Layer.fresh(open(at))), Context.get(RunStore.RunStore))
        const servers = [yield* opened, yield* opened] as const
        yield* forAny(together, 3 * examples.Postgres, (situation) => oneOf(servers, situation))
      })
  )

  it.live("the same with two servers that know of each other only by the database", () =>
    Effect.gen(function* () {
      const at = yield* where
      const opened = Effect.map(Layer.build(Layer.fresh(open(at))), Context.get(RunStore.RunStore))
      const servers = [yield* opened, yield* opened] as const
      let run = 0
      yield* forAny(situations, examples.Postgres, (situation) => race(servers, `r${run++}`, situation)).pipe(
        Effect.provideService(RunStore.RunStore, servers[0])
      )
    })
  )
})
