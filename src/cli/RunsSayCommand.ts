/**
 * `checkrein runs approve | reject | answer | resolve`, as they are called: what people say to a run.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { durationMs } from "./LimitFlags.ts"
import { driving, id } from "./RunsFlags.ts"

const call = Argument.String("call").pipe(
  Argument.withDescription("The call's id; not needed when exactly one waits"),
  Argument.optional
)

const by = Flag.String("by").pipe(
  Flag.withMetavar("NAME"),
  Flag.withDescription("Who decides (default: the user of the operating system)"),
  Flag.optional
)

const resumeToo = Flag.Boolean("resume").pipe(
  Flag.withDescription("Resume the run at once"),
  Flag.withDefault(false)
)

const deciding = { id, call, by, resume: resumeToo, ...driving }

const decisions = () => Effect.promise(() => import("./RunsDecide.ts"))

/** `checkrein runs approve`. */
export const approve = Command.make(
  "approve",
  {
    ...deciding,
    args: Flag.String("args").pipe(
      Flag.withMetavar("JSON"),
      Flag.withDescription("Run the call with these arguments instead"),
      Flag.optional
    ),
    expires: Flag.String("expires").pipe(
      Flag.filterMap(
        (text) => Option.filter(durationMs(text), (ms) => ms > 0),
        (text) => `Expected a duration such as 90s, 30m or "2 hours", got ${text}`
      ),
      Flag.withMetavar("D"),
      Flag.withDescription("How long the call may take to start: after that, it waits for a decision again"),
      Flag.optional
    )
  },
  (input) => Effect.flatMap(decisions(), ({ approve }) => approve(input))
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
  {
    ...deciding,
    reason: Flag.String("reason").pipe(
      Flag.withMetavar("TEXT"),
      Flag.withDescription("What the model is told"),
      Flag.optional
    )
  },
  (input) => Effect.flatMap(decisions(), ({ reject }) => reject(input))
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
  {
    id,
    text: Argument.String("text").pipe(Argument.withDescription("The answer")),
    by: by.pipe(Flag.withDescription("Who answers (default: the user of the operating system)")),
    resume: resumeToo,
    ...driving
  },
  (input) => Effect.flatMap(decisions(), ({ answer }) => answer(input))
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
  {
    ...deciding,
    call: Argument.String("call").pipe(Argument.withDescription("The call's id")),
    outcome: Argument.Literals("outcome", ["happened", "did-not-happen"]).pipe(
      Argument.withDescription("What became of it: happened or did-not-happen")
    ),
    result: Flag.String("result").pipe(
      Flag.withMetavar("TEXT"),
      Flag.withDescription("What the call has brought, for the model"),
      Flag.optional
    )
  },
  (input) => Effect.flatMap(decisions(), ({ resolve }) => resolve(input))
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
