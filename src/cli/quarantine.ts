import { answer, type CommandCall, type ExitCode } from './command.ts'
import { askEngine } from './engine-http.ts'
import { usageError } from './report-error.ts'
import { shortBytes } from './short-texts.ts'
import { textTable } from './table.ts'

interface LateWorker {
  readonly worker: string
  readonly model: string
  readonly silent: boolean
  readonly silent_seconds: number
  readonly transfers: number
  readonly write_bytes: number
  readonly read_bytes: number
}

/** `kvtier quarantine list|release`: slots that a running engine keeps for workers whose leases have expired. */
export async function run(call: CommandCall): Promise<ExitCode> {
  return call.spec.name === 'quarantine list' ? list(call) : release(call)
}

async function list(call: CommandCall): Promise<ExitCode> {
  const found = (await askEngine(call, '/v1/quarantine')) as { workers: LateWorker[] }
  answer(call, found, () => (found.workers.length === 0 ? 'Nothing is quarantined.' : tableOf(found.workers)))
  return 0
}

async function release(call: CommandCall): Promise<ExitCode> {
  const worker = call.positionals[0]
  const isAll = call.options.all === true
  if ((worker === undefined) === !isAll) {
    throw usageError('quarantine release needs a WORKER, as quarantine list shows it, or --all')
  }
  if (worker !== undefined && !/^\d{1,20}$/.test(worker)) throw usageError(`"${worker}" is no instance id of a worker`)
  const body = worker === undefined ? {} : { worker }
  const freed = (await askEngine(call, '/v1/quarantine/release', body)) as { workers: LateWorker[] }
  answer(call, freed, () =>
    freed.workers.length === 0 ? 'Nothing was quarantined.' : `Freed:\n${tableOf(freed.workers)}`,
  )
  return 0
}

function tableOf(workers: readonly LateWorker[]): string {
  const columns = [
    { title: 'worker' },
    { title: 'model', wraps: true },
    { title: 'state' },
    { title: 'silent for' },
    { title: 'transfers' },
    { title: 'may write' },
    { title: 'may read' },
  ]
  const rows = workers.map((one) => [
    one.worker,
    one.model,
    one.silent ? 'silent' : 'late',
    `${Math.round(one.silent_seconds)} s`,
    String(one.transfers),
    shortBytes(one.write_bytes),
    shortBytes(one.read_bytes),
  ])
  return textTable(columns, rows)
}
