/**
 * `checkrein provider`, as it is called.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { loaded } from "./Loaded.ts"
import * as Output from "./Output.ts"

const flags = {
  port: Flag.Int("port").pipe(
    Flag.filter(
      (port) => port >= 0 && port <= 65_535,
      (port) => `Expected a port from 0 to 65535, got ${port}`
    ),
    Flag.withMetavar("N"),
    Flag.withDescription("The port to listen on (default: one that is free)"),
    Flag.optional
  ),
  json: Output.json
}

/** What the command was given. */
export interface Input extends Command.Command.Config.Infer<typeof flags> {}

/** The command. */
export const command = Command.make(
  "provider",
  flags,
  loaded(
    () => import("./Provider.ts"),
    ({ serve }) => serve
  )
).pipe(
  Command.withDescription(
    "Serves the built-in scripts on this machine in the chat-completions format, until Ctrl-C, and prints the variables by which clients find it. The name of the model picks the script."
  ),
  Command.withShortDescription("Serve the built-in scripts over HTTP"),
  Command.withExamples([
    {
      command: "checkrein provider --port 4010",
      description: "On a port of your choice"
    }
  ])
)
