import { SystemClock } from '../core/clock.ts'
import { readAgentTextTrace } from '../replay/agent-text-trace.ts'
import { readMooncakeTrace } from '../replay/mooncake-trace.ts'
import { TraceBatch } from '../replay/trace-batch.ts'
import { LINE_BYTES_MAX, type TraceProgress } from '../replay/trace-lines.ts'
import type { TokenizerOptions } from '../tokenizer/options.ts'
import { TokenizerService } from '../tokenizer/tokenizer-service.ts'
import type { ReplaySettings } from './replay-settings.ts'

/** A trace that can be read. The caller closes it. */
export interface OpenTrace {
  /** One batch object is used again for each batch. */
  read(progress?: TraceProgress): AsyncIterable<TraceBatch>
  close(): void
}

/**
 * Opens the trace of a replay, in whichever format; texts are tokenized by the engine's own tokenizer, in its processes.
 *
 * @throws CacheError TOKENIZER_UNKNOWN, CONFIG_INVALID; `read` throws what the reader of the format throws.
 */
export async function openTrace(
  settings: ReplaySettings,
  tokenizer: TokenizerOptions,
  onBroken: (model: string, error: unknown) => void,
): Promise<OpenTrace> {
  const { file, partialBlocks, limit, format, model, blockTokens: chunkTokens } = settings
  if (format === 'mooncake') {
    return { read: (progress) => readMooncakeTrace(file, { partialBlocks, limit }, progress), close: () => {} }
  }
  const options = { ...tokenizer, textBytesMax: LINE_BYTES_MAX }
  const service = await TokenizerService.open({ options, clock: new SystemClock(), onBroken })
  const encode = (text: string, isPrompt: boolean): Promise<Uint32Array> =>
    service.encode({ model, input: { kind: 'text', text }, addSpecialTokens: isPrompt, withStrings: false })
  try {
    await encode('', true) // says early that there is no such model
  } catch (error) {
    service.close()
    throw error
  }
  return {
    read: (progress) => readAgentTextTrace(file, encode, { chunkTokens, limit }, progress),
    close: () => service.close(),
  }
}

/**
 * The whole trace in one batch: 4 bytes a block reference, and the hashes are left out.
 *
 * @param onBatch told what there is so far.
 */
export async function loadTrace(
  trace: OpenTrace,
  progress: TraceProgress,
  onBatch: (all: TraceBatch) => void,
): Promise<TraceBatch> {
  const all = new TraceBatch()
  for await (const batch of trace.read(progress)) {
    appendBatch(all, batch)
    onBatch(all)
  }
  return all
}

/** Appends the requests of a batch without their hashes. */
export function appendBatch(all: TraceBatch, batch: TraceBatch): void {
  for (let index = 0; index < batch.count; index += 1) all.pushFrom(batch, index)
}
