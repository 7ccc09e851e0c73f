/**
 * What the crash kit's tests put to it: tools with one string parameter in a world that counts, and scripted models.
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Agent, CurrentCall, PriceBook, ToolFailure, ToolPolicy } from "../../src/index.ts"
import { Scripted } from "../../src/provider/index.ts"
import { CrashKit } from "../../src/testing/index.ts"

const options = {
  parameters: Schema.Struct({ q: Schema.String }),
  success: Schema.String,
  failure: ToolFailure.ToolFailure
}

const Read = Tool.make("read", options).annotate(Tool.Readonly, true)
const Put = Tool.make("put", options).annotate(Tool.Idempotent, true)
const Write = Tool.make("write", options)
const Ask = Tool.make("ask_first", { ...options, needsApproval: true })
const Slow = Tool.make("slow", options).annotate(ToolPolicy.Timeout, "3 seconds")
const Save = Tool.make("save", options).annotate(ToolPolicy.Purpose, "handoff")
const LookUp = Tool.make("look_up", options).annotate(ToolPolicy.Reconcile, ({ idempotencyKey }) =>
  Effect.map(CrashKit.hasHappened(idempotencyKey), (did) =>
    did ? ToolPolicy.happened("looked up") : ToolPolicy.didNotHappen
  )
)

/** The tools, each of a kind of its own. */
export const tools = Toolkit.make(Read, Put, Write, Ask, Slow, Save, LookUp)

const once = (effect: string) =>
  Effect.flatMap(CurrentCall.CurrentCall, ({ idempotencyKey }) =>
    CrashKit.happenedOnce(idempotencyKey, effect)
  )

/** Their handlers, as they should be. */
export const handlers = tools.toLayer({
  read: ({ q }) => Effect.as(Effect.sleep("1 second"), `read ${q}`),
  put: ({ q }) => Effect.delay(Effect.as(once(`put ${q}`), `put ${q}`), "1 second"),
  write: ({ q }) =>
    Effect.sleep("1 second").pipe(
      Effect.andThen(CrashKit.happened(`wrote ${q}`)),
      Effect.andThen(Effect.sleep("1 second")),
      Effect.as(`wrote ${q}`)
    ),
  ask_first: ({ q }) => Effect.as(CrashKit.happened(`did ${q}`), `did ${q}`),
  slow: ({ q }) => Effect.as(Effect.delay(CrashKit.happened(`was slow with ${q}`), "10 seconds"), "done"),
  save: ({ q }) => Effect.as(CrashKit.happened(`saved ${q}`), `saved ${q}`),
  look_up: ({ q }) => Effect.as(once(`looked up ${q}`), "looked up")
})

/** A call of one of them. */
export const call = (tool: string, q = "x"): Scripted.Answer => Scripted.call(tool, { q })

/** The last word of most scripts. */
export const done = Scripted.text("done")

/** A scripted model, whose usage is given, so that no tokenizer is loaded. */
export const model = (lines: Parameters<typeof Scripted.make>[1]) =>
  Scripted.layer(Scripted.make("model", lines), { usage: { promptTokens: 100, completionTokens: 10 } })

/** An agent with these tools. Its model has a price. */
export const agent = (
  more: { readonly limits?: Agent.RunOptions["limits"]; readonly policy?: Agent.PolicyInput } = {}
) =>
  Agent.make("worker", { toolkit: tools, limits: { turns: 12, usd: 1 }, ...more }).pipe(Agent.provide(prices))

/** What the model costs. */
export const prices = PriceBook.layer({ model: { input: 2, output: 12 } })
