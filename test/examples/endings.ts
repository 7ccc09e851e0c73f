import { Agent } from "checkrein"
import { Effect, Match } from "effect"
import { analyst } from "./analyst.ts"

export const inWords = Agent.outcome(Agent.run(analyst, "Which file mentions a timeout?")).pipe(
  Effect.map(
    Match.valueTags({
      Completed: ({ output }) => output,
      MaxTurnsExceeded: ({ limit }) => `no answer in ${limit} turns`,
      BudgetExceeded: ({ limit, resource }) => `no answer for ${limit} ${resource}`,
      ApprovalRequired: ({ calls }) => `please decide about ${calls.map((call) => call.tool).join(", ")}`,
      InputRequired: ({ question }) => question,
      OutcomeUnknown: ({ calls }) =>
        `please look whether ${calls.map((call) => call.tool).join(", ")} happened`,
      ProviderUnavailable: () => "the model is away, try again later",
      RunStalled: ({ tool }) => `it keeps calling ${tool}`,
      StopConditionMet: ({ condition }) => condition,
      RunFailed: ({ detail }) => detail
    })
  )
)
