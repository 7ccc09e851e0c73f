import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { PriceBook, RunTrace } from "checkrein"
import { ChatCompletions } from "checkrein/provider"
import * as NodeSqlite from "checkrein/sqlite"
import { Layer } from "effect"
import { Otlp, OtlpSerialization } from "effect/observability"

export const Store = NodeSqlite.runStore(".checkrein/app.db")

// A real endpoint, and what it costs in USD per million tokens: a money limit needs a price.
export const LocalModel = Layer.merge(
  ChatCompletions.layer({ baseUrl: "http://127.0.0.1:8080/v1", model: "large" }),
  PriceBook.layer({ large: { input: 2, cachedInput: 0.2, output: 12 } })
).pipe(Layer.provide(NodeHttpClient.layerUndici))

// The same from LLM_BASE_URL, LLM_MODEL, LLM_API_KEY, LLM_PRICE_INPUT and LLM_PRICE_OUTPUT.
export const Model = Layer.merge(ChatCompletions.layerConfig(), PriceBook.layerConfig).pipe(
  Layer.provide(NodeHttpClient.layerUndici)
)

// One JSON object a line, for every event but the deltas; no message bodies.
export const Trace = RunTrace.layerJsonl("logs/trace.jsonl").pipe(Layer.provide(NodeFileSystem.layer))

// Spans, metrics and logs to the collector at OTEL_EXPORTER_OTLP_ENDPOINT, each where it is asked for, with
// OTEL_TRACES_EXPORTER=otlp, OTEL_METRICS_EXPORTER=otlp and OTEL_LOGS_EXPORTER=otlp. OTEL_SERVICE_NAME is the name.
export const Telemetry = Otlp.layerFromConfig().pipe(
  Layer.provide([OtlpSerialization.layerJson, NodeHttpClient.layerUndici])
)
