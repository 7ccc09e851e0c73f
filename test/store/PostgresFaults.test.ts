/**
 * What a store on Postgres does when its connections fail: whatever was to be written is written once, or the error says
 * that it could not be.
 */
import { expect, it } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as SqlClient from "effect/sql/SqlClient"
import type * as SqlConnection from "effect/sql/SqlConnection"
import * as SqlError from "effect/sql/SqlError"
import * as Agent from "../../src/Agent.ts"
import * as Scripted from "../../src/provider/Scripted.ts"
import * as Postgres from "../../src/store/Postgres.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import * as SqlRunStore from "../../src/store/SqlRunStore.ts"
import { append, cancel, event, eventsFrom, summary } from "../../src/testing/conformance/Samples.ts"
import { describePostgres, url } from "./postgres.ts"
import * as Proxy from "./proxy.ts"
import * as Waiter from "./waiter.ts"

type Store = RunStore["Service"]

/** A store behind a proxy, and the same database by another way. */
const proxied = (
  name: string,
  body: (store: Store, proxy: Proxy.Proxy, other: Store) => Effect.Effect<void, unknown>
) =>
  it.live(
    name,
    () =>
      Effect.gen(function* () {
        const direct = yield* url
        const proxy = yield* Proxy.make(direct)
        const open = (url: string) =>
          Effect.map(Layer.build(Layer.fresh(Postgres.runStore({ url }))), (context) =>
            Context.get(context, RunStore)
          )
        yield* body(yield* open(proxy.url), proxy, yield* open(direct))
      }),
    { concurrent: true, timeout: 60_000 }
  )

/** An append whose request the proxy knows by its content. */
const marked = (expected: number) => ({
  ...append("a", expected, 2),
  events: [event("a", expected, "marked"), event("a", expected + 1, "marked too")]
})

describePostgres("an append whose connection is lost", () => {
  for (const fault of ["lost", "unanswered", "late"] as const) {
    proxied(`its request ${fault}, is made once`, (store, proxy, other) =>
      Effect.gen(function* () {
        yield* store.append(append("a", 0))
        yield* proxy.strike(fault, "marked too")
        yield* store.append(marked(1))
        expect(proxy.struck()).toBe(true)
        // Long enough for what came late.
        yield* Effect.sleep(fault === "late" ? 500 : 0)
        yield* store.append(append("a", 3))
        const all = [event("a", 0), ...marked(1).events, event("a", 3)]
        expect(yield* other.read("a")).toEqual(all)
        expect(yield* other.summary("a")).toEqual(summary("a", 4))
      })
    )

    proxied(`its request ${fault}, creates its run once`, (store, proxy, other) =>
      Effect.gen(function* () {
        yield* proxy.strike(fault, "marked too")
        yield* store.append({ ...marked(0), durability: "power" })
        expect(proxy.struck()).toBe(true)
        expect(yield* other.read("a")).toEqual(marked(0).events)
      })
    )
  }

  proxied("is stale if somebody else has gone on meanwhile", (store, proxy, other) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* proxy.strike("lost", "marked too")
      const appending = yield* Effect.forkChild(Effect.flip(store.append(marked(1))), {
        startImmediately: true
      })
      yield* proxy.close
      yield* other.append(append("a", 1))
      yield* proxy.open
      expect(yield* Fiber.join(appending)).toMatchObject({ _tag: "StaleWriter", expected: 1 })
      expect(yield* other.read("a")).toEqual(eventsFrom("a", 0, 2))
    })
  )

  proxied("waits for a server that is back within seconds", (store, proxy, other) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* proxy.close
      const appending = yield* Effect.forkChild(store.append(append("a", 1)))
      const reading = yield* Effect.forkChild(store.read("a"))
      yield* Effect.sleep(700)
      expect((yield* other.summary("a")).seq).toBe(1)
      yield* proxy.open
      yield* Fiber.join(appending)
      yield* Fiber.join(reading)
      expect(yield* other.read("a")).toEqual(eventsFrom("a", 0, 2))
    })
  )

  proxied("fails with the run and the event when the server does not come back", (store, proxy, other) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* proxy.close
      const failures = yield* Effect.all(
        [store.append(append("a", 1)), store.read("a"), store.summary("a")].map((effect) =>
          Effect.flip<unknown, unknown, never>(effect)
        ),
        { concurrency: "unbounded" }
      )
      const [appended, ...read] = failures
      expect(appended).toMatchObject({ _tag: "RunStoreError", runId: "a", kind: "unavailable", seq: 1 })
      for (const failure of read) expect(failure).toMatchObject({ runId: "a", kind: "unavailable" })
      expect(String(appended)).toMatch(/the connection to the database is gone, and no other could be made/)
      yield* proxy.open
      expect(yield* other.read("a")).toEqual(eventsFrom("a", 0, 1))
      yield* store.append(append("a", 1))
    })
  )

  proxied("on which nothing comes back is made on another one", (store, proxy, other) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* proxy.strike("ignored", "marked too")
      yield* store.append(marked(1))
      expect(yield* other.read("a", 1)).toEqual(marked(1).events)
    })
  )
})

