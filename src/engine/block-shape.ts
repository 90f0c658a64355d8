import { CacheError } from '../core/errors.ts'

/** Bytes of one element. */
export const ELEMENT_BYTES = {
  float32: 4,
  bfloat16: 2,
  float16: 2,
  float8_e4m3fn: 1,
  float8_e5m2: 1,
  uint8: 1,
} as const
export type ElementType = keyof typeof ELEMENT_BYTES

/** What a model keeps of a token: `kv` is 2 for K before V, 1 for one latent vector (MLA). */
export interface TokenShape {
  readonly dtype: ElementType
  readonly layers: number
  readonly kv: number
  readonly heads: number
  readonly headSize: number
}

/** Bytes of one token of all layers. */
export function tokenBytes({ dtype, layers, kv, heads, headSize }: TokenShape): number {
  return ELEMENT_BYTES[dtype] * layers * kv * heads * headSize
}

/**
 * Tokens of a block of the pool.
 *
 * @throws CacheError BAD_REQUEST when blocks are not whole tokens, or chunks not whole blocks.
 */
export function tokensOfBlock(shape: TokenShape, blockBytes: number, chunkTokens: number): number {
  const tokens = blockBytes / tokenBytes(shape)
  if (Number.isInteger(tokens) && chunkTokens % tokens === 0) return tokens
  throw new CacheError(
    'BAD_REQUEST',
    `the blocks of the pool have ${blockBytes} bytes and a token ${tokenBytes(shape)}: they must hold whole tokens, and ` +
      `a chunk of ${chunkTokens} tokens whole blocks; see --l0-block-tokens and --l0-block-size`,
    { field: 'shape' },
  )
}

/** The tensor that the pool is: dense, its last dimension the fastest. */
export function tensorShape(
  { layers, kv, heads, headSize }: TokenShape,
  blocks: number,
  blockTokens: number,
): number[] {
  return [blocks, layers, kv, blockTokens, heads, headSize]
}

/** Fingerprint of the bytes of a chunk, block after block: chunks of pools that differ are never mixed up. */
export function layoutOf({ dtype, layers, kv, heads, headSize }: TokenShape, blockTokens: number): string {
  return `blocks ${layers}x${kv}x${blockTokens}x${heads}x${headSize} ${dtype}`
}
