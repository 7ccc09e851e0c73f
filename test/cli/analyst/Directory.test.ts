import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Directory from "../../../src/cli/analyst/Directory.ts"
import { workshop } from "../support.ts"

const { path } = workshop()
const at = (name: string) => path("logs", name)

mkdirSync(at("archive/2024"), { recursive: true })
mkdirSync(at(".git"))
mkdirSync(path("logs-of-others"))
writeFileSync(path("secret.txt"), "the password is swordfish")
writeFileSync(path("logs-of-others", "x.log"), "swordfish")
writeFileSync(at("errors.log"), "ERROR timeout: worker 7\nall is well\n")
writeFileSync(at("archive/2024/old.log"), "a Timeout\nanother TIMEOUT\n")
writeFileSync(at("naïve 日本語.log"), "ünïcödé timeout\n")
writeFileSync(at("empty.log"), "")
writeFileSync(at("photo.jpg"), Buffer.from([0xff, 0xd8, 0x00, 0x01, 0x02]))
writeFileSync(at(".git/config"), "timeout")
symlinkSync(path("secret.txt"), at("innocent.log"))
symlinkSync(path("."), at("up"))
symlinkSync(at("errors.log"), at("latest.log"))
symlinkSync(at("nowhere"), at("dangling.log"))
symlinkSync(at("archive"), at("loop"))
execFileSync("mkfifo", [at("pipe")])

const inDirectory = <A, E>(
  look: (directory: Directory.Directory) => Effect.Effect<A, E>,
  root = path("logs")
) => Effect.flatMap(Directory.open(root), look).pipe(Effect.provide(NodeServices.layer))

/** What the model reads, be it an answer or a refusal. */
const said = <A>(look: (directory: Directory.Directory) => Effect.Effect<A, { readonly message: string }>) =>
  inDirectory((directory) =>
    Effect.match(look(directory), {
      onFailure: ({ message }) => message,
      onSuccess: (answer) => String(answer)
    })
  )

/** The same of a file. */
const read = (file: string, offset = 0) =>
  said((directory) => Effect.map(directory.read(file, offset), ({ text }) => text))

describe("what leads out of the directory", () => {
  const ways = [
    ["the parent", "../secret.txt", "leads out of the directory"],
    ["round a corner", "archive/../../secret.txt", "leads out of the directory"],
    ["a neighbour whose name begins alike", "../logs-of-others/x.log", "leads out of the directory"],
    ["an absolute path", path("secret.txt"), "is an absolute path"],
    ["an absolute path into the directory", at("errors.log"), "is an absolute path"],
    ["a symbolic link to a file", "innocent.log", "symbolic link that leads out"],
    ["a symbolic link to a folder", "up/secret.txt", "symbolic link that leads out"],
    ["a NUL character", "errors.log\0.txt", "NUL"]
  ] as const

  for (const [name, way, refusal] of ways) {
    it.effect(`${name} is refused in words`, () =>
      Effect.gen(function* () {
        const answer = yield* read(way)
        expect(answer).toContain(refusal)
        expect(answer).not.toContain("swordfish")
      })
    )
  }

  it.effect("is not told apart: what exists outside and what does not get the same answer", () =>
    Effect.gen(function* () {
      const answers = yield* Effect.forEach(["up/secret.txt", "up/nothing", "up/nothing/at/all"], (way) =>
        Effect.all([read(way), said((directory) => directory.remove(way))])
      )
      for (const answer of answers.flat()) expect(answer).toContain("symbolic link that leads out")
    })
  )

  it.effect("what is left out of listings can be neither read nor deleted by name", () =>
    Effect.gen(function* () {
      for (const way of [".git/config", "archive/../.git/config", ".git", ".GIT/config"]) {
        expect(yield* read(way)).toContain("is left out here")
        expect(yield* said((directory) => directory.remove(way))).toContain("is left out here")
      }
      symlinkSync(at(".git"), path("logs", "archive", "history"))
      expect(yield* read("archive/history/config")).toContain(".git is left out here")
      expect(yield* said((directory) => directory.remove("archive/history/config"))).toContain(
        ".git is left out here"
      )
      expect(existsSync(at(".git/config"))).toBe(true)
    })
  )

  it.effect("is not deleted either", () =>
    Effect.gen(function* () {
      expect(yield* said((directory) => directory.remove("../secret.txt"))).toContain("leads out")
      expect(yield* said((directory) => directory.remove("up/secret.txt"))).toContain(
        "symbolic link that leads out"
      )
      expect(yield* said((directory) => directory.remove(path("secret.txt")))).toContain("absolute")
      expect(yield* said((directory) => directory.remove("."))).toContain("cannot be deleted")
      expect(readFileSync(path("secret.txt"), "utf8")).toContain("swordfish")
    })
  )

  it.effect("is neither listed nor searched", () =>
    Effect.gen(function* () {
      const { files } = yield* inDirectory((directory) => directory.list(""))
      expect(files).toEqual([
        { path: "empty.log", bytes: 0 },
        { path: "errors.log", bytes: 36 },
        { path: "latest.log", bytes: 36 },
        { path: "naïve 日本語.log", bytes: 20 },
        { path: "photo.jpg", bytes: 5 },
        { path: "archive/2024/old.log", bytes: 26 }
      ])
      const search = yield* inDirectory((directory) => directory.search("swordfish", () => Effect.void))
      expect(search).toEqual({ searched: 5, skipped: 1, found: [] })
    })
  )
})

