/**
 * The log analyst's world in memory: three files, a directory that nobody may read, and an archive that takes its time.
 */
import * as Effect from "effect/Effect"
import type { RunEvent } from "../run/RunEvent.ts"
import { CurrentCall } from "../tool/CurrentCall.ts"
import * as LogTools from "./LogTools.ts"

const contents = {
  "access.log": "GET /health 200 in 3 ms\n",
  "errors.log": "ERROR timeout: worker 7 timed out after 30000 ms\n",
  "notes.txt": "Rotate the logs on Sundays.\n"
}

/** The files as they are now, and every deletion that was carried out, a repeated one included. */
export interface World {
  readonly files: Map<string, string>
  readonly deleted: Array<string>
}

const remove = ({ deleted, files }: World, path: string): void => {
  files.delete(path)
  deleted.push(path)
}

/** A new world, with all its files. */
export const make = (): World => ({
  files: new Map(Object.entries(contents)),
  deleted: []
})

/**
 * The world in which a stored run goes on: files in memory are gone with their process, so what the run has deleted
 * before is deleted again.
 */
export const restore = (events: ReadonlyArray<RunEvent>): World => {
  const world = make()
  const paths = new Map<string, string>()
  for (const event of events) {
    if (event.type === "tool_start" && event.tool === LogTools.DeleteFile.name) {
      const { args } = event
      if (LogTools.isFile(args)) paths.set(event.callId, args.path)
    } else if (event.type === "tool_result" && event.ok && event.disposition === "executed") {
      const path = paths.get(event.callId)
      if (path !== undefined) remove(world, path)
    }
  }
  return world
}

const steps = 6
const filesInStep = 200

const scanArchive = Effect.gen(function* () {
  const { progress } = yield* CurrentCall
  const total = steps * filesInStep
  for (let done = filesInStep; done <= total; done += filesInStep) {
    yield* Effect.sleep("500 millis")
    yield* progress(`scanned ${done} of ${total} files`, { done, total })
  }
  return `Scanned ${total} files: none of them mentions a timeout.`
})

/** The tools' handlers in a world. */
export const layer = (world: World) =>
  LogTools.toolkit.toLayer({
    list_files: () => Effect.sync(() => [...world.files.keys()]),
    read_file: ({ path }) =>
      Effect.suspend(() => {
        if (path.startsWith("private/")) return Effect.fail(LogTools.permissionDenied(path))
        const content = world.files.get(path)
        return content === undefined ? Effect.fail(LogTools.noSuchFile(path)) : Effect.succeed(content)
      }),
    delete_file: ({ path }) =>
      Effect.sync(() => {
        remove(world, path)
        return `Deleted ${path}.`
      }),
    scan_archive: () => scanArchive
  })
