import { expect, it } from 'vitest'
import { encodePayload } from '../../../../src/protocol/mp/client-codec.ts'
import {
  CURRENT_GENERATION,
  GENERATIONS,
  type Generation,
  idOf,
  type ServedOp,
} from '../../../../src/protocol/mp/generations.ts'
import { RecoveredGenerations } from '../../../../src/server/mp/recovered-generations.ts'
import { keyOf, promptOf } from '../../../support/mp.ts'

const OLD = GENERATIONS.find(({ clients }) => clients === '0.4.7')!
const MIDDLE = GENERATIONS.find(({ clients }) => clients === '0.5.0 to 0.5.2')!
const KEY = encodePayload.key(keyOf(promptOf(1, 1)))
const WORKER = 0x7fff_ffff_ffff_fff1n

function frames(generation: Generation, op: ServedOp, ...payload: Uint8Array[]): Uint8Array[] {
  return [encodePayload.int(1), encodePayload.int(idOf(generation, op)!), ...payload]
}

it('takes a message for one of today when nothing is known', () => {
  const { generation, isCertain } = new RecoveredGenerations().of(frames(OLD, 'lookup', KEY, encodePayload.int(1)))
  expect([generation, isCertain]).toEqual([CURRENT_GENERATION, false])
})

it('knows a worker by its id, whatever numbers it sends', () => {
  const recovered = new RecoveredGenerations()
  recovered.add(WORKER, OLD.clients)
  recovered.add(5n, MIDDLE.clients)
  for (const [id, generation] of [
    [WORKER, OLD],
    [5n, MIDDLE],
  ] as const) {
    const instance = encodePayload.int(id)
    expect(recovered.of(frames(generation, 'prepare_store', KEY, instance))).toEqual({ generation, isCertain: true })
    expect(recovered.of(frames(generation, 'ping', instance))).toEqual({ generation, isCertain: true })
  }
})

it('reads a scheduler by the one numbering that was in use', () => {
  const recovered = new RecoveredGenerations()
  recovered.add(WORKER, OLD.clients)
  const message = frames(OLD, 'lookup', KEY, encodePayload.int(1))
  expect(recovered.of(message)).toEqual({ generation: OLD, isCertain: true })
})

it('does not settle on a numbering while two could be meant, and forgets names that it does not know', () => {
  const recovered = new RecoveredGenerations()
  recovered.add(1n, '99.0')
  expect(recovered.of(frames(OLD, 'ping', encodePayload.int(1n))).isCertain).toBe(false)
  recovered.add(WORKER, OLD.clients)
  recovered.add(5n, CURRENT_GENERATION.clients)
  // 8 is lookup in one and free_lookup_locks in the other, with the same payload
  expect(recovered.of(frames(CURRENT_GENERATION, 'lookup', KEY, encodePayload.int(1))).isCertain).toBe(false)
})
