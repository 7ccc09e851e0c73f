/**
 * Models and what belongs to them: an adapter for OpenAI-compatible endpoints, scripted models for tests in-process and over
 * HTTP, prices, request parameters and token counting.
 */
export * as ChatCompletions from "./ChatCompletions.ts"
export * as PriceBook from "./PriceBook.ts"
export * as RequestParams from "./RequestParams.ts"
export * as Scripted from "./Scripted.ts"
export * as ScriptedServer from "./ScriptedServer.ts"
export * as Tokens from "./Tokens.ts"
