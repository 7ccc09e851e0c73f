/**
 * A run of three turns over HTTP on loopback, beside a loop written by hand with `fetch`, back to back.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { Agent, MemoryRunStore } from "../../src/index.ts"
import { ChatCompletions } from "../../src/provider/index.ts"
import { inBlocks, median } from "./measure.ts"
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

/**
 * Median milliseconds of a run: by hand, over effect's `Chat`, and with Checkrein; and by hand with as much work for the
 * processor as a turn of Checkrein takes without transport, since a server that has to wait goes to sleep.
 */
export const overHttp = async (rounds: number, turnMs: number) => {
  const server = spawn(process.execPath, ["--no-warnings", new URL("server.ts", import.meta.url).pathname], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  const [baseUrl] = (await once(createInterface(server.stdout), "line")) as [string]
  const layer = Layer.mergeAll(
    Workload.handlers,
    Workload.prices,
    MemoryRunStore.layer,
    ChatCompletions.layer({ baseUrl, model: "bench" }).pipe(Layer.provide(NodeHttpClient.layerUndici))
  )
  // A model of effect keeps the decoder of the last request's tools: loops that shared one would make it anew in turns.
  const runtimes = { chat: ManagedRuntime.make(Layer.fresh(layer)), checkrein: ManagedRuntime.make(layer) }
  try {
    const loops = {
      byHand: () => bare(baseUrl, 0),
      busy: () => bare(baseUrl, turnMs),
      chat: () => runtimes.chat.runPromise(Workload.chat),
      checkrein: () =>
        runtimes.checkrein.runPromise(
          Agent.run(Workload.analyst, Workload.task, {
            limits: { usd: Number.POSITIVE_INFINITY, time: "1 hour" }
          })
        )
    }
    const samples = await inBlocks(loops, rounds)
    const byHand = median(samples.byHand)
    const times = (name: keyof typeof samples) => median(samples[name]) / byHand
    return { byHand, busy: times("busy"), chat: times("chat"), checkrein: times("checkrein") }
  } finally {
    server.kill()
    await Promise.all(Object.values(runtimes).map((runtime) => runtime.dispose()))
  }
}
