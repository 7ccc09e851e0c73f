import type * as Demo from "../../src/demo/Demo.ts"

/** What the scenario `plan` comes to, to the token, as it is published. */
export const plan: Omit<Demo.Result, "runId" | "detail" | "ms"> = {
  scenario: "plan",
  status: "completed",
  reason: "answered",
  turns: 3,
  toolRuns: 2,
  promptTokens: 815,
  completionTokens: 70,
  costUsd: 0.00247,
  perTurn: [
    { promptTokens: 204, completionTokens: 23, costUsd: 0.000684 },
    { promptTokens: 269, completionTokens: 29, costUsd: 0.000886 },
    { promptTokens: 342, completionTokens: 18, costUsd: 0.0009 }
  ],
  answer: "errors.log mentions a timeout: worker 7 timed out after 30000 ms.",
  deleted: [],
  handoff: null
}
