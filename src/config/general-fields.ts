import { derived, directory, type FieldTable, integer, oneOf } from './fields.ts'

/** Options of the process as a whole. */
export interface GeneralOptions {
  /** Absolute. One engine a directory. */
  readonly dataDir: string
  readonly logLevel: 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent'
  /** Distinct (model, salt) pairs with metrics of their own. */
  readonly tenantsMax: number
  /** Worker threads for L2, checksums and long prompts. */
  readonly ioWorkers: number
  /** Events that may wait on the bus. */
  readonly eventBusCapacity: number
}

export const generalFields = {
  dataDir: directory('--data-dir', './kvtier-data', 'Directory of everything that outlives the process.'),
  logLevel: oneOf(
    '--log-level',
    ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'],
    'info',
    'Least severe level that is logged.',
  ),
  tenantsMax: integer(
    '--max-tenants',
    200,
    { minimum: 1, maximum: 100_000 },
    'Pairs of model and cache salt with metrics of their own; later ones are counted together.',
  ),
  ioWorkers: integer(
    '--io-workers',
    derived('the number of CPUs, 1 to 4', ({ machine }) => Math.min(4, Math.max(1, machine.cpus))),
    { minimum: 1, maximum: 64 },
    'Worker threads for L2 storage and its checksums.',
  ),
  eventBusCapacity: integer(
    '--event-bus-capacity',
    65_536,
    { minimum: 1024, maximum: 16_777_216 },
    'Events that may wait for the metrics thread; the newest is dropped, and counted, when it is full.',
  ),
} satisfies FieldTable<GeneralOptions>
