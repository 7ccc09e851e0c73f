/**
 * The spans of a run, under OpenTelemetry's names for generative AI.
 *
 * Two spans are made here: `invoke_agent {agent}` around a run and `execute_tool {tool}` around a call. The span of a
 * model call is effect's own; `chat` describes it. Arguments, results and messages stay off all of them, unless
 * `RecordContent` asks for the tools' ones.
 */
import type * as LanguageModelTelemetry from "effect/ai/Telemetry"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as References from "effect/References"
import * as Tracer from "effect/Tracer"
import type * as RunEvent from "../run/RunEvent.ts"
import { RecordContent } from "./Spans.ts"

/** The run that an agent span is about. */
interface AgentSpan {
  readonly agent: string
  readonly runId: string
  readonly parent?: RunEvent.Parent | undefined
  readonly tags?: ReadonlyArray<string> | undefined
}

/**
 * Runs `body` in the span `invoke_agent {agent}`, with the log annotations `runId` and `agent`. The span fails if the
 * body does: a body which returns how the run ended, and leaves the failing to its caller, keeps a run that merely
 * waits for an approval from being reported as an error.
 */
export const agent = <A, E, R>(
  run: AgentSpan,
  body: (span: Tracer.Span) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> => {
  const attributes: Record<string, unknown> = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": run.agent,
    "checkrein.run.id": run.runId
  }
  if (run.parent !== undefined) {
    attributes["checkrein.parent.run.id"] = run.parent.runId
    attributes["checkrein.parent.call.id"] = run.parent.callId
  }
  if (run.tags !== undefined && run.tags.length > 0) attributes["checkrein.run.tags"] = run.tags
  return Effect.useSpan(`invoke_agent ${run.agent}`, { attributes }, (span) =>
    // A child run is not inside its parent's call as far as its logs are concerned: the inner names replace the outer.
    around(body(span), span, {
      runId: run.runId,
      agent: run.agent,
      callId: undefined,
      tool: undefined
    })
  )
}

/** Writes onto an agent span how its run stopped. */
export const agentStopped = (
  span: Tracer.Span,
  stopped: Pick<RunEvent.Of<"run_stopped">, "status" | "reason" | "turns" | "costUsd">
): void => {
  span.attribute("checkrein.run.status", stopped.status)
  span.attribute("checkrein.run.reason", stopped.reason)
  span.attribute("checkrein.run.turns", stopped.turns)
  span.attribute("checkrein.run.cost_usd", stopped.costUsd)
  if (stopped.status === "failed") span.attribute("error.type", stopped.reason)
}

/** The call that a tool span is about; `args` as encoded. */
interface ToolSpan {
  readonly tool: string
  readonly callId: string
  readonly args: unknown
}

/**
 * Runs `body` in the span `execute_tool {tool}`, with the log annotations `callId` and `tool`. Inside, the current span
 * refuses the raw arguments that `Toolkit.handle` writes (see `withoutArguments`). The body should turn every failure
 * of the tool into a value: a failure that leaves it is recorded on the span with its message.
 */
export const tool = <A, E, R>(
  call: ToolSpan,
  body: (span: Tracer.Span) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> => {
  const attributes = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": call.tool,
    "gen_ai.tool.type": "function",
    "gen_ai.tool.call.id": call.callId
  }
  return Effect.useSpan(`execute_tool ${call.tool}`, { attributes }, (span) =>
    Effect.withFiber((fiber) => {
      if (fiber.getRef(RecordContent)) span.attribute("gen_ai.tool.call.arguments", JSON.stringify(call.args))
      return around(body(span), withoutArguments(span), {
        callId: call.callId,
        tool: call.tool
      })
    })
  )
}

/** Writes onto a tool span what became of the call; its content only if it is to be recorded. */
export const toolEnded = (
  span: Tracer.Span,
  result: Pick<RunEvent.Of<"tool_result">, "ok" | "disposition" | "content">,
  recordContent: boolean
): void => {
  if (result.disposition !== "executed") span.attribute("checkrein.tool.disposition", result.disposition)
  if (!result.ok)
    span.attribute("error.type", result.disposition === "executed" ? "tool_error" : result.disposition)
  if (recordContent) span.attribute("gen_ai.tool.call.result", result.content)
}

