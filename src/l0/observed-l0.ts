import type { CounterTable } from '../core/counters.ts'
import type { EventSink } from '../events/bus.ts'
import type { L0_FIELDS, L0_TENANT_FIELDS } from '../events/counters.ts'
import { BlockLifecycle } from './block-lifecycle.ts'
import { ObservedBlocks, type ObservedBlocksParts, type ObservedLedger } from './observed-blocks.ts'
import type { L0Options } from './options.ts'

export interface ObservedL0Parts {
  readonly events: EventSink
  readonly tenants: CounterTable<(typeof L0_TENANT_FIELDS)[number]>
  readonly totals: CounterTable<(typeof L0_FIELDS)[number]>
}

/** Who reports blocks. The instance id is the scheduler's own, and need not be unique between machines. */
interface Reporter {
  /** The connection it reports on; compared by identity. */
  readonly peer: object
  readonly instanceId: bigint
  readonly model: string
}

interface Observed extends Reporter {
  readonly blocks: ObservedBlocks
}

/** Inference servers at most; the one that reported longest ago is forgotten for a new one. */
const SERVERS_MAX = 64

/**
 * L0 as others own it: what inference servers report of their blocks drives the same counters and histograms that
 * managed blocks do. Nothing is held or moved here.
 */
export class ObservedL0 {
  readonly #parts: ObservedBlocksParts
  readonly #ledger: ObservedLedger
  /** Reported last comes last. */
  readonly #servers: Observed[] = []
  #refusedRecords = 0
  #forgottenServers = 0

  constructor(options: L0Options, { events, tenants, totals }: ObservedL0Parts) {
    this.#ledger = { idsLeft: options.observedBlocksMax, refusedBlocks: 0 }
    const lifecycle = new BlockLifecycle(tenants, events, options.lifecycleSampleEvery)
    this.#parts = { lifecycle, totals, ledger: this.#ledger }
  }

  /** Inference servers that report now. */
  get servers(): number {
    return this.#servers.length
  }

  /** The blocks of a reporter, made at the first call. */
  of({ peer, instanceId, model }: Reporter): ObservedBlocks {
    const at = this.#servers.findIndex(
      (one) => one.peer === peer && one.instanceId === instanceId && one.model === model,
    )
    const found = at < 0 ? undefined : this.#servers.splice(at, 1)[0]
    if (found === undefined && this.#servers.length === SERVERS_MAX) this.#forget(this.#servers[0]!)
    const server = found ?? { peer, instanceId, model, blocks: new ObservedBlocks(this.#parts) }
    this.#servers.push(server)
    return server.blocks
  }

  /** Records that tell of no block: of an unknown model, or with more tokens than their blocks hold. */
  refuse(records: number): void {
    this.#refusedRecords += records
  }

  /** A request of this peer has ended. */
  endRequest(peer: object, requestId: string, nowMs: number): void {
    for (const server of this.#servers) if (server.peer === peer) server.blocks.endRequest(requestId, nowMs)
  }

  /** A peer is gone. Its blocks count no more; none of them was evicted. */
  peerGone(peer: object): void {
    for (const server of this.#servers.filter((one) => one.peer === peer)) this.#forget(server)
  }

  /** As `peerGone`, for what reported under the id of a worker that is gone. */
  instanceGone(instanceId: bigint): void {
    for (const server of this.#servers.filter((one) => one.instanceId === instanceId)) this.#forget(server)
  }

  /** For `/status`. */
  status() {
    const sum = (count: (blocks: ObservedBlocks) => number) =>
      this.#servers.reduce((total, { blocks }) => total + count(blocks), 0)
    return {
      servers: this.servers,
      blocks: sum((blocks) => blocks.blocks),
      usedBlocks: sum((blocks) => blocks.usedBlocks),
      requests: sum((blocks) => blocks.requests),
      refusedBlocks: this.#ledger.refusedBlocks,
      refusedRecords: this.#refusedRecords,
      forgottenServers: this.#forgottenServers,
    }
  }

  /** Whole-structure check for tests. */
  verify(): void {
    for (const { blocks } of this.#servers) blocks.verify()
  }

  #forget(server: Observed): void {
    server.blocks.forget()
    this.#servers.splice(this.#servers.indexOf(server), 1)
    this.#forgottenServers += 1
  }
}
