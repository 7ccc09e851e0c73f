import { createServer } from "node:http"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Agent, RunHost, type RunStore } from "checkrein"
import { Effect, Layer, Schema } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { analyst } from "./analyst.ts"
import { Host } from "./host.ts"
import { sse } from "./sse.ts"

const json = (body: unknown, status = 200) => HttpServerResponse.jsonUnsafe(body, { status })
const conflicts = { CallNotPending: 409, MessageRefused: 409, RunNotCompleted: 409 }
const known = { RunNotFound: 404, SchemaError: 400, HttpServerError: 400, invalid: 400, ...conflicts }
const statuses = new Map(Object.entries(known))

type Fault = Error & { readonly _tag: string; readonly kind?: string }
type Answer = Effect.Effect<HttpServerResponse.HttpServerResponse, Fault, HttpServerRequest.HttpServerRequest>

const Verdict = Schema.Struct({ callId: Schema.String, argsDigest: Schema.String, approve: Schema.Boolean })

export const Routes = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const host = yield* RunHost.RunHost
    const inStore = Effect.provideContext(yield* Effect.context<RunStore.RunStore>())
    const route = (method: "GET" | "POST" | "DELETE", path: string, answer: (runId: string) => Answer) =>
      router.add(
        method,
        `/runs/:id${path}`,
        // Whoever knows an id gets its run: the tenant in it comes from your authentication, not from the client.
        Effect.flatMap(HttpRouter.params, ({ id }) => answer(`acme:${id}`)).pipe(
          Effect.catch(({ _tag, kind = "", message }) =>
            Effect.succeed(json({ error: message }, statuses.get(_tag) ?? statuses.get(kind) ?? 503))
          )
        )
      )

    yield* route("POST", "", (runId) =>
      Effect.gen(function* () {
        const question = yield* (yield* HttpServerRequest.HttpServerRequest).text
        yield* host.start(analyst.name, question, { runId, tags: ["acme"] })
        return json({ runId }, 202)
      })
    )
    yield* route("GET", "", (runId) => Effect.map(host.status(runId), (run) => json(run)))
    yield* route("GET", "/result", (runId) =>
      Effect.map(inStore(Agent.result(analyst, runId)), ({ output }) => json({ output }))
    )
    yield* route("POST", "/verdict", (runId) =>
      Effect.gen(function* () {
        const { approve, ...seen } = yield* HttpServerRequest.schemaBodyJson(Verdict)
        const { approvals, reason } = yield* host.status(runId)
        // A page that is older than the Stop of its run does not undo it.
        if (reason === "cancelled") return json({ error: "the run was cancelled" }, 409)
        // A call may be one of a sub-agent, whose run has an id of its own.
        const call = approvals.find(({ callId }) => callId === seen.callId)
        const decision = approve ? Agent.approve() : Agent.reject()
        yield* host.decide({ runId: call?.runId ?? runId, ...seen }, decision, { by: "ann" })
        yield* host.resume(runId)
        return json({ runId }, 202)
      })
    )
    yield* route("DELETE", "", (runId) => Effect.as(host.cancel(runId, "the user"), json({ runId }, 202)))
    // It ends when the run stops; an EventSource comes back with the number of the last event that it has seen.
    yield* route("GET", "/events", (runId) =>
      Effect.gen(function* () {
        const { headers } = yield* HttpServerRequest.HttpServerRequest
        const from = Number.parseInt(headers["last-event-id"] ?? "-1", 10) + 1
        // Not found has to be said before the response begins.
        const { seq, status } = yield* host.status(runId)
        const isOver = status === "completed" || status === "failed"
        // Nothing follows: an EventSource that is told so comes back no more.
        if (isOver && from >= seq) return HttpServerResponse.empty()
        return sse(host.attach(runId, from))
      })
    )
  })
)

// NodeRuntime.runMain(Layer.launch(…)) of this, with what Host needs: the port opens when the host is there, and on
// SIGTERM the server closes, then the host.
export const Server = HttpRouter.serve(Routes).pipe(
  Layer.provide(NodeHttpServer.layer(createServer, { port: 3000, gracefulShutdownTimeout: "1 second" })),
  Layer.provide(Host)
)
