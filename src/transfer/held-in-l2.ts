import type { HashChain } from '../core/hash-chain.ts'
import type { SpaceSpec } from '../l1/key-spaces.ts'
import type { AdapterSet, Attached } from '../l2/adapter-set.ts'
import { keyBatchOf } from './key-batches.ts'

/**
 * How many chunks from `from` on the adapters hold between them, whole and without a gap. Nothing is loaded and no cell
 * counts it; deadlines, retries and circuits are those of any lookup. An adapter that cannot say holds nothing.
 */
export async function heldInL2(adapters: AdapterSet, spec: SpaceSpec, chain: HashChain, from: number): Promise<number> {
  const isHeld = new Uint8Array(chain.count - from)
  for (const adapter of adapters.loadable()) {
    const wanted = [...isHeld.keys()].filter((at) => isHeld[at] === 0).map((at) => from + at)
    if (wanted.length === 0) break
    const found = await askQuietly(adapters, adapter, spec, chain, wanted)
    wanted.forEach((index, at) => {
      if (found[at] === 1) isHeld[index - from] = 1
    })
  }
  const gap = isHeld.indexOf(0)
  return gap < 0 ? isHeld.length : gap
}

/** found[i] = 1 when the adapter holds chunk wanted[i] of every rank. */
async function askQuietly(
  adapters: AdapterSet,
  attached: Attached,
  spec: SpaceSpec,
  chain: HashChain,
  wanted: readonly number[],
): Promise<Uint8Array> {
  const all = new Uint8Array(wanted.length).fill(1)
  const { signal } = new AbortController()
  for (let rank = 0; rank < spec.ranks; rank += 1) {
    const batch = keyBatchOf(spec, rank, chain, wanted)
    const ask = async (abort: AbortSignal) => {
      const found = new Uint8Array(batch.count)
      await attached.adapter.lookup(batch, found, abort)
      return found
    }
    const ended = await adapters.maintain(attached, attached.limits.lookupDeadlineMs, signal, ask, () => {})
    const found = ended?.value
    for (let at = 0; at < all.length; at += 1) all[at]! &= found?.[at] ?? 0
  }
  return all
}
