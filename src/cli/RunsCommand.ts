/**
 * `checkrein runs`, as it is called.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as LimitFlags from "./LimitFlags.ts"
import * as Output from "./Output.ts"
import { agent, model, trace } from "./RunCommand.ts"
import * as Store from "./Store.ts"

const common = { store: Store.flag, json: Output.json }

const id = Argument.String("id").pipe(Argument.withDescription("The run's id"))

const call = Argument.String("call").pipe(
  Argument.withDescription("The call's id; not needed when exactly one waits"),
  Argument.optional
)

const by = Flag.String("by").pipe(
  Flag.withMetavar("NAME"),
  Flag.withDescription("Who decides (default: the user of the operating system)"),
  Flag.optional
)

const resumeToo = Flag.Boolean("resume").pipe(
  Flag.withDescription("Resume the run at once"),
  Flag.withDefault(false)
)

const driving = { agent, model, ...LimitFlags.flags, ...common, trace }
const deciding = { id, call, by, resume: resumeToo, ...driving }

const decisions = () => Effect.promise(() => import("./RunsDecide.ts"))
const resumption = () => Effect.promise(() => import("./RunsResume.ts"))

const list = Command.make(
  "list",
  {
    status: Flag.Literals("status", [
      "running",
      "completed",
      "failed",
      "max_turns_exceeded",
      "budget_exceeded",
      "interrupted"
    ]).pipe(Flag.withDescription("Only runs that stand there"), Flag.optional),
    of: Flag.String("agent").pipe(
      Flag.withMetavar("NAME"),
      Flag.withDescription("Only runs of the agent with this name"),
      Flag.optional
    ),
    limit: Flag.Int("limit").pipe(
      Flag.filter(
        (value) => value > 0,
        (value) => `Expected a number of at least 1, got ${value}`
      ),
      Flag.withMetavar("N"),
      Flag.withDescription("How many runs (default: 50)"),
      Flag.withDefault(50)
    ),
    ...common
  },
  (input) =>
    Effect.flatMap(
      Effect.promise(() => import("./RunsList.ts")),
      ({ list }) => list(input)
    )
).pipe(
  Command.withDescription("Lists runs, newest first."),
  Command.withShortDescription("List runs"),
  Command.withExamples([
    {
      command: "checkrein runs list",
      description: "All runs of this directory's store"
    },
    {
      command: "checkrein runs list --status interrupted --json",
      description: "What waits for somebody, for a program to read"
    }
  ])
)

const show = Command.make(
  "show",
  {
    id,
    events: Flag.Boolean("events").pipe(
      Flag.withDescription("Show the journal as well"),
      Flag.withDefault(false)
    ),
    full: Flag.Boolean("full").pipe(
      Flag.withDescription("Show every message in full"),
      Flag.withDefault(false)
    ),
    handoff: Flag.Boolean("handoff").pipe(
      Flag.withDescription("Print what the run hands over, and nothing else, as Markdown"),
      Flag.withDefault(false)
    ),
    agent,
    ...common
  },
  (input) =>
    Effect.flatMap(
      Effect.promise(() => import("./RunsShow.ts")),
      ({ show }) => show(input)
    )
).pipe(
  Command.withDescription("Shows where a run stands, what it has used, what was said, and how it goes on."),
  Command.withShortDescription("Show a run"),
  Command.withExamples([
    {
      command: "checkrein runs show k7m2x9qtzb",
      description: "A run in words"
    },
    {
      command: "checkrein runs show k7m2x9qtzb --handoff > handoff.md",
      description: "What whoever takes the work over has to know"
    },
    {
      command: "checkrein runs show k7m2x9qtzb --events",
      description: "With every event of its journal"
    }
  ])
)

const approve = Command.make(
  "approve",
  {
    ...deciding,
    args: Flag.String("args").pipe(
      Flag.withMetavar("JSON"),
      Flag.withDescription("Run the call with these arguments instead"),
      Flag.optional
    )
  },
  (input) => Effect.flatMap(decisions(), ({ approve }) => approve(input))
).pipe(
  Command.withDescription(
    "Approves a call that waits for a decision. A call of a child run names the child's run. The decision is recorded and counts when the run is resumed."
  ),
  Command.withShortDescription("Approve a call"),
  Command.withExamples([
    {
      command: "checkrein runs approve k7m2x9qtzb --resume",
      description: "The only call that waits, and go on"
    },
    {
      command: `checkrein runs approve k7m2x9qtzb c2 --args '{"path":"old.log"}' --by ann`,
      description: "One of several, with other arguments"
    }
  ])
)

const reject = Command.make(
  "reject",
  {
    ...deciding,
    reason: Flag.String("reason").pipe(
      Flag.withMetavar("TEXT"),
      Flag.withDescription("What the model is told"),
      Flag.optional
    )
  },
  (input) => Effect.flatMap(decisions(), ({ reject }) => reject(input))
).pipe(
  Command.withDescription(
    "Rejects a call that waits for a decision. The model is told so, and the run goes on without it when it is resumed."
  ),
  Command.withShortDescription("Reject a call"),
  Command.withExamples([
    {
      command: 'checkrein runs reject k7m2x9qtzb --reason "keep the logs" --resume',
      description: "Say why, and go on"
    }
  ])
)

const resolve = Command.make(
  "resolve",
  {
    ...deciding,
    call: Argument.String("call").pipe(Argument.withDescription("The call's id")),
    outcome: Argument.Literals("outcome", ["happened", "did-not-happen"]).pipe(
      Argument.withDescription("What became of it")
    ),
    result: Flag.String("result").pipe(
      Flag.withMetavar("TEXT"),
      Flag.withDescription("What the call has brought, for the model"),
      Flag.optional
    )
  },
  (input) => Effect.flatMap(decisions(), ({ resolve }) => resolve(input))
).pipe(
  Command.withDescription(
    "Says what became of a call that was started and never answered, after somebody has looked. It is not run again by itself."
  ),
  Command.withShortDescription("Say what became of a lost call"),
  Command.withExamples([
    {
      command: "checkrein runs resolve k7m2x9qtzb c2 happened --resume",
      description: "It did take effect"
    }
  ])
)

const resume = Command.make(
  "resume",
  {
    id,
    message: Flag.String("message").pipe(
      Flag.withMetavar("TEXT"),
      Flag.withDescription("The answer to the run's question, or something to tell the model"),
      Flag.optional
    ),
    force: Flag.Boolean("force").pipe(
      Flag.withDescription("Take up a run that has failed"),
      Flag.withDefault(false)
    ),
    ...driving
  },
  (input) => Effect.flatMap(resumption(), ({ resumeStored }) => resumeStored(input))
).pipe(
  Command.withDescription(
    "Takes a run up where it stopped. Limits that are named replace the run's own; what was used stays counted. A run of your own agent needs --agent."
  ),
  Command.withShortDescription("Resume a run"),
  Command.withExamples([
    {
      command: "checkrein runs resume k7m2x9qtzb --max-turns 40",
      description: "With more turns"
    },
    {
      command: 'checkrein runs resume k7m2x9qtzb --message "the one from May"',
      description: "Answer its question"
    },
    {
      command: "checkrein runs resume k7m2x9qtzb --agent ./agent.ts",
      description: "A run of your own agent"
    }
  ])
)

const cancel = Command.make(
  "cancel",
  {
    id,
    reason: Flag.String("reason").pipe(
      Flag.withMetavar("TEXT"),
      Flag.withDescription("Why, for the record"),
      Flag.withDefault("cancelled from the command line")
    ),
    ...common
  },
  (input) => Effect.flatMap(resumption(), ({ cancel }) => cancel(input))
).pipe(
  Command.withDescription(
    "Stops a run that another process drives, and waits until it has stopped. It can be resumed."
  ),
  Command.withShortDescription("Stop a run"),
  Command.withExamples([
    {
      command: 'checkrein runs cancel k7m2x9qtzb --reason "wrong directory"',
      description: "Say why"
    }
  ])
)

const audit = Command.make("audit", { id, ...common }, (input) =>
  Effect.flatMap(
    Effect.promise(() => import("./RunsAudit.ts")),
    ({ audit }) => audit(input)
  )
).pipe(
  Command.withDescription(
    "Holds a run's journal, and those of the runs that it has started, to the laws by which runs are driven, and names every event that breaks one. Exits with 3 if there is any."
  ),
  Command.withShortDescription("Hold a run's journal to the laws"),
  Command.withExamples([
    {
      command: "checkrein runs audit k7m2x9qtzb",
      description: "Whether everything in it may have happened"
    }
  ])
)

/** The command. */
export const command = Command.make("runs").pipe(
  Command.withDescription("Looks at stored runs, decides what they wait for, and takes them up again."),
  Command.withShortDescription("Look at stored runs and operate them"),
  Command.withSubcommands([list, show, approve, reject, resolve, resume, cancel, audit])
)
