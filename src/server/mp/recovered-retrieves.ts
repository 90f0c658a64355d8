import type { LeaseId } from '../../core/ids.ts'
import type { OpenCopy } from '../../l1/copy-log.ts'
import type { L1Cache } from '../../l1/l1-cache.ts'
import type { CopyHold } from './lookup-hold.ts'

/** A retrieval that began under an earlier engine. */
interface RecoveredRetrieve {
  readonly name: number
  readonly hold: CopyHold
  readonly rank: number
  readonly from: number
  readonly to: number
  readonly rows: readonly number[]
}

/**
 * Retrievals of one worker, put together from the rows of the copy log: one may be under two leases, and two may have
 * one name. The first row of a lease under a name belongs to the first of them, and so on.
 */
export class RecoveredRetrieves {
  readonly #l1: L1Cache
  readonly #byName = new Map<number, { leases: LeaseId[]; rows: number[]; chunks: number }[]>()

  constructor(l1: L1Cache) {
    this.#l1 = l1
  }

  add({ name, lease, row, count }: OpenCopy): void {
    const retrieves = this.#byName.get(name) ?? []
    this.#byName.set(name, retrieves)
    let retrieve = retrieves.find(({ leases }) => !leases.includes(lease))
    if (retrieve === undefined) {
      retrieve = { leases: [], rows: [], chunks: 0 }
      retrieves.push(retrieve)
    }
    retrieve.leases.push(lease)
    retrieve.rows.push(row)
    retrieve.chunks += count
  }

  list(): RecoveredRetrieve[] {
    return [...this.#byName].flatMap(([name, retrieves]) =>
      retrieves.map(({ leases, rows, chunks }) => {
        const hold = new RecoveredHold(this.#l1, leases)
        return { name, hold, rank: 0, from: 0, to: chunks, rows }
      }),
    )
  }
}

/** Keeps the slots of such a retrieval. What was copied is not counted: the lookup that promised it is forgotten. */
class RecoveredHold implements CopyHold {
  readonly promised = null
  readonly #l1: L1Cache
  readonly #leases: readonly LeaseId[]

  constructor(l1: L1Cache, leases: readonly LeaseId[]) {
    this.#l1 = l1
    this.#leases = leases
  }

  leasesOf(): readonly LeaseId[] {
    return this.#leases
  }

  settle(): void {}

  endCopy(): void {
    for (const lease of this.#leases) this.#l1.endCopy(lease)
  }

  isQuarantined(): boolean {
    return this.#leases.some((lease) => this.#l1.isQuarantined(lease))
  }
}
