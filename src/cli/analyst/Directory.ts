/**
 * A directory that a model may look into and nothing beyond it: paths and symbolic links that lead out are refused, and
 * whatever cannot be done is answered in words that tell the model what to do instead.
 */
import { hash } from "node:crypto"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Stream from "effect/Stream"
import * as ToolFailure from "../../tool/ToolFailure.ts"
import { CommandFailed } from "../Output.ts"

/** The most bytes of a file that one answer holds; a page ends with a line where there is one. */
export const pageBytes = 16_384

/** The most files that one listing names. */
export const mostListed = 500

/** The most files, and bytes of each, that one search goes through. */
export const mostSearched = { files: 20_000, bytes: 64 * 1024 * 1024 } as const

/** The most files that the answer to one search names. */
const mostFound = 50

/** What can be neither listed, searched, read nor deleted: machinery that is large and not about the directory's own matter. */
export const leftOut: ReadonlySet<string> = new Set([".git", ".checkrein", "node_modules"])

/** A file, by its path from the directory, always with `/`. */
export interface Entry {
  readonly path: string
  readonly bytes: number
}

/**
 * A page of a text file, in words that say how to get the next. `digest` is that of the bytes that were read; `part` says
 * which these are, if they are not all.
 */
export interface Page extends Pick<Entry, "path"> {
  readonly text: string
  readonly digest: string
  readonly part?: string
}

/** The files below a folder, by name; `note` says what is missing. */
export interface Listing {
  readonly files: ReadonlyArray<Entry>
  readonly note?: string
}

/** Where a text was found: in how many lines, and the first of them. */
export interface Found {
  readonly path: string
  readonly lines: number
  readonly first: string
}

/** What a search has brought; `skipped` counts the files that are not text or could not be read. */
export interface Search {
  readonly searched: number
  readonly skipped: number
  readonly found: ReadonlyArray<Found>
  readonly note?: string
}

type Answer<A> = Effect.Effect<A, ToolFailure.ToolFailure>

/** What may be done in the directory. */
export interface Directory {
  /** The directory itself, absolute and without symbolic links. */
  readonly root: string
  readonly list: (folder: string) => Answer<Listing>
  /** A page of a text file, from a byte on. */
  readonly read: (path: string, offset: number) => Answer<Page>
  /** The lines that contain a text, in any case, in all files. */
  readonly search: (
    text: string,
    progress: (done: number, total: number) => Effect.Effect<void>
  ) => Answer<Search>
  /** Deletes a file; one that is gone already is no failure. A symbolic link is deleted itself, not what it leads to. */
  readonly remove: (path: string) => Answer<string>
  /** Whether there is something at this path that `remove` would delete. */
  readonly has: (path: string) => Answer<boolean>
}

const refused = (message: string) => Effect.fail(ToolFailure.recoverable(message))

const noSuch = (path: string) =>
  ToolFailure.recoverable(`no such file: ${path}. Call list_files to see what exists.`)

const isMissing = (error: PlatformError): boolean =>
  error.reason._tag === "NotFound" || /ENOTDIR/.test(String(error.reason.cause ?? error.message))

/** A failure of the file system in words: the system's own message would show where the directory is. */
const worded =
  (path: string, what: string) =>
  (error: PlatformError): ToolFailure.ToolFailure => {
    if (isMissing(error)) return noSuch(path)
    const options = { detail: error.message }
    return error.reason._tag === "PermissionDenied"
      ? ToolFailure.recoverable(`${path} cannot be ${what}: permission denied.`, options)
      : ToolFailure.recoverable(`${path} cannot be ${what}.`, options)
  }

const kinds: { readonly [type in FileSystem.File.Type]: string } = {
  File: "a file",
  Directory: "a directory",
  SymbolicLink: "a symbolic link",
  BlockDevice: "a device",
  CharacterDevice: "a device",
  FIFO: "a pipe",
  Socket: "a socket",
  Unknown: "neither a file nor a directory"
}

// A disk that ignores case opens `.GIT` as `.git`.
const isLeftOut = (name: string): boolean => leftOut.has(name.toLowerCase())

