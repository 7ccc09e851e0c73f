/**
 * The faults that real processes can have with each other: an approval that two of them send at the same moment and both
 * carry out; a call that the next process makes again, because the one that made it has died in the model call after it;
 * and a sub-agent that begins again in the process that takes it over.
 */
import { appendFileSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Agent, RunStore } from "../../src/index.ts"
import { folder } from "../store/folders.ts"
import { open } from "../store/opening.ts"
import * as Process from "../store/process.ts"
import { describeShared } from "../store/stores.ts"
import { acts, plan, planner, runIdOf, runs, taskOf } from "./plans.ts"
import { expectLawful, journal, of, summary } from "./support.ts"
import { answerAll, untilFree } from "./tab.ts"

const script = new URL("./elsewhere.ts", import.meta.url)
const leaseSeconds = 2

/** A file in which processes write what they do, and a process that does. */
const world = Effect.fnUntraced(function* (at: string) {
  const ledger = join(yield* folder, "ledger")
  writeFileSync(ledger, "")
  const start = (mode: string, ...args: ReadonlyArray<string>) =>
    Process.start([mode, at, ledger, ...args], leaseSeconds, script)
  const lines = () => readFileSync(ledger, "utf8").split("\n").slice(0, -1)
  const write = (line: string) => appendFileSync(ledger, `${line}\n`)
  /** The same agent in this process. */
  const agent = planner({
    did: (what) => Effect.sync(() => write(what)),
    instead: (q, turn) => void write(`asked ${q} turn ${turn}`)
  })
  const store = yield* Layer.build(Layer.fresh(open(at)))
  return { agent, start, lines, write, store: Context.get(store, RunStore.RunStore) }
})

describeShared((where) => {
  it.live(
    "two processes answer and resume the same runs at the same moment: each call is made once, as one of them said",
    () =>
      Effect.gen(function* () {
        const { agent, lines, start, store, write } = yield* world(yield* where)
        const ids = Array.from({ length: 8 }, (_, i) => `r${i}`)
        yield* Effect.gen(function* () {
          for (const runId of ids) {
            yield* Effect.exit(Agent.run(agent, taskOf(plan([["pay"]])), { runId }))
          }
          const other = yield* start("tab", "ann", String(ids.length))
          yield* other.says("ready")
          yield* other.signal("SIGUSR2")
          yield* answerAll(agent, "bob", ids, write)
          yield* other.ended
          const expected: Array<string> = []
          const said: Array<string> = []
          for (const runId of ids) {
            expect((yield* summary(runId)).status).toBe("completed")
            const events = yield* journal(runId)
            const [resolved, ...more] = of(events, "approval_resolved")
            expect(more).toEqual([])
            expected.push(`pay ${runId} by ${resolved?.by}`)
            said.push(`said ${runId} by ${resolved?.by}`)
            yield* expectLawful(runId)
          }
          expect(lines().filter((line) => line.startsWith("pay"))).toEqual(expected)
          // Whoever was told that it counts is the one whose word did.
          expect(lines().filter((line) => line.startsWith("said"))).toEqual(said)
        }).pipe(Effect.provideService(RunStore.RunStore, store))
      }),
    { concurrent: true, timeout: 60_000 }
  )

  it.live(
    "an approved call of a sub-agent, whose process is killed in the model call after it, is made once",
    () =>
      Effect.gen(function* () {
        const { agent, lines, start, store } = yield* world(yield* where)
        const turns = plan([["note", [["note"], ["pay"], ["look", "note"]]], ["note"]])
        yield* Effect.gen(function* () {
          yield* Effect.exit(Agent.run(agent, taskOf(turns), { runId: "r" }))
          const [call] = (yield* summary("r")).approvals
          if (call === undefined) throw new Error("nothing waits")
          expect(call.runId).toBe(runIdOf("r", "0.1"))
          yield* Agent.decide(call, Agent.approve(), { by: "ann" })
          const first = yield* start("drive", "r", taskOf(turns), "0.1 turn 2")
          yield* first.says("hangs")
          yield* first.signal("SIGKILL")
          yield* Agent.resume(agent, "r").pipe(Effect.retry(untilFree))

          const did = lines().filter((line) => !line.startsWith("asked"))
          expect(did).toEqual(acts(turns).map(({ act, q }) => `${act} ${q}`))
          const asked = lines().filter((line) => line.startsWith("asked"))
          const once = runs(turns).flatMap(({ q, turns }) =>
            [...turns, "its answer"].map((_, turn) => `asked ${q} turn ${turn}`)
          )
          expect([...asked].sort()).toEqual([...once, "asked 0.1 turn 2"].sort())
          yield* expectLawful("r")
        }).pipe(Effect.provideService(RunStore.RunStore, store))
      }),
    { concurrent: true, timeout: 60_000 }
  )
})
