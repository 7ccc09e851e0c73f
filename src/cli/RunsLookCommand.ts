/**
 * `checkrein runs list | show | audit`, as they are called: what is stored.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import { agent } from "./RunCommand.ts"
import { age, common, count, filters, id } from "./RunsFlags.ts"

/** `checkrein runs list`. */
export const list = Command.make(
  "list",
  {
    ...filters,
    olderThan: age("older-than", "Only runs that were started longer ago than this, such as 30d"),
    newerThan: age("newer-than", "Only runs that were started since, such as 12h"),
    after: Flag.String("after").pipe(
      Flag.withMetavar("ID"),
      Flag.withDescription("Only runs that come after this one in the list"),
      Flag.optional
    ),
    limit: count("limit", 50, "How many runs"),
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
    follow: Flag.Boolean("follow").pipe(
      Flag.withDescription(
        "Show what happens, as it comes, until the run stops; with --json each stored event on a line of its own"
      ),
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
export const audit = Command.make("audit", { id, ...common }, (input) =>
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
