/** What a tool author uses. */
export * as CurrentCall from "./CurrentCall.ts"
export * as Operation from "./Operation.ts"
export * as ToolFailure from "./ToolFailure.ts"
export * as ToolPolicy from "./ToolPolicy.ts"
