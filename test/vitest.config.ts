import { defineConfig } from "vitest/config"

const conditions = ["@checkrein/source", "node", "import", "module", "default"]

export default defineConfig({
  root: new URL("..", import.meta.url).pathname,
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/store/postgresServer.ts"],
    // One more than there are processors on a small machine: many of these tests wait for a process or a lease to end.
    maxWorkers: 3,
    // It ends what hangs, and judges nothing else: a slow machine that has other things to do takes its time.
    testTimeout: 120_000
  }
})
