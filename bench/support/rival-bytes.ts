import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { WireSlot } from '../../src/protocol/mp/messages.ts'
import type { PromptFrames, RivalClient } from './rival-client.ts'

/** Stores a prompt through a server's shared memory, asks for it, and compares every byte. @throws Error */
export async function checkBytes(
  client: RivalClient,
  { name }: { readonly name: string },
  frames: PromptFrames,
  serial: number,
): Promise<void> {
  const file = openSync(join('/dev/shm', name.replace(/^\//, '')), 'r+')
  try {
    await client.store(frames, serial, undefined, (slots) => {
      for (const [chunk, slot] of slots.entries()) writeSync(file, pattern(slot, chunk), 0, slot.length, slot.offset)
    })
    await client.retrieve(frames, serial, undefined, (slots) => {
      for (const [chunk, slot] of slots.entries()) {
        const bytes = Buffer.alloc(slot.length)
        readSync(file, bytes, 0, slot.length, slot.offset)
        if (!bytes.equals(pattern(slot, chunk))) throw new Error(`chunk ${chunk} came back with other bytes`)
      }
    })
  } finally {
    closeSync(file)
  }
}

/** Bytes that tell their chunk and place. */
function pattern({ length }: WireSlot, chunk: number): Buffer {
  return Buffer.from(Uint8Array.from({ length }, (_, at) => Math.imul(at + 1, 0x9e3779b1 + chunk) >>> 24))
}
