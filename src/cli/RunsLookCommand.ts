/**
 * `checkrein runs list | show | audit`, as they are called: what is stored.
 */
import * as Command from "effect/cli/Command"
import { loaded } from "./Loaded.ts"
import * as Flags from "./RunsFlags.ts"

/** `checkrein runs list`. */
export const list = Command.make(
  "list",
  Flags.list,
  loaded(
    () => import("./RunsList.ts"),
    ({ list }) => list
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
      command: "checkrein runs list --tag acme --newer-than 24h",
      description: "What was started for one customer since yesterday"
    },
    {
      command: "checkrein runs list --status interrupted --json",
      description: "What waits for somebody, for a program to read"
    }
  ])
)

/** `checkrein runs show`. */
export const show = Command.make(
  "show",
  Flags.show,
  loaded(
    () => import("./RunsShow.ts"),
    ({ show }) => show
  )
).pipe(
  Command.withDescription(
    "Shows where a run stands, what it has used, what was said, and how it goes on. With --follow it watches the run, wherever it is driven, and ends as the run does: with its answer, or with exit code 3 if it stopped short. A sub-agent's run has an id of its own, PARENT/CALL, and is followed by it."
  ),
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
      command: "checkrein runs show k7m2x9qtzb --follow",
      description: "A run of another process, live"
    },
    {
      command: "checkrein runs show k7m2x9qtzb --events",
      description: "With every event of its journal"
    }
  ])
)

/** `checkrein runs audit`. */
export const audit = Command.make(
  "audit",
  Flags.audit,
  loaded(
    () => import("./RunsAudit.ts"),
    ({ audit }) => audit
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
