/** What the tests of the runs commands begin with: a store of their own, and runs in it. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { cli, elsewhere, parsed } from "../support.ts"

/** A store in a file: the flags that name it, and what is done with it. */
export const storeAt = (file: string) => {
  const store = ["--store", file]
  return {
    store,
    /** One of the runs commands. */
    runs: (...args: ReadonlyArray<string>) => cli("runs", ...args, ...store),
    /** A run that a process of its own drives, once its tool waits. */
    waiting: (task = "Wait.") => elsewhere(store, "waiter", task, /waiting to go/),
    /** Makes a directory with a log in it, and has the built-in analyst run there: yields what `--json` prints. */
    analystOf: (folder: string) => {
      mkdirSync(folder)
      writeFileSync(join(folder, "access.log"), "GET /\n")
      return async (...args: ReadonlyArray<string>) =>
        parsed(await cli("run", "--root", folder, ...store, "--json", ...args))
    }
  }
}
