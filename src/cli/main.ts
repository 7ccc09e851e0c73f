#!/usr/bin/env node
/**
 * Where the `checkrein` command starts: prepares the process, and loads the rest.
 */
import * as module from "node:module"

// The same as in package.json, which npm only warns about. An older version fails on whatever it first does not know.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number)
if (major < 22 || (major === 22 && minor < 19)) {
  console.error(`checkrein: needs Node >= 22.19, and this is ${process.versions.node}`)
  process.exit(1)
}

// Saves the next start some of the compiling; everything that should profit is loaded after it.
module.enableCompileCache()

// node:sqlite, and on older versions the types in the sources, are announced as experimental on every start.
const listeners = process.listeners("warning")
process.removeAllListeners("warning")
process.on("warning", (warning) => {
  if (warning.name !== "ExperimentalWarning") for (const listener of listeners) listener(warning)
})

await import("./Process.ts")