// As `sha256sum` prints it, so that anybody can tell whether a file is still the same.
const digestOf = (bytes: Uint8Array): string => `sha256:${hash("sha256", bytes)}`

const isText = (bytes: Uint8Array): boolean => !bytes.includes(0)

/** The part of a page that holds whole lines; of a longer line, whole characters. */
const wholeLines = (bytes: Uint8Array): Uint8Array => {
  const line = bytes.lastIndexOf(0x0a)
  if (line >= 0) return bytes.subarray(0, line + 1)
  let end = bytes.length
  // The bytes of a character after its first look like 10xxxxxx; the first of several like 11xxxxxx.
  while (end > bytes.length - 4 && end > 0 && ((bytes[end - 1] ?? 0) & 0xc0) === 0x80) end--
  return end > 0 && ((bytes[end - 1] ?? 0) & 0xc0) === 0xc0 ? bytes.subarray(0, end - 1) : bytes
}

const unlooked = (count: number): string =>
  `${count} ${count === 1 ? "entry" : "entries"} could not be looked into, for want of permission.`

const mostNamed = 10

const named = (names: ReadonlyArray<string>): string =>
  names.length <= mostNamed
    ? names.join(", ")
    : `${names.slice(0, mostNamed).join(", ")} and ${names.length - mostNamed} more`

