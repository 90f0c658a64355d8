import { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../core/clock.ts'
import { CacheError } from '../../core/errors.ts'
import { crc32 } from '../../native/checksum.ts'
import type { EnginePort, ShardRef, SlotLease } from './engine-port.ts'

/** Bytes of a response that are handed to the socket at a time. The event loop runs in between. */
const PIECE_BYTES = 256 * 1024

/** Bytes that are summed at a time: about 0.15 ms. */
const SUMMED_BYTES = 1024 * 1024

/** What moves chunk bytes between a client and the arena. */
export interface TransferParts {
  readonly engine: EnginePort
  /** The whole arena; slots are offsets into it. */
  readonly arena: Uint8Array
  readonly clock: Clock
}

/**
 * A lease with the time at which it must be renewed: half its life is left then, so no piece runs past its end. It counts
 * from when the lease was asked for: the answer may have been long on its way.
 */
class RenewedLease {
  readonly #parts: TransferParts
  readonly #lease: SlotLease
  #renewAtMs: number

  constructor(parts: TransferParts, lease: SlotLease, askedMs: number) {
    this.#parts = parts
    this.#lease = lease
    this.#renewAtMs = askedMs + lease.ttlMs / 2
  }

  /** True when the slot may be touched now, in this turn of the event loop. */
  get isFresh(): boolean {
    return this.#parts.clock.nowMs() < this.#renewAtMs
  }

  /** @throws CacheError LEASE_EXPIRED */
  async renew(): Promise<void> {
    const askedMs = this.#parts.clock.nowMs()
    if (!(await this.#parts.engine.renewLease(this.#lease.leaseId))) throw expired()
    this.#renewAtMs = askedMs + this.#lease.ttlMs / 2
    if (!this.isFresh) throw expired()
  }
}

/**
 * The bytes of a leased slot as a response body. It owns the lease: whole or cut short, the lease ends with the stream.
 * Pieces are copied out while the lease is fresh, because a socket may send them long after.
 */
export class SlotReader extends Readable {
  readonly #parts: TransferParts
  readonly #lease: SlotLease
  readonly #shard: ShardRef
  readonly #renewed: RenewedLease
  #sentBytes = 0

  /** @param askedMs when the lease was asked for. */
  constructor(parts: TransferParts, shard: ShardRef, lease: SlotLease, askedMs: number) {
    super({ highWaterMark: PIECE_BYTES })
    this.#parts = parts
    this.#shard = shard
    this.#lease = lease
    this.#renewed = new RenewedLease(parts, lease, askedMs)
  }

  /** Sums the bytes before the first of them is sent, in turns of the event loop. @throws CacheError LEASE_EXPIRED */
  async checksum(): Promise<number> {
    const { offset, length } = this.#lease
    let sum = 0
    for (let from = 0; from < length; from += SUMMED_BYTES) {
      if (from > 0) await nextTurn()
      if (!this.#renewed.isFresh) await this.#renewed.renew()
      sum = crc32(this.#parts.arena.subarray(offset + from, offset + Math.min(length, from + SUMMED_BYTES)), sum)
    }
    return sum
  }

  override _read(): void {
    // Awaiting a drained socket does not yield to other clients; a turn of the loop for each piece does.
    setImmediate(() => {
      if (!this.destroyed) this.#sendPiece().catch((error: Error) => this.destroy(error))
    })
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    const { engine } = this.#parts
    const { leaseId } = this.#lease
    const isWhole = error === null && this.#sentBytes === this.#lease.length && this.readableEnded
    const isExpired = error instanceof CacheError && error.code === 'LEASE_EXPIRED'
    const told = isExpired ? engine.readExpired(this.#shard) : undefined
    const ended = isWhole ? engine.served(leaseId) : engine.releaseLease(leaseId)
    Promise.all([told, ended]).then(
      () => callback(error),
      () => callback(error), // the engine is gone, and the lease with it
    )
  }

  async #sendPiece(): Promise<void> {
    const { offset, length } = this.#lease
    if (this.#sentBytes === length) {
      this.push(null)
      return
    }
    if (!this.#renewed.isFresh) await this.#renewed.renew()
    const end = Math.min(length, this.#sentBytes + PIECE_BYTES)
    const piece = Buffer.from(this.#parts.arena.subarray(offset + this.#sentBytes, offset + end))
    this.#sentBytes = end
    this.push(piece)
  }
}

/**
 * Copies a request body into a reserved slot. The caller commits, or aborts after an error.
 *
 * @param askedMs when the slot was asked for.
 * @throws CacheError PAYLOAD_TOO_LARGE or BAD_REQUEST when the body is not exactly as long as the slot, LEASE_EXPIRED.
 */
export async function receiveSlot(
  parts: TransferParts,
  lease: SlotLease,
  askedMs: number,
  body: Readable,
): Promise<void> {
  const renewed = new RenewedLease(parts, lease, askedMs)
  const slot = parts.arena.subarray(lease.offset, lease.offset + lease.length)
  let receivedBytes = 0
  // Not destroyed when refused: the error is still to be sent on its connection.
  for await (const piece of body.iterator({ destroyOnReturn: false })) {
    checkBodyLength(lease.length, receivedBytes + piece.length, false)
    if (!renewed.isFresh) await renewed.renew()
    slot.set(piece, receivedBytes)
    receivedBytes += piece.length
  }
  checkBodyLength(lease.length, receivedBytes, true)
}

/** @throws CacheError PAYLOAD_TOO_LARGE, or BAD_REQUEST when `isAll` and bytes are missing. */
export function checkBodyLength(shardBytes: number, bodyBytes: number, isAll: boolean): void {
  if (bodyBytes > shardBytes) {
    const message = `the body is longer than a shard of this model, which has ${shardBytes} bytes`
    throw new CacheError('PAYLOAD_TOO_LARGE', message, { field: 'body' })
  }
  if (isAll && bodyBytes < shardBytes) {
    const message = `the body has ${bodyBytes} bytes; a shard of this model has ${shardBytes}`
    throw new CacheError('BAD_REQUEST', message, { field: 'body' })
  }
}

function expired(): CacheError {
  return new CacheError('LEASE_EXPIRED', 'the lease ended while the bytes were moving; try again')
}
