import type { Clock } from '../core/clock.ts'
import { SupervisedLoop } from '../core/supervised-loop.ts'
import { DevicePath } from '../engine/device-path.ts'
import { Engine } from '../engine/engine.ts'
import type { EngineOptions, QuotaOptions } from '../engine/options.ts'
import { Quotas } from '../engine/quotas.ts'
import { LOOPS } from '../events/counters.ts'
import { Tracer } from '../events/tracer.ts'
import { BlockManager } from '../l0/block-manager.ts'
import type { Device } from '../l0/device.ts'
import { ObservedL0 } from '../l0/observed-l0.ts'
import type { L0Options } from '../l0/options.ts'
import { EvictionLoop } from '../l1/eviction-loop.ts'
import { L1Cache, type L1Parts } from '../l1/l1-cache.ts'
import type { L1Options } from '../l1/options.ts'
import { AdapterSet, type AdapterSetParts } from '../l2/adapter-set.ts'
import type { MetricCells } from '../metrics/cells.ts'
import { L0L1Copier } from '../transfer/l0-l1-copier.ts'
import { LoadGate } from '../transfer/load-gate.ts'
import type { TransferOptions } from '../transfer/options.ts'
import { Prefetcher } from '../transfer/prefetcher.ts'
import { StoreController } from '../transfer/store-controller.ts'

export interface ComposeOptions {
  readonly engine: EngineOptions
  readonly l0: L0Options
  readonly l1: L1Options
  readonly transfer: TransferOptions
  /** Absent = no quotas but those that are set. */
  readonly quota?: QuotaOptions
}

export interface ComposeParts {
  readonly clock: Clock
  readonly cells: MetricCells
  /** The arena's bytes; null when only metadata is kept. */
  readonly memory: Uint8Array | null
  /** Opened on `memory`; null = no L0 of our own. */
  readonly device: Device | null
  /** Tables that outlive the process, and who computes checksums; absent = on the heap, and nobody. */
  readonly l1?: Pick<L1Parts, 'tables' | 'startMs' | 'onReadable'>
  /** Whole numbers 0..limit-1 nobody can foresee: for keys of tables, and jitter. */
  readonly random: (limit: number) => number
  readonly onError: (where: string, error: unknown) => void
  readonly onAdapterState?: AdapterSetParts['onState']
  readonly onAdapterReached?: AdapterSetParts['onReached']
  /** Absent = nothing is traced. */
  readonly tracer?: Tracer
}

/** A whole engine on one thread, and its loops. */
export interface EngineRuntime {
  readonly engine: Engine
  readonly quotas: Quotas
  /** Starts the loops, after adapters were attached. @param isWarm what L1 has from an engine before goes to L2 again */
  start(isWarm?: boolean): void
  /** Stops the loops and closes the device. Adapters stay the caller's. */
  stop(): void
  /** More work for the sweep: what servers remember of expired leases. */
  onSweep(task: () => void): void
}

const NO_BYTES = new Uint8Array(0)
const WORD = 2 ** 32
const NO_QUOTAS: QuotaOptions = { l1DefaultBytes: 0, l2DefaultBytes: 0 }

