/**
 * Who runs this process: whose word it is that nobody else is named for, and who a database takes it for.
 */
import { userInfo } from "node:os"

/** The user of the operating system that runs this process; `undefined` where it has no name for it. */
export const osUser = (): string | undefined => {
  try {
    return userInfo().username
  } catch {
    return undefined
  }
}
