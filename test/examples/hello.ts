import { Agent, MemoryRunStore } from "checkrein"
import { ChatCompletions } from "checkrein/provider"
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { FetchHttpClient } from "effect/http"

const ReadLog = Tool.make("read_log", { description: "Reads the log of today.", success: Schema.String })
const tools = Toolkit.make(ReadLog)
const handlers = tools.toLayer({ read_log: () => Effect.succeed("ERROR timeout: worker 7, 30 s") })
const analyst = Agent.make("analyst", { toolkit: tools, limits: { turns: 5, time: "1 minute" } })
const model = ChatCompletions.layerConfig().pipe(Layer.provide(FetchHttpClient.layer))
const run = Agent.run(analyst, "What went wrong today?")
console.log((await Effect.runPromise(Effect.provide(run, [handlers, model, MemoryRunStore.layer]))).output)
