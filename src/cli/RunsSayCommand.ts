/**
 * `checkrein runs approve | reject | answer | resolve`, as they are called: what people say to a run.
 */
import * as Command from "effect/cli/Command"
import { loaded } from "./Loaded.ts"
import * as Flags from "./RunsFlags.ts"

const decisions = () => import("./RunsDecide.ts")

/** `checkrein runs approve`. */
export const approve = Command.make(
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

/** `checkrein runs reject`. */
export const reject = Command.make(
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

/** `checkrein runs answer`. */
export const answer = Command.make(
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

/** `checkrein runs resolve`. */
export const resolve = Command.make(
  "resolve",
  Flags.resolve,
  loaded(decisions, ({ resolve }) => resolve)
).pipe(
  Command.withDescription(
    "Says what became of a call that was started and never answered, after somebody has looked. It is not run again by itself."
  ),
  Command.withShortDescription("Say what became of a lost call"),
  Command.withExamples([
    {
      command: "checkrein runs resolve k7m2x9qtzb c2 happened --resume",
      description: "It did take effect"
    }
  ])
)
