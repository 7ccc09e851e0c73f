/**
 * What the processes have to do: orders that are paid, packed and shipped by a scripted clerk, some of them after a
 * person has agreed and some with the help of a second agent.
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent, PriceBook, ToolPolicy } from "../../src/index.ts"
import { Scripted } from "../../src/provider/index.ts"
import * as World from "./world.ts"

const options = { parameters: Schema.Struct({ order: Schema.Int }), success: Schema.String }

const Look = Tool.make("look", options).annotate(Tool.Readonly, true)
const Label = Tool.make("label", options).annotate(Tool.Idempotent, true)
const Ship = Tool.make("ship", options)
const Refund = Tool.make("refund", { ...options, needsApproval: true })
const Note = Tool.make("note", options)

/** Pays, and can be asked whether it did. */
const pay = (file: string) =>
  Tool.make("pay", options).annotate(ToolPolicy.Reconcile, (call) =>
    Effect.sync(() =>
      World.tookPlace(file, call) ? ToolPolicy.happened("pay: done") : ToolPolicy.didNotHappen
    )
  )

/** A number between 0 and 1 that depends on nothing else. */
const chance = (...of: ReadonlyArray<number>): number => {
  let hash = 2166136261
  for (const n of of) hash = Math.imul(hash ^ n, 16777619) ^ (hash >>> 13)
  return (hash >>> 0) / 2 ** 32
}

const works = (what: string, file?: string) =>
  Effect.fnUntraced(function* ({ order }: { readonly order: number }) {
    yield* Effect.sleep(50 + 300 * chance(order, what.length))
    if (file !== undefined) yield* World.takesPlace(file, what)
    yield* Effect.sleep(50 + 300 * chance(order, what.length, 1))
    return `${what}: done`
  })

const orderIn = (text: string): number => Number(/\d+/.exec(text)?.[0] ?? 0)

/** What the clerk does for an order, turn by turn. */
const turnsOf = (order: number): ReadonlyArray<Scripted.Answer> => {
  const call = (name: string) => Scripted.call(name, { order })
  return [
    Scripted.turn(call("look"), call("look"), call("pay")),
    call("label"),
    ...(order % 3 === 0 ? [Scripted.turn(call("refund"), call("look"))] : []),
    ...(order % 4 === 0 ? [Scripted.call("ask_assistant", { task: `Write a note on order ${order}.` })] : []),
    call("ship"),
    Scripted.text(`Order ${order} is shipped.`)
  ]
}

const slowly = (answer: Scripted.Answer | undefined, order: number, turn: number) =>
  answer === undefined ? undefined : { ...answer, latency: 200 + 1_000 * chance(order, turn, 7) }

const usage = { promptTokens: 400, completionTokens: 40 }

const clerkModel = Scripted.layer(
  Scripted.make("clerk", (turn, { task }) => {
    const order = orderIn(task)
    return slowly(turnsOf(order)[turn], order, turn)
  }),
  { usage }
)

const assistantModel = Scripted.layer(
  Scripted.make("assistant", (turn, { task }) => {
    const order = orderIn(task)
    const lines = [
      Scripted.call("look", { order }),
      Scripted.call("note", { order }),
      Scripted.text("Noted.")
    ]
    return slowly(lines[turn], order, turn)
  }),
  { usage }
)

const prices = PriceBook.layer({ clerk: { input: 2, output: 12 }, assistant: { input: 1, output: 4 } })

/** The clerk, in the world of this file. */
export const clerk = (file: string) => {
  const notes = Toolkit.make(Look, Note)
  const assistant = Agent.make("assistant", { toolkit: notes, limits: { turns: 60, usd: 5 } }).pipe(
    Agent.provide(
      Layer.mergeAll(notes.toLayer({ look: works("look"), note: works("note", file) }), assistantModel)
    )
  )
  const ask = Agent.asTool(assistant, { name: "ask_assistant", description: "Has something done." })
  const own = Toolkit.make(Look, pay(file), Label, Ship, Refund)
  const tools = Toolkit.merge(own, Toolkit.make(ask.tool))
  return Agent.make("clerk", { toolkit: tools, limits: { turns: 60, usd: 20 } }).pipe(
    Agent.provide(
      Layer.mergeAll(
        own.toLayer({
          look: works("look"),
          pay: works("pay", file),
          label: works("label", file),
          ship: works("ship", file),
          refund: works("refund", file)
        }),
        ask.layer,
        clerkModel,
        prices
      )
    )
  )
}

/** The task of an order. */
export const taskOf = (order: number): string => `See to order ${order}.`

/** The id of the run of an order. */
export const runIdOf = (order: number): string => `order-${order}`
