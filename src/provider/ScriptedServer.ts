/**
 * The scripts of `Scripted` over HTTP in the chat-completions format, for whatever speaks to an endpoint: an agent in
 * another process, another language, another library. The model name picks the script.
 *
 * `POST /v1/chat/completions` (JSON and server-sent events) and `GET /v1/models`, with errors in OpenAI's shape. A
 * conversation costs the same tokens as in-process, since the same encoder and the same player serve both.
 *
 * Importing it is cheap: the Node server is loaded when one starts.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as HttpServerError from "effect/http/HttpServerError"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as Completion from "./Completion.ts"
import * as Playback from "./Playback.ts"
import * as Script from "./Script.ts"
import * as Wire from "./Wire.ts"

/** What is served. The options of playback hold for every script; each script consumes its own copy of `failures`. */
export interface Options extends Omit<Playback.Options, "model"> {
  readonly scripts: ReadonlyArray<Script.Script>
}

/** Where to listen: by default loopback only, on a port that is free. */
export interface Listen {
  readonly host?: string
  readonly port?: number
}

/**
 * A server that is listening.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Scripted, ScriptedServer } from "checkrein/provider"
 *
 * const address = Effect.map(ScriptedServer.ScriptedServer, ({ baseUrl }) => baseUrl).pipe(
 *   Effect.provide(ScriptedServer.layer({ scripts: [Scripted.make("hello", [Scripted.text("Hello.")])] }))
 * )
 * ```
 */
export class ScriptedServer extends Context.Service<
  ScriptedServer,
  {
    /** What a client takes as base URL: `http://127.0.0.1:PORT/v1`. */
    readonly baseUrl: string
    readonly port: number
  }
>()("checkrein/ScriptedServer") {}

const optional = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

const Request = Schema.Struct({
  model: Schema.String,
  messages: Schema.Array(Wire.Message),
  tools: optional(Schema.Array(Wire.ToolDefinition)),
  tool_choice: Schema.optionalKey(Schema.Unknown),
  stream: optional(Schema.Boolean),
  stream_options: optional(Schema.Struct({ include_usage: optional(Schema.Boolean) })),
  max_tokens: optional(Schema.Finite),
  max_completion_tokens: optional(Schema.Finite)
})
type Request = typeof Request.Type

// Decoding says what is wrong, but it would drop fields that it does not know, and they count.
const isRequest = Schema.is(Request)
const check = Schema.decodeUnknownResult(Request)

const errorResponse = (failure: Script.Failure) =>
  HttpServerResponse.jsonUnsafe(Playback.errorBody(failure), {
    status: failure.status,
    ...(failure.retryAfter === undefined ? undefined : { headers: { "retry-after": failure.retryAfter } })
  })

const badRequest = (message: string) => errorResponse(Script.fail(400, { message, code: "invalid_request" }))

const completionJson = (played: Playback.Played, created: number) => ({
  id: played.completion.id,
  object: "chat.completion",
  created,
  model: played.completion.model,
  choices: [
    {
      index: 0,
      message: { role: "assistant", ...played.message },
      logprobs: null,
      finish_reason: played.completion.choices?.[0]?.finish_reason ?? "stop"
    }
  ],
  ...(played.completion.usage ? { usage: played.completion.usage } : undefined)
})

