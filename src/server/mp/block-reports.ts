import type { TenantId } from '../../core/ids.ts'
import type { BlockRecord, RequestOf } from '../../protocol/mp/messages.ts'
import type { Client } from './clients.ts'
import type { MpParts } from './parts.ts'

/**
 * What schedulers tell of the blocks of their GPUs: see `l0/observed-blocks.ts`. Only of models that a worker has
 * registered: from it comes how many tokens a block holds. The tenant is that of the request's lookup; a request without
 * one, of a prompt too short to ask for, goes to the empty salt.
 */
export class BlockReports {
  readonly #parts: MpParts

  constructor(parts: MpParts) {
    this.#parts = parts
  }

  report(client: Client, { instanceId, model, records }: RequestOf<'report_block_allocation'>): void {
    const { engine, clock, counts } = this.#parts
    counts.blockRecords += records.length
    const blockTokens = this.#blockTokensOf(model)
    if (blockTokens === 0) {
      engine.observed.refuse(records.length)
      return
    }
    const blocks = engine.observed.of({ peer: client, instanceId, model })
    const nowMs = clock.nowMs()
    for (const record of records) {
      const { requestId, blockIds, tokens } = record
      if (tokens.length > blockIds.length * blockTokens) engine.observed.refuse(1)
      else if (blockIds.length > 0) {
        blocks.report(requestId, this.#tenantOf(client, model, record), blockIds, tokens, blockTokens, nowMs)
      }
    }
  }

  endRequest(client: Client, requestId: string): void {
    this.#parts.engine.observed.endRequest(client, requestId, this.#parts.clock.nowMs())
  }

  /** 0 when no worker of the model is registered. */
  #blockTokensOf(model: string): number {
    return this.#parts.instances.list().find((one) => one.model === model)?.layout.blockTokens ?? 0
  }

  #tenantOf(client: Client, model: string, { requestId }: BlockRecord): TenantId {
    const { engine } = this.#parts
    const space = client.job(requestId)?.space ?? null
    const spec = space === null ? undefined : engine.l1.spaces.spec(space)
    return spec?.model === model ? spec.tenant : engine.cells.tenants.tenantOf(model, '')
  }
}
