import { createHash } from 'node:crypto'
import type { WireSlot } from '../../src/protocol/mp/messages.ts'

/** Bytes that tell a text from every other: its digest, again and again. */
export function stampOf(text: string, length: number): Uint8Array {
  const digest = createHash('sha256').update(text).digest()
  return new Uint8Array(length).map((_, at) => digest[at % digest.length]! ^ (at >> 5))
}

/** Writes the stamp of a text to a slot. */
export function stamp(memory: Uint8Array, { offset, length }: WireSlot, text: string): void {
  memory.set(stampOf(text, length), offset)
}

/** Whether a slot holds the stamp of a text, first byte to last. */
export function isStamped(memory: Uint8Array, { offset, length }: WireSlot, text: string): boolean {
  return Buffer.compare(memory.subarray(offset, offset + length), stampOf(text, length)) === 0
}