describe("a search that was not whole", () => {
  it.effect("says how many more files mention the text than it names", () =>
    Effect.gen(function* () {
      mkdirSync(path("often"))
      for (let i = 0; i < 53; i++) writeFileSync(path("often", `${i}.log`), "zebra\n")
      const { found, note } = yield* inDirectory(
        (directory) => directory.search("zebra", () => Effect.void),
        path("often")
      )
      expect([found.length, note]).toEqual([50, "3 more files mention it."])
    })
  )

  it.effect("says of which files it has seen only a part", () =>
    Effect.gen(function* () {
      mkdirSync(path("large"))
      writeFileSync(path("large", "app.log"), "begin\n")
      truncateSync(path("large", "app.log"), Directory.mostSearched.bytes + 1)
      const { note } = yield* inDirectory(
        (directory) => directory.search("zebra", () => Effect.void),
        path("large")
      )
      expect(note).toContain("Only the first 64 MiB were searched of app.log")
    })
  )
})

describe("what this process may not open", () => {
  /** Permissions do not bind root: for a while this process is somebody else. */
  const asNobody = Effect.acquireRelease(
    Effect.sync(() => {
      const uid = process.geteuid?.()
      if (uid === 0) process.seteuid?.(65_534)
      return uid
    }),
    (uid) => Effect.sync(() => (uid === 0 ? process.seteuid?.(uid) : undefined))
  )

  it.effect("is named by a search, and not taken for something that does not mention the text", () =>
    Effect.gen(function* () {
      mkdirSync(path("closed", "folder"), { recursive: true })
      writeFileSync(path("closed", "app.log"), "zebra\n")
      chmodSync(path(), 0o755)
      chmodSync(path("closed", "app.log"), 0o000)
      chmodSync(path("closed", "folder"), 0o000)
      yield* asNobody
      const search = yield* inDirectory(
        (directory) => directory.search("zebra", () => Effect.void),
        path("closed")
      )
      expect(search).toEqual({
        searched: 0,
        skipped: 1,
        found: [],
        note: "1 entry could not be looked into, for want of permission. These could not be read: app.log."
      })
    }).pipe(Effect.scoped)
  )
})

describe("what cannot be read", () => {
  const answers = [
    ["missing.log", "no such file: missing.log. Call list_files"],
    ["errors.log/x", "no such file: errors.log/x"],
    ["dangling.log", "no such file: dangling.log"],
    ["archive", "archive is a directory. Call list_files"],
    ["", ". is a directory"],
    ["photo.jpg", "photo.jpg is a binary file of 5 bytes"],
    ["pipe", "pipe is a pipe, and cannot be read"],
    ["empty.log", "(empty.log is empty)"]
  ] as const

  for (const [file, answer] of answers) {
    it.effect(`"${file}" is answered in words, without saying where the directory is`, () =>
      Effect.gen(function* () {
        const words = yield* read(file)
        expect(words).toContain(answer)
        expect(words).not.toContain(path(""))
      })
    )
  }

  it.effect("a missing root, and one that is a file, are errors of the command", () =>
    Effect.gen(function* () {
      const open = (root: string) =>
        Effect.flip(Directory.open(root)).pipe(Effect.provide(NodeServices.layer))
      expect((yield* open(path("gone"))).message).toBe(`there is no directory ${path("gone")}`)
      expect((yield* open(path("secret.txt"))).message).toContain("is not a directory")
    })
  )
})

