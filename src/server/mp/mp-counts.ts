/** What happened on the wire, for `/status`. One object an engine; its owner is `server/mp`. */
export interface MpCounts {
  requests: number
  /** Not even an answer could be addressed. Dropped. */
  malformed: number
  /** Answered with the "no" of the operation. */
  badPayloads: number
  /** Answered with nothing. */
  unknownOps: number
  /** Registrations and operations of a path, layout or data type that is not served. */
  refused: number
  /** Operations that failed inside; answered with the "no" of the operation. */
  failed: number
  /** Chunks for which workers got no slots, because too many are held by workers that have not committed. */
  heldBack: number
  /** Answers that did not fit the queue of a peer that does not take them. */
  droppedAnswers: number
  /** Connections that were closed during their handshake: another version, mechanism or protocol, or one too many. */
  refusedPeers: number
  /** Connections that were closed later, for what came on them. */
  brokenPeers: number
  /** Workers that went silent. */
  reapedInstances: number
  /** Records of `report_block_allocation`. */
  blockRecords: number
}

export function newCounts(): MpCounts {
  return {
    requests: 0,
    malformed: 0,
    badPayloads: 0,
    unknownOps: 0,
    refused: 0,
    failed: 0,
    heldBack: 0,
    droppedAnswers: 0,
    refusedPeers: 0,
    brokenPeers: 0,
    reapedInstances: 0,
    blockRecords: 0,
  }
}
