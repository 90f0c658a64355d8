import { expect, it } from 'vitest'
import { L0_BLOCK_EVICTED } from '../../src/events/catalogue.ts'
import type { BlockManager } from '../../src/l0/block-manager.ts'
import { BlockTable } from '../../src/l0/block-table.ts'
import type { Direction } from '../../src/l0/device.ts'
import { byteSpace, chainOf, makeBlocks } from '../support/l0.ts'
import { random } from '../support/random.ts'

interface OracleRun {
  readonly key: string
  readonly space: number
  readonly blocks: number
  state: 'filling' | 'shared' | 'private'
  isShareable: boolean
  references: number
  transfers: number
}

interface OracleTable {
  readonly space: number
  chunks: OracleRun[]
  tail: OracleRun | null
}

/** The block manager in plain objects: no numbers of blocks, only how many are free. */
class OracleBlocks {
  readonly shared = new Map<string, OracleRun>()
  /** Unheld shared runs, oldest first. */
  unheld: OracleRun[] = []
  free: number
  allocated = 0
  reused = 0
  evicted = 0
  failures = 0
  readonly #all = new Set<OracleRun>()
  readonly #blocksPerChunk: readonly number[]

  constructor(capacity: number, blocksPerChunk: readonly number[]) {
    this.free = capacity
    this.#blocksPerChunk = blocksPerChunk
  }

  residentRun(space: number, names: readonly number[]): number {
    const gap = names.findIndex((name) => !this.shared.has(`${space}:${name}`))
    return gap < 0 ? names.length : gap
  }

  acquire(table: OracleTable, names: readonly number[]): boolean {
    if (this.residentRun(table.space, names) < names.length) return false
    for (const name of names) table.chunks.push(this.#reuse(this.shared.get(`${table.space}:${name}`)!))
    return true
  }

  allocate(table: OracleTable, names: readonly number[]): boolean {
    const blocks = this.#blocksPerChunk[table.space]!
    const hits = names.map((name) => this.shared.get(`${table.space}:${name}`))
    const kept = this.unheld.filter((run) => !hits.includes(run))
    const wanted = hits.filter((run) => run === undefined).length * blocks
    if (wanted > this.free + blocksOf(kept)) {
      this.failures += 1
      return false
    }
    for (const run of hits) if (run !== undefined) this.#reuse(run)
    const fresh = (name: number) => this.#create(`${table.space}:${name}`, table.space, blocks, true)
    for (const [i, name] of names.entries()) table.chunks.push(hits[i] ?? fresh(name))
    return true
  }

  allocateTail(table: OracleTable, blocks: number): boolean {
    if (blocks > this.free + blocksOf(this.unheld)) {
      this.failures += 1
      return false
    }
    table.tail = this.#create('tail', table.space, blocks, false)
    return true
  }

  publish(runs: readonly OracleRun[]): number {
    let published = 0
    for (const run of runs) {
      if (run.state !== 'filling') continue
      const isShared = run.isShareable && !this.shared.has(run.key)
      run.state = isShared ? 'shared' : 'private'
      if (!isShared) continue
      this.shared.set(run.key, run)
      published += 1
    }
    return published
  }

  release(table: OracleTable): void {
    for (const run of [...table.chunks, ...(table.tail === null ? [] : [table.tail])].reverse()) {
      run.references -= 1
      this.dispose(run)
    }
    table.chunks = []
    table.tail = null
  }

  dispose(run: OracleRun): void {
    if (run.references + run.transfers > 0) return
    if (run.state === 'shared') this.unheld.push(run)
    else this.#free(run)
  }

  remove(space: number): number {
    let blocks = 0
    for (const run of [...this.#all].filter((each) => each.space === space)) {
      run.isShareable = false
      if (run.state !== 'shared') continue
      blocks += run.blocks
      this.shared.delete(run.key)
      run.state = 'private'
      if (!this.unheld.includes(run)) continue
      this.unheld = this.unheld.filter((other) => other !== run)
      this.#free(run)
    }
    return blocks
  }

  #reuse(run: OracleRun): OracleRun {
    this.unheld = this.unheld.filter((other) => other !== run)
    run.references += 1
    this.reused += run.blocks
    return run
  }

  #create(key: string, space: number, blocks: number, isShareable: boolean): OracleRun {
    while (this.free < blocks) {
      const victim = this.unheld.shift()!
      this.shared.delete(victim.key)
      this.evicted += victim.blocks
      this.#free(victim)
    }
    this.free -= blocks
    this.allocated += blocks
    const run: OracleRun = { key, space, blocks, state: 'filling', isShareable, references: 1, transfers: 0 }
    this.#all.add(run)
    return run
  }

  #free(run: OracleRun): void {
    this.free += run.blocks
    this.#all.delete(run)
  }
}

const blocksOf = (runs: readonly OracleRun[]) => runs.reduce((sum, run) => sum + run.blocks, 0)

function blocksOfRun(blocks: BlockManager, run: number): number[] {
  const numbers: number[] = []
  for (let block = blocks.firstBlock(run); block >= 0; block = blocks.nextBlock(block)) numbers.push(block)
  return numbers
}

