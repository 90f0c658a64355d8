import { CounterTable } from '../core/counters.ts'
import { EventBus } from '../events/bus.ts'
import { SAMPLE_ALL } from '../events/chunk-tag.ts'
import {
  ADAPTER_ROWS,
  COPY_TENANT_FIELDS,
  ENGINE_FIELDS,
  ENGINE_TENANT_FIELDS,
  L0_FIELDS,
  L0_TENANT_FIELDS,
  L1_FIELDS,
  L1_TENANT_FIELDS,
  L2_FIELDS,
  L2_STATES,
  L2_TENANT_FIELDS,
  LOOP_FIELDS,
  LOOPS,
  SAMPLING_FIELDS,
  SPAN_FIELDS,
  SPAN_PUSH_FIELDS,
} from '../events/counters.ts'
import { MAX_TENANTS_DEFAULT, NameTable, TenantTable } from './label-sets.ts'

/** Events the bus holds by default: 3 MiB. */
export const BUS_CAPACITY_DEFAULT = 65_536

/** What another thread needs to attach: passes through `postMessage` and `workerData` as it is. */
export interface MetricHandles {
  readonly maxTenants: number
  readonly counters: SharedArrayBuffer
  readonly tenants: SharedArrayBuffer
  readonly adapters: SharedArrayBuffer
  readonly bus: SharedArrayBuffer
}

/** The rows a table has. */
export type RowKind = 'one' | 'tenant' | 'adapter' | 'adapterTenant' | 'loop'

/** Every counter table: its fields and what its rows are. */
export const TABLES = {
  engineTenants: { fields: ENGINE_TENANT_FIELDS, rows: 'tenant' },
  engine: { fields: ENGINE_FIELDS, rows: 'one' },
  l1Tenants: { fields: L1_TENANT_FIELDS, rows: 'tenant' },
  l1: { fields: L1_FIELDS, rows: 'one' },
  l0Tenants: { fields: L0_TENANT_FIELDS, rows: 'tenant' },
  l0: { fields: L0_FIELDS, rows: 'one' },
  copyTenants: { fields: COPY_TENANT_FIELDS, rows: 'tenant' },
  l2: { fields: L2_FIELDS, rows: 'adapter' },
  l2Tenants: { fields: L2_TENANT_FIELDS, rows: 'adapterTenant' },
  l2States: { fields: L2_STATES, rows: 'one' },
  loops: { fields: LOOP_FIELDS, rows: 'loop' },
  sampling: { fields: SAMPLING_FIELDS, rows: 'one' },
  spans: { fields: SPAN_FIELDS, rows: 'one' },
  spanPush: { fields: SPAN_PUSH_FIELDS, rows: 'one' },
} as const satisfies Record<string, { fields: readonly string[]; rows: RowKind }>

export type TableName = keyof typeof TABLES
export type FieldOf<Name extends TableName> = (typeof TABLES)[Name]['fields'][number]
export type Tables = { readonly [Name in TableName]: CounterTable<FieldOf<Name>> }

function rowCount(kind: RowKind, tenantRows: number): number {
  switch (kind) {
    case 'one':
      return 1
    case 'tenant':
      return tenantRows
    case 'adapter':
      return ADAPTER_ROWS
    case 'adapterTenant':
      return ADAPTER_ROWS * tenantRows
    case 'loop':
      return LOOPS.length
  }
}

/** Doubles of all tables, and where each starts. */
function layout(tenantRows: number): { starts: Map<TableName, number>; doubles: number } {
  const starts = new Map<TableName, number>()
  let doubles = 0
  for (const [name, { fields, rows }] of Object.entries(TABLES)) {
    starts.set(name as TableName, doubles)
    doubles += fields.length * rowCount(rows, tenantRows)
    doubles = Math.ceil(doubles / 8) * 8 // tables of different writers do not share a cache line
  }
  return { starts, doubles }
}

function tablesOver(counters: SharedArrayBuffer, tenantRows: number): Tables {
  const { starts } = layout(tenantRows)
  const tables: Record<string, CounterTable> = {}
  for (const [name, { fields, rows }] of Object.entries(TABLES)) {
    const count = rowCount(rows, tenantRows)
    const values = new Float64Array(counters, starts.get(name as TableName)! * 8, count * fields.length)
    tables[name] = new CounterTable<string>(fields, count, values)
  }
  return tables as unknown as Tables
}

/** Everything of the metrics that threads share: counter tables, label sets and the event bus. */
export class MetricCells {
  readonly handles: MetricHandles
  readonly tables: Tables
  readonly tenants: TenantTable
  /** Rows of the `l2` table. Row of `l2Tenants` = adapter row x tenants.rows + tenant. */
  readonly adapters: NameTable
  readonly bus: EventBus
  readonly engineTenants: Tables['engineTenants']
  readonly engine: Tables['engine']
  readonly l1Tenants: Tables['l1Tenants']
  readonly l1: Tables['l1']
  readonly l0Tenants: Tables['l0Tenants']
  readonly l0: Tables['l0']
  readonly copyTenants: Tables['copyTenants']
  readonly l2: Tables['l2']
  readonly l2Tenants: Tables['l2Tenants']
  readonly l2States: Tables['l2States']
  readonly loops: Tables['loops']
  readonly sampling: Tables['sampling']
  readonly spans: Tables['spans']
  readonly spanPush: Tables['spanPush']

  private constructor(handles: MetricHandles, tenants: TenantTable, adapters: NameTable, bus: EventBus) {
    this.handles = handles
    this.tenants = tenants
    this.adapters = adapters
    this.bus = bus
    const tables = tablesOver(handles.counters, tenants.rows)
    this.tables = tables
    this.engineTenants = tables.engineTenants
    this.engine = tables.engine
    this.l1Tenants = tables.l1Tenants
    this.l1 = tables.l1
    this.l0Tenants = tables.l0Tenants
    this.l0 = tables.l0
    this.copyTenants = tables.copyTenants
    this.l2 = tables.l2
    this.l2Tenants = tables.l2Tenants
    this.l2States = tables.l2States
    this.loops = tables.loops
    this.sampling = tables.sampling
    this.spans = tables.spans
    this.spanPush = tables.spanPush
  }

  /** Made once, by the thread that writes the counters. `busCapacityEvents` is a power of two. */
  static create({
    maxTenants = MAX_TENANTS_DEFAULT,
    busCapacityEvents = BUS_CAPACITY_DEFAULT,
  }: {
    maxTenants?: number
    busCapacityEvents?: number
  } = {}): MetricCells {
    const tenants = TenantTable.create({ maxTenants })
    const adapters = NameTable.create({ rows: ADAPTER_ROWS })
    const bus = EventBus.create(busCapacityEvents)
    const counters = new SharedArrayBuffer(layout(tenants.rows).doubles * 8)
    const handles = { maxTenants, counters, tenants: tenants.buffer, adapters: adapters.buffer, bus: bus.buffer }
    const cells = new MetricCells(handles, tenants, adapters, bus)
    for (const field of SAMPLING_FIELDS) cells.sampling.set(0, field, SAMPLE_ALL)
    return cells
  }

  /** The same cells in another thread. */
  static attach(handles: MetricHandles): MetricCells {
    const tenants = TenantTable.attach(handles.tenants)
    const adapters = NameTable.attach(handles.adapters)
    return new MetricCells(handles, tenants, adapters, EventBus.attach(handles.bus))
  }
}
