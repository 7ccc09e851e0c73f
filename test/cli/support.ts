/**
 * The command line under test: in this process, where only what it prints is caught, and as a process of its own.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { closeSync, mkdtempSync, openSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { fileURLToPath } from "node:url"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Console, type Duration, Effect, identity } from "effect"
import { afterAll, beforeAll } from "vitest"
import * as Checkrein from "../../src/cli/Checkrein.ts"
import { LeaseTime } from "../../src/store/RunStore.ts"

/** What a command has printed, and how it has ended. */
export interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const run = async (args: ReadonlyArray<string>, leaseTime?: Duration.Input): Promise<Ended> => {
  const out: Array<string> = []
  const err: Array<string> = []
  const caught: Console.Console = Object.assign(Object.create(console), {
    log: (...texts: ReadonlyArray<unknown>) => out.push(texts.join(" ")),
    error: (...texts: ReadonlyArray<unknown>) => err.push(texts.join(" "))
  })
  const code = await Effect.runPromise(
    Checkrein.run(args, "0.0.0").pipe(
      leaseTime === undefined ? identity : Effect.provideService(LeaseTime, leaseTime),
      Effect.provide(NodeServices.layer),
      Effect.provideService(Console.Console, caught)
    )
  )
  return { code, stdout: out.join("\n"), stderr: err.join("\n") }
}

/** Runs the command in this process. */
export const cli = (...args: ReadonlyArray<string>): Promise<Ended> => run(args)

/** The same, by a command that takes a process for dead that has kept silent for three seconds. */
export const impatient = (...args: ReadonlyArray<string>): Promise<Ended> => run(args, "1 second")

/** The one object that a command with `--json` has printed. */
export const parsed = ({ stdout }: Pick<Ended, "stdout">) => JSON.parse(stdout)

/** Where the command starts. */
export const main = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url))

/** The path of a module of `agents/`. */
export const agentModule = (name: string): string =>
  fileURLToPath(new URL(`./agents/${name}.ts`, import.meta.url))

const withoutModel = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !/^(LLM_|NODE_OPTIONS|VITEST|npm_)/.test(name)))

/** A command in its own process. */
export class Running {
  stdout = ""
  stderr = ""
  readonly ended: Promise<Ended>
  private readonly child: ChildProcess
  private readonly waiting = new Set<() => void>()

  constructor(
    args: ReadonlyArray<string>,
    options: {
      readonly cwd?: string
      readonly env?: NodeJS.ProcessEnv
      /** Files in the place of the pipes. */
      readonly stdout?: string
      readonly stderr?: string
      /** What the process is started as, in the place of its source. */
      readonly as?: string
    } = {}
  ) {
    const opened = (file: string | undefined) => (file === undefined ? "pipe" : openSync(file, "w"))
    const stdout = opened(options.stdout)
    const stderr = opened(options.stderr)
    this.child = spawn(process.execPath, [options.as ?? main, ...args], {
      cwd: options.cwd,
      env: { ...withoutModel(process.env), ...options.env },
      stdio: ["ignore", stdout, stderr]
    })
    for (const output of [stdout, stderr]) if (typeof output === "number") closeSync(output)
    this.child.stdout
      ?.setEncoding("utf8")
      .on("data", (text: string) => this.heard(() => (this.stdout += text)))
    this.child.stderr
      ?.setEncoding("utf8")
      .on("data", (text: string) => this.heard(() => (this.stderr += text)))
    this.ended = new Promise((resolve, reject) => {
      this.child.on("error", reject)
      this.child.on("close", (code, signal) => {
        this.heard(() => {})
        resolve({
          code: code ?? (signal === null ? -1 : -2),
          stdout: this.stdout,
          stderr: this.stderr
        })
      })
    })
  }

  private heard(take: () => void): void {
    take()
    for (const look of this.waiting) look()
  }

  /** Waits until something was printed on either stream; fails if the process ends before. */
  async prints(what: RegExp): Promise<RegExpExecArray> {
    const find = () => what.exec(this.stderr) ?? what.exec(this.stdout)
    return await new Promise((resolve, reject) => {
      const look = () => {
        const found = find()
        if (found !== null) resolve(found)
        else if (this.child.exitCode === null && this.child.signalCode === null) return
        else reject(new Error(`ended without printing ${what}:\n${this.stdout}\n${this.stderr}`))
        this.waiting.delete(look)
      }
      this.waiting.add(look)
      look()
    })
  }

  signal(name: "SIGINT" | "SIGTERM" | "SIGKILL"): void {
    this.child.kill(name)
  }

  /** Reads its stdout no more, as `head` does when it has its lines. */
  closeStdout(): void {
    this.child.stdout?.destroy()
  }

  /** The same of its stderr. */
  closeStderr(): void {
    this.child.stderr?.destroy()
  }
}

/** The flags that name a module of `agents/`. */
export const module = (name: string): ReadonlyArray<string> => ["--agent", agentModule(name)]

/** A run that a process of its own drives, once that has printed something. */
export const elsewhere = async (
  store: ReadonlyArray<string>,
  agent: string,
  task: string,
  once: RegExp
): Promise<{ readonly running: Running; readonly runId: string }> => {
  const running = new Running(["run", ...module(agent), ...store, task])
  const [, runId = ""] = await running.prints(/▶ \S+ {2}(\S+)\n/)
  await running.prints(once)
  return { running, runId }
}

/** What is said of a run that is not in the store of that file. */
export const noRun = (runId: string, file: string): string =>
  `checkrein: there is no run ${runId} in the store ${file}: see \`checkrein runs list --store ${file}\``

/** Ends what processes that have died hold in a store on SQLite: as if a quarter of a minute had gone by. */
export const forgetTheDead = (file: string): void => {
  const database = new DatabaseSync(file)
  database.exec("DELETE FROM checkrein_leases")
  database.close()
}

/** Runs the command in its own process to its end. */
export const spawned = (...args: ReadonlyArray<string>): Promise<Ended> => new Running(args).ended

/** A directory for the tests of a file; removed after them. */
export const workshop = (): {
  readonly path: (...parts: ReadonlyArray<string>) => string
} => {
  const folder = mkdtempSync(join(tmpdir(), "checkrein-cli-"))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return { path: (...parts) => join(folder, ...parts) }
}

/** No endpoint, whatever the developer's own environment says. */
export const withoutEndpoint = (): void => {
  const before = { ...process.env }
  beforeAll(() => {
    for (const name of Object.keys(process.env)) if (name.startsWith("LLM_")) delete process.env[name]
  })
  afterAll(() => {
    Object.assign(process.env, before)
  })
}
