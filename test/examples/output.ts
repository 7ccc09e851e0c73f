import { Agent } from "checkrein"
import { Effect, Schema } from "effect"
import { LogTools } from "./analyst.ts"

const Report = Schema.Struct({ file: Schema.String, cause: Schema.String, since: Schema.Date })

const limits = { turns: 10, usd: 0.1 }
export const reporter = Agent.make("reporter", { toolkit: LogTools, output: Report, limits })

export const since = Agent.run(reporter, "Why was the night slow?").pipe(
  Effect.map(({ output }) => `${output.cause}, since ${output.since.getUTCFullYear()}`)
)
