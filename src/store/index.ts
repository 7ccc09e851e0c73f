export * as MemoryRunStore from "./MemoryRunStore.ts"
export * as RunStore from "./RunStore.ts"
export * as SqlRunStore from "./SqlRunStore.ts"
