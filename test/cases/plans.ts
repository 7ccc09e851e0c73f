/**
 * Agents that do what a plan says, three deep: a plan has turns, a turn has calls, and a call may hand a plan of its own
 * to a sub-agent. The plan is the task, so that the model is a script without a memory, in this process and in others.
 *
 * Call ids are the same in every run: what is decided about a call of a child must not reach that of its parent.
 */

import * as Arbitrary from "effect/Arbitrary"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent, type RunStore } from "../../src/index.ts"
import * as Scripted from "../../src/provider/Scripted.ts"

// --- plans ----------------------------------------------------------------------------------------------------------

/** A call: `look` reads, `note` writes, `pay` writes and asks a person first. `q` names the call among all of the plan. */
export interface Act {
  readonly act: "look" | "note" | "pay"
  readonly q: string
}
/** A call that is a run of its own. */
export interface Delegation {
  readonly act: "delegate"
  readonly q: string
  readonly turns: Plan
}
export type Call = Act | Delegation
export type Plan = ReadonlyArray<ReadonlyArray<Call>>

type Sketch = ReadonlyArray<ReadonlyArray<Act["act"] | Sketch>>

/** A plan whose calls are named by their place: `2.1` is the second call of the third turn, `2.1/0.0` the first below it. */
export const plan = (sketch: Sketch, within = ""): Plan =>
  sketch.map((turn, t) =>
    turn.map((call, c): Call => {
      const q = `${within}${t}.${c}`
      return typeof call === "string" ? { act: call, q } : { act: "delegate", q, turns: plan(call, `${q}/`) }
    })
  )

/** All calls of a plan that are no runs of their own, in the order in which the model asks for them. */
export const acts = (turns: Plan): ReadonlyArray<Act> =>
  turns.flat().flatMap((call) => (call.act === "delegate" ? acts(call.turns) : [call]))

/** The runs of a plan, by what they are called among all of it, each with its own turns. */
export const runs = (turns: Plan, q = ""): ReadonlyArray<{ readonly q: string; readonly turns: Plan }> => [
  { q, turns },
  ...turns.flat().flatMap((call) => (call.act === "delegate" ? runs(call.turns, call.q) : []))
]

/** The run that a call is made in, as `runs` names it. */
export const runOf = (q: string): string => q.slice(0, Math.max(0, q.lastIndexOf("/")))

const idOf = (place: string): string => `c${place.replace(".", "")}`

/** The id of a call within its run. */
export const callIdOf = (q: string): string => idOf(q.slice(q.lastIndexOf("/") + 1))

/** The id of a run of a plan, given that of the run at its top. */
export const runIdOf = (runId: string, q: string): string =>
  [
    runId,
    ...q
      .split("/")
      .filter((place) => place !== "")
      .map(idOf)
  ].join("/")

const act = Schema.Literals(["look", "note", "pay", "pay"])
const few = <S extends Schema.Constraint>(schema: S, most: number) =>
  Schema.Array(schema).check(Schema.isMinLength(1), Schema.isMaxLength(most))
const leaf = few(few(act, 2), 1)
const middle = few(few(Schema.Union([act, leaf]), 2), 2)
const top = few(few(Schema.Union([act, middle]), 3), 2)

/** Any plan of one turn or two, with sub-agents in up to two levels. */
export const plans: Arbitrary.Arbitrary<Plan> = Arbitrary.map(Arbitrary.schema(top), (sketch) => plan(sketch))

// --- agents ---------------------------------------------------------------------------------------------------------

const parameters = Schema.Struct({ q: Schema.String })
const Look = Tool.make("look", { parameters, success: Schema.String }).annotate(Tool.Readonly, true)
const Note = Tool.make("note", { parameters, success: Schema.String })
const Pay = Tool.make("pay", { parameters, success: Schema.String, needsApproval: true })
const tools = Toolkit.make(Look, Note, Pay)

const Task = Schema.fromJsonString(Schema.Struct({ q: Schema.String, turns: Schema.Unknown }))
const readTask = Schema.decodeUnknownSync(Task)

/** What a run of a plan is asked. */
export const taskOf = (turns: Plan, q = ""): string => JSON.stringify({ q, turns })

export interface Options {
  /** Called for whatever a tool does to the world, or reads from it. */
  readonly did: (what: string) => Effect.Effect<unknown>
  /** What the model answers instead, if anything: a fault. It sees the run as `runs` names it, and the turn. */
  readonly instead?: (q: string, turn: number) => Scripted.Reply | undefined
  /** Whether sub-agents of one turn run at the same time. */
  readonly parallel?: boolean
}

export type Planner = Agent.Agent<string, never, RunStore.RunStore>

/** Ten tokens in and five out for each turn: no tokeniser is loaded. */
export const usage = { promptTokens: 10, completionTokens: 5 }

const isPlan = (turns: unknown): turns is Plan => Array.isArray(turns)

const script = (instead: NonNullable<Options["instead"]>) =>
  Scripted.make("planner", (turn, { messages }) => {
    const asked = messages.find((message) => message.role === "user")?.content
    const { q, turns } = readTask(asked)
    if (!isPlan(turns)) throw new Error(`this is no plan: ${String(asked)}`)
    const calls = turns[turn]
    const fault = instead(q, turn)
    if (fault !== undefined) return fault
    if (calls === undefined) return Scripted.text("all done")
    return Scripted.turn(
      ...calls.map((call) =>
        Scripted.call(
          call.act,
          call.act === "delegate" ? { task: taskOf(call.turns, call.q) } : { q: call.q },
          { id: callIdOf(call.q) }
        )
      )
    )
  })

/** The agent that carries out plans. */
export const planner = ({ did, instead = () => undefined, parallel = false }: Options): Planner => {
  const handler = (name: string) => (params: { readonly q: string }) =>
    Effect.as(did(`${name} ${params.q}`), `${name} ${params.q} done`)
  const handlers = tools.toLayer({ look: handler("look"), note: handler("note"), pay: handler("pay") })
  const services = Layer.merge(handlers, Scripted.layer(script(instead), { usage }))
  const limits = { turns: 50, time: "1 hour" } as const
  const policy = { modelRetries: 0 }
  const lowest: Planner = Agent.make("planner-0", { toolkit: tools, limits, policy }).pipe(
    Agent.provide(services)
  )
  const above = (name: string, below: Planner): Planner => {
    const { layer, tool } = Agent.asTool(below, { name: "delegate", description: "Carries out a plan." })
    const toolkit = Toolkit.make(Look, Note, Pay, parallel ? tool.annotate(Tool.Readonly, true) : tool)
    return Agent.make(name, { toolkit, limits, policy }).pipe(Agent.provide(Layer.merge(services, layer)))
  }
  return above("planner-2", above("planner-1", lowest))
}
