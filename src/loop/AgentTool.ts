/**
 * An agent as a tool of another: its schemas, and the handler that runs it as a child.
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Given from "../run/Given.ts"
import type { RunStore } from "../store/RunStore.ts"
import { ToolFailure } from "../tool/ToolFailure.ts"
import { type Agent, definitionOf } from "./AgentHandle.ts"
import { IsAgent } from "./ChildRun.ts"
import * as SubAgent from "./SubAgent.ts"

const Task = Schema.Struct({
  task: Schema.String.annotate({
    description: "The task, complete in itself: nothing else of this conversation is seen."
  })
})

/** A sub-agent as a tool, and the layer of its handler. */
export interface AsTool<Name extends string, P extends Schema.Top, S extends Schema.Top, R> {
  readonly tool: Tool.Tool<
    Name,
    {
      readonly parameters: P
      readonly success: S
      readonly failure: typeof ToolFailure
      readonly failureMode: "error"
    },
    R | RunStore
  >
  readonly layer: Layer.Layer<Tool.Handler<Name>>
}

/**
 * Makes an agent a tool of another. Each call is a child run, with the id `parent/callId`, an own transcript and own
 * limits; a Stop of the parent stops it, its cost is the parent's too, and a resume of the parent continues it. What waits
 * for a person, for the provider or for an unknown outcome suspends the parent; a child that runs out of turns or budget,
 * or fails, comes back in words, with what it had found.
 *
 * So does a child that somebody has cancelled by its own id, with the reason given, and whatever it waited for is dropped.
 * A resume of the parent does not continue that one: resume the child itself before, and its parent takes its answer.
 * However a child ends, an outcome that is unknown then suspends the parent: `Agent.resolve` the child's call, and resume
 * the parent. A store or a `BudgetPool` that the child cannot reach, or does not have any more, ends neither run: the
 * parent's caller gets the error, and a resume continues both.
 *
 * A child that cannot be begun, for want of its model's price say, is found when it is called, and ends its parent as failed;
 * one that has begun, and cannot be taken up as its agent is made by then, stops the parent and ends neither. A layer of the
 * agent's own that fails is a failure of the tool, and worded as the parent's `toolErrors` says.
 *
 * `success` is the schema of the agent's answer, by default that of its `output`, or text; `input` turns the parameters (`{ task }` by default)
 * into the child's task. Calls run one after the other; annotate the tool with `Tool.Readonly` to have several run at
 * the same time. Throws a `TypeError` if these options cannot be used.
 *
 * @example
 * ```ts
 * import { Toolkit } from "effect/ai"
 * import { Agent } from "checkrein"
 *
 * declare const reader: Agent.Agent<string>
 *
 * const ask = Agent.asTool(reader, { name: "ask_reader", description: "Reads the logs and answers a question." })
 * const lead = Agent.make("lead", { toolkit: Toolkit.make(ask.tool) }).pipe(Agent.provide(ask.layer))
 * ```
 */
export const asTool = <
  A,
  E,
  R,
  const Name extends string,
  P extends Schema.Top = typeof Task,
  S extends Schema.Top = Schema.Codec<A, unknown>
>(
  agent: Agent<A, E, R>,
  options: {
    readonly name: Name
    readonly description: string
    readonly parameters?: P
    readonly success?: S & ([A] extends [S["Type"]] ? unknown : never)
    readonly input?: (params: P["Type"]) => string
  }
): AsTool<Name, P, S, R> => {
  const definition = definitionOf(agent)
  const problem = Given.problemOf(options, "options", kinds, ["name", "description"])
  if (problem !== undefined) throw new TypeError(`${definition.name} cannot be a tool: ${problem}`)
  const { description, input = taskOf, name } = options
  // A type parameter may be given by hand where its value is left out, so for no value does the compiler take the default.
  const parameters = (options.parameters ?? Task) as P
  const success = (options.success ?? definition.output ?? Schema.String) as S
  const tool = Tool.make(name, { description, parameters, success, failure: ToolFailure })
    .annotate(Tool.Idempotent, true)
    .annotate(IsAgent, true)
  const handler = (params: unknown) => SubAgent.call(definition, input(params))
  // The compiler does not see that a computed key is the tool's name, so here that is any tool of any name.
  const anyTool: Tool.Any = tool
  const layer = Toolkit.make(anyTool).toLayer({ [name]: handler })
  return { tool, layer }
}

const schema: Given.Kind = { what: "a schema", is: Schema.isSchema }

const kinds: Given.Kinds<Parameters<typeof asTool>[1]> = {
  name: Given.text,
  description: Given.text,
  parameters: schema,
  success: schema,
  input: { what: "a function", is: (value) => typeof value === "function" }
}

const taskOf = (params: unknown): string =>
  typeof params === "object" && params !== null && "task" in params && typeof params.task === "string"
    ? params.task
    : JSON.stringify(params)
