import type { IncomingMessage, ServerResponse } from "node:http"
import { Agent } from "checkrein"
import { Effect, Exit, Layer, ManagedRuntime } from "effect"
import { analyst, LogToolsLive } from "./analyst.ts"
import { Model, Store } from "./layers.ts"

// One for the whole process: the store lives in it, and with it the rule that a run has one driver.
export const runtime = ManagedRuntime.make(Layer.mergeAll(LogToolsLive, Model, Store))

type Question = { readonly id: string; readonly text: string }

// The same id again takes the run up where it is, so that a client may simply repeat its request.
const answer = ({ id, text }: Question) =>
  Agent.outcome(Agent.run(analyst, text, { runId: id })).pipe(
    Effect.map((ending) =>
      ending._tag === "Completed"
        ? { status: 200, body: { answer: ending.output } }
        : { status: ending.resumable ? 202 : 502, body: { ending: ending._tag, why: ending.message } }
    ),
    // It still runs, for the request before this one.
    Effect.catchTag("RunBusy", ({ _tag, message }) =>
      Effect.succeed({ status: 409, body: { ending: _tag, why: message } })
    )
  )

// Express: app.post("/ask", express.json(), ask). Whoever hangs up stops the run.
export const ask = async (request: IncomingMessage & { body: Question }, response: ServerResponse) => {
  const hangUp = new AbortController()
  response.once("close", () => hangUp.abort())
  const exit = await runtime.runPromiseExit(answer(request.body), { signal: hangUp.signal })
  const { body, status } = Exit.isSuccess(exit) ? exit.value : { status: 503, body: { ending: "none" } }
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
}

// Lambda.
export const handler = (event: Question) => runtime.runPromise(answer(event))
