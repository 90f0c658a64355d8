import { isIPv6 } from 'node:net'
import type { Clock } from '../../../core/clock.ts'
import { type PeerAdapterOptions, peerOrigin } from './options.ts'
import type { PeerClient } from './peer-client.ts'

export interface PeerListParts {
  readonly clock: Clock
  /** Every address of a name. */
  readonly resolve: (name: string) => Promise<readonly string[]>
  /** Addresses of this machine: a Service has this engine among its own. */
  readonly ownAddresses: ReadonlySet<string>
  /** @param serverName name behind the address, for a certificate. */
  readonly connect: (origin: string, serverName?: string) => PeerClient
}

/**
 * The peers: those that are named one by one, and those whose addresses a name has, asked for anew from time to time.
 * A name that cannot be resolved changes nothing.
 */
export class PeerList {
  readonly #parts: PeerListParts
  readonly #service: URL | null
  readonly #resolveMs: number
  readonly #fixed: readonly PeerClient[]
  readonly #found = new Map<string, PeerClient>()
  #timer: { cancel(): void } | undefined
  #isClosed = false

  constructor({ urls, service, resolveMs }: PeerAdapterOptions, parts: PeerListParts) {
    this.#parts = parts
    this.#service = URL.parse(service)
    this.#resolveMs = resolveMs
    this.#fixed = urls.map((url) => parts.connect(peerOrigin(url)!))
  }

  /** Every peer known now. */
  all(): readonly PeerClient[] {
    return this.#found.size === 0 ? this.#fixed : [...this.#fixed, ...this.#found.values()]
  }

  /** Resolves the name, and goes on doing so. Never rejects. @param onTick told each time. */
  async start(onTick: () => Promise<void>): Promise<void> {
    await Promise.all([onTick(), this.#resolve()])
    if (this.#isClosed) return
    this.#timer = this.#parts.clock.schedule(this.#resolveMs, () => void this.start(onTick))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#timer?.cancel()
    await Promise.all(this.all().map((peer) => peer.close()))
  }

  async #resolve(): Promise<void> {
    if (this.#service === null) return
    const { protocol, hostname, port } = this.#service
    let addresses: readonly string[]
    try {
      addresses = await this.#parts.resolve(hostname)
    } catch {
      return
    }
    if (this.#isClosed) return
    const others = addresses.filter((address) => !this.#parts.ownAddresses.has(address))
    const origins = new Set(others.map((address) => `${protocol}//${hostOf(address)}${port === '' ? '' : `:${port}`}`))
    for (const [origin, peer] of this.#found) {
      if (origins.has(origin)) continue
      this.#found.delete(origin)
      void peer.close()
    }
    for (const origin of origins) {
      if (!this.#found.has(origin)) this.#found.set(origin, this.#parts.connect(origin, hostname))
    }
  }
}

function hostOf(address: string): string {
  return isIPv6(address) ? `[${address}]` : address
}
