/**
 * `checkrein demo`: scenarios with a scripted model, the figures that they must reproduce, and six tasks for a real model.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Catalogue from "../demo/Catalogue.ts"
import type * as Demo from "../demo/Demo.ts"
import type { Stored } from "../store/RunStore.ts"
import * as Amount from "./Amount.ts"
import * as DemoFigures from "./DemoFigures.ts"
import { screen } from "./DemoScreen.ts"
import * as DemoTasks from "./DemoTasks.ts"
import * as LimitFlags from "./LimitFlags.ts"
import * as Output from "./Output.ts"
import * as Store from "./Store.ts"

// What runs agents is loaded by the handlers: `--help` has no need of it.

const duration: Amount.Kind = {
  ...Amount.time,
  metavar: "DURATION",
  expected: 'a duration such as 1200ms, 1.2s or "2 seconds"'
}

const turn: Amount.Kind = { ...Amount.positive, metavar: "TURN", expected: "the number of a turn, from 1 on" }

const flags = {
  scenario: Argument.Literals("scenario", Catalogue.names).pipe(
    Argument.withDescription("Which scenario to run"),
    Argument.optional
  ),
  list: Flag.Boolean("list").pipe(
    Flag.withDescription("List the scenarios and what they show"),
    Flag.withDefault(false)
  ),
  ...LimitFlags.flags,
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
  repetition: Flag.Literals("repetition", ["on", "off"]).pipe(
    Flag.withDescription(
      "Whether a model that repeats itself is told so, and stopped if it goes on (default: on for investigate alone)"
    ),
    Flag.optional
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
  stopAfter: Amount.optional("stop-after", duration, "Press Stop after this time"),
  killAfter: Amount.optional(
    "kill-after",
    turn,
    "Kill this very process once the tool results of this turn are stored"
  ),
  latency: Amount.optional("latency", duration, "How long the model takes to reply"),
  provider: DemoFigures.provider,
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

const tell = Effect.fnUntraced(function* (told: Demo.Result, stored: Stored, { json, store }: Values) {
  const Ending = yield* Effect.promise(() => import("./Ending.ts"))
  const where = { store, agent: undefined, root: told.runId }
  // The commands of a handoff have to name the store.
  const handoff = told.handoff === null ? null : Ending.handoff(stored.state, where)
  const result: Demo.Result = { ...told, handoff }
  yield* Output.result(json, { ...result }, json ? "" : yield* screen(result, stored, where))
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
  if (Option.isSome(killAfter) && Store.isFleeting(store)) {
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
  const settings = Catalogue.settingsOf(name, {
    toolErrors: values.toolErrors,
    permanent: values.permanent,
    dedupe: values.dedupe,
    ...(Option.isSome(values.repetition) ? { repetition: values.repetition.value } : undefined)
  })
  const runId = yield* Scenario.newRunId(name, settings)
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
    limits: LimitFlags.toLimits(values),
    ...settings,
    approve,
    reason: Option.getOrUndefined(reason),
    stopAfter: Option.getOrUndefined(values.stopAfter),
    latency: Option.getOrUndefined(values.latency),
    provider: values.provider,
    afterTools: Option.isSome(killAfter) ? { turn: killAfter.value, call: killSelf } : undefined
  })
  yield* Effect.gen(function* () {
    const result = yield* running.pipe(
      Effect.catchTag("InvalidLimits", ({ message }) => usage(message)),
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

/** `checkrein demo`, with `demo figures` and `demo tasks`. */
export const command = Command.make("demo", flags, (values) =>
  values.list || Option.isNone(values.scenario)
    ? listed(values.json)
    : scenario(values.scenario.value, values)
).pipe(
  Command.withSubcommands([DemoFigures.command, DemoTasks.command]),
  Command.withDescription(
    "Run a scenario: a scripted model before an agent with four tools. Without a scenario, list them."
  ),
  Command.withExamples([
    { command: "checkrein demo plan", description: "A run that goes well" },
    {
      command: "checkrein demo runaway --max-turns none --max-usd 0.01",
      description: "A run that a budget stops"
    },
    {
      command: "checkrein demo investigate",
      description: "A run that uses up its tool calls, and hands its work over"
    },
    {
      command: "checkrein demo investigate --max-calls 20 --reserve-calls 4",
      description: "The same with enough of them"
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