/** Prompts of a few families: those of a family share their first chunks. */
function prompt(next: (limit: number) => number): number[] {
  const family = next(4)
  const branch = next(3)
  const length = 1 + next(8)
  const fork = 1 + next(5)
  return Array.from({ length }, (_, i) => 1 + i + 100 * family + (i < fork ? 0 : 1000 * (1 + branch) + 10_000 * fork))
}

interface Transfer {
  readonly run: number
  readonly oracleRun: OracleRun
  readonly direction: Direction
  readonly blocks: readonly number[]
}

const CAPACITY_BLOCKS = 48
const SPACE_TOKENS = [32, 70]
const STEPS = 3000

// Oracle: the same rules over plain objects and arrays.
it.each([1, 2, 3, 4, 5, 6, 7, 8])('BlockManager does what its oracle does (seed %i)', (seed) => {
  const next = random(seed)
  const { blocks, tenants, events, clock } = makeBlocks({ capacityBytes: CAPACITY_BLOCKS * 16 })
  for (const [space, tokens] of SPACE_TOKENS.entries()) blocks.registerSpace(space, byteSpace(tokens, space))
  const oracle = new OracleBlocks(CAPACITY_BLOCKS, [2, 5])
  const requests = Array.from({ length: 8 }, (_, i) => {
    const space = i % 2
    return { table: new BlockTable(space, 1), oracle: { space, chunks: [], tail: null } as OracleTable }
  })
  let transfers: Transfer[] = []

  const settle = (transfer: Transfer) => {
    expect(blocksOfRun(blocks, transfer.run)).toEqual(transfer.blocks)
    blocks.settleTransfer(transfer.run, transfer.direction)
    transfer.oracleRun.transfers -= 1
    oracle.dispose(transfer.oracleRun)
    transfers = transfers.filter((other) => other !== transfer)
  }
  const start = ({ table, oracle: held }: (typeof requests)[number], index: number) => {
    const oracleRun = held.chunks[index]!
    const direction = oracleRun.state === 'filling' ? 'load' : 'store'
    const run = table.runOf(index)
    blocks.holdForTransfer(run, direction)
    oracleRun.transfers += 1
    transfers.push({ run, oracleRun, direction, blocks: blocksOfRun(blocks, run) })
  }

  for (let step = 0; step < STEPS; step += 1) {
    clock.advance(next(1000))
    const request = requests[next(requests.length)]!
    const { table, oracle: held } = request
    const names = prompt(next)
    const chain = chainOf(...names)
    const choice = next(20)
    if (choice < 8 && table.isEmpty) {
      const resident = blocks.residentRun(table.space, chain, 0, names.length)
      expect(resident).toBe(oracle.residentRun(table.space, names))
      const to = next(2) === 0 ? resident : 0 // allocate takes references too
      expect(blocks.acquire(table, chain, 0, to)).toBe(oracle.acquire(held, names.slice(0, to)))
      expect(blocks.allocate(table, chain, to, names.length)).toBe(oracle.allocate(held, names.slice(to)))
    } else if (choice === 8 && table.isEmpty) {
      expect(blocks.acquire(table, chain, 0, names.length)).toBe(oracle.acquire(held, names))
    } else if (choice === 9 && held.tail === null) {
      const tokens = 1 + next(60)
      expect(blocks.allocateTail(table, tokens)).toBe(oracle.allocateTail(held, Math.ceil(tokens / 16)))
    } else if (choice < 12) {
      blocks.release(table)
      oracle.release(held)
    } else if (choice < 15 && held.chunks.length > 0) {
      const to = 1 + next(held.chunks.length)
      const isLoading = transfers.some(({ oracleRun, direction }) => {
        return direction === 'load' && held.chunks.includes(oracleRun)
      })
      if (!isLoading) expect(blocks.publish(table, 0, to)).toBe(oracle.publish(held.chunks.slice(0, to)))
    } else if (choice < 17 && held.chunks.length > 0) {
      start(request, next(held.chunks.length))
    } else if (choice < 19 && transfers.length > 0) {
      settle(transfers[next(transfers.length)]!)
    } else if (next(20) === 0) {
      const space = next(2)
      expect(blocks.removeSpace(space)).toBe(oracle.remove(space))
    }
    blocks.verify()
    expect(blocks.freeBlocks).toBe(oracle.free)
    expect(blocks.cachedBlocks).toBe(blocksOf(oracle.unheld))
    const other = prompt(next)
    for (const space of [0, 1]) {
      const run = blocks.residentRun(space, chainOf(...other), 0, other.length)
      expect(run).toBe(oracle.residentRun(space, other))
    }
  }

  for (const transfer of transfers) settle(transfer)
  for (const { table } of requests) blocks.release(table)
  blocks.verify()
  blocks.clear()
  expect(blocks.freeBlocks).toBe(CAPACITY_BLOCKS)
  expect(tenants.sum('allocatedBlocks')).toBe(oracle.allocated)
  expect(tenants.sum('reusedBlocks')).toBe(oracle.reused)
  expect(tenants.sum('evictedBlocks')).toBe(oracle.evicted)
  expect(tenants.sum('allocationFailures')).toBe(oracle.failures)
  const evictions = events.published.filter(({ type }) => type === L0_BLOCK_EVICTED)
  expect(evictions.reduce((sum, { c: blocks }) => sum + blocks, 0)).toBe(oracle.evicted)
  expect(oracle.evicted).toBeGreaterThan(100)
  expect(oracle.failures).toBeGreaterThan(0)
})
