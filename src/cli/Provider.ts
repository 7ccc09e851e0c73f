/**
 * `checkrein provider`: the built-in scripts behind an endpoint on this machine.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { scripts as demo } from "../demo/Scenario.ts"
import * as ScriptedServer from "../provider/ScriptedServer.ts"
import * as BuiltInScript from "./analyst/BuiltInScript.ts"
import * as Output from "./Output.ts"
import type { Input } from "./ProviderCommand.ts"

const scripts = [BuiltInScript.script, ...demo]

/** Serves until it is interrupted. */
export const serve = ({ json, port }: Input) =>
  Effect.gen(function* () {
    const { baseUrl } = yield* ScriptedServer.start({
      scripts,
      port: Option.getOrElse(port, () => 0)
    }).pipe(Effect.mapError(({ message }) => new Output.CommandFailed({ message })))
    const models = scripts.map(({ name }) => name)
    const text = [`export LLM_BASE_URL=${baseUrl}`, `export LLM_MODEL=${BuiltInScript.name}`].join("\n")
    yield* Output.result(json, { baseUrl, models }, text)
    yield* Output.note(`The models are ${models.join(", ")}. Ctrl-C stops the server.`)
    return yield* Effect.never
  }).pipe(Effect.scoped)
