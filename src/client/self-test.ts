import type { Clock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import type { WireContext, WireKey, WireSlot } from '../protocol/mp/messages.ts'
import type { MpClient } from './mp-client.ts'

/** Reads and writes the segment that an engine shares. */
export interface SegmentAccess {
  read(offset: number, length: number): Uint8Array
  write(offset: number, bytes: Uint8Array): void
  close(): void
}

export interface SelfTestParts {
  readonly client: MpClient
  readonly clock: Clock
  /** @throws CacheError SHARED_MEMORY_UNAVAILABLE */
  readonly openSegment: (name: string) => SegmentAccess
  /** Whole numbers 0..limit-1: no two runs may use the same prompt. */
  readonly random: (limit: number) => number
}

/** One thing that was tried. */
export interface SelfTestStep {
  readonly name: string
  readonly ms: number
  readonly detail: string
}

const MODEL = 'kvtier-selftest'
const CHUNKS = 4
const WORD = 2 ** 32
const ANSWER_SECONDS = 10

/**
 * What a worker and its scheduler do for one prompt, over the wire and through shared memory: register, store, find,
 * retrieve, compare every byte. It leaves 4 small chunks of a model of its own behind, which eviction takes.
 *
 * @param onStep told each step that went well, in order.
 * @throws CacheError at the first that does not.
 */
export async function selfTest(parts: SelfTestParts, onStep: (step: SelfTestStep) => void): Promise<void> {
  const { client, clock, openSegment, random } = parts
  let segment: SegmentAccess | undefined
  const step = async <Value>(name: string, work: () => Promise<[Value, detail: string]>): Promise<Value> => {
    const startMs = clock.nowMs()
    const [value, detail] = await work()
    onStep({ name, ms: clock.nowMs() - startMs, detail })
    return value
  }
  const chunkTokens = await step('greet', async () => {
    const tokens = await client.chunkTokens()
    return [tokens, `chunks of ${tokens} tokens`]
  })
  const instanceId = (BigInt(random(2 ** 31)) << 32n) | BigInt(random(WORD))
  const tokens = Uint32Array.from({ length: CHUNKS * chunkTokens }, () => random(WORD))
  const key = (requestId: string): WireKey => ({
    model: MODEL,
    salt: '',
    worldSize: 1,
    workerId: 0,
    tokens,
    start: 0,
    end: tokens.length,
    requestId: `${instanceId}-${requestId}`,
    readers: 1,
  })
  const name = await step('register', async () => {
    const { name, bytes } = await client.register(contextOf(instanceId, chunkTokens))
    return [name, `segment ${name} of ${bytes} bytes`]
  })
  try {
    segment = openSegment(name)
    await expectFound(client, key('before'), 0, step)
    await step('store', () => store(client, segment!, key('before'), instanceId))
    await expectFound(client, key('after'), CHUNKS, step)
    await step('retrieve', () => retrieve(client, segment!, key('after'), instanceId))
    await client.endSession(key('before').requestId)
    await client.endSession(key('after').requestId)
  } finally {
    segment?.close()
    await client.unregister(instanceId)
  }
}

type Step = <Value>(name: string, work: () => Promise<[Value, string]>) => Promise<Value>

function contextOf(instanceId: bigint, chunkTokens: number): WireContext {
  const sizes = { worldSize: 1, blockTokens: 1, layers: 1, hidden: 16, slots: chunkTokens, groups: 0 }
  return { instanceId, model: MODEL, dtype: 'float16', isMla: false, ...sizes }
}

async function expectFound(client: MpClient, key: WireKey, chunks: number, step: Step): Promise<void> {
  await step(`look up ${chunks === 0 ? 'before' : 'after'} the store`, async () => {
    await client.lookup({ ...key, workerId: null })
    const found = await client.waitAnswer(key.requestId, ANSWER_SECONDS)
    if (found !== chunks) throw failed(`the lookup found ${found} chunks instead of ${chunks}`)
    return [undefined, `${found} of ${CHUNKS} chunks`]
  })
}

async function store(
  client: MpClient,
  segment: SegmentAccess,
  key: WireKey,
  instanceId: bigint,
): Promise<[undefined, string]> {
  const { slots, chunkIndices } = await client.prepareStore(key, instanceId)
  if (slots.length !== CHUNKS) throw failed(`L1 took ${slots.length} of ${CHUNKS} chunks`)
  for (const [row, slot] of slots.entries()) segment.write(slot.offset, patternOf(instanceId, chunkIndices[row]!, slot))
  if (!(await client.commitStore(key, instanceId))) throw failed('the commit of the store was refused')
  return [undefined, `${CHUNKS} chunks of ${slots[0]!.length} bytes`]
}

async function retrieve(
  client: MpClient,
  segment: SegmentAccess,
  key: WireKey,
  instanceId: bigint,
): Promise<[undefined, string]> {
  const slots = await client.prepareRetrieve(key, instanceId)
  if (slots?.length !== CHUNKS) throw failed('what the lookup promised cannot be retrieved')
  for (const [chunk, slot] of slots.entries()) {
    const isRight = Buffer.compare(segment.read(slot.offset, slot.length), patternOf(instanceId, chunk, slot)) === 0
    if (!isRight) throw failed(`chunk ${chunk} holds other bytes than were stored`)
  }
  if (!(await client.commitRetrieve(key, instanceId))) throw failed('the commit of the retrieval was refused')
  return [undefined, 'every byte is right']
}

/** Bytes that tell run and chunk. */
function patternOf(instanceId: bigint, chunk: number, { length }: WireSlot): Uint8Array {
  const seed = Number(instanceId & 0xffn) + chunk * 7
  return Uint8Array.from({ length }, (_, at) => (seed + at * 3 + (at >> 8)) & 255)
}

function failed(message: string): CacheError {
  return new CacheError('INTERNAL', message)
}
