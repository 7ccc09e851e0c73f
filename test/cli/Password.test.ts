import { userInfo } from "node:os"
import { Console, Effect } from "effect"
import { describe, expect, it } from "vitest"
import * as Output from "../../src/cli/Output.ts"
import * as Password from "../../src/cli/Password.ts"
import * as Store from "../../src/cli/Store.ts"

describe("the password of a database", () => {
  it("is taken from PGPASSWORD where the URL has none, and the user from PGUSER or the system", () => {
    const supplied = Password.supplied
    const secret = "p@ss/wörd"
    const PGPASSWORD = secret
    expect(new URL(supplied("postgres://ann@h/db", { PGPASSWORD })).password).toBe(encodeURIComponent(secret))
    for (const url of ["postgres://ann:own@h/db?a=1", "postgres://ann@h/db?password=own"])
      expect(supplied(url, { PGPASSWORD, PGUSER: "eve" })).toBe(url)
    for (const none of [{}, { PGPASSWORD: "" }])
      expect(supplied("postgres://ann@h/db", none)).toBe("postgres://ann@h/db")

    expect(supplied("postgres://h/db", { PGUSER: "ann" })).toBe("postgres://ann@h/db")
    expect(supplied("postgres://h/db?user=bob", { PGUSER: "ann" })).toBe("postgres://h/db?user=bob")
    for (const none of [{}, { PGUSER: "" }])
      expect(new URL(supplied("postgres://h/db", none)).username).toBe(
        encodeURIComponent(userInfo().username)
      )
    const { searchParams } = new URL(supplied("postgres:///db?host=/run/pg", { PGPASSWORD, PGUSER: "ann" }))
    expect(Object.fromEntries(searchParams)).toEqual({ host: "/run/pg", user: "ann", password: secret })
  })

  it("is left out of a URL that is printed, and nothing else is", () => {
    const cases = [
      ["postgres://ann@h/db", "postgres://ann@h/db"],
      ["postgres://ann:p%40ss@h:5432/db?x=a@b&y=%20", "postgres://ann:PASSWORD@h:5432/db?x=a@b&y=%20"],
      ["postgresql://:pass@h/db", "postgresql://:PASSWORD@h/db"],
      [
        "postgres://h/db?password=pass&sslpassword=pass&x=1",
        "postgres://h/db?password=PASSWORD&sslpassword=PASSWORD&x=1"
      ]
    ] as const
    for (const [url, printed] of cases) expect(Password.hidden(url)).toBe(printed)
  })

  it("is left out of a sentence, also where the URL is a broken one", () => {
    const cases = [
      'Unexpected argument: "postgres://ann:s3cret@h/db"',
      "postgres:/ann:s3cret@h/db",
      "postgres:ann:s3cret@h",
      "postgres://ann:s3cret/s3cret@h/db",
      "postgres://ann:p@s3cret@h/db is no URL, and mysql://bob:s3cret@h is none",
      "postgres://h/db?sslpassword=s3cret"
    ]
    for (const text of cases) expect(Password.hiddenIn(text)).not.toContain("s3cret")
    const without = 'there is no run a@b:c in this store; {"a":"x","b":"c:d@e"} http://127.0.0.1:80/v1: 12:30'
    expect(Password.hiddenIn(without)).toBe(without)
  })

  it("is not in a command that a person is told to run", () => {
    expect(Store.repeated("postgres://ann:pass@h/db?x=1")).toBe(" --store 'postgres://ann:PASSWORD@h/db?x=1'")
    expect(Store.repeated("-s.db")).toBe(" --store=-s.db")
    expect(Store.repeated(Store.defaultFile)).toBe("")
  })

  it("is in no error, be it one for people, one for a program or the stack of a bug", async () => {
    const problem = "cannot open postgres://ann:pass@h/db"
    for (const effect of [
      Effect.fail(new Output.CommandFailed({ message: problem })),
      Effect.die(new Error(problem))
    ]) {
      const said: Array<unknown> = []
      const caught: Console.Console = Object.assign(Object.create(console), {
        log: (text: unknown) => said.push(text),
        error: (text: unknown) => said.push(text)
      })
      const settled = Output.settle(effect, true)
      expect(await Effect.runPromise(Effect.provideService(settled, Console.Console, caught))).toBe(1)
      expect(said.join("\n")).toContain("postgres://ann:PASSWORD@h/db")
      expect(said.join("\n")).not.toContain("pass@")
    }
  })
})
