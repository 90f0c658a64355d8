import { LOOKUP_SPAN, outcomeOf, SPAN_CANCELLED } from '../events/span-kinds.ts'
import { NO_ROW, NO_SPAN, type Span, type Tracer } from '../events/tracer.ts'
import type { SpaceSpec } from '../l1/key-spaces.ts'
import type { MetricCells } from '../metrics/cells.ts'
import type { Lookup } from './lookup.ts'

/** What is told of lookups: counters of tenants, added in place, and spans. */
export class LookupCounts {
  readonly #table: MetricCells['engineTenants']
  readonly #tracer: Tracer
  readonly #columns: ReturnType<typeof columnsOf>

  constructor(cells: MetricCells, tracer: Tracer) {
    this.#table = cells.engineTenants
    this.#tracer = tracer
    this.#columns = columnsOf(cells)
  }

  /** A span for a lookup whose caller began none. */
  begin(): Span {
    return this.#tracer.root(LOOKUP_SPAN)
  }

  /** A lookup became final. @param isGivenUp before L2 answered. */
  finish(lookup: Lookup, spec: SpaceSpec, isGivenUp: boolean): void {
    const { tenant, chunkTokens } = spec
    const columns = this.#columns
    this.#add(tenant, columns.lookups, 1)
    this.#add(tenant, columns.requestedTokens, lookup.requestedChunks * chunkTokens)
    this.#add(tenant, columns.hitTokens, lookup.hitChunks * chunkTokens)
    this.#add(tenant, columns.hitTokensL0, lookup.hitL0 * chunkTokens)
    this.#add(tenant, columns.hitTokensL1, lookup.hitL1 * chunkTokens)
    this.#add(tenant, columns.hitTokensL2, lookup.hitL2 * chunkTokens)
    if (lookup.span !== NO_SPAN) this.#endSpan(lookup, spec, isGivenUp)
  }

  /** Shards were delivered back into service. */
  loaded(tenant: number, shards: number): void {
    this.#add(tenant, this.#columns.loadedShards, shards)
  }

  #endSpan(lookup: Lookup, { tenant, ranks, shardBytes }: SpaceSpec, isGivenUp: boolean): void {
    const { span, requestedChunks, hitChunks, hitL0, hitL1, hitL2 } = lookup
    const outcome = isGivenUp ? SPAN_CANCELLED : outcomeOf(hitChunks, requestedChunks)
    const bytes = hitChunks * ranks * shardBytes
    this.#tracer.end(span, outcome, tenant, NO_ROW, requestedChunks, bytes, hitL0, hitL1, hitL2)
  }

  #add(tenant: number, column: number, amount: number): void {
    const { values, stride } = this.#table
    values[tenant * stride + column]! += amount
  }
}

function columnsOf(cells: MetricCells) {
  const table = cells.engineTenants
  return {
    lookups: table.column('lookups'),
    requestedTokens: table.column('requestedTokens'),
    hitTokens: table.column('hitTokens'),
    hitTokensL0: table.column('hitTokensL0'),
    hitTokensL1: table.column('hitTokensL1'),
    hitTokensL2: table.column('hitTokensL2'),
    loadedShards: table.column('loadedShards'),
  }
}