describePostgres("a server that does not answer any more", () => {
  proxied(
    "keeps a command waiting for ten seconds, and then nobody knows whether it was recorded",
    (store, proxy) =>
      Effect.gen(function* () {
        yield* store.append(append("a", 0))
        yield* proxy.silence
        const [duration, failure] = yield* Effect.timed(Effect.flip(store.send("a", cancel("stop"))))
        expect(Duration.toSeconds(duration)).toBeGreaterThanOrEqual(9.9)
        expect(Duration.toSeconds(duration)).toBeLessThan(20)
        expect(failure).toMatchObject({ _tag: "RunStoreError", kind: "timed_out", runId: "a" })
        expect(failure.message).toMatch(/longer than 10 seconds; .*may have been recorded all the same/)
      })
  )

  proxied("keeps nobody waiting who has a limit of his own", (store, proxy) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      // As many connections as are asked below: what waits for one is not yet in a transaction.
      yield* Effect.forEach(Array(9), () => store.read("a"), { concurrency: "unbounded" })
      yield* proxy.silence
      const asked: { readonly [name: string]: Effect.Effect<unknown, unknown> } = {
        send: store.send("a", cancel("stop")),
        delete: store.delete("a"),
        append: store.append(append("a", 1)),
        read: store.read("a"),
        summary: store.summary("a"),
        list: store.list(),
        watch: Stream.runDrain(store.watch("a")),
        inbox: store.inbox("a", 0),
        watchInbox: Stream.runDrain(store.watchInbox("a", 0)),
        isDriven: store.isDriven("a")
      }
      yield* Effect.forEach(
        Object.entries(asked),
        Effect.fnUntraced(function* ([name, effect]) {
          const [duration, done] = yield* Effect.timed(Effect.timeoutOption(effect, "500 millis"))
          expect(done, name).toEqual(Option.none())
          expect(Duration.toSeconds(duration), name).toBeLessThan(3)
        }),
        { concurrency: "unbounded", discard: true }
      )
    })
  )

  proxied("is told of in words to whoever asks for what is short", (store, proxy) =>
    Effect.gen(function* () {
      yield* store.append(append("a", 0))
      yield* Effect.forEach(Array(9), () => store.read("a"), { concurrency: "unbounded" })
      yield* proxy.silence
      const asked: { readonly [name: string]: Effect.Effect<unknown, unknown> } = {
        summary: store.summary("a"),
        list: store.list(),
        inbox: store.inbox("a", 0),
        watchInbox: Stream.runDrain(store.watchInbox("a", 0)),
        isDriven: store.isDriven("a"),
        lease: Effect.scoped(store.lease("a"))
      }
      yield* Effect.forEach(
        Object.entries(asked),
        Effect.fnUntraced(function* ([name, effect]) {
          const [duration, failure] = yield* Effect.timed(Effect.flip(effect))
          expect(failure, name).toMatchObject({ _tag: "RunStoreError", kind: "unavailable" })
          expect(Duration.toSeconds(duration), name).toBeLessThan(25)
        }),
        { concurrency: "unbounded", discard: true }
      )
    })
  )

  proxied(
    "delays the end of a run that is stopped by no more than an append may take",
    (store, proxy, other) =>
      Effect.gen(function* () {
        const world = Layer.mergeAll(Waiter.layer, Layer.succeed(RunStore, store))
        const driver = yield* Effect.forkChild(
          Effect.provide(Agent.run(Waiter.agent, "wait", { runId: "a" }), world)
        )
        const started = Stream.runHead(Stream.filter(other.watch("a"), ({ type }) => type === "tool_start"))
        yield* Effect.retry(started, Schedule.spaced("20 millis"))
        yield* proxy.silence
        const [duration] = yield* Effect.timed(Fiber.interrupt(driver))
        expect(Duration.toSeconds(duration)).toBeLessThan(30)
        const events = yield* other.read("a")
        expect(events.at(-1)?.type).toBe("tool_start")
      })
  )

  proxied(
    "delays the end of a run and of its sub-agents by no more than that either",
    (store, proxy, other) =>
      Effect.gen(function* () {
        const ask = Agent.asTool(Waiter.agent.pipe(Agent.provide(Waiter.layer)), {
          name: "ask",
          description: "Asks."
        })
        const lines = [Scripted.call("ask", { task: "wait" }, { id: "c" })]
        const top = Agent.make("top", { toolkit: Toolkit.make(ask.tool), limits: { time: "1 hour" } })
        const world = Layer.mergeAll(
          ask.layer,
          Scripted.layer(Scripted.make("top", lines), { usage: { promptTokens: 10, completionTokens: 5 } }),
          Layer.succeed(RunStore, store)
        )
        const driver = yield* Effect.forkChild(Effect.provide(Agent.run(top, "go", { runId: "a" }), world))
        const started = Stream.runHead(Stream.filter(other.watch("a/c"), ({ type }) => type === "tool_start"))
        yield* Effect.retry(started, Schedule.spaced("20 millis"))
        // What is asked on a connection that is open already waits for ever.
        yield* Effect.forEach(Array(9), () => store.read("a"), { concurrency: "unbounded" })
        yield* proxy.silence
        const [duration] = yield* Effect.timed(Fiber.interrupt(driver))
        // The right to drive each of the two is let go of for two seconds at most.
        expect(Duration.toSeconds(duration)).toBeLessThan(35)
        for (const runId of ["a", "a/c"]) expect((yield* other.read(runId)).at(-1)?.type).toBe("tool_start")
      })
  )
})

