/** A mistyped `--store` may name any file: commands about runs leave one alone that has no runs. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { describe, expect, it } from "vitest"
import { cli, withoutEndpoint, workshop } from "../support.ts"
import { storeAt } from "./storeAt.ts"

const { path } = workshop()
withoutEndpoint()

const verbs = [
  ["list"],
  ["recover"],
  ["delete", "--older-than", "1d"],
  ["show", "r"],
  ["audit", "r"],
  ["approve", "r"],
  ["answer", "r", "yes"],
  ["resume", "r"],
  ["cancel", "r"],
  ["delete", "r"]
] as const

/** A folder with a file in it that is made so, and all that is in it. */
const folderWith = (name: string, make: (file: string) => void) => {
  const folder = path(name)
  mkdirSync(folder)
  const file = join(folder, "places.db")
  make(file)
  const all = () =>
    readdirSync(folder).map((each) => [each, readFileSync(join(folder, each)).toString("hex")])
  return { all, ...storeAt(file) }
}

const withTable =
  (...pragmas: ReadonlyArray<string>) =>
  (file: string) => {
    const db = new DatabaseSync(file)
    for (const pragma of pragmas) db.exec(pragma)
    db.exec("CREATE TABLE bookmarks (url); INSERT INTO bookmarks VALUES ('a')")
    db.close()
  }

describe("the runs commands", () => {
  it.each([
    ["another program's database", withTable()],
    ["another program's database with a WAL", withTable("PRAGMA journal_mode = WAL")]
  ])("refuse %s, and leave it as it is", async (name, make) => {
    const { all, runs, store } = folderWith(name, make)
    const before = all()
    for (const [verb, ...rest] of verbs) {
      const { code, stderr } = await runs(verb, ...rest)
      expect([verb, code]).toEqual([verb, 1])
      expect(stderr).toContain("is a database of something else, and has no runs; name another file")
    }
    const { stderr } = await cli("run", ...store, "x")
    expect(stderr).toContain("is a database of something else")
    expect(all()).toEqual(before)
  })

  it.each([
    ["an empty file", (file: string) => writeFileSync(file, "")],
    [
      "a database without tables",
      (file: string) => {
        const db = new DatabaseSync(file)
        db.exec("PRAGMA user_version = 3")
        db.close()
      }
    ]
  ])("make nothing of %s, and `run` does", async (name, make) => {
    const { all, runs, store } = folderWith(name, make)
    const before = all()
    for (const [verb, ...rest] of verbs)
      expect((await runs(verb, ...rest)).stderr).toContain("there are no runs in the file")
    expect(all()).toEqual(before)
    expect((await cli("run", ...store, "--root", path("."), "x")).stderr).not.toContain("there are no runs")
    expect((await runs("list")).stderr).not.toContain("there are no runs")
  })
})
