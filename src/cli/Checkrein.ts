/**
 * The `checkrein` command as a whole, from its arguments to its exit code. `main` gives it a process.
 */
import * as CliConfig from "effect/cli/CliConfig"
import * as Command from "effect/cli/Command"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as DemoCommand from "./demo/Commands.ts"
import { loaded } from "./Loaded.ts"
import * as Output from "./Output.ts"
import * as ProviderCommand from "./ProviderCommand.ts"
import * as RunCommand from "./RunCommand.ts"
import * as RunsCommand from "./runs/Commands.ts"
import * as Store from "./Store.ts"

// The lines after the first are indented as the help indents that one.
const description = `Runs AI agents so that every run ends in one of five ways, with its reason as data.

  Runs are kept in a store, by default the file .checkrein/runs.db, and can be listed, decided about and taken up again.`

/** The command. */
export const command = Command.make("checkrein").pipe(
  Command.withDescription(description),
  Command.withSubcommands([
    RunCommand.command,
    RunsCommand.command,
    DemoCommand.command,
    ProviderCommand.command
  ])
)

// A wizard would ask for dozens of flags one by one; every command has examples instead.
const builtIns = [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions, GlobalFlag.LogLevel]

const tour = loaded(
  () => import("./demo/Tour.ts"),
  ({ run }) => run
)

/**
 * The arguments, with a negative duration made the value of the flag before it: `-1h` would be read as the flags `-1` and
 * `-h`, so that help was shown, with the exit code of success, where a duration is refused.
 */
const read = (args: ReadonlyArray<string>): ReadonlyArray<string> => {
  const words: Array<string> = []
  for (const [index, arg] of args.entries()) {
    const flag = words.at(-1)
    const belongs = /^-[\d.]+ ?[a-z]+$/i.test(arg) && !args.slice(0, index).includes("--")
    if (belongs && flag !== undefined && /^--[^=]+$/.test(flag)) words[words.length - 1] = `${flag}=${arg}`
    else words.push(arg)
  }
  return words
}

/** Runs the command with these arguments, and yields the exit code. Without any it shows what the library does. */
export const run = (args: ReadonlyArray<string>, version: string) =>
  Output.settle(
    args.length === 0 ? tour(Store.defaultFile) : Command.runWith(command, { version })(read(args)),
    asksForJson(args)
  ).pipe(Effect.provide(Layer.mergeAll(Output.presenter, Output.logs, CliConfig.layer({ builtIns }))))

/** Whether errors are to be JSON too, also those of arguments that could not be read. */
export const asksForJson = (args: ReadonlyArray<string>): boolean => {
  const end = args.indexOf("--")
  return (end < 0 ? args : args.slice(0, end)).some((arg) => arg === "--json" || arg === "--json=true")
}
