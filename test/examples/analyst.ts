import { Agent } from "checkrein"
import { CurrentCall, ToolFailure } from "checkrein/tool"
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"

const path = Schema.Struct({ path: Schema.String })

const ReadFile = Tool.make("read_file", {
  description: "Reads a file.",
  parameters: path,
  success: Schema.String,
  failure: ToolFailure.ToolFailure
}).annotate(Tool.Readonly, true)

const DeleteFile = Tool.make("delete_file", {
  description: "Deletes a file.",
  parameters: path,
  success: Schema.String,
  needsApproval: true
})

export const LogTools = Toolkit.make(ReadFile, DeleteFile)

// The world of the tools is made in the layer, so that each test has its own.
export const LogToolsLive = LogTools.toLayer(
  Effect.sync(() => {
    const files = new Map([["errors.log", "ERROR timeout: worker 7 timed out"]])
    return LogTools.of({
      read_file: ({ path }) =>
        Effect.gen(function* () {
          const call = yield* CurrentCall.CurrentCall
          yield* call.progress(`reading ${path}`)
          yield* Effect.sleep("2 seconds")
          return files.get(path) ?? (yield* ToolFailure.recoverable(`no such file: ${path}`))
        }),
      delete_file: ({ path }) =>
        Effect.sync(() => (files.delete(path) ? `deleted ${path}` : `${path} was gone`))
    })
  })
)

export const analyst = Agent.make("log-analyst", {
  instructions: "Answer from the log files.",
  toolkit: LogTools,
  limits: { turns: 20, usd: 0.05, time: "10 minutes" }
})