/** A client of its own. */
const open = (url: string) =>
  Effect.map(Layer.build(Layer.fresh(Postgres.layer({ url }))), (context) =>
    Context.get(context, SqlClient.SqlClient)
  )

describePostgres("a server that ends the connection", () => {
  it.effect("in the middle of an append", () =>
    Effect.gen(function* () {
      const at = yield* url
      const other = yield* open(at)
      const named = new URL(at)
      named.searchParams.set("application_name", "ended")
      const store = yield* Effect.provideService(
        SqlRunStore.make,
        SqlClient.SqlClient,
        yield* open(named.href)
      )
      yield* store.append(append("a", 0))
      const waiting = other<{ pid: number }>`SELECT pid FROM pg_stat_activity
        WHERE application_name = 'ended' AND wait_event_type = 'Lock'`
      const locked = Effect.gen(function* () {
        yield* other`SELECT run_no FROM checkrein_runs WHERE run_id = 'a' FOR UPDATE`
        const appending = yield* Effect.forkDetach(Effect.exit(store.append(append("a", 1, 2))))
        let pid: number | undefined
        while (pid === undefined) pid = (yield* waiting)[0]?.pid
        yield* other`SELECT pg_terminate_backend(${pid})`
        return appending
      })
      expect(yield* Fiber.join(yield* other.withTransaction(locked))).toEqual(Exit.void)
      expect(yield* store.read("a")).toEqual(eventsFrom("a", 0, 3))
    })
  )

  it.effect("of every idle connection", () =>
    Effect.gen(function* () {
      const at = yield* url
      const other = yield* open(at)
      const named = new URL(at)
      named.searchParams.set("application_name", "idle")
      const store = yield* Effect.provideService(
        SqlRunStore.make,
        SqlClient.SqlClient,
        yield* open(named.href)
      )
      yield* store.append(append("a", 0))
      yield* other`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'idle'`
      yield* store.append(append("a", 1))
      expect(yield* store.read("a")).toEqual(eventsFrom("a", 0, 2))
    })
  )
})

