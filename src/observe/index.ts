/** What can be seen of runs: trace lines, spans, metrics. */
export * as Metrics from "./Metrics.ts"
export * as RunTrace from "./RunTrace.ts"
export * as Spans from "./Spans.ts"
