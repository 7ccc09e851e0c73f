/**
 * `checkrein demo`: scenarios with a scripted model, the figures that they must reproduce, and six tasks for a real model.
 */
import { fileURLToPath } from "node:url"
import * as Config from "effect/Config"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Catalogue from "../demo/Catalogue.ts"
import type * as Demo from "../demo/Demo.ts"
import type * as Figures from "../demo/Figures.ts"
import type * as Tasks from "../demo/Tasks.ts"
import type { Stored } from "../store/RunStore.ts"
import * as LimitFlags from "./LimitFlags.ts"
import * as Output from "./Output.ts"
import * as Store from "./Store.ts"

// What runs agents is loaded by the handlers: `--help` has no need of it.

const duration = (name: string, what: string) =>
  Flag.String(name).pipe(
    Flag.filterMap(
      LimitFlags.durationMs,
      (text) => `Expected a duration such as 1200ms, 1.2s or "2 seconds", got ${text}`
    ),
    Flag.withMetavar("DURATION"),
    Flag.withDescription(what),
    Flag.optional
  )

const turnsOf = (text: string): Option.Option<number> => {
  if (text === "none") return Option.some(Number.POSITIVE_INFINITY)
  return /^\d+$/.test(text) ? Option.some(Number(text)) : Option.none()
}

const provider = Flag.Literals("provider", ["in-process", "http"]).pipe(
  Flag.withDescription("Where the scripted model is: in this process, or behind an endpoint on loopback"),
  Flag.withDefault("in-process")
)

const flags = {
  scenario: Argument.Literals("scenario", Catalogue.names).pipe(
    Argument.withDescription("Which scenario to run"),
    Argument.optional
  ),
  list: Flag.Boolean("list").pipe(
    Flag.withDescription("List the scenarios and what they show"),
    Flag.withDefault(false)
  ),
  maxTurns: Flag.String("max-turns").pipe(
    Flag.filterMap(turnsOf, (text) => `Expected a whole number or none, got ${text}`),
    Flag.withMetavar("N|none"),
    Flag.withDescription("The most model calls (default: 20)"),
    Flag.optional
  ),
  maxUsd: LimitFlags.flags.maxUsd,
  toolErrors: Flag.Literals("tool-errors", ["informative", "generic", "fatal"]).pipe(
    Flag.withDescription("What the model is told of a tool's error; fatal ends the run"),
    Flag.withDefault(Catalogue.defaults.toolErrors)
  ),
  permanent: Flag.Literals("permanent", ["stop", "continue"]).pipe(
    Flag.withDescription("What an error does that no further attempt will change"),
    Flag.withDefault(Catalogue.defaults.permanent)
  ),
  dedupe: Flag.Literals("dedupe", ["off", "read-only", "all"]).pipe(
    Flag.withDescription("Which tools' results are reused for the same call"),
    Flag.withDefault(Catalogue.defaults.dedupe)
  ),
  approve: Flag.Literals("approve", ["all", "none"]).pipe(
    Flag.withDescription("Whether calls that wait for a person are approved; none leaves them waiting"),
    Flag.withDefault("none")
  ),
  reject: Flag.Boolean("reject").pipe(
    Flag.withDescription("Reject the calls that wait for a person"),
    Flag.withDefault(false)
  ),
  reason: Flag.String("reason").pipe(
    Flag.withMetavar("TEXT"),
    Flag.withDescription("Reject them for this reason"),
    Flag.optional
  ),
  stopAfter: duration("stop-after", "Press Stop after this time"),
  killAfter: Flag.Int("kill-after").pipe(
    Flag.filter(
      (turn) => turn >= 1,
      (turn) => `Expected the number of a turn, from 1 on, got ${turn}`
    ),
    Flag.withMetavar("TURN"),
    Flag.withDescription("Kill this very process once the tool results of this turn are stored"),
    Flag.optional
  ),
  latency: duration("latency", "How long the model takes to reply"),
  provider,
  store: Store.flag,
  json: Output.json
}

type Values = Command.Command.Config.Infer<typeof flags>

const usage = (message: string) => new Output.UsageError({ message })

/** What a person says to calls that wait: the flags must not contradict each other. */
const verdictOf = ({
  approve,
  reason,
  reject
}: Values): Effect.Effect<"none" | "all" | "reject", Output.UsageError> => {
  const rejects = reject || Option.isSome(reason)
  if (!rejects) return Effect.succeed(approve)
  return approve === "all"
    ? Effect.fail(usage("--approve all and --reject contradict each other"))
    : Effect.succeed("reject")
}

const limitsOf = ({ maxTurns, maxUsd }: Values) => ({
  ...(Option.isSome(maxTurns) ? { turns: maxTurns.value } : undefined),
  ...(Option.isSome(maxUsd) ? { usd: maxUsd.value } : undefined)
})

const count = (tokens: number): string => tokens.toLocaleString("en-US")

const plural = (amount: number, one: string): string => `${amount} ${one}${amount === 1 ? "" : "s"}`

