/**
 * `checkrein runs resume | recover | cancel | delete`, as they are called: what is done with a run.
 */
import * as Command from "effect/cli/Command"
import { loaded } from "./Loaded.ts"
import * as Flags from "./RunsFlags.ts"

/** `checkrein runs resume`. */
export const resume = Command.make(
  "resume",
  Flags.resume,
  loaded(
    () => import("./RunsResume.ts"),
    ({ resumeStored }) => resumeStored
  )
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

/** `checkrein runs recover`. */
export const recover = Command.make(
  "recover",
  Flags.recover,
  loaded(
    () => import("./RunsRecover.ts"),
    ({ recover }) => recover
  )
).pipe(
  Command.withDescription(
    "Takes over the runs that nobody drives although they have not stopped, which is what a process leaves behind that has died, and drives them until they stop. Limits that are named replace those of each run. Runs of your own agent need --agent; whatever is not driven is said, with the reason. Exit code: 0 all completed, 1 one could not be driven (its agent is not known here, say), 3 one stopped short of an answer."
  ),
  Command.withShortDescription("Take over what a dead process left"),
  Command.withExamples([
    {
      command: "checkrein runs recover",
      description: "After a crash or a power cut"
    },
    {
      command: "checkrein runs recover --agent ./agent.ts --concurrency 4",
      description: "Runs of your own agent too, four at a time"
    }
  ])
)

/** `checkrein runs cancel`. */
export const cancel = Command.make(
  "cancel",
  Flags.cancel,
  loaded(
    () => import("./RunsCancel.ts"),
    ({ cancel }) => cancel
  )
).pipe(
  Command.withDescription(
    "Stops a run, whoever drives it, and waits until it has stopped: at once if nobody does, within a second if another process does. A run that waits for somebody is stopped too. It can be resumed."
  ),
  Command.withShortDescription("Stop a run"),
  Command.withExamples([
    {
      command: 'checkrein runs cancel k7m2x9qtzb --reason "wrong directory"',
      description: "Say why"
    }
  ])
)

/** `checkrein runs delete`. */
export const remove = Command.make(
  "delete",
  Flags.remove,
  loaded(
    () => import("./RunsDelete.ts"),
    ({ remove }) => remove
  )
).pipe(
  Command.withDescription(
    "Deletes runs for good: all that is stored of them, and the runs that their sub-agents have had. One by its ID, or all that are old, or all of any age, and of those only the ones that the other flags name. A run that is being driven is never deleted."
  ),
  Command.withShortDescription("Delete runs"),
  Command.withExamples([
    {
      command: "checkrein runs delete k7m2x9qtzb",
      description: "One run"
    },
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
