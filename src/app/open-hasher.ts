import type { Logger } from 'pino'
import { ChunkHasher } from '../core/chunk-hash.ts'
import { loadAddon } from '../native/addon.ts'

/** The data thread's hasher. Says in the log whether it, and what else can be, is native code here. */
export function openHasher(logger: Logger): Promise<ChunkHasher> {
  const addon = loadAddon()
  if (typeof addon === 'string') {
    logger.info({ reason: addon }, 'no native code: hashes are made in WebAssembly, prompts are read in JavaScript')
    return ChunkHasher.create()
  }
  logger.info({ processor: addon.processor() }, 'native code makes hashes and checksums, and reads prompts')
  return ChunkHasher.create(addon.hashChunks)
}
