/** Folders that a test has for itself, gone when it ends. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

export const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "checkrein-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** A layer whose files are in a folder of its own. */
export const inFolder = <A, E, R>(layer: (folder: string) => Layer.Layer<A, E, R>): Layer.Layer<A, E, R> =>
  Layer.unwrap(Effect.map(folder, layer))
