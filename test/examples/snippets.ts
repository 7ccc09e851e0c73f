/**
 * The examples of this project: every TypeScript block of the README and of the docstrings in `src/`.
 */
import { globSync, readFileSync } from "node:fs"
import { join, relative } from "node:path"

/** The root of the project. */
export const root = new URL("../..", import.meta.url).pathname

/** One block of code and where it stands. */
export interface Snippet {
  readonly file: string
  readonly line: number
  readonly code: string
}

const fence = /^[ \t]*(?:\* )?```ts[^\n]*\n([\s\S]*?)^[ \t]*(?:\* )?```/gm

const snippetsIn = (file: string): ReadonlyArray<Snippet> => {
  const text = readFileSync(file, "utf8")
  const inDocstring = file.endsWith(".ts")
  return [...text.matchAll(fence)].map((match) => {
    const body = match[1] ?? ""
    return {
      file: relative(root, file),
      line: text.slice(0, match.index).split("\n").length,
      code: inDocstring ? body.replaceAll(/^[ \t]*\* ?/gm, "") : body
    }
  })
}

/** The blocks of the README. */
export const readme = (): ReadonlyArray<Snippet> => snippetsIn(join(root, "README.md"))

/** The blocks of the docstrings. */
export const docstrings = (): ReadonlyArray<Snippet> =>
  globSync("src/**/*.ts", { cwd: root })
    .toSorted()
    .flatMap((file) => snippetsIn(join(root, file)))