/** Makes an engine of its parts: every `new` that crosses folders. The caller attaches adapters and starts it. */
export function composeEngine(options: ComposeOptions, parts: ComposeParts): EngineRuntime {
  const { clock, cells, memory, device, random, onError, tracer = Tracer.off() } = parts
  const { beat, fail } = loopCells(parts)
  const l1 = new L1Cache(options.l1, {
    clock,
    events: cells.bus,
    ...l1Cells(cells),
    hashKey: [random(WORD), random(WORD)],
    ...parts.l1,
    onPressure: () => eviction.wake(),
    onEvicted: (id, generation) => stores.writeBack.noteEvicted(id, generation),
    isClean: (id, generation) => stores.writeBack.isClean(id, generation),
    ...(memory === null ? {} : { move: (from, to, bytes) => memory.copyWithin(to, from, from + bytes) }),
  })
  const loop = (name: (typeof LOOPS)[number]) => ({ clock, onError: fail, onBeat: beat(name) })
  const eviction = new EvictionLoop({ ...loop('eviction'), cache: l1, totals: cells.l1, tracer })
  const adapters = new AdapterSet({
    clock,
    random: () => random(WORD) / WORD,
    events: cells.bus,
    names: cells.adapters,
    cells: cells.l2,
    tenantCells: cells.l2Tenants,
    states: cells.l2States,
    tenantRows: cells.tenants.rows,
    tracer,
    onError,
    ...adapterTold(parts, () => ({ adapters, quotas, stores })),
  })
  const quotas = new Quotas({ options: options.quota ?? NO_QUOTAS, l1, adapters, cells, clock, onError })
  const view = (offset: number, bytes: number) => (memory === null ? NO_BYTES : memory.subarray(offset, offset + bytes))
  const transfer = { options: options.transfer, l1, adapters, view, tracer }
  const stores = new StoreController({ ...transfer, ...loop('store') })
  const prefetcher = new Prefetcher({
    ...transfer,
    gate: new LoadGate({ options: options.transfer, clock, adapters }),
    onLoaded: (adapter, committed) => stores.noteLoaded(adapter, committed),
    totals: cells.engine,
    onError: (error) => fail('prefetch', error),
  })
  const path = device === null ? null : devicePath(options.l0, parts, device, l1, tracer)
  const observed = new ObservedL0(options.l0, { events: cells.bus, tenants: cells.l0Tenants, totals: cells.l0 })
  const tiers = { l1, adapters, prefetcher, stores, device: path, observed }
  const engine = new Engine({ ...tiers, clock, cells, tracer, options: options.engine })
  const sweeps = [() => engine.sweep()]
  const sweep = new SupervisedLoop({
    ...loop('lease_sweep'),
    name: 'lease_sweep',
    intervalMs: options.engine.sweepIntervalMs,
    cycle: () => sweeps.forEach((task) => void task()),
  })
  const loops = [eviction, stores, sweep]
  return {
    engine,
    quotas,
    start: (isWarm = false) => {
      for (const loop of loops) loop.start()
      if (isWarm) for (const adapter of adapters.storable()) stores.offerAgain(adapter)
    },
    stop: () => {
      loops.forEach((loop) => void loop.stop())
      device?.close()
    },
    onSweep: (task) => void sweeps.push(task),
  }
}

function l1Cells({ l1Tenants, l1, sampling }: MetricCells) {
  return { tenants: l1Tenants, totals: l1, sampling }
}

/** What follows when an adapter changes its state, or is reached at last. */
function adapterTold(
  { cells, onAdapterState, onAdapterReached }: ComposeParts,
  made: () => { readonly adapters: AdapterSet; readonly quotas: Quotas; readonly stores: StoreController },
): Required<Pick<AdapterSetParts, 'onState' | 'onReached'>> {
  return {
    onState: (name, state, before) => {
      const { adapters, quotas } = made()
      if (before === undefined) quotas.attach(name)
      const peers = adapters.all().filter((one) => one.adapter.isPeer === true && one.state !== 'removed')
      cells.engine.set(0, 'peerAdapters', peers.length)
      onAdapterState?.(name, state, before)
    },
    onReached: (name) => {
      const { adapters, quotas, stores } = made()
      quotas.attach(name)
      stores.offerAgain(adapters.find(name)!)
      onAdapterReached?.(name)
    },
  }
}

/** How loops say that they run, and that they failed. */
function loopCells({ cells, onError }: Pick<ComposeParts, 'cells' | 'onError'>) {
  const beat = (loop: (typeof LOOPS)[number]) => {
    const { values, stride } = cells.loops
    const at = LOOPS.indexOf(loop) * stride + cells.loops.column('lastBeatMs')
    return (nowMs: number) => {
      values[at] = nowMs
    }
  }
  const fail = (loop: string, error: unknown) => {
    const row = (LOOPS as readonly string[]).indexOf(loop)
    if (row >= 0) cells.loops.add(row, 'errors', 1)
    onError(loop, error)
  }
  return { beat, fail }
}

function devicePath(
  options: L0Options,
  { clock, cells }: ComposeParts,
  device: Device,
  l1: L1Cache,
  tracer: Tracer,
): DevicePath {
  const common = { clock, events: cells.bus }
  const blocks = new BlockManager(options, { ...common, tenants: cells.l0Tenants, totals: cells.l0 })
  const copier = new L0L1Copier(options, { ...common, device, blocks, tenants: cells.copyTenants })
  return new DevicePath({ device, blocks, copier, l1, tracer })
}
