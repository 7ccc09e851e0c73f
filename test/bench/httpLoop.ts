/**
 * One of the loops over HTTP, alone in a process as in its user's: `httpLoop.ts NAME ADDRESS BUSY_MS`. Prints the median
 * milliseconds of a run.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { Agent, MemoryRunStore } from "../../src/index.ts"
import { ChatCompletions } from "../../src/provider/index.ts"
import { median, milliseconds } from "./measure.ts"
import * as Workload from "./workload.ts"

interface Reply {
  readonly choices: ReadonlyArray<{
    readonly message: {
      readonly content: string | null
      readonly tool_calls?: ReadonlyArray<{
        readonly id: string
        readonly function: { readonly arguments: string }
      }>
    }
  }>
}

const tools = [
  {
    type: "function",
    function: {
      name: "list_files",
      description: "Lists the files.",
      parameters: { type: "object", properties: { at: { type: "integer" } }, required: ["at"] }
    }
  }
]

const spin = (ms: number): void => {
  for (const start = performance.now(); performance.now() - start < ms; );
}

/** The loop by hand; `busyMs` is how long it keeps the processor busy before each request. */
const bare = async (baseUrl: string, busyMs: number): Promise<string | null> => {
  const messages: Array<object> = [{ role: "user", content: Workload.task }]
  while (true) {
    spin(busyMs)
    const response = await fetch(`${baseUrl}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "bench", messages, tools })
    })
    const reply = (await response.json()) as Reply
    const message = reply.choices[0]?.message
    const call = message?.tool_calls?.[0]
    if (message === undefined || call === undefined) return message?.content ?? null
    JSON.parse(call.function.arguments)
    messages.push(message, { role: "tool", tool_call_id: call.id, content: JSON.stringify(Workload.names) })
  }
}

const [name = "", baseUrl = "", busyMs = ""] = process.argv.slice(2)
const runtime = ManagedRuntime.make(
  Layer.mergeAll(
    Workload.handlers,
    Workload.prices,
    MemoryRunStore.layer,
    ChatCompletions.layer({ baseUrl, model: "bench" }).pipe(Layer.provide(NodeHttpClient.layerUndici))
  )
)
const loops: Record<string, () => Promise<unknown>> = {
  byHand: () => bare(baseUrl, 0),
  busy: () => bare(baseUrl, Number(busyMs)),
  chat: () => runtime.runPromise(Workload.chat),
  checkrein: () =>
    runtime.runPromise(
      Agent.run(Workload.analyst, Workload.task, {
        limits: { usd: Number.POSITIVE_INFINITY, time: "1 hour" }
      })
    )
}

const loop = loops[name]
if (loop === undefined) throw new Error(`no loop is called ${name}`)
const samples: Array<number> = []
// The first runs warm the compiler up.
for (let run = 0; run < 1_200; run++) {
  const ms = await milliseconds(loop)
  if (run >= 500) samples.push(ms)
}
await runtime.dispose()
console.log(median(samples))
