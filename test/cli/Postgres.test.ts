import { mkdirSync, writeFileSync } from "node:fs"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Postgres from "../store/postgres.ts"
import { cli, type Ended, module, parsed, Running, withoutEndpoint, workshop } from "./support.ts"

const { path } = workshop()
withoutEndpoint()

const secret = "s3cret"

/** An empty schema, by a URL with a password, which this server does not ask for. */
const database = Effect.map(Postgres.url, (text) => {
  const url = new URL(text)
  url.password = secret
  return url.href
})

/** A store in a schema of its own, and a directory with two files. Nothing that is said may hold the password. */
const scene = (name: string) =>
  Effect.map(database, (url) => {
    mkdirSync(path(name))
    writeFileSync(path(name, "access.log"), "GET /\n")
    writeFileSync(path(name, "errors.log"), "ERROR timeout: worker 7\n")
    const store = ["--store", url]
    const hidden = url.replace(secret, "PASSWORD")
    const spoken = (ended: Ended) => {
      expect(`${ended.stdout}${ended.stderr}`).not.toContain(secret)
      return ended
    }
    return {
      store,
      repeated: `--store '${hidden}'`,
      run: (...args: ReadonlyArray<string>) =>
        Effect.promise(async () => spoken(await cli("run", "--root", path(name), ...store, ...args))),
      cli: (...args: ReadonlyArray<string>) =>
        Effect.promise(async () => spoken(await cli(...args, ...store))),
      spawn: (args: ReadonlyArray<string>, env: NodeJS.ProcessEnv = {}) =>
        Effect.acquireRelease(
          Effect.sync(() => new Running([...args, ...store], { env })),
          (running) => Effect.sync(() => running.signal("SIGKILL"))
        ),
      ended: (running: Running) => Effect.promise(async () => spoken(await running.ended))
    }
  })

