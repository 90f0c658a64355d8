/** What cache salts may hold that have no quota of their own. 0 = no limit. */
export interface QuotaOptions {
  readonly l1DefaultBytes: number
  /** In each adapter. */
  readonly l2DefaultBytes: number
}

/** Limits of the engine facade. Units in the names. */
export interface EngineOptions {
  /** Tokens of one chunk, for every model. */
  readonly chunkTokens: number
  /** Life of a client's read or write lease, from when it was given or renewed. */
  readonly leaseTtlMs: number
  /** Open sessions at most; the one used longest ago is closed for a new one. */
  readonly sessions: number
  /** Period of the sweep over leases and abandoned lookups. */
  readonly sweepIntervalMs: number
  /** Prompts of up to this many chunks are hashed at once; longer ones on a thread of their own. */
  readonly hashInlineChunks: number
  /** Models at most that may be registered. */
  readonly models: number
}