const spent = (of: {
  readonly turns: number
  readonly toolRuns: number
  readonly promptTokens: number
  readonly completionTokens: number
  readonly costUsd: number
  readonly ms: number
}): string =>
  [
    plural(of.turns, "turn"),
    plural(of.toolRuns, "tool run"),
    `${count(of.promptTokens)} tokens in and ${count(of.completionTokens)} out`,
    `$${of.costUsd.toFixed(6)}`,
    `${count(Math.round(of.ms))} ms`
  ].join(", ")

/** A result on the screen: how it ended, what it took, and how it goes on. */
const screen = Effect.fnUntraced(function* (
  { answer, deleted, ...result }: Demo.Result,
  stored: Stored,
  store: string
) {
  const Ending = yield* Effect.promise(() => import("./Ending.ts"))
  const next = Ending.next(stored.state, {
    store,
    agent: undefined,
    root: result.runId
  })
  const lines = [
    "",
    `${result.scenario}: ${Catalogue.shows[result.scenario]}`,
    `  ending   ${Ending.standing(stored.state)}`,
    `  answer   ${answer === "" ? "none" : answer}`,
    ...(deleted.length === 0 ? [] : [`  deleted  ${deleted.join(", ")}`]),
    `  used     ${spent(result)}`
  ]
  if (next.length > 0 && store !== "memory") lines.push("To go on:", ...next.map((command) => `  ${command}`))
  return lines.join("\n")
})

const tell = Effect.fnUntraced(function* (result: Demo.Result, stored: Stored, { json, store }: Values) {
  yield* Output.result(json, { ...result }, json ? "" : yield* screen(result, stored, store))
  if (result.status !== "completed") return yield* Output.quit(Output.exitCodes.stopped)
})

const listed = (json: boolean) =>
  Output.result(
    json,
    {
      scenarios: Object.entries(Catalogue.shows).map(([name, shows]) => ({
        name,
        shows
      }))
    },
    Object.entries(Catalogue.shows)
      .map(([name, shows]) => `${name.padEnd(16)} ${shows}`)
      .join("\n")
  )

/** Ends this process as a power cut would: nothing of it gets to run any more. */
const killSelf = () => process.kill(process.pid, "SIGKILL")

const scenario = Effect.fnUntraced(function* (name: Catalogue.Name, values: Values) {
  const { json, killAfter, reason, store } = values
  const approve = yield* verdictOf(values)
  if (Option.isSome(killAfter) && store === "memory") {
    return yield* usage("--kill-after needs a store that outlives the process: --store memory does not")
  }
  const [Demo, Scenario, RunTrace, { load }] = yield* Effect.promise(() =>
    Promise.all([
      import("../demo/Demo.ts"),
      import("../demo/Scenario.ts"),
      import("../observe/RunTrace.ts"),
      import("../store/RunStore.ts")
    ])
  )
  const runId = yield* Scenario.newRunId(name, values)
  if (Option.isSome(killAfter)) {
    yield* Output.note(
      [
        `This process kills itself after turn ${killAfter.value}. Take the run up again with:`,
        `  ${Output.self} runs resume ${runId}${Store.repeated(store)}`
      ].join("\n")
    )
  }
  const running = Demo.run(name, {
    runId,
    limits: limitsOf(values),
    toolErrors: values.toolErrors,
    permanent: values.permanent,
    dedupe: values.dedupe,
    approve,
    reason: Option.getOrUndefined(reason),
    stopAfter: Option.getOrUndefined(values.stopAfter),
    latency: Option.getOrUndefined(values.latency),
    provider: values.provider,
    afterTools: Option.isSome(killAfter) ? { turn: killAfter.value, call: killSelf } : undefined
  })
  yield* Effect.gen(function* () {
    const result = yield* running.pipe(
      Effect.provide(json ? RunTrace.layerNone : RunTrace.layerConsole()),
      // Ctrl-C: the run has stopped by now, and can say so.
      Effect.onInterrupt(() =>
        Effect.flatMap(load(runId), (stored) => tell(Demo.resultOf(name, stored), stored, values)).pipe(
          Effect.ignore
        )
      )
    )
    if (Option.isSome(killAfter))
      yield* Output.note(`Turn ${killAfter.value} asked for no tool, so nothing was killed.`)
    yield* tell(result, yield* load(runId), values)
  }).pipe(Effect.provide(Store.layer(store)))
})

/** How this very program is started again. */
const again = (args: ReadonlyArray<string>): ReadonlyArray<string> => {
  const main = new URL(import.meta.url.endsWith(".ts") ? "./main.ts" : "./main.js", import.meta.url)
  return [process.execPath, ...process.execArgv, fileURLToPath(main), ...args]
}

const verdict = ({ ok }: Figures.Row): string => (ok ? "ok     " : "differs")

const rowScreen = (row: Figures.Row): string =>
  [
    `${verdict(row)}  ${row.run}`,
    `         measured  ${row.measured}`,
    `         expected  ${row.expected}`
  ].join("\n")

