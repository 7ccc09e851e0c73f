/**
 * `checkrein runs`: everything that is done with stored runs.
 */
import * as Command from "effect/cli/Command"
import * as Drive from "./RunsDriveCommand.ts"
import * as Look from "./RunsLookCommand.ts"
import * as Say from "./RunsSayCommand.ts"

/** The command. */
export const command = Command.make("runs").pipe(
  Command.withDescription(
    "Looks at stored runs, says what they wait for, takes them up again, stops and deletes them."
  ),
  Command.withShortDescription("Look at stored runs and operate them"),
  Command.withSubcommands([
    Look.list,
    Look.show,
    Say.approve,
    Say.reject,
    Say.answer,
    Say.resolve,
    Drive.resume,
    Drive.recover,
    Drive.cancel,
    Drive.remove,
    Look.audit
  ])
)
