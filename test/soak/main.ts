/**
 * `npm run soak`: several processes on one store drive many runs, and are killed, stopped and held up at random for two
 * minutes. Then every run has to come to its end, and every journal is audited and held against the world: nothing lost,
 * nothing twice, no run left behind. Exits with 1 if anything is.
 *
 * `node main.ts [--store URL|FILE] [--processes 4] [--runs 500] [--seconds 120] [--keep]`
 *
 * The default store is a schema of its own, dropped at the end, in the Postgres database of `CHECKREIN_TEST_PG`.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as SqlClient from "effect/sql/SqlClient"
import { Agent, RunStore } from "../../src/index.ts"
import * as Postgres from "../../src/store/Postgres.ts"
import { runIdOf } from "./orders.ts"
import { storeAt } from "./store.ts"
import { problemsOf } from "./verdict.ts"
import { type Effected, read } from "./world.ts"

const { values: flags } = parseArgs({
  options: {
    store: { type: "string" },
    processes: { type: "string", default: "4" },
    runs: { type: "string", default: "500" },
    seconds: { type: "string", default: "120" },
    keep: { type: "boolean", default: false }
  }
})
const [processes, runs, seconds] = [Number(flags.processes), Number(flags.runs), Number(flags.seconds)]
const leaseMs = 3_000
// In seconds, without a single run that comes to its end.
const patience = 60

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "soak-"))),
  (path) => Effect.sync(() => !flags.keep && rmSync(path, { recursive: true, force: true }))
)

const execute = (url: string, statement: string) =>
  SqlClient.SqlClient.use((sql) => sql.unsafe(statement)).pipe(
    Effect.provide(Postgres.layer({ url }), { local: true })
  )

/** A schema of its own in a Postgres database. */
const schemaIn = (database: string) =>
  Effect.gen(function* () {
    const schema = `soak_${randomBytes(4).toString("hex")}`
    yield* Effect.acquireRelease(execute(database, `CREATE SCHEMA ${schema}`), () =>
      flags.keep ? Effect.void : Effect.orDie(execute(database, `DROP SCHEMA ${schema} CASCADE`))
    )
    const url = new URL(database)
    url.searchParams.set("options", `-c search_path=${schema}`)
    return url.href
  })

const database = process.env.CHECKREIN_TEST_PG ?? "postgres://postgres@127.0.0.1:5432/test"

const placeOf = (given: string | undefined) =>
  given === undefined
    ? schemaIn(database)
    : /^postgres(ql)?:/.test(given)
      ? schemaIn(given)
      : Effect.succeed(given)

/** What was done to the processes. */
const done = { killed: 0, asked: 0, held: 0, cancelled: 0 }
const heldPids = new Set<number>()

/** A process that is there again whenever it has gone, until it is let go. */
const makeWorker = (args: ReadonlyArray<string>) => {
  let child: ChildProcess | undefined
  let wanted = true
  const start = () => {
    child = spawn(
      process.execPath,
      ["--no-warnings", fileURLToPath(new URL("./worker.ts", import.meta.url)), ...args],
      {
        stdio: ["ignore", "ignore", "inherit"]
      }
    )
    child.on("exit", (code, signal) => {
      if (wanted && signal === null && code !== 0 && code !== 143) console.log(`a process ended with ${code}`)
      if (wanted) start()
    })
  }
  start()
  return {
    signal: (signal: NodeJS.Signals) => child?.kill(signal),
    hold: Effect.gen(function* () {
      const one = child
      if (one?.pid === undefined) return
      heldPids.add(one.pid)
      one.kill("SIGSTOP")
      yield* Effect.sleep(leaseMs + 2_000)
      one.kill("SIGCONT")
    }),
    letGo: () => {
      wanted = false
      child?.kill("SIGCONT")
      child?.kill("SIGKILL")
    }
  }
}

type Worker = ReturnType<typeof makeWorker>

