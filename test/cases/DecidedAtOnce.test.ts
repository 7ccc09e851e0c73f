/**
 * The fault: the same approval is sent from two browser tabs, or the same page is clicked twice, and the call is made
 * twice, because each decision, or each resume, starts it.
 */
import { expect, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent, RunHost, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
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
      yield* Effect.catchTag(
        inStore(Agent.decide(call, decision, { by: name })),
        "CallNotPending",
        () => Effect.void
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

onEveryStore((check, store) => {
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