const event = (data: unknown): string => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`

/** One chunk as clients expect it: the role comes first, and the first piece of a call says what it is. */
const chunkJson = (chunk: Completion.Chunk, first: boolean, created: number) => ({
  id: chunk.id,
  object: "chat.completion.chunk",
  created,
  model: chunk.model,
  choices: (chunk.choices ?? []).map(({ delta, finish_reason }) => ({
    index: 0,
    delta: {
      ...(first ? { role: "assistant" } : undefined),
      ...delta,
      ...(delta?.tool_calls
        ? {
            tool_calls: delta.tool_calls.map((call) => ("id" in call ? { ...call, type: "function" } : call))
          }
        : undefined)
    },
    finish_reason: finish_reason ?? null
  })),
  ...(chunk.usage ? { usage: chunk.usage } : undefined)
})

const streamed = (played: Playback.Played, withUsage: boolean, created: number) => {
  const events = Playback.chunks(played)
    .filter((chunk) => withUsage || !chunk.usage)
    .map((chunk, index) => event(chunkJson(chunk, index === 0, created)))
  // A broken reply ends early and without [DONE]. Closing the socket as well would be closer to life, but fetch drops what
  // it has not handed on when that happens, and then nobody could say what a client sees.
  const all =
    played.breakAfter === undefined ? [...events, event("[DONE]")] : events.slice(0, played.breakAfter)
  return HttpServerResponse.stream(Stream.encodeText(Stream.fromIterable(all)), {
    contentType: "text/event-stream",
    headers: { "cache-control": "no-cache" }
  })
}

/** Drops the connection as a crash would, without an answer. */
const hangUp = (request: HttpServerRequest.HttpServerRequest): Effect.Effect<never> => {
  const socket = Predicate.hasProperty(request.source, "socket") ? request.source.socket : undefined
  return Effect.andThen(
    Effect.sync(() => {
      if (Predicate.hasProperty(socket, "destroy") && typeof socket.destroy === "function") socket.destroy()
    }),
    // The server interrupts the request once it sees the connection gone.
    Effect.never
  )
}

const complete = (players: ReadonlyMap<string, Playback.Player>) =>
  Effect.fnUntraced(function* (http: HttpServerRequest.HttpServerRequest) {
    const text = yield* http.text
    const json = Result.try((): unknown => JSON.parse(text))
    if (Result.isFailure(json)) return badRequest("the body is not JSON")
    const body = json.success
    if (!isRequest(body)) {
      const checked = check(body)
      return badRequest(
        `the body is no chat-completions request: ${Result.isFailure(checked) ? checked.failure.message : ""}`
      )
    }
    const player = players.get(body.model)
    if (player === undefined) {
      return errorResponse(
        Script.fail(404, {
          message: `there is no model "${body.model}"; the scripts are: ${[...players.keys()].join(", ")}`,
          code: "model_not_found"
        })
      )
    }
    const outcome = yield* player.play(requestOf(body))
    if (outcome._tag === "Failure") return errorResponse(outcome)
    if (outcome._tag === "Disconnect") return yield* hangUp(http)
    const created = Math.floor((yield* Clock.currentTimeMillis) / 1000)
    if (body.stream) return streamed(outcome, body.stream_options?.include_usage === true, created)
    if (outcome.breakAfter !== undefined) return yield* hangUp(http)
    return HttpServerResponse.jsonUnsafe(completionJson(outcome, created))
  })

const requestOf = (body: Request): Playback.Request => {
  const tools = body.tools ?? []
  return {
    turn: Script.turnOf(body.messages),
    messages: () => body.messages,
    tools: () => tools,
    withoutCalls: body.tool_choice === "none" && tools.length > 0,
    maxOutputTokens: body.max_completion_tokens ?? body.max_tokens ?? undefined
  }
}

const routes = (options: Options): Layer.Layer<never, never, HttpRouter.HttpRouter> => {
  const { scripts, ...playback } = options
  return Layer.unwrap(
    Effect.sync(() => {
      const players = new Map(scripts.map((script) => [script.name, Playback.make(script, playback)]))
      const answer = complete(players)
      const models = {
        object: "list",
        data: scripts.map(({ name }) => ({
          id: name,
          object: "model",
          created: 0,
          owned_by: "checkrein"
        }))
      }
      return Layer.mergeAll(
        HttpRouter.add("POST", "/v1/chat/completions", (request) =>
          Effect.catch(answer(request), () => Effect.succeed(badRequest("the body could not be read")))
        ),
        HttpRouter.add("GET", "/v1/models", HttpServerResponse.jsonUnsafe(models)),
        HttpRouter.add(
          "*",
          "*",
          errorResponse(
            Script.fail(404, {
              message: "there are POST /v1/chat/completions and GET /v1/models"
            })
          )
        )
      )
    })
  )
}

/** The error of a server that cannot listen, with words of its own: effect's has none. */
class CannotListen extends HttpServerError.ServeError {
  readonly port: number
  constructor(port: number, cause: unknown) {
    super({ cause })
    this.port = port
  }
  override get message(): string {
    const why = this.cause instanceof Error ? this.cause.message : String(this.cause)
    return `the server cannot listen on ${this.port === 0 ? "a free port" : `port ${this.port}`}: ${why}`
  }
}

/**
 * A listening server on Node. Fails if the port is taken, and says so; stops with its scope.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Scripted, ScriptedServer } from "checkrein/provider"
 *
 * const Server = ScriptedServer.layer({ scripts: [Scripted.make("hello", [Scripted.text("Hello!")])], port: 4010 })
 * const serve = Layer.launch(Server)
 * ```
 */
export const layer = (options: Options & Listen): Layer.Layer<ScriptedServer, HttpServerError.ServeError> => {
  const { host = "127.0.0.1", port = 0, ...served } = options
  const node = Effect.promise(async () => {
    const [server, http] = await Promise.all([
      import("@effect/platform-node/NodeHttpServer"),
      import("node:http")
    ])
    return server.layerServer(() => http.createServer(), {
      host,
      port,
      gracefulShutdownTimeout: 0
    })
  })
  const address = Layer.effect(
    ScriptedServer,
    Effect.map(HttpServer.HttpServer, ({ address }) => {
      const bound = address._tag === "UnixPathAddress" ? 0 : address.port
      return {
        baseUrl: `http://${host.includes(":") ? `[${host}]` : host}:${bound}/v1`,
        port: bound
      }
    })
  )
  return HttpRouter.serve(routes(served), {
    disableLogger: true,
    disableListenLog: true
  }).pipe(
    Layer.provideMerge(address),
    Layer.provide(Layer.unwrap(node)),
    Layer.catch(({ cause }) => Layer.effect(ScriptedServer, Effect.fail(new CannotListen(port, cause))))
  )
}

/**
 * Starts a server that stops with the scope, and says where it is.
 *
 * @example
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Scripted, ScriptedServer } from "checkrein/provider"
 *
 * const hello = Scripted.make("hello", [Scripted.text("Hello.")])
 * const port = Effect.scoped(Effect.map(ScriptedServer.start({ scripts: [hello] }), ({ port }) => port))
 * ```
 */
export const start = (
  options: Options & Listen
): Effect.Effect<ScriptedServer["Service"], HttpServerError.ServeError, Scope.Scope> =>
  Effect.map(Layer.build(layer(options)), (context) => Context.get(context, ScriptedServer))
