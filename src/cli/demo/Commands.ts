/**
 * `checkrein demo`: scenarios with a scripted model, the figures that they must reproduce, and six tasks for a real model.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Option from "effect/Option"
import * as Catalogue from "../../demo/Catalogue.ts"
import * as Amount from "../Amount.ts"
import * as LimitFlags from "../LimitFlags.ts"
import { loaded } from "../Loaded.ts"
import * as Output from "../Output.ts"
import * as Store from "../Store.ts"

const duration: Amount.Kind = {
  ...Amount.time,
  metavar: "DURATION",
  expected: 'a duration such as 1200ms, 1.2s or "2 seconds"'
}

const turn: Amount.Kind = { ...Amount.positive, metavar: "TURN", expected: "the number of a turn, from 1 on" }

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
  provider,
  store: Store.flag,
  json: Output.json
}

/** What `demo` was given. */
export interface Input extends Command.Command.Config.Infer<typeof flags> {}

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

const scenario = loaded(
  () => import("./Scenario.ts"),
  ({ run }) => run
)

const figuresFlags = { provider, store: Store.flagOf("memory"), json: Output.json }

/** What `demo figures` was given. */
export interface Figures extends Command.Command.Config.Infer<typeof figuresFlags> {}

const figures = Command.make(
  "figures",
  figuresFlags,
  loaded(
    () => import("./Figures.ts"),
    ({ measure }) => measure
  )
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

const tasksFlags = { store: Store.flag, json: Output.json }

/** What `demo tasks` was given. */
export interface Tasks extends Command.Command.Config.Infer<typeof tasksFlags> {}

const tasks = Command.make(
  "tasks",
  tasksFlags,
  loaded(
    () => import("./Tasks.ts"),
    ({ ask }) => ask
  )
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
export const command = Command.make("demo", flags, (input) =>
  input.list || Option.isNone(input.scenario)
    ? listed(input.json)
    : scenario({ ...input, scenario: input.scenario.value })
).pipe(
  Command.withSubcommands([figures, tasks]),
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
