/**
 * What a turn costs over a loop written by hand, without transport: in-process scripted model with given usage, memory
 * store, spans on.
 */
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { Agent, MemoryRunStore } from "../../src/index.ts"
import { inBlocks, median } from "./measure.ts"
import * as Workload from "./workload.ts"

/** What a hand-written loop does: keep the messages, ask, call, append. */
const bare = async (turns: number): Promise<string> => {
  const { reply } = Workload.script(turns)
  const messages: Array<object> = [{ role: "user", content: Workload.task }]
  const seen = { messages: [], tools: [], task: "", toolResults: [], lastToolResult: "", saw: () => false }
  for (let turn = 0; ; turn++) {
    const answer = await Promise.resolve(reply(turn, { ...seen, turn }))
    if (answer?._tag !== "Answer") throw new Error("the script has no answer")
    const [call] = answer.calls
    if (call === undefined) return answer.text
    messages.push({ role: "assistant", content: null, tool_calls: answer.calls })
    JSON.parse(call.arguments)
    const result = await Promise.resolve(Workload.names)
    messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify(result) })
  }
}

/** Median microseconds per turn: a hand-written loop, a loop over effect's `Chat`, and a run of Checkrein. */
export const overhead = async (turns: number, rounds: number) => {
  const layer = Layer.mergeAll(
    Workload.handlers,
    Workload.model(turns),
    Workload.prices,
    MemoryRunStore.layer
  )
  // A model of effect keeps the decoder of the last request's tools: loops that shared one would make it anew in turns.
  const runtimes = { chat: ManagedRuntime.make(Layer.fresh(layer)), checkrein: ManagedRuntime.make(layer) }
  try {
    const loops = {
      bare: () => bare(turns),
      chat: () => runtimes.chat.runPromise(Workload.chat),
      checkrein: () => runtimes.checkrein.runPromise(Agent.run(Workload.analyst, Workload.task))
    }
    const samples = await inBlocks(loops, rounds)
    const perTurn = (name: keyof typeof samples) => (median(samples[name]) * 1_000) / turns
    return {
      turns,
      bare: perTurn("bare"),
      chat: perTurn("chat"),
      checkrein: perTurn("checkrein"),
      excess: perTurn("checkrein") - perTurn("bare")
    }
  } finally {
    await Promise.all(Object.values(runtimes).map((runtime) => runtime.dispose()))
  }
}