Postgres.describePostgres("--store postgres://…", () => {
  it.live("keeps runs, lists and shows them, and takes them up again after a decision", () =>
    Effect.gen(function* () {
      const { cli, repeated, run } = yield* scene("decide")
      const { next, runId } = parsed(yield* run("--json", "Delete access.log"))
      expect(next[0]).toBe(`checkrein runs approve ${runId} call_1_0 --resume ${repeated}`)
      const listed = parsed(yield* cli("runs", "list", "--status", "interrupted", "--json"))
      expect(listed.runs).toMatchObject([{ runId, reason: "approval" }])
      const shown = yield* cli("runs", "show", runId)
      expect(shown.stdout).toContain(`  ${next[0]}`)
      const recorded = yield* cli("runs", "approve", runId, "--by", "ann")
      expect(recorded.stdout).toContain(`  checkrein runs resume ${runId} ${repeated}`)
      const resumed = yield* cli("runs", "resume", runId)
      expect([resumed.code, resumed.stdout]).toEqual([0, "Deleted access.log."])
    })
  )

  it.live("hands over with commands that do not name the password", () =>
    Effect.gen(function* () {
      const { cli, repeated, run } = yield* scene("handoff")
      const ended = yield* run("--max-turns", "2", "Which file mentions a GET?")
      const [, runId = ""] = /runs show (\S+)/.exec(ended.stderr) ?? []
      expect(ended.stderr).toContain(`In full: checkrein runs show ${runId} --handoff ${repeated}`)
      const { stdout } = yield* cli("runs", "show", runId, "--handoff")
      expect(stdout).toContain(`checkrein runs resume ${runId} --max-turns 4 ${repeated}`)
    })
  )

  it.live("keeps runs of the demo", () =>
    Effect.gen(function* () {
      const { cli, repeated } = yield* scene("demo")
      const demo = yield* cli("demo", "destructive")
      const [, runId = ""] = /runs reject (\S+)/.exec(demo.stdout) ?? []
      expect([demo.code, demo.stdout.includes(repeated)]).toEqual([3, true])
      const rejected = yield* cli("runs", "reject", runId, "--resume")
      expect([rejected.code, rejected.stdout]).toEqual([
        0,
        "I did not delete anything: you declined the deletion."
      ])
    })
  )

  it.live("is one store for several processes, and a stopped one leaves its run to be resumed", () =>
    Effect.gen(function* () {
      const { cli, ended, repeated, spawn } = yield* scene("stop")
      const waiter = module("waiter")
      for (const signal of ["SIGTERM", "SIGINT"] as const) {
        const running = yield* spawn(["run", ...waiter, "Wait."])
        yield* Effect.promise(() => running.prints(/waiting to go/))
        running.signal(signal)
        const { code, stderr } = yield* ended(running)
        expect(code).toBe(signal === "SIGTERM" ? 143 : 130)
        const [, resume = "", runId = ""] = /^ {2}checkrein (runs resume (\S+) .*)$/m.exec(stderr) ?? []
        expect(resume).toBe(`runs resume ${runId} ${waiter.join(" ")} ${repeated}`)
        const resumed = yield* spawn(["runs", "resume", runId, ...waiter], {
          CHECKREIN_TEST_GO: path("stop")
        })
        expect(yield* ended(resumed)).toMatchObject({ code: 0, stdout: "It went.\n" })
        expect(parsed(yield* cli("runs", "show", runId, "--json")).run.status).toBe("completed")
      }
    })
  )

  it.live("shows a run of another process live, and does not take it away from it", () =>
    Effect.gen(function* () {
      const { cli, ended, repeated, spawn } = yield* scene("follow")
      const running = yield* spawn(["run", ...module("ticker"), "25"])
      const [, runId = ""] = yield* Effect.promise(() => running.prints(/▶ \S+ {2}(\S+)\n[\s\S]*turn 2/))
      const [followed, resumed] = yield* Effect.all(
        [cli("runs", "show", runId, "--follow"), cli("runs", "resume", runId, ...module("ticker"))],
        { concurrency: "unbounded" }
      )
      expect([followed.code, followed.stdout.match(/→ tick/g)?.length]).toEqual([0, 25])
      expect(followed.stdout).toMatch(/■ completed: answered.*\nIt has ticked\.$/)
      expect(resumed.code).toBe(1)
      expect(resumed.stderr).toContain(`runs show ${runId} --follow ${repeated}`)
      expect(yield* ended(running)).toMatchObject({ code: 0, stdout: "It has ticked.\n" })
    })
  )

  it.live("stops a run of another process in the middle of a tool, and deletes it", () =>
    Effect.gen(function* () {
      const { cli, ended, spawn } = yield* scene("cancel")
      const running = yield* spawn(["run", ...module("waiter"), "--tag", "acme", "Wait."])
      const [, runId = ""] = yield* Effect.promise(() =>
        running.prints(/▶ \S+ {2}(\S+)\n[\s\S]*waiting to go/)
      )
      expect(parsed(yield* cli("runs", "delete", runId, "--json")).error.tag).toBe("RunBusy")
      const cancelled = yield* cli("runs", "cancel", runId, "--json")
      expect(parsed(cancelled)).toEqual({ runId, cancelled: true, status: "interrupted" })
      expect((yield* ended(running)).code).toBe(3)
      const deleted = yield* cli("runs", "delete", "--older-than", "0s", "--tag", "acme", "--json")
      expect(parsed(deleted)).toEqual({ deleted: [runId] })
      expect(parsed(yield* cli("runs", "list", "--json"))).toEqual({ runs: [] })
    })
  )

  it.live("takes over what a dead process has left", () =>
    Effect.gen(function* () {
      const { cli, ended, spawn } = yield* scene("recover")
      const running = yield* spawn(["demo", "plan", "--kill-after", "2"])
      const [, runId = ""] = /runs resume (\S+)/.exec((yield* ended(running)).stderr) ?? []
      // Its right to drive the run ends by the clock of the database.
      const recovered = yield* cli("runs", "recover", "--json")
      expect(parsed(recovered)).toMatchObject({
        recovered: [{ runId, status: "completed" }],
        left: [],
        failed: []
      })
    })
  )

  it.live("takes an answer", () =>
    Effect.gen(function* () {
      const { cli } = yield* scene("answer")
      const asker = module("asker")
      const { runId } = parsed(yield* cli("run", ...asker, "--json", "Pay."))
      yield* cli("runs", "approve", runId, "p1")
      yield* cli("runs", "approve", runId, "p2", "--resume", ...asker)
      const answered = yield* cli("runs", "answer", runId, "the red one", "--resume", ...asker)
      expect([answered.code, JSON.parse(answered.stdout)]).toEqual([0, { done: "the red one" }])
    })
  )

  it.live("makes its tables for a run, and for nothing else", () =>
    Effect.gen(function* () {
      const { cli, run } = yield* scene("empty")
      expect(yield* cli("runs", "list")).toMatchObject({
        code: 0,
        stderr: expect.stringMatching(/there are no runs in the database postgres:\/\/\S+PASSWORD@\S+: /)
      })
      for (const args of [
        ["show", "r"],
        ["cancel", "r"],
        ["resume", "r"]
      ]) {
        const { code, stderr, stdout } = yield* cli("runs", ...args)
        expect([code, stdout]).toEqual([1, ""])
        expect(stderr).toMatch(/^checkrein: there are no runs in the database postgres:\/\/\S+PASSWORD@\S+: /)
      }
      yield* run("How many files are there?")
      expect((yield* cli("runs", "show", "r")).stderr).toMatch(
        /^checkrein: there is no run r in the store postgres:\/\/\S+PASSWORD@\S+: see `checkrein runs list --store 'postgres:\/\/\S+PASSWORD@/
      )
    })
  )

  it.live("is reached as PGUSER where the URL names no user", () =>
    Effect.gen(function* () {
      const url = new URL(yield* Postgres.url)
      const PGUSER = decodeURIComponent(url.username)
      url.username = ""
      const who = (user: string) =>
        Effect.promise(
          () => new Running(["runs", "list", "--store", url.href], { env: { PGUSER: user } }).ended
        )
      expect((yield* who(PGUSER)).stderr).toMatch(/there are no runs in the database/)
      expect((yield* who("nobody_here")).stderr).toMatch(/refuses the user or the password .*nobody_here/)
    })
  )

  it.live("says which database there is not", () =>
    Effect.gen(function* () {
      const url = new URL(yield* database)
      url.pathname = "/nowhere"
      const ended = yield* Effect.promise(() => cli("runs", "list", "--store", url.href, "--json"))
      expect([ended.code, parsed(ended).error.tag]).toEqual([1, "RunStoreError"])
      expect(ended.stderr).toContain("/nowhere: there is no such database; create it, or name another one")
      expect(ended.stderr).not.toContain(secret)
    })
  )
})

describe("a database that cannot be used", () => {
  it("is told in one sentence where no server answers", async () => {
    for (const command of [
      ["runs", "list"],
      ["demo", "plan"],
      ["run", "x"]
    ]) {
      const ended = await cli(...command, "--store", `postgres://ann:${secret}@127.0.0.1:1/db`)
      expect([command, ended.code, ended.stdout]).toEqual([command, 1, ""])
      expect(ended.stderr.split("\n").at(-1)).toMatch(
        /^checkrein: the store failed: cannot open the Postgres database 127\.0\.0\.1:1\/db: is the server running/
      )
      expect(ended.stderr).not.toContain(secret)
    }
  })

  it("is told in one sentence where the client of Postgres is not installed", async () => {
    const hooks = path("without.mjs")
    writeFileSync(
      hooks,
      `import { registerHooks } from "node:module"
registerHooks({
  resolve: (specifier, context, next) => next(specifier.replace("@effect/sql-pg", "@effect/not-installed"), context)
})`
    )
    const running = new Running(["runs", "list", "--store", `postgres://ann:${secret}@h/db`], {
      env: { NODE_OPTIONS: `--import=${hooks}` }
    })
    const { code, stderr, stdout } = await running.ended
    expect([code, stdout]).toEqual([1, ""])
    expect(stderr).toMatch(
      /^checkrein: a store on Postgres needs @effect\/sql-pg beside checkrein \(npm install @effect\/sql-pg\): Cannot find package .*\n$/
    )
  })
})
