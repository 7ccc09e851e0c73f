/**
 * Says the id of its run, the idempotency key and the id of each call, in results and in arguments, and so does its
 * sub-agent. Its models have prices and count their tokens, so that another key costs something else.
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Agent, CurrentCall, PriceBook } from "../../../src/index.ts"
import { Scripted } from "../../../src/provider/index.ts"
import { CrashKit } from "../../../src/testing/index.ts"

const Pay = Tool.make("pay", { parameters: Schema.Struct({ note: Schema.String }), success: Schema.Json })
const tools = Toolkit.make(Pay)

const handlers = tools.toLayer({
  pay: ({ note }) =>
    Effect.gen(function* () {
      const { callId, idempotencyKey, runId } = yield* CurrentCall.CurrentCall
      yield* CrashKit.happenedOnce(
        idempotencyKey,
        `paid for ${note} under ${idempotencyKey} in ${runId} by ${callId}`
      )
      return { paid: idempotencyKey, runId, callId }
    })
})

/** Calls tools with what the call before has brought, and says that in the end. */
const telling = (name: string, ...calls: ReadonlyArray<(told: string) => Scripted.Answer>) =>
  Scripted.make(name, (turn, { lastToolResult = "nothing" }) => {
    return calls[turn]?.(lastToolResult) ?? Scripted.text(`Done: ${lastToolResult}`)
  })

// Always the same id, which a call has only once: the others are named by their turn.
const pay = (told: string) => Scripted.call("pay", { note: told }, { id: "pay" })
const have = (told: string) => Scripted.call("have_paid", { task: told })

const prices = PriceBook.layer({ teller: { input: 2, output: 12 }, helper: { input: 2, output: 12 } })
const limits = { turns: 12 }

const helper = Agent.make("helper", { toolkit: tools, limits }).pipe(
  Agent.provide(Layer.merge(handlers, Scripted.layer(telling("helper", pay, pay))))
)
const asked = Agent.asTool(helper, { name: "have_paid", description: "Has it paid." })

/** The agent with its world, as the kit takes it. */
export const telltale = {
  agent: Agent.make("teller", { toolkit: Toolkit.merge(tools, Toolkit.make(asked.tool)), limits }),
  input: "Pay.",
  layer: Layer.mergeAll(handlers, asked.layer, Scripted.layer(telling("teller", pay, pay, have, pay)), prices)
}

export default CrashKit.subject(telltale)
