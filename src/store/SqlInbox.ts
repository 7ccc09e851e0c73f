/**
 * Commands as a database keeps them: JSON with a version, by which a build refuses a command that says more than it knows.
 * A field that it does not know may be what an approval is bound to.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Command, type Numbered } from "../run/Command.ts"
import * as Version from "../run/Version.ts"
import { RunStoreError } from "./RunStore.ts"

/** The version of what this build writes. A command that was written without one has version 1. */
const version = 1

const types = new Set<unknown>(Command.members.map(({ fields }) => fields.type.literal))

const decodeCommand = Schema.decodeUnknownResult(Command)

/** A command as it is stored. */
export const encode = (command: Command): string => JSON.stringify({ v: version, ...command })

const read = (text: string): Result.Result<Command, Version.Refusal> => {
  const json = Version.read(text, version)
  if (Result.isFailure(json)) return Result.fail(json.failure)
  const { type } = json.success
  if (typeof type === "string" && !types.has(type)) {
    const problem = `this build knows no command of the type ${JSON.stringify(type)}; upgrade checkrein`
    return Result.fail({ kind: "newer_version", problem })
  }
  return Result.mapError(decodeCommand(json.success), ({ message }) => ({
    kind: "corrupt",
    problem: message
  }))
}

/** The command of a row of a run's inbox. */
export const decode = (
  runId: string,
  row: { readonly id: number; readonly body: string }
): Result.Result<Numbered, RunStoreError> =>
  Result.mapBoth(read(row.body), {
    onSuccess: (command) => ({ id: row.id, command }),
    onFailure: ({ kind, problem }) =>
      new RunStoreError({
        runId,
        kind,
        problem: `command ${row.id} of its inbox cannot be read: ${problem}`
      })
  })