/** One random thing: mostly a kill; sometimes a request to leave, a process that is held up, or a run that is cancelled. */
const disturb = (workers: ReadonlyArray<Worker>) =>
  Effect.gen(function* () {
    const worker = workers[yield* Random.nextIntBetween(0, workers.length - 1)]
    const dice = yield* Random.next
    if (dice < 0.65) {
      done.killed++
      worker?.signal("SIGKILL")
    } else if (dice < 0.75) {
      done.asked++
      worker?.signal("SIGTERM")
    } else if (dice < 0.85) {
      done.held++
      if (worker !== undefined) yield* Effect.forkChild(worker.hold)
    } else {
      const runId = runIdOf(yield* Random.nextIntBetween(0, runs - 1))
      done.cancelled++
      yield* Effect.ignore(Agent.cancel(runId, "on second thoughts"))
    }
    yield* Effect.sleep(500 + 4_000 * (yield* Random.next))
  })

/** The runs that have not completed yet, by their status. */
const open = Effect.gen(function* () {
  const store = yield* RunStore.RunStore
  const found = new Map<string, string>()
  for (let order = 0; order < runs; order++) found.set(runIdOf(order), "not started")
  let before: RunStore.RunSummary | undefined
  while (true) {
    const page: ReadonlyArray<RunStore.RunSummary> = yield* store.list({ limit: 200, before })
    for (const { parent, runId, status } of page) {
      if (parent !== undefined) continue
      if (status === "completed") found.delete(runId)
      else found.set(runId, status)
    }
    before = page.at(-1)
    if (before === undefined) return found
  }
})

const since = (beganMs: number) => Effect.map(Clock.currentTimeMillis, (now) => (now - beganMs) / 1_000)

const soak = (where: string, world: string) =>
  Effect.gen(function* () {
    const began = yield* Clock.currentTimeMillis
    const workers = yield* Effect.acquireRelease(
      Effect.sync(() =>
        Array.from({ length: processes }, (_, share) =>
          makeWorker([where, world, String(runs), String(share), String(processes)])
        )
      ),
      (workers) =>
        Effect.sync(() => {
          for (const { letGo } of workers) letGo()
        })
    )
    let left = yield* open
    while ((yield* since(began)) < seconds && left.size > 0) {
      yield* disturb(workers)
      left = yield* open
      const { asked, cancelled, held, killed } = done
      const fate = `${killed} killed, ${asked} asked to leave, ${held} held up, ${cancelled} runs cancelled`
      process.stdout.write(
        `\r${Math.round(yield* since(began))} s: ${runs - left.size} of ${runs} runs done, ${fate} `
      )
    }
    process.stdout.write("\n")
    // Nobody disturbs them any more; given up are they only when nothing goes on.
    let movedMs = yield* Clock.currentTimeMillis
    while (left.size > 0 && (yield* since(movedMs)) < patience) {
      yield* Effect.sleep("1 second")
      const now = yield* open
      if (now.size < left.size) movedMs = yield* Clock.currentTimeMillis
      left = now
    }
    console.log(`${runs - left.size} of ${runs} runs are done after ${Math.round(yield* since(began))} s`)
    return [...left].map(([runId, status]) => ({ runId, problem: `it was left behind: ${status}` }))
  }).pipe(Effect.scoped)

const program = Effect.gen(function* () {
  const files = yield* folder
  const where = yield* placeOf(flags.store)
  const world = join(files, "world.jsonl")
  return yield* Effect.gen(function* () {
    const problems = [...(yield* soak(where, world))]
    const effects = new Map<string, Array<Effected>>()
    for (const effected of read(world)) {
      const id = `${effected.runId}/${effected.callId}`
      effects.set(id, [...(effects.get(id) ?? []), effected])
    }
    let events = 0
    const store = yield* RunStore.RunStore
    for (let order = 0; order < runs; order++) {
      const runId = runIdOf(order)
      const found = yield* Effect.result(problemsOf(runId, effects, heldPids))
      if (found._tag === "Success") problems.push(...found.success)
      else problems.push({ runId, problem: found.failure.message })
      events += (yield* Effect.orElseSucceed(store.read(runId), () => [])).length
    }
    const took = [...effects.values()].reduce((sum, each) => sum + each.length, 0)
    console.log(`${events} events and ${took} effects were looked at`)
    for (const { problem, runId } of problems) console.log(`${runId}: ${problem}`)
    console.log(
      problems.length === 0
        ? "nothing lost, nothing twice, no run left behind"
        : `${problems.length} problems`
    )
    return problems.length
  }).pipe(Effect.provide(storeAt(where)))
}).pipe(Effect.scoped)

process.exitCode = (await Effect.runPromise(program)) === 0 ? 0 : 1
