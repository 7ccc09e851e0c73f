/**
 * The published figures of a harness of the same kind, and what this one measures: every row is run for real, and what
 * came of it is put beside what was expected. `expected` is the only place where a figure is written down; `measured`
 * comes from the loop, the wire format and the tokenizer.
 */
import { spawn } from "node:child_process"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Agent from "../Agent.ts"
import * as Script from "../provider/Script.ts"
import { load, RunStore } from "../store/RunStore.ts"
import type * as Catalogue from "./Catalogue.ts"
import * as Demo from "./Demo.ts"
import type * as Provider from "./Provider.ts"
import * as Scenario from "./Scenario.ts"
import * as Scripts from "./Scripts.ts"

/** One row: what was run, what came of it, and what was expected. */
export interface Row {
  readonly run: string
  readonly measured: string
  readonly expected: string
  readonly ok: boolean
}

const count = (tokens: number): string => tokens.toLocaleString("en-US")
const usd = (amount: number): string => `$${amount.toFixed(6)}`
const times = (a: number, b: number): string => (a / b).toFixed(1)
const list = (values: ReadonlyArray<unknown>): string => values.join(", ")

const row = (run: string, measured: string, expected: string): Row => ({
  run,
  measured,
  expected,
  ok: measured === expected
})

type Runner = (
  name: Catalogue.Name,
  options?: Demo.Options
) => Effect.Effect<Demo.Result, Demo.Failure, RunStore>

const runs = (result: Demo.Result): string =>
  result.toolRuns === 1 ? "1 tool run" : `${result.toolRuns} tool runs`

const plan = (run: Runner) =>
  Effect.map(run("plan", { limits: { turns: 20 } }), (it) => {
    const totals = `${it.turns} turns, ${runs(it)}, in ${it.promptTokens}, out ${it.completionTokens}`
    const turns = `prompt ${list(it.perTurn.map((turn) => turn.promptTokens))}; completion ${list(it.perTurn.map((turn) => turn.completionTokens))}`
    return [
      row(
        "plan, cap 20",
        `${totals}, ${usd(it.costUsd)}, ${it.status}; ${turns}`,
        "3 turns, 2 tool runs, in 815, out 70, $0.002470, completed; prompt 204, 269, 342; completion 23, 29, 18"
      )
    ]
  })

const runaway = (run: Runner) =>
  Effect.gen(function* () {
    const capped = (turns: number) => run("runaway", { limits: { turns } })
    const [at8, at20, at50, at100] = yield* Effect.all([capped(8), capped(20), capped(50), capped(100)])
    const budget = yield* run("runaway", {
      limits: { turns: Number.POSITIVE_INFINITY, usd: 0.01 }
    })
    const over = budget.costUsd - 0.01
    const lastTurn = budget.perTurn.at(-1)?.costUsd ?? 0
    const within = over >= 0 && over < lastTurn ? "over by less than one turn" : `over by ${usd(over)}`
    return [
      row("runaway, cap 8", `in ${count(at8.promptTokens)}, ${at8.status}`, "in 3,431, max_turns_exceeded"),
      row(
        "runaway, cap 20",
        `about $${at20.costUsd.toFixed(3)}, ${runs(at20)}`,
        "about $0.038, 19 tool runs"
      ),
      row("runaway, cap 50", `in ${count(at50.promptTokens)}`, "in 88,649"),
      row(
        "runaway, cap 100",
        `in ${count(at100.promptTokens)}; ${times(at100.promptTokens, at50.promptTokens)} times the input and ${times(at100.costUsd, at50.costUsd)} times the cost of cap 50`,
        "in 337,299; 3.8 times the input and 3.7 times the cost of cap 50"
      ),
      row(
        "runaway, no cap, budget $0.010",
        `stops at ${usd(budget.costUsd)}, ${within}; ${budget.status}`,
        "stops at $0.010780, over by less than one turn; budget_exceeded"
      )
    ]
  })

