import { expect, it } from 'vitest'
import { CounterTable } from '../../src/core/counters.ts'
import type { TenantId } from '../../src/core/ids.ts'
import { L0_BLOCK_EVICTED } from '../../src/events/catalogue.ts'
import { L0_FIELDS, L0_TENANT_FIELDS } from '../../src/events/counters.ts'
import { ObservedL0 } from '../../src/l0/observed-l0.ts'
import { L0_DEFAULTS } from '../../src/l0/options.ts'
import { recordingSink } from '../support/l0.ts'
import { random } from '../support/random.ts'

const BLOCK = 4
const IDS = 24
const REQUESTS = 6

/** One allocation of a block id, with its tokens kept whole. */
interface Life {
  tenant: number
  tokens: readonly number[]
  allocatedMs: number
  accessedMs: number
}

/** Oracle: the rules of `observed-blocks.ts` over plain objects. */
class PlainBlocks {
  readonly lives = new Map<number, Life>()
  readonly held = new Map<string, Life[]>()
  readonly events: string[] = []
  readonly counts = new Map<string, number>()

  report(request: string, tenant: number, ids: readonly number[], tokens: readonly number[], nowMs: number): void {
    const mine = this.held.get(request) ?? []
    this.held.set(request, mine)
    let isFound = true
    for (const [at, id] of ids.entries()) {
      if (id === 0) continue
      const part = tokens.slice(at * BLOCK, (at + 1) * BLOCK)
      const known = this.lives.get(id)
      if (known !== undefined) {
        const isSame = known.tokens.length > 0 && known.tokens.every((token, index) => token === part[index])
        isFound = isFound && part.length === BLOCK && isSame
      }
      if (known !== undefined && isFound) {
        this.#tell('reused', known.tenant, nowMs - known.accessedMs, 0)
        known.accessedMs = nowMs
        known.tokens = part
        mine.push(known)
        continue
      }
      if (known !== undefined) {
        this.#tell('evicted', known.tenant, nowMs - known.allocatedMs, nowMs - known.accessedMs)
      }
      const life = { tenant, tokens: part, allocatedMs: nowMs, accessedMs: nowMs }
      this.lives.set(id, life)
      this.#count('allocated', tenant)
      mine.push(life)
    }
  }

  end(request: string, nowMs: number): void {
    for (const life of this.held.get(request) ?? []) life.accessedMs = nowMs
    this.held.delete(request)
  }

  /** Blocks that are still what an open request was given. */
  used(): number {
    const held = new Set([...this.held.values()].flat())
    return [...this.lives.values()].filter((life) => held.has(life)).length
  }

  #tell(what: 'reused' | 'evicted', tenant: number, aMs: number, bMs: number): void {
    this.#count(what, tenant)
    this.events.push(`${what} ${tenant} ${aMs / 1000} ${bMs / 1000}`)
  }

  #count(what: string, tenant: number): void {
    const key = `${what} ${tenant}`
    this.counts.set(key, (this.counts.get(key) ?? 0) + 1)
  }
}

it.each([1, 2, 3, 4, 5])('ObservedBlocks tells the same lives as plain objects (seed %i)', (seed) => {
  const next = random(seed)
  const sink = recordingSink()
  const tenants = new CounterTable(L0_TENANT_FIELDS, 3)
  const totals = new CounterTable(L0_FIELDS, 1)
  const l0 = new ObservedL0({ ...L0_DEFAULTS, observedBlocksMax: 64 }, { events: sink, tenants, totals })
  const peer = {}
  const oracle = new PlainBlocks()
  let nowMs = 0
  for (let step = 0; step < 4_000; step += 1) {
    nowMs += next(1000)
    const request = `r${next(REQUESTS)}`
    if (next(3) === 0) {
      l0.endRequest(peer, request, nowMs)
      oracle.end(request, nowMs)
    } else {
      // Few prompts over few places, so that prefixes meet again; now and then the ids are others.
      const prompt = next(3)
      const shift = next(4) === 0 ? next(IDS) : prompt * 5
      const from = next(3) === 0 ? next(4) : 0
      const count = 1 + next(6)
      const ids = Array.from({ length: count }, (_, index) => (from + index + shift) % IDS)
      const tokens = Array.from({ length: count * BLOCK - next(6) }, (_, index) => prompt * 7 + from * BLOCK + index)
      if (next(5) === 0 && tokens.length > 0) tokens[next(tokens.length)] = next(50)
      const tenant = prompt % 2
      l0.of({ peer, instanceId: 1n, model: 'm' }).report(
        request,
        tenant as TenantId,
        Uint32Array.from(ids),
        Uint32Array.from(tokens),
        BLOCK,
        nowMs,
      )
      oracle.report(request, tenant, ids, tokens, nowMs)
    }
    l0.verify()
    expect(totals.get(0, 'observedUsedBlocks')).toBe(oracle.used())
    expect(totals.get(0, 'observedBlocks')).toBe(oracle.lives.size)
  }
  const told = sink.published.map(({ type, tenant, a, b, c }) => {
    const isEvicted = type === L0_BLOCK_EVICTED
    expect(isEvicted ? c : b).toBe(1) // block
    return isEvicted ? `evicted ${tenant} ${a} ${b}` : `reused ${tenant} ${a} 0`
  })
  expect(told).toEqual(oracle.events)
  for (const what of ['allocated', 'reused', 'evicted'] as const) {
    for (const tenant of [0, 1]) {
      expect(tenants.get(tenant, `${what}Blocks`), what).toBe(oracle.counts.get(`${what} ${tenant}`))
    }
  }
})
