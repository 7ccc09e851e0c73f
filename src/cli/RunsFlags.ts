/**
 * The arguments and flags that the commands of `checkrein runs` share.
 */
import * as Argument from "effect/cli/Argument"
import * as Flag from "effect/cli/Flag"
import type * as Option from "effect/Option"
import * as LimitFlags from "./LimitFlags.ts"
import * as Output from "./Output.ts"
import { agent, model, trace } from "./RunCommand.ts"
import * as Store from "./Store.ts"

/** Where the runs are, and for whom the result is. */
export const common = { store: Store.flag, json: Output.json }

/** The run that is meant. */
export const id = Argument.String("id").pipe(Argument.withDescription("The run's id"))

/** With what a run is driven on. */
export const driving = { agent, model, ...LimitFlags.flags, ...common, trace }

/** A number of things. */
export const count = (name: string, otherwise: number, what: string): Flag.Flag<number> =>
  Flag.Int(name).pipe(
    Flag.filter(
      (value) => value > 0,
      (value) => `Expected a number of at least 1, got ${value}`
    ),
    Flag.withMetavar("N"),
    Flag.withDescription(`${what} (default: ${otherwise})`),
    Flag.withDefault(otherwise)
  )

/** Which runs are meant, by what they are. */
export const filters = {
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
  tag: Flag.String("tag").pipe(
    Flag.withMetavar("TAG"),
    Flag.withDescription("Only runs that were started with this tag"),
    Flag.optional
  )
}

/** An age, in milliseconds. */
export const age = (name: string, what: string): Flag.Flag<Option.Option<number>> =>
  Flag.String(name).pipe(
    Flag.filterMap(
      LimitFlags.durationMs,
      (text) => `Expected an age such as 12h, 30d or "2 weeks", got ${text}`
    ),
    Flag.withMetavar("D"),
    Flag.withDescription(what),
    Flag.optional
  )