const around = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  span: Tracer.Span,
  annotations: Record<string, unknown>
): Effect.Effect<A, E, R> =>
  Effect.updateContext(effect, (context: Context.Context<R>) => {
    const logs: Record<string, unknown> = {
      ...Context.get(context, References.CurrentLogAnnotations)
    }
    for (const key in annotations) {
      if (annotations[key] === undefined) delete logs[key]
      else logs[key] = annotations[key]
    }
    return Context.add(Context.add(context, Tracer.ParentSpan, span), References.CurrentLogAnnotations, logs)
  })

/**
 * The same span, deaf to the attributes `tool` and `parameters`: `Toolkit.handle` writes the raw arguments of a call
 * under these names onto whatever span is current. Everything else reaches the span itself, so that spans started
 * under the one returned are children of the real one.
 */
export const withoutArguments = (span: Tracer.Span): Tracer.Span => new Proxy(span, deaf)

const deaf: ProxyHandler<Tracer.Span> = {
  get(span, key) {
    if (key === "attribute") {
      return (name: string, value: unknown): void => {
        if (name !== "tool" && name !== "parameters") span.attribute(name, value)
      }
    }
    // Read and called on the span itself: its ids are made when first asked for, and have to become its own.
    const value: unknown = Reflect.get(span, key, span)
    return typeof value === "function" ? value.bind(span) : value
  }
}

/**
 * Runs an effect beside whatever span is current. What is logged under a span becomes an event of it, and the words and
 * the causes of what a tool did are a matter for the log.
 */
export const beside = (effect: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.updateContext(effect, (context: Context.Context<never>) => Context.omit(Tracer.ParentSpan)(context))

/** What is known about a model before it is called. */
interface ChatSpan {
  /** As OpenTelemetry spells it: `openai`, `anthropic`, … */
  readonly provider?: string | undefined
  readonly model?: string | undefined
  readonly temperature?: number | undefined
  readonly topP?: number | undefined
  readonly maxOutputTokens?: number | undefined
}

/**
 * Describes effect's own span of a model call. It is a value for `Telemetry.CurrentSpanTransformer` of `effect/ai`,
 * made once for a run; a transformer that was there before can be passed on, as `also`.
 */
export const chat =
  (
    request: ChatSpan,
    also?: LanguageModelTelemetry.SpanTransformer
  ): LanguageModelTelemetry.SpanTransformer =>
  (call) => {
    const { response, span } = call
    span.attribute("gen_ai.operation.name", "chat")
    put(span, "gen_ai.provider.name", request.provider)
    put(span, "gen_ai.request.model", request.model)
    put(span, "gen_ai.request.temperature", request.temperature)
    put(span, "gen_ai.request.top_p", request.topP)
    put(span, "gen_ai.request.max_tokens", request.maxOutputTokens)
    for (const part of response) {
      if (part.type === "response-metadata") {
        put(span, "gen_ai.response.id", part.id)
        put(span, "gen_ai.response.model", part.modelId)
      } else if (part.type === "finish") {
        span.attribute("gen_ai.response.finish_reasons", [part.reason])
        const { inputTokens, outputTokens } = part.usage
        put(span, "gen_ai.usage.input_tokens", inputTokens.total)
        put(span, "gen_ai.usage.output_tokens", outputTokens.total)
        put(span, "gen_ai.usage.cache_read.input_tokens", inputTokens.cacheRead)
        put(span, "gen_ai.usage.cache_creation.input_tokens", inputTokens.cacheWrite)
      }
    }
    also?.(call)
  }

// A provider's adapter, which knows more, may have been here before: what is unknown here must not erase it.
const put = (span: Tracer.Span, key: string, value: unknown): void => {
  if (value !== undefined) span.attribute(key, value)
}
