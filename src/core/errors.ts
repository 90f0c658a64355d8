/** What went wrong, by who can mend it; the HTTP layer maps a kind to a status. */
export type ErrorKind =
  | 'usage' // the caller sent something wrong
  | 'not_found'
  | 'conflict' // right in form, refused by the state of the engine
  | 'too_large'
  | 'unauthenticated'
  | 'forbidden'
  | 'too_many' // more requests than this caller may send
  | 'unavailable' // a backend or a tier cannot serve now
  | 'internal'

/** Every operating error: one row gives its kind, whether a retry can help, and what it means. */
export const ERRORS = {
  BAD_REQUEST: { kind: 'usage', retryable: false, help: 'A field of the request is missing, unknown or out of range.' },
  CONFIG_INVALID: { kind: 'usage', retryable: false, help: 'An option, environment variable or file key is wrong.' },
  LAYOUT_MISMATCH: {
    kind: 'conflict',
    retryable: false,
    help: 'The model is registered with another chunk size or layout.',
  },
  MODEL_UNKNOWN: {
    kind: 'conflict',
    retryable: false,
    help: 'The model is not registered: its chunk size is not known.',
  },
  PARENT_ABSENT: {
    kind: 'conflict',
    retryable: false,
    help: 'The chunk extends one that is not resident; store the parent first.',
  },
  CHUNK_BUSY: { kind: 'conflict', retryable: true, help: 'Another client is writing this chunk.' },
  PIN_LIMIT: { kind: 'conflict', retryable: false, help: 'The pin would pass the share of L1 that pins may hold.' },
  TRACE_INVALID: { kind: 'usage', retryable: false, help: 'A line of the trace file cannot be read.' },
  DATA_DIR_LOCKED: { kind: 'conflict', retryable: false, help: 'Another engine runs on this data directory.' },
  DATA_DIR_UNWRITABLE: { kind: 'usage', retryable: false, help: 'The data directory cannot be created or written.' },
  PORT_TAKEN: { kind: 'conflict', retryable: false, help: 'The port is in use, or may not be bound.' },
  SHARED_MEMORY_TOO_SMALL: {
    kind: 'usage',
    retryable: false,
    help: 'The shared-memory file system cannot back the L1 size asked for.',
  },
  SHARED_MEMORY_UNAVAILABLE: {
    kind: 'unavailable',
    retryable: false,
    help: 'Shared memory cannot be mapped on this machine.',
  },
  NOT_FOUND: { kind: 'not_found', retryable: false, help: 'No such route, chunk, adapter, pin or lease.' },
  PAYLOAD_TOO_LARGE: { kind: 'too_large', retryable: false, help: 'The body is over the limit.' },
  UNAUTHENTICATED: {
    kind: 'unauthenticated',
    retryable: false,
    help: 'A bearer token is required, or the one sent is unknown or expired.',
  },
  FORBIDDEN: {
    kind: 'forbidden',
    retryable: false,
    help: 'The token lacks the scope of this route, or the Host or Origin is foreign.',
  },
  TOKENIZER_UNKNOWN: {
    kind: 'not_found',
    retryable: false,
    help: 'There is no tokenizer of the model; put its files under a directory of --tokenizer-dir.',
  },
  TOKENIZER_BROKEN: {
    kind: 'unavailable',
    retryable: false,
    help: 'The files of the tokenizer cannot be loaded, or it failed on the text.',
  },
  TOKENIZER_BUSY: {
    kind: 'unavailable',
    retryable: true,
    help: 'As many texts wait as --tokenizer-queue allows, or this one waited for --tokenizer-timeout.',
  },
  TOKENIZER_TIMEOUT: {
    kind: 'unavailable',
    retryable: false,
    help: 'The text or the chat template took longer than --tokenizer-timeout.',
  },
  TEMPLATE_FAILED: {
    kind: 'usage',
    retryable: false,
    help: 'The model has no chat template, or it refuses the messages, or it passes its bounds.',
  },
  RATE_LIMITED: {
    kind: 'too_many',
    retryable: true,
    help: 'This token, or this address, sends more requests than --http-rate-limit allows.',
  },
  NO_ROOM: {
    kind: 'unavailable',
    retryable: true,
    help: 'L1, or the blocks of L0, have no room even after demand eviction.',
  },
  TOO_MANY_PROMPTS: { kind: 'unavailable', retryable: true, help: 'Too many prompts of one client wait to be hashed.' },
  LEASE_EXPIRED: { kind: 'conflict', retryable: true, help: 'The lease expired or was released before the operation.' },
  L2_TIMEOUT: { kind: 'unavailable', retryable: true, help: 'An L2 adapter did not answer before its deadline.' },
  L2_UNAVAILABLE: {
    kind: 'unavailable',
    retryable: true,
    help: 'An L2 adapter cannot be reached or its storage failed.',
  },
  L2_CORRUPT: {
    kind: 'unavailable',
    retryable: false,
    help: 'An L2 object failed its checksum or its header is not ours.',
  },
  L2_FULL: { kind: 'unavailable', retryable: true, help: 'An L2 adapter has no room for the object.' },
  L2_DRAINING: {
    kind: 'conflict',
    retryable: false,
    help: 'The adapter is draining, failed or removed and takes no new work.',
  },
  L2_NAME_TAKEN: {
    kind: 'conflict',
    retryable: false,
    help: 'An adapter of this name, or on the same storage, is attached.',
  },
  L2_BUSY: {
    kind: 'conflict',
    retryable: true,
    help: 'Another act on the adapter is under way: an opening, a removal, an evacuation, or the same job.',
  },
  L2_UNSUPPORTED: {
    kind: 'usage',
    retryable: false,
    help: 'Adapters of this type cannot do that: what they hold cannot be enumerated.',
  },
  ACTIVITY_LOG_FAILED: {
    kind: 'unavailable',
    retryable: false,
    help: 'The activity log cannot be written or read. An act that is answered so was done; the log of the engine has it.',
  },
  DEVICE_FAULT: { kind: 'unavailable', retryable: false, help: 'A device transfer failed.' },
  DEVICE_OUT_OF_MEMORY: { kind: 'unavailable', retryable: false, help: 'The device cannot back the L0 pool.' },
  DEVICE_UNAVAILABLE: {
    kind: 'conflict',
    retryable: false,
    help: 'There is no such GPU, or no driver of it, or the handle of a pool cannot be opened.',
  },
  DEVICE_TIMEOUT: {
    kind: 'conflict',
    retryable: false,
    help: 'A word of GPU memory that was to be waited for did not reach its value in time.',
  },
  ENGINE_TIMEOUT: { kind: 'unavailable', retryable: true, help: 'The engine did not answer in time.' },
  SHUTTING_DOWN: { kind: 'unavailable', retryable: true, help: 'The engine is stopping.' },
  THREAD_ENDED: {
    kind: 'unavailable',
    retryable: false,
    help: 'A thread of the engine could not start, or ended by itself: the message has its error.',
  },
  INTERNAL: { kind: 'internal', retryable: false, help: 'A bug in kvtier. The log has the details.' },
} as const satisfies Record<string, { kind: ErrorKind; retryable: boolean; help: string }>

export type ErrorCode = keyof typeof ERRORS

/**
 * An operating error. A bug is asserted; a miss or a full tier is a value.
 * `code` is the contract; the message is for people: one line that names the field and the fix.
 */
export class CacheError extends Error {
  override readonly name = 'CacheError'
  readonly code: ErrorCode
  /** Flat facts. The key `field` names the request field or option at fault. */
  readonly detail: Readonly<Record<string, string | number>>

  constructor(code: ErrorCode, message: string, detail: CacheError['detail'] = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.detail = detail
  }

  get kind(): ErrorKind {
    return ERRORS[this.code].kind
  }
}
