import { randomInt } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { composeEngine, type EngineRuntime } from '../app/compose.ts'
import { IoPool } from '../app/io-pool.ts'
import { readMachineFacts } from '../config/machine-facts.ts'
import type { Clock } from '../core/clock.ts'
import type { SpaceId } from '../core/ids.ts'
import { DEVICE_PROFILES } from '../l0/device-profiles.ts'
import { SimulatedDevice } from '../l0/simulated-device.ts'
import type { L2Adapter } from '../l2/adapter.ts'
import { MemoryAdapter } from '../l2/adapters/memory.ts'
import { ADAPTER_LIMITS_DEFAULT, FILESYSTEM_DEFAULT, MEMORY_DEFAULT } from '../l2/options.ts'
import { MetricCells } from '../metrics/cells.ts'
import { openSegment, type SharedSegment } from '../native/shared-memory.ts'
import { engineOptions, type ReplaySettings } from './replay-settings.ts'
import { usageError } from './report-error.ts'

/** An engine of its own for one replay, on one thread. Nothing of it outlives `close`. */
export interface ReplayEngine {
  readonly runtime: EngineRuntime
  readonly cells: MetricCells
  readonly space: SpaceId
  /** The bytes of L1 and of the simulated device; null when only metadata is kept. */
  readonly arena: Uint8Array | null
  readonly deviceMemory: Uint8Array | null
  close(): Promise<void>
}

export interface ReplayEngineParts {
  readonly clock: Clock
  readonly onError: (where: string, error: unknown) => void
}

/** @throws CacheError when L1 or L2 cannot be had. */
export async function openReplayEngine(settings: ReplaySettings, parts: ReplayEngineParts): Promise<ReplayEngine> {
  const { clock, onError } = parts
  const options = engineOptions(settings, readMachineFacts())
  const cleanups: (() => unknown)[] = []
  try {
    const segment = settings.isMetadataOnly ? null : await openArena(settings.l1Bytes, cleanups)
    const arena = segment?.memory ?? null
    const device = settings.tiers.l0 ? openDevice(settings.l0Bytes, options.l0.simulatedProfile, arena, clock) : null
    const cells = MetricCells.create({ maxTenants: options.general.tenantsMax })
    const random = (limit: number): number => randomInt(limit)
    const runtime = composeEngine(options, { clock, cells, memory: arena, device, random, onError })
    cleanups.push(() => runtime.stop())
    const { engine } = runtime
    if (settings.tiers.l2) {
      const adapter = await openStorage(settings, segment, cleanups, onError)
      await engine.adapters.add('replay', adapter, ADAPTER_LIMITS_DEFAULT)
      cleanups.push(() => adapter.close())
    }
    const request = { model: 'replay', salt: '', ranks: 1, shardBytes: settings.blockBytes, layout: 'replay' }
    const space = engine.openSpace(request)
    runtime.start()
    const deviceMemory = device?.memory ?? null
    return { runtime, cells, space, arena, deviceMemory, close: () => closeAll(cleanups) }
  } catch (error) {
    await closeAll(cleanups)
    throw error
  }
}

async function openArena(bytes: number, cleanups: (() => unknown)[]): Promise<SharedSegment> {
  const segment = await openSegment({ name: `kvtier-replay-${process.pid}`, bytes })
  segment.unlink() // no other process maps it
  cleanups.push(() => segment.close())
  return segment
}

function openDevice(bytes: number, profile: string, arena: Uint8Array | null, clock: Clock): SimulatedDevice {
  const device = new SimulatedDevice({ capacityBytes: bytes, profile: DEVICE_PROFILES[profile]! }, { clock })
  device.open(bytes, arena)
  return device
}

/** Files in a directory of their own, on an io worker; without bytes an index in memory. */
async function openStorage(
  { l2Bytes: capacityBytes, l2Directory }: ReplaySettings,
  segment: SharedSegment | null,
  cleanups: (() => unknown)[],
  onError: ReplayEngineParts['onError'],
): Promise<L2Adapter> {
  if (segment === null) return new MemoryAdapter({ ...MEMORY_DEFAULT, capacityBytes, keepBytes: false })
  const directory = makeDirectory(l2Directory ?? tmpdir())
  cleanups.push(() => rmSync(directory, { recursive: true, force: true }))
  const pool = await IoPool.start(1, segment, (reason) => onError('io worker', reason))
  cleanups.push(() => pool.close())
  return pool.adapter({ ...FILESYSTEM_DEFAULT, directory, capacityBytes, durability: 'checksum' })
}

function makeDirectory(parent: string): string {
  try {
    return mkdtempSync(join(parent, 'kvtier-replay-'))
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? String(error)
    throw usageError(`--l2-dir is "${parent}": no directory can be made there (${reason})`, '--l2-dir')
  }
}

/** In reverse order of opening. */
async function closeAll(cleanups: (() => unknown)[]): Promise<void> {
  for (let cleanup = cleanups.pop(); cleanup !== undefined; cleanup = cleanups.pop()) await cleanup()
}
