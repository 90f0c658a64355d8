import { expect, it } from 'vitest'
import { ManualClock } from '../../../../src/core/clock.ts'
import { boundedEngine } from '../../../../src/server/http/bounded-engine.ts'
import type { EnginePort, ShardRef } from '../../../../src/server/http/engine-port.ts'
import { EngineDouble } from '../../../support/engine-double.ts'

const TIMEOUT_MS = 100
const SHARD: ShardRef = { model: 'm', salt: '', ranks: 1, rank: 0, hash: new Uint8Array(32).fill(1) }

/** An engine whose answers to one method wait until they are let through. */
async function setUp(slow: 'reserveShard' | 'leaseShard') {
  const clock = new ManualClock()
  const engine = new EngineDouble()
  await engine.registerModel({ model: 'm', shardBytes: 8, ranks: 1, layout: '' })
  const gate = Promise.withResolvers<void>()
  const method = engine[slow].bind(engine) as (...args: unknown[]) => Promise<never>
  engine[slow] = async (...args: unknown[]) => {
    const answer = await method(...args)
    await gate.promise
    return answer
  }
  const bounded: EnginePort = boundedEngine<EnginePort>(engine, clock, TIMEOUT_MS)
  const settle = () => new Promise<void>((resolve) => setImmediate(resolve))
  return { clock, engine, bounded, gate, settle }
}

it('gives a slot back that was reserved for somebody who waits no more', async () => {
  const { clock, engine, bounded, gate, settle } = await setUp('reserveShard')
  const asked = bounded.reserveShard(SHARD, null)
  await settle()
  clock.advance(TIMEOUT_MS)
  await expect(asked).rejects.toMatchObject({ code: 'ENGINE_TIMEOUT' })
  expect(engine.leases.size).toBe(1)
  gate.resolve()
  await settle()
  expect(engine.leases.size).toBe(0)
})

it('lets go of a shard that was leased for somebody who waits no more', async () => {
  const { clock, engine, bounded, gate, settle } = await setUp('leaseShard')
  const written = await engine.reserveShard(SHARD, null)
  if (written.status === 'granted') await engine.commitShard(written.leaseId)
  const asked = bounded.leaseShard(SHARD)
  await settle()
  clock.advance(TIMEOUT_MS)
  await expect(asked).rejects.toMatchObject({ code: 'ENGINE_TIMEOUT' })
  expect(engine.leases.size).toBe(1)
  gate.resolve()
  await settle()
  expect(engine.leases.size).toBe(0)
})

it('hands over what comes in time', async () => {
  const { bounded, gate } = await setUp('reserveShard')
  gate.resolve()
  expect(await bounded.reserveShard(SHARD, null)).toMatchObject({ status: 'granted' })
})