describePostgres("a database that is set to serializable transactions", () => {
  it.effect("refuses the writers that come second like any other", () =>
    Effect.gen(function* () {
      const at = new URL(yield* url)
      const options = at.searchParams.get("options")
      at.searchParams.set("options", `${options} -c default_transaction_isolation=serializable`)
      const store = yield* Effect.provideService(SqlRunStore.make, SqlClient.SqlClient, yield* open(at.href))
      yield* store.append(append("a", 0))
      const writers = Array.from({ length: 16 }, (_, i) => i)
      const tags = yield* Effect.forEach(
        writers,
        () =>
          Effect.match(store.append(append("a", 1)), {
            onFailure: (error) => error._tag,
            onSuccess: () => "success"
          }),
        { concurrency: "unbounded" }
      )
      expect(tags.filter((tag) => tag === "success")).toHaveLength(1)
      expect(tags.filter((tag) => tag === "StaleWriter")).toHaveLength(15)
      const ids = yield* Effect.forEach(writers, (i) => store.send("a", cancel(`${i}`)), {
        concurrency: "unbounded"
      })
      expect(new Set(ids).size).toBe(16)
      yield* Effect.scoped(store.lease("a"))
    })
  )
})

describePostgres("a client that says after a commit that it does not know", () => {
  const gone = new SqlError.SqlError({
    reason: new SqlError.ConnectionError({ message: "gone", operation: "execute", cause: new Error("gone") })
  })

  /** A store in which each append is carried out, and then fails this many times. */
  const forgetful = (times: number) =>
    Effect.gen(function* () {
      const sql = yield* open(yield* url)
      const failures = new Map<unknown, number>()
      const reserve = Effect.map(
        sql.reserve,
        (connection): SqlConnection.Connection => ({
          execute: (text, params, transform) =>
            Effect.flatMap(connection.execute(text, params, transform), (rows) => {
              if (!text.includes("INSERT INTO checkrein_events")) return Effect.succeed(rows)
              const signature = params[5]
              const failed = failures.get(signature) ?? 0
              failures.set(signature, failed + 1)
              return failed < times ? Effect.fail(gone) : Effect.succeed(rows)
            }),
          executeRaw: (text, params) => connection.executeRaw(text, params),
          executeStream: (text, params, transform) => connection.executeStream(text, params, transform),
          executeUnprepared: (text, params, transform) =>
            connection.executeUnprepared(text, params, transform),
          executeValues: (text, params) => connection.executeValues(text, params),
          executeValuesUnprepared: (text, params) => connection.executeValuesUnprepared(text, params)
        })
      )
      const store = yield* SqlRunStore.make.pipe(
        Effect.provideService(SqlClient.SqlClient, Object.assign(sql, { reserve }))
      )
      return { store, attempts: () => [...failures.values()] }
    })

  it.effect("is asked again, and nothing is lost or doubled", () =>
    Effect.gen(function* () {
      const { attempts, store } = yield* forgetful(3)
      yield* store.append(append("a", 0, 2))
      yield* store.append(append("a", 2, 2, {}, "power"))
      expect(attempts()).toEqual([4, 4])
      expect(yield* store.read("a")).toEqual(eventsFrom("a", 0, 4))
      expect(yield* store.summary("a")).toEqual(summary("a", 4))
    })
  )

  it.effect("does not let two writers of one event both believe that they have won", () =>
    Effect.gen(function* () {
      const { store } = yield* forgetful(1)
      yield* store.append(append("a", 0))
      const exits = yield* Effect.forEach(
        Array.from({ length: 8 }, (_, i) => i),
        (i) => Effect.exit(store.append({ ...append("a", 1), events: [event("a", 1, `writer ${i}`)] })),
        { concurrency: "unbounded" }
      )
      const winners = exits.flatMap((exit, i) => (Exit.isSuccess(exit) ? [i] : []))
      expect(winners).toHaveLength(1)
      expect(yield* store.read("a", 1)).toEqual([event("a", 1, `writer ${winners[0]}`)])
    })
  )
})
