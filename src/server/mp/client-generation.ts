import { decodeOp } from '../../protocol/mp/codec.ts'
import { CURRENT_GENERATION, GENERATIONS, type Generation, generationOfFirst } from '../../protocol/mp/generations.ts'
import { generationsThatFit } from '../../protocol/mp/infer-generation.ts'
import type { Client } from './clients.ts'
import type { RecoveredGenerations } from './recovered-generations.ts'

/**
 * The numbering of a client: told by the id of its first `get_chunk_size`, or by an operation that has only a name. A
 * client that outlived a restart of the engine sends neither. It is known by the id of its worker, where a message has
 * one; else what it sends fits few numberings, and among them those that were in use come first. While several fit, the
 * newest is taken.
 *
 * A heartbeat of 0.4.7 looks like the greeting of 0.5.0: for a while after a restart it is taken for what the workers of
 * the engine before would mean by it.
 */
export function generationFor(
  client: Client,
  frames: readonly Uint8Array[],
  recovered: RecoveredGenerations,
  nowMs: number,
): Generation {
  if (client.generation !== null) return client.generation
  const op = frames.length < 2 ? undefined : decodeOp(frames[1]!)
  if (typeof op === 'string') client.generation = CURRENT_GENERATION
  else if (op !== undefined) {
    const greeting = frames.length === 2 ? generationOfFirst(op) : undefined
    const isGreeting = greeting !== undefined && !recovered.mayBeHeartbeat(op, nowMs)
    client.generation = (isGreeting ? greeting : recovered.ofWorker(frames)) ?? null
    if (client.generation === null) infer(client, frames, recovered.inUse)
  }
  return client.generation ?? client.candidates?.[0] ?? CURRENT_GENERATION
}

function infer(client: Client, frames: readonly Uint8Array[], inUse: ReadonlySet<Generation>): void {
  const fitting = generationsThatFit(frames, client.candidates ?? GENERATIONS)
  const used = fitting.filter((generation) => inUse.has(generation))
  const candidates = used.length > 0 ? used : fitting
  if (candidates.length > 0) client.candidates = candidates
  if (candidates.length === 1) client.generation = candidates[0]!
}
