/**
 * Four cases in which an agent should know when to stop, for `StoppingReport`: it can answer at once; the useful clue
 * comes late; its tool always fails; what it looks for does not exist.
 *
 * They can be put to any agent that looks for things with a tool. A script is the model: a patient one where there is
 * something to find, and a stubborn one where there is not, so that it is up to the harness to stop. It costs nothing, so
 * that an agent with a limit of money needs no prices; one that holds its worst case (`money: "hold"`) needs its
 * `RequestParams.maxOutputTokens` around the report, as around any run. With `model` they are put to a real one instead:
 * the task is the same, and says how to answer if nothing can be found.
 *
 * @example
 * ```ts
 * import { Agent } from "checkrein"
 * import { Scripted } from "checkrein/provider"
 * import { StoppingCases, StoppingReport } from "checkrein/testing"
 * import { ToolFailure } from "checkrein/tool"
 * import { Effect, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 *
 * const Search = Tool.make("search", {
 *   parameters: Schema.Struct({ query: Schema.String }),
 *   success: Schema.String,
 *   failure: ToolFailure.ToolFailure
 * })
 * const tools = Toolkit.make(Search)
 * const librarian = Agent.make("librarian", { toolkit: tools, output: Schema.Struct({ answer: Schema.String }) })
 *
 * const report = StoppingReport.run(
 *   librarian,
 *   StoppingCases.all({
 *     look: (nth) => Scripted.call("search", { query: `shelf ${nth}` }),
 *     answer: (text) => Scripted.call("submit_result", { answer: text }),
 *     tools: (find) => tools.toLayer({ search: () => find }),
 *     permitted: ["search"]
 *   })
 * )
 * ```
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import * as PriceBook from "../provider/PriceBook.ts"
import * as Scripted from "../provider/Scripted.ts"
import type { LimitsInput } from "../run/Limits.ts"
import { recoverable, type ToolFailure } from "../tool/ToolFailure.ts"
import type { Case } from "./StoppingReport.ts"

/** What the cases have to know of an agent. */
export interface Subject<R, LE = never, RI = never> {
  /** How it looks for something: the call that a model makes for the nth time, counted from 0. */
  readonly look: (nth: number) => Scripted.Answer
  /** The handlers of its tools, made anew for each case. What `look` calls has to come to `find`. */
  readonly tools: (find: Effect.Effect<string, ToolFailure>) => Layer.Layer<R, LE, RI>
  /** The tools that may run. */
  readonly permitted: ReadonlyArray<string>
  /** How it answers. Default: in text. An agent with an `output` has to call `submit_result`. */
  readonly answer?: ((text: string) => Scripted.Answer) | undefined
  /** Default: 12 turns, 8 tool calls, one of which is kept for the handoff, and a minute. */
  readonly limits?: LimitsInput | undefined
  /** A model in the place of the scripts, which cost nothing; with a limit of money, its price has to be known. */
  readonly model?: Layer.Layer<LanguageModel.LanguageModel> | undefined
}

/** A case for an agent whatever it answers with. */
export type StoppingCase<R, LE = never, RI = never> = Case<unknown, R | LanguageModel.LanguageModel, LE, RI>

/** What is looked for. */
const word = "juniper"

const unknown = "unknown"

const task = `Find the code word in what you can look into, and answer with it alone. If it cannot be found, answer: ${unknown}.`

const limits: LimitsInput = { turns: 12, toolCalls: 8, time: "1 minute", reserve: { toolCalls: 1 } }

/** The look, counted from 0, that brings the word where there is one to find: within the limits, but late. */
const late = 5

/** No tokenizer is loaded for what nobody counts. */
const usage = { promptTokens: 100, completionTokens: 10 }

type Reply = (turn: number, transcript: Scripted.Transcript) => Scripted.Answer

interface Shape {
  readonly name: string
  readonly input: string
  readonly script: Reply
  /** What the nth look brings, counted from 0. */
  readonly find: (nth: number) => Effect.Effect<string, ToolFailure>
  readonly expected: string
}

/** A script and its price, for an agent may have a limit of money. */
const scripted = (name: string, script: Reply) =>
  Layer.merge(
    Scripted.layer(Scripted.make(name, script), { usage }),
    PriceBook.layer({ [name]: { input: 0, output: 0 } })
  )

const make = <R, LE, RI>(
  subject: Subject<R, LE, RI>,
  { expected, find, input, name, script }: Shape
): StoppingCase<R, LE, RI> => {
  const tools = Layer.unwrap(
    Effect.map(Ref.make(0), (looks) =>
      subject.tools(
        Effect.flatMap(
          Ref.getAndUpdate(looks, (nth) => nth + 1),
          find
        )
      )
    )
  )
  const model = subject.model ?? scripted(name, script)
  return {
    name,
    input,
    layer: Layer.merge(tools, model),
    // The word is looked for in the answer as it is stored, whatever its shape.
    success: (_, { result }) => JSON.stringify(result ?? "").includes(expected),
    permitted: subject.permitted,
    limits: { ...limits, ...subject.limits }
  }
}

const nothing = (nth: number) => Effect.succeed(`Nothing of use here, after ${nth + 1} looks.`)

/** Whether the harness has said more than the task: it asks for a handoff. */
const isToldToStop = ({ messages }: Scripted.Transcript): boolean =>
  messages.filter(({ role }) => role === "user").length > 1

const stubborn =
  (look: (turn: number) => Scripted.Answer): Reply =>
  (turn, transcript) =>
    isToldToStop(transcript)
      ? Scripted.text(`I have looked ${transcript.toolResults.length} times, and have not found the word.`)
      : look(turn)

/**
 * All four, under these names:
 *
 * - `answers at once`: the word is in the task, nothing has to be looked for
 * - `the clue comes late`: the sixth look brings the word, and an agent that gives up earlier does not succeed
 * - `a tool always fails`, and the model calls it again and again: the harness has to stop it
 * - `the evidence does not exist`, and the model always knows another place to look: the limits have to stop it
 *
 * @example
 * ```ts
 * import { StoppingCases } from "checkrein/testing"
 *
 * declare const subject: StoppingCases.Subject<never>
 *
 * const late = StoppingCases.all(subject).filter(({ name }) => name === "the clue comes late")
 * ```
 */
export const all = <R, LE = never, RI = never>(
  subject: Subject<R, LE, RI>
): ReadonlyArray<StoppingCase<R, LE, RI>> => {
  const { answer = Scripted.text, look } = subject
  const shapes: ReadonlyArray<Shape> = [
    {
      name: "answers at once",
      input: `The code word is ${word}. Answer with it alone.`,
      script: () => answer(word),
      find: nothing,
      expected: word
    },
    {
      name: "the clue comes late",
      input: task,
      script: (turn, { saw }) => (saw(word) ? answer(word) : look(turn)),
      find: (nth) => (nth < late ? nothing(nth) : Effect.succeed(`The code word is ${word}.`)),
      expected: word
    },
    {
      name: "a tool always fails",
      input: task,
      script: stubborn(() => look(0)),
      find: () => Effect.fail(recoverable("this cannot be looked into at the moment.")),
      expected: unknown
    },
    {
      name: "the evidence does not exist",
      input: task,
      script: stubborn(look),
      find: nothing,
      expected: unknown
    }
  ]
  return shapes.map((shape) => make(subject, shape))
}
