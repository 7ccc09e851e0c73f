import { Agent, MemoryRunStore } from "checkrein"
import { ChatCompletions } from "checkrein/provider"
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { FetchHttpClient } from "effect/http"

const ReadLog = Tool.make("read_log", {
  parameters: Schema.Struct({ name: Schema.String }),
  success: Schema.String
})
const tools = Toolkit.make(ReadLog)
const handlers = tools.toLayer({ read_log: ({ name }) => Effect.succeed(`${name}: ERROR timeout`) })
const analyst = Agent.make("analyst", { toolkit: tools, limits: { turns: 5, time: "1 minute" } }).pipe(
  Agent.provide(handlers)
)
export const main = Agent.run(analyst, "What is wrong in errors.log?").pipe(
  Effect.provide(ChatCompletions.layerConfig()),
  Effect.provide([FetchHttpClient.layer, MemoryRunStore.layer])
)
