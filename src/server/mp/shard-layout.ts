import { CacheError } from '../../core/errors.ts'
import type { WireContext } from '../../protocol/mp/messages.ts'
import { slotTail } from '../../protocol/mp/replies.ts'

/** Bytes of one number of each type that a worker may announce. */
const ITEM_BYTES: Readonly<Record<string, number>> = {
  bool: 1,
  int8: 1,
  uint8: 1,
  float8_e4m3fn: 1,
  float8_e4m3fnuz: 1,
  float8_e5m2: 1,
  float8_e5m2fnuz: 1,
  int16: 2,
  float16: 2,
  half: 2,
  bfloat16: 2,
  int32: 4,
  float32: 4,
  float: 4,
  int64: 8,
  float64: 8,
  double: 8,
}

/** What one shard of a model looks like. */
export interface ShardLayout {
  readonly shape: readonly number[]
  readonly dtype: string
  readonly isMla: boolean
  readonly shardBytes: number
  /** Of one block of the worker's GPU. */
  readonly blockTokens: number
  /** Names the layout: equal texts, equal layouts. */
  readonly text: string
  /** What every slot says of it on the wire. */
  readonly tail: Uint8Array
}

/** The layout that a worker announces. @throws CacheError BAD_REQUEST */
export function layoutOf(context: WireContext, chunkTokens: number): ShardLayout {
  const { layers, hidden, dtype, isMla, blockTokens, groups } = context
  if (groups > 0) {
    const message = `a model with several groups of layers is not served: group_layouts names ${groups}`
    throw new CacheError('BAD_REQUEST', message, { field: 'group_layouts' })
  }
  const itemBytes = Object.hasOwn(ITEM_BYTES, dtype) ? ITEM_BYTES[dtype]! : undefined
  if (itemBytes === undefined) {
    throw new CacheError('BAD_REQUEST', `dtype_str ${JSON.stringify(dtype)} is unknown`, { field: 'dtype_str' })
  }
  if (chunkTokens % blockTokens !== 0) {
    throw new CacheError(
      'BAD_REQUEST',
      `a chunk of ${chunkTokens} tokens is not a multiple of the worker's block of ${blockTokens}: set --chunk-tokens`,
      { field: 'block_size' },
    )
  }
  const plane = [layers, context.slots ?? chunkTokens, hidden]
  const shape = isMla ? plane : [2, ...plane]
  const shardBytes = shape.reduce((bytes, size) => bytes * size, itemBytes)
  const text = `${shape.join('x')} ${dtype}`
  return { shape, dtype, isMla, shardBytes, blockTokens, text, tail: slotTail(shape, dtype) }
}
