/**
 * What a user holds of an agent: its types. Its definition, whose own types are erased, is for the loop.
 */
import * as Pipeable from "effect/Pipeable"
import type { Definition } from "./Definition.ts"

const TypeId: unique symbol = Symbol.for("checkrein/Agent")

/**
 * An agent: what it answers with (`A`), how getting its tools may fail (`E`) and what it needs to run (`R`). Its tools
 * are not in the type.
 */
export interface Agent<out A, out E = never, out R = never> extends Pipeable.Pipeable {
  readonly [TypeId]: {
    readonly _A: () => A
    readonly _E: () => E
    readonly _R: () => R
  }
  readonly name: string
}

// The definition behind an agent: its types are the agent's own, so no user sees it.
const definitions = new WeakMap<object, Definition>()

/**
 * Whether a value is an agent that this copy of the library has made.
 *
 * @example
 * ```ts
 * import { Agent } from "checkrein"
 *
 * Agent.isAgent(Agent.make("poet")) // => true
 * ```
 */
export const isAgent = (u: unknown): u is Agent<unknown, unknown, unknown> =>
  typeof u === "object" && u !== null && definitions.has(u)

/** The definition of an agent. Throws for anything else. */
export const definitionOf = (agent: Agent<unknown, unknown, unknown>): Definition => {
  const definition = definitions.get(agent)
  if (definition === undefined) throw new TypeError("this is not an agent: use Agent.make")
  return definition
}

/** The agent of a definition, of whatever types its maker says. */
export const fromDefinition = (definition: Definition): Agent<never> => {
  const phantom = (): never => {
    throw new TypeError("an agent's type parameters have no value")
  }
  const agent: Agent<never> = {
    [TypeId]: { _A: phantom, _E: phantom, _R: phantom },
    name: definition.name,
    pipe() {
      // biome-ignore lint/complexity/noArguments: what effect's own Pipeable takes
      return Pipeable.pipeArguments(this, arguments)
    }
  }
  definitions.set(agent, definition)
  return agent
}