/** Opens a directory. Fails if it is missing or is none. */
export const open = (
  root: string
): Effect.Effect<Directory, CommandFailed, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const files = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const home = yield* Effect.mapError(
      files.realPath(root),
      (error) =>
        new CommandFailed({
          message: isMissing(error)
            ? `there is no directory ${root}`
            : `the directory ${root} cannot be opened: ${error.message}`
        })
    )
    const here = yield* Effect.orElseSucceed(files.stat(home), () => undefined)
    if (here?.type !== "Directory")
      return yield* new CommandFailed({
        message: `${root} is not a directory`
      })

    const isInside = (absolute: string): boolean => {
      const way = paths.relative(home, absolute)
      return way !== ".." && !way.startsWith(`..${paths.sep}`) && !paths.isAbsolute(way)
    }
    const nameOf = (absolute: string): string => paths.relative(home, absolute).split(paths.sep).join("/")

    const isShown = (absolute: string): boolean => !nameOf(absolute).split("/").some(isLeftOut)

    /** A path inside, unless it is one of those that listings leave out: what is not shown is not to be had by name. */
    const shown = (absolute: string): Answer<string> => {
      const hidden = nameOf(absolute).split("/").find(isLeftOut)
      return hidden === undefined
        ? Effect.succeed(absolute)
        : refused(`${hidden} is left out here, and what is in it cannot be used.`)
    }

    /** A path as a model writes it, as an absolute one that does not lead out by its letters alone. */
    const located = (path: string): Answer<string> => {
      if (path.includes("\0")) return refused("a path cannot contain a NUL character.")
      if (paths.isAbsolute(path))
        return refused(`${path} is an absolute path. Give a path as list_files shows it.`)
      const absolute = paths.resolve(home, path)
      return isInside(absolute)
        ? shown(absolute)
        : refused(
            `${path} leads out of the directory, which is not allowed. Call list_files to see what is in it.`
          )
    }

    const leadsOut = (path: string): Answer<never> =>
      refused(`${path} is a symbolic link that leads out of the directory, which is not allowed.`)

    /** Whether the nearest folder that exists on the way to a path is inside: what is missing outside is nobody's business. */
    const staysInside = (absolute: string): Effect.Effect<boolean> =>
      Effect.matchEffect(files.realPath(absolute), {
        onFailure: () => (absolute === home ? Effect.succeed(true) : staysInside(paths.dirname(absolute))),
        onSuccess: (real) => Effect.succeed(isInside(real))
      })

    /** The same with symbolic links followed, which must not lead out either. */
    const followed = (path: string, absolute: string): Answer<string> =>
      Effect.matchEffect(files.realPath(absolute), {
        onFailure: (error) =>
          Effect.flatMap(staysInside(paths.dirname(absolute)), (inside) =>
            inside ? Effect.fail(worded(path, "found")(error)) : leadsOut(path)
          ),
        onSuccess: (real) => (isInside(real) ? shown(real) : leadsOut(path))
      })

    const entries = Effect.fnUntraced(function* (folder: string, most: number) {
      const found: Array<Entry> = []
      const waiting = [folder]
      let unreadable = 0
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const inside = yield* Effect.orElseSucceed(files.readDirectoryEntries(next), () => undefined)
        if (inside === undefined) unreadable++
        // Code units, and not a locale's order: the same listing on every machine.
        const sorted = [...(inside ?? [])].sort((a, b) => (a.name < b.name ? -1 : 1))
        const folders: Array<string> = []
        for (const { name, type } of sorted) {
          if (isLeftOut(name)) continue
          const absolute = paths.join(next, name)
          if (type === "Directory") folders.push(absolute)
          // Links to folders are not followed: they may lead round in circles.
          if (type !== "File" && type !== "SymbolicLink") continue
          const real =
            type === "File" ? absolute : yield* Effect.orElseSucceed(files.realPath(absolute), () => "/")
          const info =
            isInside(real) && isShown(real)
              ? yield* Effect.orElseSucceed(files.stat(real), () => undefined)
              : undefined
          if (info === undefined && type === "File") unreadable++
          if (info?.type !== "File") continue
          if (found.length === most) return { found, unreadable, complete: false }
          found.push({ path: nameOf(absolute), bytes: Number(info.size) })
        }
        waiting.push(...folders)
      }
      return { found, unreadable, complete: true }
    })

    const folderAt = Effect.fnUntraced(function* (path: string) {
      const real = yield* followed(path, yield* located(path))
      const info = yield* Effect.mapError(files.stat(real), worded(path, "listed"))
      if (info.type === "Directory") return real
      return yield* refused(`${path} is ${kinds[info.type]}, not a directory. Call read_file to read it.`)
    })

    const list = Effect.fnUntraced(function* (folder: string) {
      const { complete, found, unreadable } = yield* entries(yield* folderAt(folder), mostListed)
      const notes: Array<string> = []
      if (!complete) notes.push(`Only the first ${mostListed} files are listed. Name a folder to see more.`)
      if (unreadable > 0) notes.push(unlooked(unreadable))
      const listing: Listing = {
        files: found,
        ...(notes.length > 0 ? { note: notes.join(" ") } : undefined)
      }
      return listing
    })

    const read = Effect.fnUntraced(function* (path: string, offset: number) {
      const real = yield* followed(path, yield* located(path))
      const info = yield* Effect.mapError(files.stat(real), worded(path, "read"))
      if (info.type === "Directory")
        return yield* refused(
          `${path === "" ? "." : path} is a directory. Call list_files to see what is in it.`
        )
      // A pipe or a device would keep a reader waiting for ever.
      if (info.type !== "File") return yield* refused(`${path} is ${kinds[info.type]}, and cannot be read.`)
      const size = Number(info.size)
      const pageOf = (bytes: Uint8Array, text: string, part?: string): Page => ({
        path: nameOf(real),
        text,
        digest: digestOf(bytes),
        ...(part === undefined ? undefined : { part })
      })
      if (size === 0) return pageOf(new Uint8Array(), `(${path} is empty)`)
      if (offset >= size)
        return yield* refused(`${path} ends at byte ${size}; there is nothing from ${offset} on.`)
      const bytes = new Uint8Array(Math.min(pageBytes, size - offset))
      const count = yield* Effect.scoped(
        Effect.flatMap(files.open(real, { flag: "r" }), (file) =>
          file.read(bytes, { position: BigInt(offset) })
        )
      ).pipe(Effect.mapError(worded(path, "read")))
      const got = bytes.subarray(0, count)
      if (!isText(got)) return yield* refused(`${path} is a binary file of ${size} bytes, not text.`)
      const page = offset + count < size ? wholeLines(got) : got
      const end = offset + page.length
      const text = new TextDecoder().decode(page)
      const which = `${offset} to ${end} of ${size}`
      if (end >= size) return pageOf(page, text, offset === 0 ? undefined : `bytes ${which}`)
      const more = `Bytes ${which}. For the next page call read_file with offset ${end}.`
      return pageOf(page, `${text}${text.endsWith("\n") ? "" : "\n"}[${more}]`, `bytes ${which}`)
    })

    const searchOne = (
      absolute: string,
      needle: string
    ): Effect.Effect<Omit<Found, "path"> | "not text" | "unreadable"> =>
      files.stream(absolute, { bytesToRead: mostSearched.bytes }).pipe(
        Stream.mapEffect((bytes) =>
          isText(bytes) ? Effect.succeed(bytes) : Effect.fail("not text" as const)
        ),
        Stream.decodeText,
        Stream.splitLines,
        Stream.filter((line) => line.toLowerCase().includes(needle)),
        Stream.runFold(
          () => ({ lines: 0, first: "" }),
          (found, line) => ({
            lines: found.lines + 1,
            first: found.lines === 0 ? line.slice(0, 200) : found.first
          })
        ),
        Effect.catch((why) => Effect.succeed(why === "not text" ? why : ("unreadable" as const)))
      )

    const search: Directory["search"] = Effect.fnUntraced(function* (text, progress) {
      const { complete, found: all, unreadable } = yield* entries(home, mostSearched.files)
      const found: Array<Found> = []
      const needle = text.toLowerCase()
      const step = Math.max(1, Math.ceil(all.length / 6))
      let skipped = 0
      const unread: Array<string> = []
      for (const [index, { path }] of all.entries()) {
        const one = yield* searchOne(paths.join(home, path), needle)
        if (one === "unreadable") unread.push(path)
        if (typeof one === "string") skipped++
        else if (one.lines > 0) found.push({ path, ...one })
        if ((index + 1) % step === 0 || index + 1 === all.length) yield* progress(index + 1, all.length)
      }
      found.sort((a, b) => b.lines - a.lines)
      const large = all.filter(({ bytes }) => bytes > mostSearched.bytes).map(({ path }) => path)
      const notes: Array<string> = []
      if (!complete) notes.push(`Only the first ${mostSearched.files} files were searched.`)
      if (unreadable > 0) notes.push(unlooked(unreadable))
      if (unread.length > 0) notes.push(`These could not be read: ${named(unread)}.`)
      if (large.length > 0) {
        notes.push(`Only the first ${mostSearched.bytes / 1024 / 1024} MiB were searched of ${named(large)}.`)
      }
      if (found.length > mostFound) notes.push(`${found.length - mostFound} more files mention it.`)
      return {
        searched: all.length - skipped,
        skipped,
        found: found.slice(0, mostFound),
        ...(notes.length > 0 ? { note: notes.join(" ") } : undefined)
      }
    })

    /** A file or link to be deleted: its folder with links followed, the entry itself as it stands. */
    const target = Effect.fnUntraced(function* (path: string) {
      const absolute = yield* located(path)
      if (absolute === home) return yield* refused("the directory itself cannot be deleted.")
      const folder = paths.dirname(absolute)
      if (!(yield* staysInside(folder))) return yield* leadsOut(path)
      const missing = yield* Effect.match(files.lstat(absolute), {
        onFailure: isMissing,
        onSuccess: () => false
      })
      if (missing) return undefined
      const entry = paths.join(yield* followed(path, folder), paths.basename(absolute))
      const info = yield* Effect.mapError(files.lstat(entry), worded(path, "deleted"))
      if (info.type === "File" || info.type === "SymbolicLink") return entry
      return yield* refused(`${path} is ${kinds[info.type]}, and only files can be deleted.`)
    })

    const remove = Effect.fnUntraced(function* (path: string) {
      const entry = yield* target(path)
      if (entry === undefined) return `${path} does not exist, so there is nothing to delete.`
      yield* Effect.mapError(files.remove(entry), worded(path, "deleted"))
      return `Deleted ${path}.`
    })

    const has: Directory["has"] = (path) => Effect.map(target(path), (entry) => entry !== undefined)

    return { root: home, list, read, search, remove, has }
  })
