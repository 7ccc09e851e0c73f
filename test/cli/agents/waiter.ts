/**
 * An agent whose tools take as long as the file `CHECKREIN_TEST_GO` is missing: something to stop, and to resume.
 * `WRITES` makes the tool one whose outcome is unknown when it was stopped.
 */
import { existsSync } from "node:fs"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Agent from "../../../src/Agent.ts"
import * as Scripted from "../../../src/provider/Scripted.ts"
import { CurrentCall } from "../../../src/tool/CurrentCall.ts"

const Wait = Tool.make("wait", { success: Schema.String }).annotate(Tool.Readonly, true)
const Send = Tool.make("send", { success: Schema.String })
const toolkit = Toolkit.make(Wait, Send)

const untilMayGo = Effect.gen(function* () {
  if (existsSync(process.env.CHECKREIN_TEST_GO ?? "")) return "went"
  const call = yield* CurrentCall
  yield* call.progress("waiting to go")
  return yield* Effect.never
})

// Loading the tokenizer would take longer than the rest of the run.
const usage = { promptTokens: 10, completionTokens: 5 }

const script = Scripted.make("waiter", [
  ({ task }) => Scripted.call(task.includes("send") ? "send" : "wait", {}, { id: "c1" }),
  (transcript) => Scripted.text(`It ${transcript.lastToolResult}.`)
])

export const agent = Agent.make("waiter", {
  toolkit,
  limits: { turns: 5, time: "1 minute" }
})
export const layer = Layer.merge(
  toolkit.toLayer({ wait: () => untilMayGo, send: () => untilMayGo }),
  Scripted.layer(script, { usage })
)