const recoverAndDenied = (run: Runner) =>
  Effect.gen(function* () {
    const fatal = yield* run("recover", { toolErrors: "fatal" })
    const generic = yield* run("recover", { toolErrors: "generic" })
    const informative = yield* run("recover", { toolErrors: "informative" })
    const told = [fatal, generic, informative].map(({ answer }) => (answer === "" ? "no answer" : answer))
    const denied = yield* run("denied", {
      limits: { turns: 12 },
      permanent: "continue"
    })
    const stopped = yield* run("denied")
    const answer = denied.answer === "" ? "no answer" : denied.answer
    return [
      row(
        "recover, errors fatal / generic / informative",
        `${told.join(" / ")} The last costs ${times(informative.costUsd, fatal.costUsd)} times the first.`,
        "no answer / I could not read the file, so I do not know. / errors.log mentions a timeout. The last costs 4.7 times the first."
      ),
      row(
        "denied, cap 12, permanent failures do not stop it",
        `${denied.turns} turns, ${runs(denied)}, in ${count(denied.promptTokens)}, ${usd(denied.costUsd)}, ${denied.status}, ${answer}; ${times(denied.costUsd, informative.costUsd)} times the recovered run`,
        "12 turns, 11 tool runs, in 7,079, $0.018622, max_turns_exceeded, no answer; 5.2 times the recovered run"
      ),
      row(
        "denied, default policy",
        `${stopped.status} after ${runs(stopped)}: ${stopped.detail}`,
        "failed after 1 tool run: read_file failed for good: permission denied: private/audit.log"
      )
    ]
  })

const repeat = (run: Runner) =>
  Effect.gen(function* () {
    const twice = yield* run("repeat")
    const once = yield* run("repeat-baseline")
    const cached = yield* run("repeat", { dedupe: "read-only" })
    const more = twice.costUsd - once.costUsd
    const saved = `caching saves ${twice.toolRuns - cached.toolRuns} tool run and ${usd(twice.costUsd - cached.costUsd)}`
    return [
      row(
        "repeat against repeat-baseline",
        `${usd(more)} more, up ${Math.round((100 * more) / once.costUsd)} %; ${saved}`,
        "$0.001050 more, up 75 %; caching saves 1 tool run and $0.000000"
      )
    ]
  })

const deletions = (run: Runner) =>
  Effect.gen(function* () {
    const summary = (it: Demo.Result) =>
      `${it.turns} turns, deleted ${JSON.stringify(it.deleted)} in ${runs(it)}`
    const all = yield* run("double-delete", { dedupe: "all", approve: "all" })
    const reads = yield* run("double-delete", {
      dedupe: "read-only",
      approve: "all"
    })
    const waits = yield* run("destructive")
    const approved = yield* run("destructive", { approve: "all" })
    const rejected = yield* run("destructive", { approve: "reject" })
    const explained = yield* run("destructive", {
      approve: "reject",
      reason: "keep the logs"
    })
    const said = (it: Demo.Result) => `${it.turns} turns, deleted ${JSON.stringify(it.deleted)}: ${it.answer}`
    const declined = "3 turns, deleted []: I did not delete anything: you declined the deletion."
    return [
      row(
        "double-delete, every call approved, dedupe all / read-only",
        `${summary(all)} / ${summary(reads)}`,
        '3 turns, deleted ["access.log"] in 1 tool run / 3 turns, deleted ["access.log","access.log"] in 2 tool runs'
      ),
      row(
        "destructive",
        `stops at turn ${waits.turns}, ${waits.status} / ${waits.reason}, deleted ${JSON.stringify(waits.deleted)}, ${usd(waits.costUsd)}`,
        "stops at turn 2, interrupted / approval, deleted [], $0.001570"
      ),
      row(
        "destructive, approved",
        said(approved),
        '3 turns, deleted ["access.log"]: Deleted access.log to free space.'
      ),
      row("destructive, rejected", said(rejected), declined),
      row("destructive, rejected with a reason", said(explained), declined)
    ]
  })

/** The script alone: what a model that is told nothing says. */
const silence = Effect.sync(() => {
  const told = Script.transcript(
    2,
    () => [{ role: "tool", tool_call_id: "c2", content: "" }],
    () => []
  )
  const reply = Scripts.destructive.reply(2, told)
  const said = reply?._tag === "Answer" ? reply.text : "nothing"
  return [row("an empty string in the place of the rejection", said, "Deleted access.log to free space.")]
})

const ms = (value: number): string => `${count(Math.round(value))} ms`

/** What a machine that has other things to do may add to a time. */
const slackMs = 100

const stop = (run: Runner) =>
  Effect.map(run("slow", { stopAfter: "1200 millis" }), (it): ReadonlyArray<Row> => {
    const ending = `${it.status}, ${it.detail}`
    const expected = "interrupted, user pressed Stop"
    return [
      {
        run: "slow, Stop pressed at 1.2 s",
        measured: `${ending}, after ${ms(it.ms)}`,
        expected: `${expected}, after 1,200 ms and a few`,
        ok: ending === expected && it.ms >= 1_195 && it.ms < 1_200 + slackMs
      }
    ]
  })

const slow = (run: Runner) =>
  Effect.map(
    run("slow"),
    (it): ReadonlyArray<Row> => [
      {
        run: "slow, without Stop",
        measured: `${it.status}, after ${ms(it.ms)}`,
        expected: "completed, after about 3,000 ms",
        ok: it.status === "completed" && it.ms >= 2_995 && it.ms < 3_000 + 2 * slackMs
      }
    ]
  )

