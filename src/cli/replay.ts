import { statSync } from 'node:fs'
import { MessageChannel } from 'node:worker_threads'
import { ReplayMetrics } from '../app/replay-metrics.ts'
import { readMachineFacts } from '../config/machine-facts.ts'
import { ManualClock, SystemClock } from '../core/clock.ts'
import { ChunkChecker } from '../replay/chunk-checker.ts'
import { ClientPath } from '../replay/client-path.ts'
import { GpuPath } from '../replay/gpu-path.ts'
import { ReplayCounts } from '../replay/replay-counts.ts'
import { type Pace, RealPace, VirtualPace } from '../replay/replay-pace.ts'
import { type ReferenceReport, type ReplayReport, referenceReport, replayReport, reportRows } from '../replay/report.ts'
import { TraceBatch } from '../replay/trace-batch.ts'
import { VirtualServer } from '../replay/virtual-server.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { ProgressBar } from './progress-bar.ts'
import { openReplayEngine, type ReplayEngine } from './replay-engine.ts'
import { engineOptions, type ReplaySettings, readReplaySettings } from './replay-settings.ts'
import { printSweep } from './replay-sweep.ts'
import { appendBatch, type OpenTrace, openTrace } from './replay-trace.ts'
import { onStopSignal } from './stop-signal.ts'
import { textTable } from './table.ts'

/** `kvtier replay FILE`. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const settings = readReplaySettings(call)
  if (settings.isSweep) return await printSweep(call, settings)
  const report = await replay(call, settings)
  answer(call, report, () => reportText(report))
  return report.corrupt_blocks > 0 ? 1 : 0
}

/** Replays a trace against an engine of its own. */
async function replay(call: CommandCall, settings: ReplaySettings): Promise<ReplayReport> {
  const wall = new SystemClock()
  const clock = settings.speed === 0 ? new ManualClock() : wall
  const errors = new Set<string>()
  const onError = (where: string, error: unknown): void => {
    const text = `${where}: ${error instanceof Error ? error.message : error}`
    if (!errors.has(text)) call.terminal.log(`kvtier: ${text}`)
    errors.add(text)
  }
  const { tokenizer } = engineOptions(settings, readMachineFacts())
  const trace = await openTrace(settings, tokenizer, onError)
  const engine = await openReplayEngine(settings, { clock, onError }).catch((error) => {
    trace.close()
    throw error
  })
  const metrics = new ReplayMetrics(engine.cells, clock instanceof ManualClock ? clock : null, onError)
  try {
    if (settings.prometheusPort >= 0) {
      call.terminal.log(`metrics at http://${await metrics.serve(settings.prometheusPort)}/metrics`)
    }
    const pace = paceOf(settings, clock, wall, engine)
    return await drive(call, settings, { trace, engine, pace, wall, metrics })
  } finally {
    trace.close()
    await metrics.close()
    await engine.close()
  }
}

interface Driven {
  readonly trace: OpenTrace
  readonly engine: ReplayEngine
  readonly pace: Pace
  readonly wall: SystemClock
  readonly metrics: ReplayMetrics
}

async function drive(call: CommandCall, settings: ReplaySettings, parts: Driven): Promise<ReplayReport> {
  const { trace, engine, pace, wall, metrics } = parts
  const counts = new ReplayCounts()
  const progress = new TraceShare(settings.file)
  const bar = new ProgressBar(call.terminal, wall, 'replay')
  const onProgress = (): void => {
    metrics.tick()
    const ratio = Math.max(progress.ratio(counts.requests), counts.requests / settings.limit)
    bar.update(ratio, counts.blockRefs, 'refs')
  }
  const { space, runtime } = engine
  const path = dataPath(settings, engine, counts)
  const server = new VirtualServer(settings, { engine: runtime.engine, space, pace, path, counts, onProgress })
  const removeHandlers = onStopSignal(wall, () => server.stop())
  const keepAlive = new MessageChannel() // timers of the clock do not keep the process
  keepAlive.port1.ref()
  const whole = new TraceBatch()
  const startMs = wall.nowMs()
  let runMs = 0
  try {
    for await (const batch of trace.read(progress)) {
      const batchMs = wall.nowMs()
      progress.begin(batch.count, counts.requests)
      await server.run(batch)
      runMs += wall.nowMs() - batchMs
      if (settings.hasReference) appendBatch(whole, batch)
      if (server.isStopped) break
    }
    const finishMs = wall.nowMs()
    await server.finish()
    runMs += wall.nowMs() - finishMs
  } finally {
    bar.finish()
    keepAlive.port1.close()
    removeHandlers()
  }
  const times = { seconds: runMs / 1000, readSeconds: (wall.nowMs() - startMs - runMs) / 1000 }
  return replayReport(setupOf(settings, server.isStopped), counts, engine.cells, times, referenceOf(settings, whole))
}

