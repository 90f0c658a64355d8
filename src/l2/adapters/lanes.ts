import { HEADER_BYTES } from '../object-format.ts'

/** Scratch memory of one object at a time. */
export interface Lane {
  readonly header: Buffer<ArrayBuffer>
  /** One byte more than a file should have. */
  readonly spare: Uint8Array
}

/** Calls `work` for keys 0..count-1, in order, `parallelism` at a time. None is begun after an abort. */
export async function inLanes(
  count: number,
  parallelism: number,
  signal: AbortSignal,
  work: (key: number, lane: Lane) => Promise<void>,
): Promise<void> {
  let next = 0
  const run = async (): Promise<void> => {
    const lane = { header: Buffer.allocUnsafe(HEADER_BYTES), spare: new Uint8Array(1) }
    while (next < count && !signal.aborted) {
      next += 1
      await work(next - 1, lane)
    }
  }
  await Promise.all(Array.from({ length: Math.min(count, parallelism) }, run))
}
