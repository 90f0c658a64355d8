import { decodeIncoming } from './codec.ts'
import type { Generation, ServedOp } from './generations.ts'
import type { Request } from './messages.ts'

/** How many payload frames the clients that there are send with each operation, at least and at most. */
const FRAMES: Readonly<Record<ServedOp, readonly [number, number]>> = {
  get_chunk_size: [0, 0],
  negotiate_chunk_size: [1, 1],
  get_experimental: [0, 0],
  noop: [0, 0],
  clear: [0, 1],
  ping: [0, 1],
  register_kv_cache_engine_driven_context: [1, 1],
  unregister_kv_cache_engine_driven_context: [1, 1],
  lookup: [2, 2],
  free_lookup_locks: [2, 2],
  query_prefetch_status: [1, 1],
  wait_prefetch_status: [2, 2],
  end_session: [1, 2],
  prepare_store: [2, 2],
  commit_store: [3, 3],
  prepare_retrieve: [2, 2],
  commit_retrieve: [2, 2],
  report_block_allocation: [3, 3],
}

/** Operations that are about one rank; the others that have a key are about all. */
const OF_ONE_RANK = new Set<string>(['prepare_store', 'commit_store', 'prepare_retrieve', 'commit_retrieve'])

/**
 * The numberings in which a message means something, by the shape of its payload. For clients that do not start with
 * `get_chunk_size` because they started long ago: they outlived a restart of the engine.
 */
export function generationsThatFit(frames: readonly Uint8Array[], among: readonly Generation[]): readonly Generation[] {
  return among.filter((generation) => {
    const incoming = decodeIncoming(frames, generation)
    return incoming.kind === 'request' && hasItsShape(incoming.request, frames.length - 2)
  })
}

function hasItsShape(request: Request, payloadFrames: number): boolean {
  const [least, most] = FRAMES[request.op]
  if (payloadFrames < least || payloadFrames > most) return false
  return !('key' in request) || OF_ONE_RANK.has(request.op) === (request.key.workerId !== null)
}
