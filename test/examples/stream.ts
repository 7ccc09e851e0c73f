import { Agent } from "checkrein"
import { Console, Effect, Stream } from "effect"
import { analyst } from "./analyst.ts"

export const watch = Agent.stream(analyst, "Which file mentions a timeout?").pipe(
  Stream.runForEach((event) => {
    if (event.type === "text_delta") return Console.log(`writes: ${event.delta}`)
    if (event.type === "tool_progress") return Console.log(`${event.tool}: ${event.label}`)
    return event.type === "run_stopped" ? Console.log(`stopped: ${event.reason}`) : Effect.void
  })
)