/** Reference models with the room of all tiers that are used. */
function referenceOf(settings: ReplaySettings, whole: TraceBatch): ReferenceReport | null {
  if (!settings.hasReference) return null
  const { tiers, l0Bytes, l1Bytes, l2Bytes, blockBytes } = settings
  const bytes = (tiers.l0 ? l0Bytes : 0) + l1Bytes + (tiers.l2 ? l2Bytes : 0)
  return referenceReport(whole, Math.floor(bytes / blockBytes))
}

/** How much of a trace file is done: requests within a batch count by their number. */
class TraceShare {
  bytesTaken = 0
  readonly #fileBytes: number
  #batchRequests = 0
  #requestsBefore = 0
  #bytesBefore = 0
  #batchBytes = 0

  constructor(file: string) {
    this.#fileBytes = Math.max(1, statSync(file, { throwIfNoEntry: false })?.size ?? 1)
  }

  /** A batch of so many requests starts. */
  begin(batchRequests: number, requestsBefore: number): void {
    this.#bytesBefore += this.#batchBytes
    this.#batchBytes = this.bytesTaken - this.#bytesBefore
    this.#batchRequests = batchRequests
    this.#requestsBefore = requestsBefore
  }

  /** 0..1 */
  ratio(requests: number): number {
    const ofBatch = (requests - this.#requestsBefore) / Math.max(1, this.#batchRequests)
    return (this.#bytesBefore + ofBatch * this.#batchBytes) / this.#fileBytes
  }
}

function paceOf(
  settings: ReplaySettings,
  clock: ManualClock | SystemClock,
  wall: SystemClock,
  engine: ReplayEngine,
): Pace {
  if (!(clock instanceof ManualClock)) return new RealPace(clock, settings.speed)
  const { stores } = engine.runtime.engine
  const isStoragePending = (): boolean => stores.inflightBatches > 0 || engine.runtime.engine.pendingLookups > 0
  return new VirtualPace(clock, wall, !settings.overlaps, isStoragePending)
}

function dataPath(settings: ReplaySettings, parts: ReplayEngine, counts: ReplayCounts): ClientPath | GpuPath {
  const { engine } = parts.runtime
  const { blockBytes: chunkBytes, verifyEvery, isMetadataOnly } = settings
  const checker = new ChunkChecker(isMetadataOnly ? 0 : verifyEvery, chunkBytes, counts)
  const common = { engine, chunkBytes, counts, checker }
  if (engine.device === null) return new ClientPath({ ...common, arena: parts.arena })
  return new GpuPath({ ...common, device: engine.device, memory: parts.deviceMemory })
}

function setupOf(settings: ReplaySettings, isCutShort: boolean) {
  const { tiers, speed, overlaps } = settings
  const flatOut = overlaps ? 'flat out, requests overlap' : 'flat out, one request after another'
  return {
    ...settings,
    model: settings.format === 'agent-text' ? settings.model : null,
    tiers: (['l0', 'l1', 'l2'] as const).filter((tier) => tiers[tier]),
    pace: speed === 0 ? flatOut : speed === 1 ? 'real time' : `${speed} times real time`,
    isCutShort,
  }
}

function reportText(report: ReplayReport): string {
  const columns = [{ title: '' }, { title: '', wraps: true }]
  const how = `${report.pace}, policy ${report.policy}${report.metadata_only ? ', metadata only' : ''}`
  const lines = [
    `Replay of ${report.file}`,
    `${how}.`,
    ...(report.cut_short ? ['Stopped before the end of the trace.'] : []),
    '',
    textTable(columns, reportRows(report)),
    '',
    'Simulated:',
    ...report.simulated.map((part) => `  ${part}`),
  ]
  return lines.join('\n')
}
