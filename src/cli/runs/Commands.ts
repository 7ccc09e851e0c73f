/**
 * `checkrein runs`: everything that is done with stored runs.
 */
import * as Command from "effect/cli/Command"
import { loaded } from "../Loaded.ts"
import * as Flags from "./Flags.ts"

const list = Command.make(
  "list",
  Flags.list,
  loaded(
    () => import("./List.ts"),
    ({ list }) => list
  )
).pipe(
  Command.withDescription("Lists runs, newest first."),
  Command.withShortDescription("List runs"),
  Command.withExamples([
    { command: "checkrein runs list", description: "All runs of this directory's store" },
    {
      command: "checkrein runs list --tag acme --newer-than 24h",
      description: "What was started for one customer since yesterday"
    },
    {
      command: "checkrein runs list --reason approval --json",
      description: "What waits for somebody to approve a call, for a program to read"
    }
  ])
)

const show = Command.make(
  "show",
  Flags.show,
  loaded(
    () => import("./Show.ts"),
    ({ show }) => show
  )
).pipe(
  Command.withDescription(
    "Shows where a run stands, what it has used, what was said, and how it goes on. With --follow it watches the run, wherever it is driven, and ends as the run does: with its answer, or with exit code 3 if it stopped short. A sub-agent's run has an id of its own, PARENT/CALL, and is followed by it."
  ),
  Command.withShortDescription("Show a run"),
  Command.withExamples([
    { command: "checkrein runs show k7m2x9qtzb", description: "A run in words" },
    {
      command: "checkrein runs show k7m2x9qtzb --handoff > handoff.md",
      description: "What whoever takes the work over has to know"
    },
    { command: "checkrein runs show k7m2x9qtzb --follow", description: "A run of another process, live" },
    { command: "checkrein runs show k7m2x9qtzb --events", description: "With every event of its journal" }
  ])
)

const audit = Command.make(
  "audit",
  Flags.audit,
  loaded(
    () => import("./Audit.ts"),
    ({ audit }) => audit
  )
).pipe(
  Command.withDescription(
    "Holds a run's journal, and those of the runs that it has started, to the laws by which runs are driven, and names every event that breaks one. Exits with 3 if there is any."
  ),
  Command.withShortDescription("Hold a run's journal to the laws"),
  Command.withExamples([
    { command: "checkrein runs audit k7m2x9qtzb", description: "Whether everything in it may have happened" }
  ])
)

const decisions = () => import("./Decide.ts")

const approve = Command.make(
  "approve",
  Flags.approve,
  loaded(decisions, ({ approve }) => approve)
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
    },
    {
      command: "checkrein runs approve k7m2x9qtzb --expires 1h",
      description: "Only if it starts within the hour"
    }
  ])
)

const reject = Command.make(
  "reject",
  Flags.reject,
  loaded(decisions, ({ reject }) => reject)
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

const answer = Command.make(
  "answer",
  Flags.answer,
  loaded(decisions, ({ answer }) => answer)
).pipe(
  Command.withDescription(
    "Answers the question that a run, or a run that it has started, waits for. The answer is recorded and counts when the run is resumed."
  ),
  Command.withShortDescription("Answer a run's question"),
  Command.withExamples([
    {
      command: 'checkrein runs answer k7m2x9qtzb "the one from May" --resume',
      description: "Answer, and go on"
    }
  ])
)

const resolve = Command.make(
  "resolve",
  Flags.resolve,
  loaded(decisions, ({ resolve }) => resolve)
).pipe(
  Command.withDescription(
    "Says what became of a call that was started and never answered, after somebody has looked. It is not run again by itself."
  ),
  Command.withShortDescription("Say what became of a lost call"),
  Command.withExamples([
    { command: "checkrein runs resolve k7m2x9qtzb c2 happened --resume", description: "It did take effect" }
  ])
)

const resume = Command.make(
  "resume",
  Flags.resume,
  loaded(
    () => import("./Resume.ts"),
    ({ resumeStored }) => resumeStored
  )
).pipe(
  Command.withDescription(
    "Takes a run up where it stopped. Limits that are named replace the run's own; what was used stays counted. A run of your own agent needs --agent."
  ),
  Command.withShortDescription("Resume a run"),
  Command.withExamples([
    { command: "checkrein runs resume k7m2x9qtzb --max-turns 40", description: "With more turns" },
    {
      command: 'checkrein runs resume k7m2x9qtzb --message "the one from May"',
      description: "Answer its question"
    },
    { command: "checkrein runs resume k7m2x9qtzb --agent ./agent.ts", description: "A run of your own agent" }
  ])
)

const recover = Command.make(
  "recover",
  Flags.recover,
  loaded(
    () => import("./Recover.ts"),
    ({ recover }) => recover
  )
).pipe(
  Command.withDescription(
    "Takes over the runs that nobody drives although they have not stopped, which is what a process leaves behind that has died, and those that wait for a decision or an answer that was given meanwhile; and drives them until they stop. Limits that are named replace those of each run. A run whose process may have died a moment ago is waited for; one that another process goes on with is left alone. Runs of your own agent need --agent; whatever is not driven is said, with the reason. Exit code: 0 all that nobody else drives have completed, 1 one could not be driven (its agent is not known here, say), 3 one stopped short of an answer."
  ),
  Command.withShortDescription("Take over what a dead process left"),
  Command.withExamples([
    { command: "checkrein runs recover", description: "After a crash or a power cut" },
    {
      command: "checkrein runs recover --agent ./agent.ts --concurrency 4",
      description: "Runs of your own agent too, four at a time"
    }
  ])
)

const cancel = Command.make(
  "cancel",
  Flags.cancel,
  loaded(
    () => import("./Cancel.ts"),
    ({ cancel }) => cancel
  )
).pipe(
  Command.withDescription(
    "Stops a run, whoever drives it, and waits until it has stopped: at once if nobody does, within a second if another process does. A run that waits for somebody is stopped too. It can be resumed."
  ),
  Command.withShortDescription("Stop a run"),
  Command.withExamples([
    { command: 'checkrein runs cancel k7m2x9qtzb --reason "wrong directory"', description: "Say why" }
  ])
)

const remove = Command.make(
  "delete",
  Flags.remove,
  loaded(
    () => import("./Delete.ts"),
    ({ remove }) => remove
  )
).pipe(
  Command.withDescription(
    "Deletes runs for good: all that is stored of them, and the runs that their sub-agents have had. One by its ID, or all that are old, or all of any age, and of those only the ones that the other flags name. A run that is being driven is never deleted."
  ),
  Command.withShortDescription("Delete runs"),
  Command.withExamples([
    { command: "checkrein runs delete k7m2x9qtzb", description: "One run" },
    {
      command: "checkrein runs delete --older-than 30d --status completed",
      description: "What has its answer, and nobody has touched for a month"
    },
    {
      command: "checkrein runs delete --tag acme --all",
      description: "All that was started for one customer"
    }
  ])
)

/** The command. */
export const command = Command.make("runs").pipe(
  Command.withDescription(
    "Looks at stored runs, says what they wait for, takes them up again, stops and deletes them."
  ),
  Command.withShortDescription("Look at stored runs and operate them"),
  Command.withSubcommands([
    list,
    show,
    approve,
    reject,
    answer,
    resolve,
    resume,
    recover,
    cancel,
    remove,
    audit
  ])
)
