/** Every operation that is served, by its name on the wire. */
export const SERVED_OPS = [
  'lookup',
  'query_prefetch_status',
  'wait_prefetch_status',
  'free_lookup_locks',
  'end_session',
  'register_kv_cache_engine_driven_context',
  'unregister_kv_cache_engine_driven_context',
  'prepare_store',
  'commit_store',
  'prepare_retrieve',
  'commit_retrieve',
  'clear',
  'get_chunk_size',
  'negotiate_chunk_size',
  'ping',
  'report_block_allocation',
  'noop',
  'get_experimental',
] as const

/** Operations that are known and not served: those of the `lmcache_driven` path. They get no answer. */
export const REFUSED_OPS = ['register_kv_cache', 'register_q_cache', 'store_q', 'store', 'retrieve'] as const

export type ServedOp = (typeof SERVED_OPS)[number]
export type RefusedOp = (typeof REFUSED_OPS)[number]
export type KnownOp = ServedOp | RefusedOp

/** One numbering of the operations. Newer operations have no number: they go by name, in every generation. */
export interface Generation {
  /** Client versions that use it. */
  readonly clients: string
  readonly ids: ReadonlyMap<number, KnownOp>
  /**
   * The client checks the name of the operation that comes back, and reports another one as an error at once. Only from
   * 0.5.6 on: 0.5.3 and 0.5.4, of the same numbering, stop reading answers for good. See `Client.survivesOtherOps`.
   */
  readonly reportsOtherOps: boolean
}

function generation(clients: string, reportsOtherOps: boolean, ids: Partial<Record<KnownOp, readonly number[]>>) {
  const rows = Object.entries(ids) as [KnownOp, readonly number[]][]
  const pairs = rows.flatMap(([op, numbers]) => numbers.map((id) => [id, op] as const))
  return { clients, reportsOtherOps, ids: new Map(pairs) } satisfies Generation
}

/** The numbering of today, which is frozen. `get_experimental` was 40 in 0.5.3 and 0.5.4. */
export const CURRENT_GENERATION: Generation = generation('0.5.3 and later', true, {
  register_kv_cache: [1],
  register_q_cache: [3],
  store_q: [5],
  store: [6],
  retrieve: [7],
  lookup: [8],
  query_prefetch_status: [9],
  wait_prefetch_status: [10],
  free_lookup_locks: [12],
  end_session: [13],
  register_kv_cache_engine_driven_context: [14],
  unregister_kv_cache_engine_driven_context: [15],
  prepare_store: [16],
  commit_store: [17],
  prepare_retrieve: [18],
  commit_retrieve: [19],
  clear: [20],
  get_chunk_size: [21],
  ping: [22],
  report_block_allocation: [23],
  noop: [24],
  get_experimental: [32, 40],
})

const EARLIER_GENERATIONS: readonly Generation[] = [
  generation('0.5.0 to 0.5.2', false, {
    register_kv_cache: [1],
    store: [3],
    retrieve: [4],
    lookup: [5],
    query_prefetch_status: [6],
    wait_prefetch_status: [7],
    free_lookup_locks: [9],
    end_session: [10],
    register_kv_cache_engine_driven_context: [11],
    unregister_kv_cache_engine_driven_context: [12],
    prepare_store: [13],
    commit_store: [14],
    prepare_retrieve: [15],
    commit_retrieve: [16],
    clear: [17],
    get_chunk_size: [18],
    ping: [19],
    report_block_allocation: [20],
    noop: [21],
  }),
  generation('0.4.7', false, {
    register_kv_cache: [1],
    store: [3],
    retrieve: [4],
    lookup: [5],
    query_prefetch_status: [6],
    free_lookup_locks: [8],
    end_session: [9],
    register_kv_cache_engine_driven_context: [10],
    unregister_kv_cache_engine_driven_context: [11],
    prepare_store: [12],
    commit_store: [13],
    prepare_retrieve: [14],
    commit_retrieve: [15],
    clear: [16],
    get_chunk_size: [17],
    ping: [18],
    report_block_allocation: [19],
    noop: [20],
  }),
  // Those below cannot be told a segment: 0.4.6 wants no answer to its registration and sends the bytes pickled, the
  // others know no engine-driven path. They are answered until they register, which is refused.
  generation('0.4.6', false, {
    register_kv_cache: [1, 10],
    store: [3],
    retrieve: [4],
    lookup: [5],
    query_prefetch_status: [6],
    free_lookup_locks: [8],
    end_session: [9],
    clear: [15],
    get_chunk_size: [16],
    ping: [17],
    report_block_allocation: [18],
    noop: [19],
  }),
  generation('0.4.3 to 0.4.5', false, {
    register_kv_cache: [1],
    store: [3],
    retrieve: [4],
    lookup: [5],
    query_prefetch_status: [6],
    free_lookup_locks: [8],
    end_session: [9],
    clear: [10],
    get_chunk_size: [11],
    ping: [12],
    report_block_allocation: [13],
    noop: [14],
  }),
  // 11 is noop in 0.4.1, which has no ping.
  generation('0.4.1 and 0.4.2', false, {
    register_kv_cache: [1],
    store: [3],
    retrieve: [4],
    lookup: [5],
    query_prefetch_status: [6],
    free_lookup_locks: [7],
    end_session: [8],
    clear: [9],
    get_chunk_size: [10],
    ping: [11],
    noop: [12],
  }),
  generation('0.3.14 and 0.3.15', false, {
    register_kv_cache: [1],
    store: [3],
    retrieve: [4],
    lookup: [5],
    end_session: [6],
    clear: [7],
    get_chunk_size: [8],
    noop: [9],
  }),
  generation('up to 0.3.13', false, {
    register_kv_cache: [1],
    store: [3],
    retrieve: [4],
    lookup: [5],
    clear: [6],
    get_chunk_size: [7],
    noop: [8],
  }),
]

/** Newest first. */
export const GENERATIONS: readonly Generation[] = [CURRENT_GENERATION, ...EARLIER_GENERATIONS]

const BY_FIRST_ID = new Map(GENERATIONS.map((one) => [idOf(one, 'get_chunk_size')!, one]))
const KNOWN = new Set<string>([...SERVED_OPS, ...REFUSED_OPS])

/**
 * The numbering of a client whose first request is operation `id` without payload: that is `get_chunk_size`, in one
 * generation each. Undefined: the request says nothing; a client that outlived a restart of the engine goes on with
 * whatever it was doing.
 */
export function generationOfFirst(id: number): Generation | undefined {
  return BY_FIRST_ID.get(id)
}

/** The operation behind a number or name; undefined when it is unknown. */
export function opOf(generation: Generation, wireOp: number | string): KnownOp | undefined {
  if (typeof wireOp === 'number') return generation.ids.get(wireOp)
  return KNOWN.has(wireOp) ? (wireOp as KnownOp) : undefined
}

/** The number of an operation; undefined when the generation has none for it. */
export function idOf(generation: Generation, op: KnownOp): number | undefined {
  for (const [id, name] of generation.ids) if (name === op) return id
  return undefined
}