describe("a page", () => {
  const sha256 = (bytes: string | Uint8Array) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`
  const pageOf = (file: string, offset = 0) =>
    inDirectory((directory) => Effect.map(directory.read(file, offset), ({ text: _, ...page }) => page))

  it.effect("has the path of the file itself and the digest of its bytes, as sha256sum prints it", () =>
    Effect.gen(function* () {
      const digest = sha256(readFileSync(at("errors.log")))
      expect(yield* pageOf("errors.log")).toEqual({ path: "errors.log", digest })
      expect(yield* pageOf("archive/../latest.log")).toEqual({ path: "errors.log", digest })
      expect(yield* pageOf("empty.log")).toEqual({ path: "empty.log", digest: sha256("") })
    })
  )

  it.effect("of a part says which, and has the digest of that alone", () =>
    Effect.gen(function* () {
      writeFileSync(path("logs", "two-pages.log"), `${"x".repeat(Directory.pageBytes - 1)}\nthe end`)
      const size = Directory.pageBytes + 7
      expect(yield* pageOf("two-pages.log")).toEqual({
        path: "two-pages.log",
        digest: sha256(`${"x".repeat(Directory.pageBytes - 1)}\n`),
        part: `bytes 0 to ${Directory.pageBytes} of ${size}`
      })
      expect(yield* pageOf("two-pages.log", Directory.pageBytes)).toEqual({
        path: "two-pages.log",
        digest: sha256("the end"),
        part: `bytes ${Directory.pageBytes} to ${size} of ${size}`
      })
      rmSync(at("two-pages.log"))
    })
  )
})

describe("large files", () => {
  const lines = Array.from({ length: 4000 }, (_, index) => `line ${index} — naïve`).join("\n")
  const library = path("library")
  mkdirSync(library)
  writeFileSync(path("library", "large.log"), lines)
  writeFileSync(path("library", "one-line.log"), "日".repeat(20_000))

  const pages = (file: string) =>
    inDirectory(
      (directory) =>
        Effect.gen(function* () {
          const texts: Array<string> = []
          for (let offset: number | undefined = 0; offset !== undefined; ) {
            const page: string = (yield* directory.read(file, offset)).text
            const [note, next] = /\n?\[Bytes \d+ to \d+ of \d+\. .*offset (\d+)\.\]$/.exec(page) ?? []
            texts.push(note === undefined ? page : page.slice(0, -note.length))
            offset = next === undefined ? undefined : Number(next)
          }
          return texts
        }),
      library
    )

  it.effect("come in pages of whole lines, each saying how to get the next, and nothing is lost", () =>
    Effect.gen(function* () {
      const texts = yield* pages("large.log")
      expect(texts.length).toBeGreaterThan(4)
      expect(texts.every((text) => /^line \d+ — naïve/.test(text) && text.endsWith("naïve"))).toBe(true)
      expect(texts.join("\n")).toBe(lines)
    })
  )

  it.effect("without line ends are cut between characters", () =>
    Effect.gen(function* () {
      const texts = yield* pages("one-line.log")
      expect(texts.length).toBeGreaterThan(3)
      expect(texts.join("")).toBe("日".repeat(20_000))
    })
  )

  it.effect("end somewhere", () =>
    Effect.gen(function* () {
      const words = yield* read("errors.log", 999)
      expect(words).toBe("errors.log ends at byte 36; there is nothing from 999 on.")
    })
  )
})

describe("listing, searching, deleting", () => {
  it.effect("lists a folder, and no more than its bound", () =>
    Effect.gen(function* () {
      mkdirSync(path("logs", "archive", "many"))
      for (let i = 0; i < Directory.mostListed + 5; i++) writeFileSync(at(`archive/many/${i}`), "")
      const listing = yield* inDirectory((directory) => directory.list("archive/many"))
      expect(listing.files).toHaveLength(Directory.mostListed)
      expect(listing.note).toContain(`Only the first ${Directory.mostListed} files are listed`)
      expect(yield* said((directory) => directory.list("errors.log"))).toContain("is a file, not a directory")
      expect(yield* said((directory) => directory.list("nope"))).toContain("no such file: nope")
    })
  )

  it.effect("counts the lines with a text in any case, most first, and says how far it has come", () =>
    Effect.gen(function* () {
      const progress: Array<readonly [number, number]> = []
      const search = yield* inDirectory((directory) =>
        directory.search("TimeOut", (done, total) => Effect.sync(() => void progress.push([done, total])))
      )
      expect(search.found).toEqual([
        { path: "archive/2024/old.log", lines: 2, first: "a Timeout" },
        { path: "errors.log", lines: 1, first: "ERROR timeout: worker 7" },
        { path: "latest.log", lines: 1, first: "ERROR timeout: worker 7" },
        { path: "naïve 日本語.log", lines: 1, first: "ünïcödé timeout" }
      ])
      const total = search.searched + search.skipped
      expect(progress.at(-1)).toEqual([total, total])
      expect(progress.length).toBeGreaterThan(1)
    })
  )

  it.effect("deletes a file, a link but not what it leads to, and nothing twice", () =>
    Effect.gen(function* () {
      writeFileSync(at("archive/bye é.log"), "x")
      symlinkSync(at("errors.log"), at("archive/link.log"))
      expect(yield* said((directory) => directory.has("archive/bye é.log"))).toBe("true")
      expect(yield* said((directory) => directory.remove("archive/bye é.log"))).toBe(
        "Deleted archive/bye é.log."
      )
      expect(existsSync(at("archive/bye é.log"))).toBe(false)
      expect(yield* said((directory) => directory.has("archive/bye é.log"))).toBe("false")
      expect(yield* said((directory) => directory.remove("archive/bye é.log"))).toContain("nothing to delete")
      expect(yield* said((directory) => directory.remove("archive/link.log"))).toBe(
        "Deleted archive/link.log."
      )
      expect(existsSync(at("errors.log"))).toBe(true)
      expect(yield* said((directory) => directory.remove("archive"))).toContain("only files can be deleted")
    })
  )
})
