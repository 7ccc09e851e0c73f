/** Knowing a stored text again. */
import { crc32 } from "node:zlib"

/** A number of 32 bits that another text hardly ever has, however little it differs. */
export const checksum = (text: string): number => crc32(text) | 0
