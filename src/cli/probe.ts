import { formatBytes } from '../config/units.ts'
import { CacheError } from '../core/errors.ts'
import { CudaDevice } from '../l0/cuda-device.ts'
import { capability } from '../native/capability.ts'
import { type CudaDriver, type CudaFigures, type MeasuredRow, probeCuda } from '../native/cuda.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { askEngine } from './engine-http.ts'
import { textTable } from './table.ts'

const MIB = 1024 ** 2
/** Device and host memory that a measurement takes for its time. */
const SCRATCH_BYTES = 64 * MIB
const MEASURE_SECONDS = 1

/** What was measured on one device, or why nothing was. */
type Measured = CudaFigures | { readonly failed: string }

/** What shares the GPU's memory with a running engine. */
interface Sharing {
  readonly l0: string
  readonly attachedPools: number
  readonly borrowers: number
}

/** `kvtier probe`: what this machine has of native code and GPUs, and what the engine would simulate. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const { 'cuda-library': given, 'cuda-device': asked } = call.options
  const library = typeof given === 'string' ? given : ''
  const driver = probeCuda(library)
  const ordinal = Number(asked ?? 0)
  const facts = driver.available ? driver.devices.find((one) => one.ordinal === ordinal) : undefined
  const measured =
    driver.available && facts !== undefined && call.options.quick !== true ? measure(driver, library, ordinal) : null
  const simulated = simulatedParts(driver.available ? driver : null)
  const modes = modesOf(driver)
  const engine = await sharingOf(call)
  const result = { native: capability(), cuda: driver, measured, modes, engine, simulated }
  const lines = () => [...nativeLines(result.native), ...cudaLines(driver, measured), ...modeLines(modes, engine)]
  answer(call, result, () => [...lines(), ...simulated.map((part) => `simulated  ${part}`)].join('\n'))
  return 0
}

/** How an inference server may share the GPU's blocks with an engine here. */
function modesOf(driver: ReturnType<typeof probeCuda>) {
  const shared = driver.available ? { available: true } : { available: false, reason: 'there is no GPU to share' }
  return { observed: { available: true }, attached: shared, managed: shared }
}

/** Who shares GPU memory with a running engine; null when none answers. */
async function sharingOf(call: CommandCall): Promise<Sharing | null> {
  try {
    const status = (await askEngine(call, '/status')) as {
      readonly l0: { readonly kind: string }
      readonly attachedPools: readonly object[]
      readonly borrowers: readonly object[]
    }
    return { l0: status.l0.kind, attachedPools: status.attachedPools.length, borrowers: status.borrowers.length }
  } catch (error) {
    if (error instanceof CacheError) return null
    throw error
  }
}

function modeLines(modes: ReturnType<typeof modesOf>, engine: Sharing | null): string[] {
  const lines = Object.entries(modes).map(([name, mode]) => {
    return `mode       ${name}: ${'reason' in mode ? `no, ${mode.reason}` : 'yes'}`
  })
  if (engine === null) return [...lines, 'engine     none answers']
  const { l0, attachedPools, borrowers } = engine
  return [...lines, `engine     L0 ${l0}, ${attachedPools} attached pools, ${borrowers} borrowers`]
}

function measure(driver: CudaDriver, library: string, ordinal: number): Measured {
  const device = new CudaDevice({ library, ordinal, measureSeconds: MEASURE_SECONDS }, driver)
  try {
    device.open(SCRATCH_BYTES, new Uint8Array(SCRATCH_BYTES))
    return device.figures()!
  } catch (error) {
    if (error instanceof CacheError) return { failed: error.message }
    throw error
  } finally {
    device.close()
  }
}

function simulatedParts(driver: CudaDriver | null): string[] {
  if (driver === null) return ['the GPU: serve has a simulated one, with the transfer times of a profile']
  if (driver.isStandIn) return ['the GPU: this driver is a stand-in that copies in host memory; times mean nothing']
  return []
}

function nativeLines({ addon, sharedMemory, wholeFiles, timeSlices }: ReturnType<typeof capability>): string[] {
  const say = (name: string, part: { available: boolean; reason?: string }, detail = '') =>
    `${name.padEnd(10)} ${part.available ? `yes${detail}` : `no: ${part.reason}`}`
  const processor = addon.processor === undefined ? '' : `, for ${addon.processor}`
  const files = `files      ${wholeFiles.way === 'addon' ? 'one call of the addon for each object' : 'calls of node:fs'}`
  return [say('shm', sharedMemory), say('addon', addon, processor), files, say('slices', timeSlices)]
}

function cudaLines(driver: ReturnType<typeof probeCuda>, measured: Measured | null): string[] {
  if (!driver.available) return [`cuda       no: ${driver.reason}`]
  const { driverVersion, library, devices } = driver
  const version = `${Math.trunc(driverVersion / 1000)}.${(driverVersion % 1000) / 10}`
  const lines = [`cuda       ${library}, CUDA ${version}`]
  for (const { ordinal, name, bytes, computeCapability, uuid } of devices) {
    lines.push(`device ${ordinal}   ${name}, ${formatBytes(bytes)}, compute ${computeCapability}, ${uuid}`)
  }
  if (measured === null) return lines
  if ('failed' in measured) return [...lines, `measured   nothing: ${measured.failed}`]
  for (const { name, available, reason } of measured.methods) {
    lines.push(`method     ${name}${available ? '' : `: no, ${reason}`}`)
  }
  return [
    ...lines,
    `pinned     ${formatBytes(measured.pinnedBytes)} for the measurement, given back`,
    tableOf(measured.table),
  ]
}

/** GB/s by direction, size and count; the method that the engine would take is named last. */
function tableOf(rows: readonly MeasuredRow[]): string {
  const columns = ['way', 'piece', 'pieces', 'loop GB/s', 'batch GB/s', 'kernel GB/s', 'taken'].map((title, at) => ({
    title,
    align: at === 0 || at === 6 ? ('left' as const) : ('right' as const),
  }))
  const cells = rows.map((row) => {
    const seconds = { loop: row.loopSeconds, batch: row.batchSeconds, kernel: row.kernelSeconds }
    const speeds = Object.values(seconds).map((one) =>
      one === 0 ? '-' : ((row.pieceBytes * row.count) / one / 1e9).toFixed(1),
    )
    const taken = Object.entries(seconds)
      .filter(([, one]) => one > 0)
      .sort(([, a], [, b]) => a - b)[0]
    return [row.direction, formatBytes(row.pieceBytes), String(row.count), ...speeds, taken?.[0] ?? '-']
  })
  return textTable(columns, cells)
}