const figures = Command.make(
  "figures",
  {
    provider,
    store: Flag.String("store").pipe(
      Flag.withDescription("Where the runs are kept: a SQLite file, or `memory` (default)"),
      Flag.withMetavar("FILE"),
      Flag.withDefault("memory")
    ),
    json: Output.json
  },
  Effect.fnUntraced(function* ({ json, provider, store }) {
    const Figures = yield* Effect.promise(() => import("../demo/Figures.ts"))
    const onRow = (row: Figures.Row) => (json ? Effect.void : Output.print(rowScreen(row)))
    const rows = yield* Figures.all({ provider, command: again, onRow }).pipe(
      Effect.provide(Store.layer(store))
    )
    const differ = rows.filter((row) => !row.ok).length
    const ok = differ === 0
    yield* Output.result(
      json,
      { ok, rows },
      ok ? `All ${rows.length} rows are as expected.` : `${differ} of ${rows.length} rows differ.`
    )
    if (!ok) return yield* Output.quit(Output.exitCodes.error)
  })
).pipe(
  Command.withDescription(
    "Run every row of the published figures, and print what was measured beside what is expected. Takes about 10 seconds."
  ),
  Command.withExamples([
    {
      command: "checkrein demo figures",
      description: "Fails if any row differs"
    },
    {
      command: "checkrein demo figures --provider http",
      description: "The same over an endpoint on loopback"
    }
  ])
)

/** The model of the tasks: the endpoint of the environment, or the analyst made of rules. */
const model = Layer.unwrap(
  Effect.gen(function* () {
    const address = yield* Config.option(Config.String("LLM_BASE_URL")).pipe(
      Effect.orElseSucceed(Option.none)
    )
    if (Option.isSome(address) && address.value.trim() !== "") {
      const Models = yield* Effect.promise(() => import("./Models.ts"))
      return Models.layer(Option.none(), "nothing")
    }
    yield* Output.note("LLM_BASE_URL is not set: a log analyst made of rules answers, and no model.")
    const [Analyst, Scripted] = yield* Effect.promise(() =>
      Promise.all([import("../demo/Analyst.ts"), import("../provider/Scripted.ts")])
    )
    return Scripted.layer(Analyst.script)
  })
)

const taskScreen = (number: number, outcome: Tasks.Outcome): string =>
  [
    `${number}. ${outcome.task}`,
    `   ${outcome.answer === "" ? `no answer: ${outcome.detail}` : Output.plain(outcome.answer)}`,
    `   ${spent(outcome)}`
  ].join("\n")

const tasks = Command.make(
  "tasks",
  { store: Store.flag, json: Output.json },
  Effect.fnUntraced(function* ({ json, store }) {
    const Tasks = yield* Effect.promise(() => import("../demo/Tasks.ts"))
    const outcomes: Array<Tasks.Outcome> = []
    yield* Effect.gen(function* () {
      for (const [index, task] of Tasks.tasks.entries()) {
        const outcome = yield* Tasks.run(task)
        outcomes.push(outcome)
        if (!json) yield* Output.print(taskScreen(index + 1, outcome))
        if (Tasks.isOver(outcome)) return
      }
    }).pipe(Effect.provide(Layer.merge(Store.layer(store), model)))
    const answered = outcomes.filter(({ status }) => status === "completed").length
    yield* Output.result(
      json,
      { answered, tasks: outcomes },
      `${answered} of ${Tasks.tasks.length} tasks were answered. Whether an answer is right is for you to judge.`
    )
    if (answered < Tasks.tasks.length) return yield* Output.quit(Output.exitCodes.stopped)
  })
).pipe(
  Command.withDescription(
    "Put six tasks about the demo's files to the model at LLM_BASE_URL (LLM_MODEL, LLM_API_KEY), and print how it does."
  ),
  Command.withExamples([
    {
      command: "LLM_BASE_URL=http://localhost:11434/v1 LLM_MODEL=qwen3 checkrein demo tasks",
      description: "A model on this machine"
    }
  ])
)

/** `checkrein demo`, with `demo figures` and `demo tasks`. */
export const command = Command.make("demo", flags, (values) =>
  values.list || Option.isNone(values.scenario)
    ? listed(values.json)
    : scenario(values.scenario.value, values)
).pipe(
  Command.withSubcommands([figures, tasks]),
  Command.withDescription(
    "Run a scenario: a scripted model before a log analyst with four tools. Without a scenario, list them."
  ),
  Command.withExamples([
    { command: "checkrein demo plan", description: "A run that goes well" },
    {
      command: "checkrein demo runaway --max-turns none --max-usd 0.01",
      description: "A run that a budget stops"
    },
    {
      command: "checkrein demo destructive --reject --reason 'keep the logs'",
      description: "A deletion that is declined"
    },
    {
      command: "checkrein demo plan --kill-after 2",
      description: "A process that dies; it says how to go on"
    }
  ])
)
