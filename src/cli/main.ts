#!/usr/bin/env node
/**
 * Where the `checkrein` command starts: prepares the process, and loads the rest.
 */
import { enableCompileCache } from "node:module"

// Saves the next start some of the compiling; everything that should profit is loaded after it.
enableCompileCache()

// node:sqlite, and on older versions the types in the sources, are announced as experimental on every start.
const listeners = process.listeners("warning")
process.removeAllListeners("warning")
process.on("warning", (warning) => {
  if (warning.name !== "ExperimentalWarning") for (const listener of listeners) listener(warning)
})

await import("./Process.ts")
