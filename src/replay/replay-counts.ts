/** What the virtual server saw. Blocks of the trace and chunks of the engine are the same size. */
export class ReplayCounts {
  requests = 0
  /** Sessions of agents that began, those whose last request has ended, and the most that were open at a time. */
  sessions = 0
  endedSessions = 0
  openSessionsMax = 0
  /** Chunks asked for. */
  blockRefs = 0
  /** Chunks promised, by the fastest tier that had them. */
  hitL0 = 0
  hitL1 = 0
  hitL2 = 0
  /** Chunks that became readable in L1 because this server stored them. */
  storedChunks = 0
  /** Chunks computed but not stored: no room, or another request was storing them. */
  unstoredChunks = 0
  /** Chunks promised whose lease had expired when they were fetched. */
  expiredChunks = 0
  /** Chunks promised that the device had no room for, or failed to load. */
  unfetchedChunks = 0
  verifiedChunks = 0
  /** Verified chunks whose bytes were wrong. */
  corruptChunks = 0
  promptTokens = 0
  /** Tokens of promised chunks that were served: they are not computed again. */
  savedTokens = 0
  /** Bytes that this server copied out of and into L1 by itself. */
  fetchedBytes = 0
  writtenBytes = 0
  /** Time of the trace from the first request to the end of the last, in seconds. */
  traceSeconds = 0

  get blockHits(): number {
    return this.hitL0 + this.hitL1 + this.hitL2
  }

  get hitRatio(): number {
    return this.blockRefs === 0 ? 0 : this.blockHits / this.blockRefs
  }
}
