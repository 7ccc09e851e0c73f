/**
 * What runs use and how they end, as effect metrics: for `PrometheusMetrics` or `Otlp` of `effect/observability`, or
 * any other exporter.
 *
 * | metric | kind | attributes |
 * |---|---|---|
 * | `checkrein.turns` | counter | `agent` |
 * | `checkrein.turn.ms` | histogram | `agent` |
 * | `checkrein.turn.failures` | counter | `agent`, `reason` |
 * | `checkrein.tokens` | counter | `agent`, `type`: `prompt` or `completion` |
 * | `checkrein.cost.usd` | counter | `agent` |
 * | `checkrein.tool.calls` | counter | `agent`, `tool`, `ok`, `disposition` |
 * | `checkrein.tool.ms` | histogram | `agent`, `tool`, `ok`; only calls that were executed |
 * | `checkrein.exits` | counter | `agent`, `status`, `reason` |
 *
 * Turns, tokens and money are those that runs count: a model call that never came back is in them, at the estimate at
 * which its run counts it, from when the run stops or is taken up again. How long it would have taken nobody knows.
 * The tools that the harness adds have their names, `submit_result` and `request_input`; a tool that a model made up, and
 * whatever is one too many to have a series of its own, is `other`.
 */
import type * as Context from "effect/Context"
import * as Metric from "effect/Metric"
import type { Estimate, LiveEvent, Of } from "../run/RunEvent.ts"

/**
 * Counts the events of a run of this agent, for one driver. Give it every event that is appended, once; those that are
 * only read back were counted when they happened. `context` is that of the run: it holds the registry of metrics. `isTool`
 * says whether a name is a tool's: one that a model made up gets no series. `claim` is what a model call was claimed at
 * that the driver before has left on its way. Synchronous, and well under a microsecond.
 *
 * A child run counts its own turns, tokens and money under its own agent, so what its parent is told of its cost is not
 * counted again.
 */
export const recorder = (
  agent: string,
  context: Context.Context<never>,
  isTool: (name: string) => boolean,
  claim?: Estimate
): ((event: LiveEvent) => void) => {
  let open = claim
  return (event) => {
    switch (event.type) {
      case "turn_started":
        open = event.estimate
        break
      case "turn":
      case "turn_failed":
        open = undefined
        break
      case "run_resumed":
      case "handoff":
      case "run_stopped":
        if (open === undefined) break
        agents.get(agent).turns.updateUnsafe(1, context)
        spent(agents.get(agent), open, context)
        open = undefined
    }
    record(event, agent, context, isTool)
  }
}

const record = (
  event: LiveEvent,
  agent: string,
  context: Context.Context<never>,
  isTool: (name: string) => boolean
): void => {
  switch (event.type) {
    case "turn": {
      const of = agents.get(agent)
      of.turns.updateUnsafe(1, context)
      of.turnMs.updateUnsafe(event.ms, context)
      spent(of, event, context)
      return
    }
    case "turn_failed": {
      const of = agents.get(agent)
      of.failures.get(event.reason).updateUnsafe(1, context)
      spent(of, event, context)
      return
    }
    case "tool_result": {
      const { tools } = agents.get(agent)
      const tool = isTool(event.tool) ? tools.get(event.tool) : tools.rest()
      tool.calls.get(`${event.ok} ${event.disposition}`).updateUnsafe(1, context)
      if (event.disposition === "executed")
        (event.ok ? tool.okMs : tool.failedMs).updateUnsafe(event.ms, context)
      return
    }
    case "run_stopped":
      agents.get(agent).exits.get(`${event.status} ${event.reason}`).updateUnsafe(1, context)
      return
  }
}

const spent = (
  of: AgentMetrics,
  event: Pick<Of<"turn"> | Of<"turn_failed">, "costUsd" | "usage">,
  context: Context.Context<never>
): void => {
  const { costUsd, usage } = event
  if (usage !== undefined) {
    of.promptTokens.updateUnsafe(usage.promptTokens, context)
    of.completionTokens.updateUnsafe(usage.completionTokens, context)
  }
  if (costUsd > 0) of.usd.updateUnsafe(costUsd, context)
}

// Building a metric with its attributes costs far more than updating it, so those in use are kept. A registry owns the
// values and keeps every series for ever: names past a bound therefore share the series `other`.
const other = "other"

interface Series<A> {
  /** The one of this name, new if need be and if there is room. */
  readonly get: (name: string) => A
  /** The one of all that have none of their own. */
  readonly rest: () => A
}

const series = <A>(most: number, make: (name: string) => A): Series<A> => {
  const known = new Map<string, A>()
  let rest: A | undefined
  const theRest = (): A => (rest ??= make(other))
  return {
    rest: theRest,
    get: (name) => {
      const found = known.get(name)
      if (found !== undefined) return found
      if (known.size >= most) return theRest()
      const made = make(name)
      known.set(name, made)
      return made
    }
  }
}

// From a result at once to a run of an hour.
const boundaries = [
  1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000, 3_600_000
]

const counter = (id: string, description: string, attributes: Metric.Metric.AttributeSet) =>
  Metric.counter(id, { description, attributes, incremental: true })

const histogram = (id: string, description: string, attributes: Metric.Metric.AttributeSet) =>
  Metric.histogram(id, { description, attributes, boundaries })

const toolMetrics = (agent: string) => (tool: string) => ({
  calls: series(16, (how) => {
    const [ok = other, disposition = other] = how.split(" ")
    return counter("checkrein.tool.calls", "Tool calls that were settled", {
      agent,
      tool,
      ok,
      disposition
    })
  }),
  okMs: histogram("checkrein.tool.ms", "Time that a tool took, in milliseconds", { agent, tool, ok: "true" }),
  failedMs: histogram("checkrein.tool.ms", "Time that a tool took, in milliseconds", {
    agent,
    tool,
    ok: "false"
  })
})

const agentMetrics = (agent: string) => ({
  turns: counter("checkrein.turns", "Model calls that came back, or never will", { agent }),
  turnMs: histogram("checkrein.turn.ms", "Time that a model call took, in milliseconds", { agent }),
  failures: series(64, (reason) =>
    counter("checkrein.turn.failures", "Model calls that failed", {
      agent,
      reason
    })
  ),
  promptTokens: counter("checkrein.tokens", "Tokens used", {
    agent,
    type: "prompt"
  }),
  completionTokens: counter("checkrein.tokens", "Tokens used", {
    agent,
    type: "completion"
  }),
  usd: counter("checkrein.cost.usd", "Money spent, in USD", { agent }),
  tools: series(256, toolMetrics(agent)),
  exits: series(64, (how) => {
    const [status = other, reason = other] = how.split(" ")
    return counter("checkrein.exits", "Runs that stopped", {
      agent,
      status,
      reason
    })
  })
})
type AgentMetrics = ReturnType<typeof agentMetrics>

const agents = series(256, agentMetrics)
