import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { PriceBook, RunTrace } from "checkrein"
import { ChatCompletions } from "checkrein/provider"
import * as NodeSqlite from "checkrein/sqlite"
import { Layer } from "effect"

// Runs in a SQLite file, in one line.
export const Store = NodeSqlite.runStore(".checkrein/app.db")

// A real endpoint, and what it costs in USD per million tokens: a money limit needs a price.
export const Model = Layer.mergeAll(
  ChatCompletions.layer({ baseUrl: "http://127.0.0.1:8080/v1", model: "large" }),
  PriceBook.layer({ large: { input: 2, cachedInput: 0.2, output: 12 } })
).pipe(Layer.provide(NodeHttpClient.layerUndici))

// One JSON object a line, for every event.
export const Trace = RunTrace.layerJsonl("logs/trace.jsonl").pipe(Layer.provide(NodeFileSystem.layer))
