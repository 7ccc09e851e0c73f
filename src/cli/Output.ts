/**
 * What every command has in common towards its caller: the answer goes to stdout and everything else to stderr,
 * `--json` is exactly one object on stdout, and the exit code says how it ended.
 *
 * A command prints its own result with `result`, its remarks with `note`, and fails with an error whose message is a
 * sentence; `settle` says that sentence and finds the exit code.
 */

import { inspect } from "node:util"
import * as Cause from "effect/Cause"
import * as Console from "effect/Console"
import * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Flag from "effect/cli/Flag"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import { json as jsonOf, plain, plainLines } from "../run/PlainText.ts"
import * as Password from "./Password.ts"

/** How the process ends. */
export const exitCodes = {
  /** Done; a run completed. */
  ok: 0,
  /** It did not work; one sentence on stderr says why. */
  error: 1,
  /** The command was not understood. */
  usage: 2,
  /** A run stopped short of an answer, for a reason that was printed. */
  stopped: 3,
  /** Ctrl-C. */
  interrupted: 130,
  /** SIGTERM. */
  terminated: 143
} as const
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/** Everything has been said: the process ends with this code. */
export class Quit extends Data.TaggedError("Quit")<{
  readonly code: ExitCode
}> {}

/** It did not work, for a reason that only the command line knows. Exit code 1. */
export class CommandFailed extends Data.TaggedError("CommandFailed")<{
  readonly message: string
}> {}

/** There is no store where one was looked for. Exit code 1. */
export class NoStore extends Data.TaggedError("NoStore")<{
  readonly message: string
}> {}

/** Arguments that parse but make no sense. Exit code 2. */
export class UsageError extends Data.TaggedError("UsageError")<{
  readonly message: string
}> {}

/** Ends the command with a code when everything has been said. */
export const quit = (code: ExitCode): Effect.Effect<never, Quit> => Effect.fail(new Quit({ code }))

/** `--json`, the same for every command. */
export const json: Flag.Flag<boolean> = Flag.Boolean("json").pipe(
  Flag.withDescription("Print exactly one JSON object on stdout"),
  Flag.withDefault(false)
)

/** Lines on stdout as they are, colours included: what is told of a model, a tool or a file has to be plain. */
export const print = (text: string): Effect.Effect<void> => Console.log(text)

/** An object on stdout, as one line of JSON. */
export const printJson = (object: object): Effect.Effect<void> => print(jsonOf(object))

/** Lines on stderr: progress, remarks, what to do next. Whatever is told in them takes no terminal over. */
export const note = (text: string): Effect.Effect<void> => Console.error(plainLines(text))

/** A command's result: the object as one line of JSON, or the lines for people, which take no terminal over either. */
export const result = (
  json: boolean,
  object: { readonly [key: string]: unknown },
  human: string
): Effect.Effect<void> => (json ? printJson(object) : print(plainLines(human)))

// As npm and npx start what is installed in a package, which is on no shell's path.
const isInPackage = /[\\/]node_modules[\\/]\.bin[\\/]checkrein$/.test(process.argv[1] ?? "")

/** How this command is called, for commands that a person is told to run. */
export const self =
  process.env.npm_lifecycle_event === "start" ? "npm start --" : isInPackage ? "npx checkrein" : "checkrein"

/** A text on one line. */
export const oneLine = (text: string): string => text.trim().replace(/\s*\n\s*/g, " ")

const isStoppedRun = (error: object): error is { readonly status: string; readonly message: string } =>
  "status" in error && "resumable" in error && "run" in error

const codeOf = (error: unknown): ExitCode => {
  if (error instanceof Quit) return error.code
  if (error instanceof UsageError || CliError.isCliError(error)) return exitCodes.usage
  // A run's exit that a command has let through, told by its shape: loading the schemas would slow `--help` down.
  if (typeof error === "object" && error !== null && isStoppedRun(error)) return exitCodes.stopped
  return exitCodes.error
}

const messageOf = (error: unknown): string => {
  if (typeof error !== "object" || error === null) return String(error)
  if ("message" in error && typeof error.message === "string" && error.message !== "") return error.message
  // Anything can be thrown, and a plain object has no words of its own.
  return error instanceof Error ? String(error) : inspect(error, { depth: 4, breakLength: Infinity })
}

