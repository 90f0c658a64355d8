import { L0_L1_LOADED, L0_L1_STORED, L2_LOADED, L2_STORED } from '../events/catalogue.ts'
import type { EventType } from '../events/define.ts'
import type { FieldOf, TableName } from './cells.ts'
import { ADAPTER_TENANT, cell, counter, GB_PER_SECOND, histogram, type Metric, TENANT } from './define.ts'

interface Path<Name extends TableName> {
  readonly name: string
  readonly what: string
  readonly labels: readonly string[]
  readonly table: Name
  readonly bytes: FieldOf<Name>
  readonly busySeconds: FieldOf<Name>
  readonly on: EventType<readonly string[]>
  readonly adapter?: string
}

/** The rate of one transfer path, and the totals that give its byte-weighted rate. */
function path<Name extends TableName>({ name, what, labels, table, bytes, busySeconds, on, adapter }: Path<Name>) {
  const metrics: Metric[] = [
    histogram(`${name}_throughput_GB_per_second`, {
      help: `Rate of each transfer batch ${what}, in 1e9 bytes a busy second.`,
      labels,
      on,
      value: 'bytes',
      per: 'busySeconds',
      scale: 1e9,
      ...(adapter === undefined ? {} : { adapter }),
      bounds: GB_PER_SECOND,
    }),
    counter(`${name}_bytes_total`, {
      help: `Bytes moved ${what}.`,
      labels,
      extension: true,
      from: [cell(table, bytes)],
    }),
    counter(`${name}_busy_seconds_total`, {
      help: `Seconds that transfers ${what} took.`,
      labels,
      extension: true,
      from: [cell(table, busySeconds, { visibleWith: [bytes] })],
    }),
  ]
  return metrics
}

/** The four transfer paths. */
export const THROUGHPUT_METRICS: readonly Metric[] = [
  ...path({
    name: 'l0_l1_store',
    what: 'from L0 to L1',
    labels: TENANT,
    table: 'copyTenants',
    bytes: 'storeBytes',
    busySeconds: 'storeBusySeconds',
    on: L0_L1_STORED,
  }),
  ...path({
    name: 'l0_l1_load',
    what: 'from L1 to L0',
    labels: TENANT,
    table: 'copyTenants',
    bytes: 'loadBytes',
    busySeconds: 'loadBusySeconds',
    on: L0_L1_LOADED,
  }),
  ...path({
    name: 'l2_store',
    what: 'from L1 to L2',
    labels: ADAPTER_TENANT,
    table: 'l2Tenants',
    bytes: 'storeBytes',
    busySeconds: 'storeBusySeconds',
    on: L2_STORED,
    adapter: 'adapter',
  }),
  ...path({
    name: 'l2_load',
    what: 'from L2 to L1',
    labels: ADAPTER_TENANT,
    table: 'l2Tenants',
    bytes: 'loadBytes',
    busySeconds: 'loadBusySeconds',
    on: L2_LOADED,
    adapter: 'adapter',
  }),
]
