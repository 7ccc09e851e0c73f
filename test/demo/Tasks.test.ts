/** Six tasks, put to the analyst that is made of rules, in-process and at the scripted endpoint. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Provider from "../../src/demo/Provider.ts"
import * as RuleModel from "../../src/demo/RuleModel.ts"
import * as Tasks from "../../src/demo/Tasks.ts"
import { inMemory, providers } from "./support.ts"

const expected = [
  { turns: 3, toolRuns: 4, answer: /^errors\.log mentions it: ERROR timeout/ },
  {
    turns: 2,
    toolRuns: 1,
    answer: /^There are 3 files: access\.log, errors\.log and notes\.txt\.$/
  },
  {
    turns: 3,
    toolRuns: 2,
    answer: /^notes\.txt says: Rotate the logs on Sundays\.$/
  },
  {
    turns: 3,
    toolRuns: 4,
    answer: /access\.log says: .*errors\.log says: .*notes\.txt says: /
  },
  { turns: 3, toolRuns: 4, answer: /^The largest file is errors\.log/ },
  { turns: 3, toolRuns: 4, answer: /^notes\.txt mentions it: Rotate the logs/ }
]

for (const { provider, test } of providers) {
  describe(`tasks, ${provider}`, () => {
    test("are answered from the files", () =>
      inMemory(
        Effect.gen(function* () {
          const outcomes = yield* Effect.forEach(Tasks.tasks, (task) => Tasks.run(task))
          assert.strictEqual(outcomes.length, expected.length)
          for (const [index, { answer, ...numbers }] of expected.entries()) {
            assert.deepInclude(outcomes[index], {
              ...numbers,
              status: "completed"
            })
            assert.match(outcomes[index]?.answer ?? "", answer)
          }
        }).pipe(Effect.provide(Provider.layer(RuleModel.script, { provider })), Effect.orDie)
      ))
  })
}
