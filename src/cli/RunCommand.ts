/**
 * `checkrein run`, as it is called.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as LimitFlags from "./LimitFlags.ts"
import { loaded } from "./Loaded.ts"
import * as Output from "./Output.ts"
import * as Store from "./Store.ts"

/** A flag whose value is a name or a path: an empty one is a variable that was not set, and no choice of anything. */
const named = (name: string, metavar: string, what: string) =>
  Flag.String(name).pipe(
    Flag.filter(
      (value) => value.trim() !== "",
      () => `Expected ${metavar}, got an empty text`
    ),
    Flag.withMetavar(metavar),
    Flag.withDescription(what),
    Flag.optional
  )

/** `--agent MODULE`. */
export const agent = named(
  "agent",
  "MODULE",
  "A module that exports `agent` and, if it needs them, `layer` and `budget`, each by its name or in its default export"
)

/** `--model NAME`. */
export const model = named("model", "NAME", "The model at LLM_BASE_URL, in the place of LLM_MODEL")

/** `--trace FILE`. */
export const trace = named("trace", "FILE", "Append what happens to this file, one JSON object a line")

/** `--repetition on|off`. */
export const repetition = Flag.Literals("repetition", ["on", "off"]).pipe(
  Flag.withDescription(
    "Whether a model that repeats itself is told so, and stopped if it goes on (default: on)"
  ),
  Flag.optional
)

// The lines after the first are indented as the help indents that one.
const description = `Runs an agent on a task, with live progress on stderr and the answer on stdout.

  The built-in agent answers questions about the files of a directory. The model is the one at LLM_BASE_URL
  (LLM_MODEL, LLM_API_KEY, LLM_PRICE_INPUT, LLM_PRICE_OUTPUT, LLM_MAX_OUTPUT_TOKENS); without it a built-in script
  answers.

  Exit code: 0 answered, 1 error, 2 wrong usage, 3 stopped short of an answer, 130 Ctrl-C, 143 SIGTERM. A run that
  stopped is kept in the store, and the way to go on is printed.`

const flags = {
  task: Argument.String("task").pipe(Argument.withDescription("What the agent is asked")),
  root: named(
    "root",
    "DIR",
    "The directory that the built-in agent may look into (default: the current one)"
  ),
  agent,
  model,
  ...LimitFlags.flags,
  repetition,
  tag: Flag.String("tag").pipe(
    Flag.withMetavar("TAG"),
    Flag.withDescription("What to list and delete the run by; may be given several times"),
    Flag.atLeast(0)
  ),
  store: Store.flag,
  json: Output.json,
  trace
}

/** What the command was given. */
export interface Input extends Command.Command.Config.Infer<typeof flags> {}

/** The command. */
export const command = Command.make(
  "run",
  flags,
  loaded(
    () => import("./Run.ts"),
    ({ run }) => run
  )
).pipe(
  Command.withDescription(description),
  Command.withShortDescription("Run an agent on a task"),
  Command.withExamples([
    {
      command: 'checkrein run --root /var/log "Which file mentions a timeout?"',
      description: "Ask about the files of a directory"
    },
    {
      command: 'checkrein run --max-usd 0.05 --max-time 2m "What went wrong last night?"',
      description: "With limits"
    },
    {
      command:
        'checkrein run --max-calls 12 --reserve-calls 2 --reserve-time 30s --max-time 10m "Why do orders go missing?"',
      description: "With a part that is kept for a handoff"
    },
    {
      command: 'checkrein run --max-usd 0.05 --money hold "What went wrong last night?"',
      description: "Never a cent more than the limit"
    },
    {
      command: 'checkrein run --agent ./agent.ts --json "Summarise the week"',
      description: "An agent of your own, for a program to read"
    }
  ])
)
