/**
 * Another process on the same store, which carries out plans. What its tools do, and what its model is asked, it adds to
 * the file LEDGER as it happens.
 *
 * `node elsewhere.ts drive STORE LEDGER RUN PLAN [AT]` drives a run until it stops. With AT, a run and a turn of the
 * plan, the model hangs there, and the process says so.
 * `node elsewhere.ts tab STORE LEDGER NAME COUNT` says that it is ready, waits for a signal, and then approves whatever
 * waits in the runs `r0`, `r1` and so on, with its name in the arguments, and has each go on.
 */
import { appendFileSync } from "node:fs"
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { Agent, RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import { open } from "../store/opening.ts"
import { planner } from "./plans.ts"
import { answerAll, untilFree } from "./tab.ts"

const [mode = "", where = "", ledger = "", name = "", rest = "", at = ""] = process.argv.slice(2)

const write = (line: string) => appendFileSync(ledger, `${line}\n`)

const agent = planner({
  did: (what) => Effect.sync(() => write(what)),
  instead: (q, turn) => {
    write(`asked ${q} turn ${turn}`)
    if (at !== `${q} turn ${turn}`) return undefined
    process.stdout.write("hangs\n")
    return Scripted.text("too late", { latency: "1 hour" })
  }
})

const driving = Effect.gen(function* () {
  const exit = yield* Agent.outcome(Agent.run(agent, rest, { runId: name })).pipe(Effect.retry(untilFree))
  yield* Console.log(`ended ${exit._tag}`)
})

const told = Effect.callback<void>((resume) => {
  process.once("SIGUSR2", () => resume(Effect.void))
})

const answering = Effect.gen(function* () {
  const start = yield* Effect.forkChild(told, { startImmediately: true })
  yield* Console.log("ready")
  // A signal alone does not keep a process alive.
  yield* Effect.raceFirst(Fiber.join(start), Effect.sleep("1 minute"))
  yield* answerAll(
    agent,
    name,
    Array.from({ length: Number(rest) }, (_, i) => `r${i}`),
    write
  )
})

const modes = { drive: driving, tab: answering }
const program = Object.entries(modes).find(([known]) => known === mode)?.[1]

if (program !== undefined) {
  const leaseTime = Layer.succeed(
    RunStore.LeaseTime,
    Duration.seconds(Number(process.env.CHECKREIN_TEST_LEASE ?? 15))
  )
  await Effect.runPromise(Effect.provide(program, Layer.provide(open(where), leaseTime)))
}