const tries = 5

/**
 * The harness's share is the best of some runs, a little apart from each other: a share that can be had once is the
 * harness's, the rest is the machine's.
 */
const latency = (run: Runner, millis: number) =>
  Effect.map(
    Effect.forEach(
      Array.from({ length: tries }, (_, index) => index),
      (index) => Effect.delay(run("plan", { latency: millis }), 40 * index),
      { concurrency: "unbounded" }
    ),
    (results): ReadonlyArray<Row> => {
      const share = Math.min(...results.map((result) => result.ms)) - 3 * millis
      return [
        {
          run: `plan at a latency of ${ms(millis)}`,
          measured: `3 × ${ms(millis)} + ${share.toFixed(1)} ms of the harness's own`,
          expected: `3 × ${ms(millis)} + a few ms (15 ms in the published measurement)`,
          ok: share > -5 && share < slackMs
        }
      ]
    }
  )

const exitOf = (command: ReadonlyArray<string>) =>
  Effect.callback<string>((resume) => {
    const [file = "", ...args] = command
    const child = spawn(file, args, { stdio: "ignore" })
    child.once("error", (error) => resume(Effect.succeed(error.message)))
    child.once("exit", (code, signal) => resume(Effect.succeed(signal ?? `exit code ${code}`)))
    return Effect.sync(() => child.kill())
  })

/** The command that runs this program in another process, given its arguments. */
export type Command = (args: ReadonlyArray<string>) => ReadonlyArray<string>

const sqlite = (file: string) =>
  Layer.unwrap(
    Effect.map(
      Effect.promise(() => import("../store/NodeSqlite.ts")),
      ({ runStore }) => runStore(file)
    )
  )

/** Kills a process in mid-run, and takes the run up from its file. */
const kill = (command: Command) =>
  Effect.gen(function* () {
    const files = yield* FileSystem.FileSystem
    const folder = yield* files.makeTempDirectoryScoped({
      prefix: "checkrein-"
    })
    const file = `${folder}/runs.db`
    const signal = yield* exitOf(command(["demo", "plan", "--kill-after", "2", "--store", file]))
    return yield* Effect.gen(function* () {
      const store = yield* RunStore
      const [stored] = yield* store.list()
      const agent = Scenario.agentFor(stored?.runId ?? "")
      if (stored === undefined || agent === undefined) {
        return [
          row("plan, killed after the second tool's result", `no run was stored (${signal})`, "SIGKILL")
        ]
      }
      const { state } = yield* load(stored.runId)
      const restored = `${state.turns} turns, ${usd(state.costUsd)}, ${state.messages.length} messages, ${state.status}`
      // The right to drive the run outlives the process that was killed by a quarter of a minute.
      yield* Effect.retry(Agent.resume(agent, stored.runId), {
        while: ({ _tag }) => _tag === "RunBusy",
        times: 40,
        schedule: Schedule.spaced("500 millis")
      })
      const { events, state: after } = yield* load(stored.runId)
      return [
        row(
          "plan, killed after the second tool's result, resumed in another process",
          `${signal}; restored: ${restored}; finished: ${after.turns} turns, ${usd(after.costUsd)}; tool runs: ${list(Demo.toolsStarted(events))}`,
          "SIGKILL; restored: 2 turns, $0.001570, 6 messages, running; finished: 3 turns, $0.002470; tool runs: list_files, read_file"
        )
      ]
    }).pipe(Effect.provide(sqlite(file)))
  }).pipe(Effect.scoped)

/**
 * Runs every row. `onRow` sees them as they come, which is in the order of the published table but for those that
 * take their time: these run side by side, at the end.
 */
export const all = Effect.fnUntraced(function* (options: {
  readonly provider: Provider.Options["provider"]
  readonly command: Command
  readonly onRow: (row: Row) => Effect.Effect<void>
}) {
  const run: Runner = (name, more) => Demo.run(name, { provider: options.provider, ...more })
  const rows: Array<Row> = []
  const take = (found: ReadonlyArray<Row>) =>
    Effect.forEach(found, (one) => {
      rows.push(one)
      return options.onRow(one)
    })
  for (const group of [plan, runaway, recoverAndDenied, repeat, deletions]) yield* take(yield* group(run))
  yield* take(yield* kill(options.command))
  yield* take(yield* latency(run, 0))
  yield* take(yield* latency(run, 100))
  const timed = [latency(run, 500), latency(run, 2_000), stop(run), slow(run)]
  for (const found of yield* Effect.all(timed, { concurrency: "unbounded" })) yield* take(found)
  yield* take(yield* silence)
  return rows
})
