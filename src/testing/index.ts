/** What you test and check your own agents and stores with. */
export * as Audit from "./Audit.ts"
export * as CrashKit from "./CrashKit.ts"
export * as StoppingCases from "./StoppingCases.ts"
export * as StoppingReport from "./StoppingReport.ts"
export * as StoreConformance from "./StoreConformance.ts"
