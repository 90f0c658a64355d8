import { openSegment } from '../src/native/shared-memory.ts'
import { type PairsResult, runPairs, type Side } from './support/pairs.ts'

/**
 * Copies within the shared-memory arena against copies within a plain buffer, in pieces of 64 KiB to 64 MiB.
 *
 * Each side copies 256 MiB from the lower half of its 256 MiB to the upper half, one piece after the other, so that
 * pieces are not in the cache. GB/s counts each byte once, though it is read and written.
 */
const MIB = 1024 * 1024
const HALF_BYTES = 128 * MIB
const COPIED_BYTES = 256 * MIB
const PIECES_KIB = [64, 256, 1024, 4096, 16_384, 65_536]
const FIRST = 0x5a

function side(name: string, memory: Uint8Array, pieceBytes: number): Side {
  const run = () => {
    for (let copied = 0; copied < COPIED_BYTES; copied += pieceBytes) {
      const from = copied % HALF_BYTES
      memory.set(memory.subarray(from, from + pieceBytes), HALF_BYTES + from)
    }
    if (memory[2 * HALF_BYTES - 1] !== FIRST) throw new Error('the copy is not the source')
    return COPIED_BYTES
  }
  return { name, run }
}

function row(pieceKib: number, { a, b, ratio, ratioMin, ratioMax, pairs }: PairsResult) {
  return {
    piece_kib: pieceKib,
    plain_gb_per_s: Number((1 / a.medianNs).toFixed(2)),
    arena_gb_per_s: Number((1 / b.medianNs).toFixed(2)),
    arena_to_plain: Number(ratio.toFixed(2)),
    least: Number(ratioMin.toFixed(2)),
    greatest: Number(ratioMax.toFixed(2)),
    pairs,
  }
}

async function main(): Promise<void> {
  const name = `kvtier-bench-${process.pid}`
  const openedAt = performance.now()
  const segment = await openSegment({ name, bytes: 2 * HALF_BYTES })
  const openGbPerS = segment.bytes / 1e6 / (performance.now() - openedAt)
  segment.unlink()
  const plain = new Uint8Array(2 * HALF_BYTES)
  for (const memory of [plain, segment.memory]) memory.fill(FIRST, 0, HALF_BYTES)
  const rows = []
  for (const kib of PIECES_KIB) {
    const pairs = await runPairs(side('plain', plain, kib * 1024), side('arena', segment.memory, kib * 1024))
    rows.push(row(kib, pairs))
  }
  segment.close()
  if (process.argv.includes('--json')) {
    console.log(JSON.stringify({ open_gb_per_s: Number(openGbPerS.toFixed(2)), copies: rows }))
    return
  }
  console.log(`opening the segment, pages included: ${openGbPerS.toFixed(2)} GB/s`)
  console.table(rows)
}

await main()
