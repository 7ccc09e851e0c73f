/**
 * Runs the test of `ExportTree` for real: the very texts that the investigator reads are compiled and executed, so that
 * what the test says is what they do.
 */
import assert from "node:assert"
import { posix } from "node:path"
import { compileFunction } from "node:vm"
import * as Predicate from "effect/Predicate"

/** What came of a test file: the names of the tests that passed, and of those that failed, with the reason. */
export interface Result {
  readonly passed: ReadonlyArray<string>
  readonly failed: ReadonlyArray<{ readonly name: string; readonly message: string }>
}

interface Exports {
  readonly [name: string]: unknown
}

const inherited: { readonly [request: string]: unknown } = { "node:assert": assert }

/** Loads a file of the tree, and whatever it requires. */
const loader = (files: ReadonlyMap<string, string>): ((path: string) => Exports) => {
  const loaded = new Map<string, Exports>()
  const load = (path: string): Exports => {
    const known = loaded.get(path)
    if (known !== undefined) return known
    const text = files.get(path)
    if (text === undefined) throw new Error(`there is no file ${path}`)
    const exports: Exports = {}
    loaded.set(path, exports)
    const require = (request: string): unknown =>
      inherited[request] ?? load(posix.join(posix.dirname(path), request))
    compileFunction(text, ["exports", "require"], { filename: path })(exports, require)
    return exports
  }
  return load
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Runs a test file of a tree. What it exports are its tests. */
export const run = (files: ReadonlyMap<string, string>, path: string): Result => {
  const passed: Array<string> = []
  const failed: Array<{ name: string; message: string }> = []
  for (const [name, test] of Object.entries(loader(files)(path))) {
    if (!Predicate.isFunction(test)) continue
    try {
      test()
      passed.push(name)
    } catch (error) {
      failed.push({ name, message: messageOf(error) })
    }
  }
  return { passed, failed }
}

/** A result in one line. */
export const inWords = ({ failed, passed }: Result): string => {
  const all = failed.length + passed.length
  const why = failed.map(({ message, name }) => `${name}: ${message}`).join("; ")
  return failed.length === 0 ? `all ${all} tests passed` : `${failed.length} of ${all} tests failed: ${why}`
}