/** What was thrown or failed with, be it an error or not, on one line. */
export const sentenceOf = (error: unknown): string => oneLine(messageOf(error))

// One tag for whatever exit code 2 stands for, however it was found out.
const wrongUsage = "UsageError"

const tagOf = (error: unknown): string =>
  typeof error === "object" && error !== null && "_tag" in error && typeof error._tag === "string"
    ? error._tag
    : "Error"

/** An error for a program: what it is, and its sentence. */
export const errorOf = (error: unknown): { readonly tag: string; readonly message: string } => ({
  tag: tagOf(error),
  message: Password.hiddenIn(sentenceOf(error))
})

/** Says what went wrong: a sentence on stderr, and with `json` an `error` object on stdout. */
export const failed = (json: boolean, tag: string, problem: string): Effect.Effect<void> => {
  // What was mistyped is often told in the words that were typed.
  const message = Password.hiddenIn(problem)
  return note(`checkrein: ${plain(message)}`).pipe(
    Effect.andThen(json ? printJson({ error: { tag, message } }) : Effect.void)
  )
}

const usageSentence = (error: CliError.CliError): string =>
  error._tag === "ShowHelp" ? error.errors.map(sentenceOf).join("; ") : sentenceOf(error)

/**
 * Runs a command to its exit code. What failed is said in one sentence on stderr and, with `json`, as an `error` object
 * on stdout. A defect is a bug, and is shown with its stack.
 */
export const settle = <R>(
  effect: Effect.Effect<void, unknown, R>,
  json: boolean
): Effect.Effect<ExitCode, never, R> =>
  Effect.as(effect, exitCodes.ok).pipe(
    Effect.catchCause((cause): Effect.Effect<ExitCode> => {
      const failure = Cause.findErrorOption(cause)
      if (Option.isNone(failure)) {
        // Whoever was interrupted has said so; the process knows by which signal.
        if (Cause.hasInterruptsOnly(cause)) return Effect.succeed(exitCodes.stopped)
        const defect = Cause.squash(cause)
        return failed(json, tagOf(defect), `a bug: ${sentenceOf(defect)}`).pipe(
          Effect.andThen(note(Password.hiddenIn(Cause.pretty(cause)))),
          Effect.as(exitCodes.error)
        )
      }
      const error = failure.value
      if (error instanceof Quit) return Effect.succeed(error.code)
      if (CliError.isCliError(error)) {
        const sentence = usageSentence(error)
        // `checkrein runs` alone is answered with its help, which the presenter has printed.
        const said = sentence === "" ? Effect.void : failed(json, wrongUsage, sentence)
        return Effect.as(said, exitCodes.usage)
      }
      return Effect.as(failed(json, tagOf(error), sentenceOf(error)), codeOf(error))
    })
  )

/** Help that was asked for on stdout; of a wrong command only the way to its help, for `settle` says what is wrong. */
export const presenter: Layer.Layer<never> = CliOutput.layerPresenter({
  present: (event) => {
    if (event._tag === "InvalidInvocation")
      return note(`Run \`${[self, ...event.commandPath.slice(1)].join(" ")} --help\` to see how it is used.`)
    if (event._tag === "Help" && event.reason === "Implicit")
      return Effect.flatMap(CliOutput.Formatter, (formatter) => note(formatter.formatHelpDoc(event.helpDoc)))
    return CliOutput.defaultPresenter.present(event)
  }
})

const textOf = (message: unknown): string =>
  Array.isArray(message)
    ? message.map(textOf).join(" ")
    : message instanceof Error
      ? message.message
      : messageOf(message)

/** Warnings and errors of the library as plain lines on stderr: stdout belongs to the answer. */
export const logs: Layer.Layer<never> = Logger.layer([
  Logger.withConsoleError(
    Logger.make(({ cause, logLevel, message }) => {
      const serious = logLevel === "Error" || logLevel === "Fatal"
      const why =
        cause.reasons.length === 0
          ? ""
          : serious
            ? `\n${Cause.pretty(cause)}`
            : `: ${sentenceOf(Cause.squash(cause))}`
      return plainLines(Password.hiddenIn(`${logLevel.toLowerCase()}: ${oneLine(textOf(message))}${why}`))
    })
  )
])
