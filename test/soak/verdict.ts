/**
 * What is held against every run when all is over: the laws, and the world against the journal.
 */
import * as Effect from "effect/Effect"
import { callsOf } from "../../src/run/Message.ts"
import type { RunEvent } from "../../src/run/RunEvent.ts"
import { load } from "../../src/store/RunStore.ts"
import { idsIn } from "../../src/testing/Descendants.ts"
import { Audit } from "../../src/testing/index.ts"
import type { Effected } from "./world.ts"

/** One thing that should not be. */
export interface Problem {
  readonly runId: string
  readonly problem: string
}

/** What became of a call, according to its journal. */
interface Settled {
  readonly tool: string
  readonly effect: "read" | "idempotent" | "write"
  readonly agent: boolean
  outcome: "open" | "done" | "not done" | "failed"
}

const callsIn = (events: ReadonlyArray<RunEvent>): ReadonlyMap<string, Settled> => {
  const calls = new Map<string, Settled>()
  for (const event of events) {
    if (event.type === "turn") {
      const parts = callsOf(event.message)
      for (const [index, { agent = false, callId, effect }] of event.calls.entries()) {
        calls.set(callId, { tool: parts[index]?.name ?? "", effect, agent, outcome: "open" })
      }
      continue
    }
    const call = "callId" in event ? calls.get(event.callId) : undefined
    if (call === undefined) continue
    if (event.type === "tool_result" && event.disposition === "executed") {
      call.outcome = event.ok ? "done" : "failed"
    } else if (event.type === "outcome_resolved" && event.outcome !== "still_unknown") {
      call.outcome = event.outcome === "happened" ? "done" : "not done"
    }
  }
  return calls
}

/**
 * Looks at one run and at those that it has started. `held` are the processes that were held up for longer than a lease:
 * what one of them was about to do may take place after somebody has looked and seen nothing.
 */
export const problemsOf = (
  runId: string,
  world: ReadonlyMap<string, ReadonlyArray<Effected>>,
  held: ReadonlySet<number>
) =>
  Effect.gen(function* () {
    const problems: Array<Problem> = []
    const { findings } = yield* Audit.run(runId)
    for (const { law, problem, runId, seq } of findings) {
      problems.push({ runId, problem: `event ${seq} breaks the law ${law}: ${problem}` })
    }
    const waiting = [runId]
    for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
      const { events, state } = yield* load(id)
      const say = (problem: string) => problems.push({ runId: state.runId, problem })
      if (state.status !== "completed") say(`it is ${state.status}: ${state.detail ?? "nobody drives it"}`)
      const calls = callsIn(events)
      waiting.push(...idsIn(events))
      for (const [callId, { agent, effect, outcome, tool }] of calls) {
        if (agent || effect === "read") continue
        const did = world.get(`${id}/${callId}`) ?? []
        const keys = new Set(did.map(({ key }) => key))
        if (outcome === "open") say(`nothing says what became of ${tool}`)
        if (effect === "write" && did.length > 1) say(`${tool} took place ${did.length} times`)
        if (keys.size > 1) say(`${tool} has taken place under ${keys.size} keys`)
        if (outcome === "done" && did.length === 0) say(`${tool} never took place, and is said to have`)
        const late = did.every(({ pid }) => held.has(pid))
        if (outcome === "not done" && did.length > 0 && !late)
          say(`${tool} took place, and is said not to have`)
      }
    }
    return problems
  })
