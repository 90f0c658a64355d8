import { expect, it } from 'vitest'
import { encodePayload } from '../../src/protocol/mp/client-codec.ts'
import { CURRENT_GENERATION, idOf, SERVED_OPS } from '../../src/protocol/mp/generations.ts'
import { checkLaws } from '../support/conservation-laws.ts'
import { usedMemoryBytes } from '../support/heap.ts'
import { contextOf, found, keyOf, promptOf, startMp, storePrompt } from '../support/mp.ts'
import { random } from '../support/random.ts'

const MESSAGES = 3_000
const WORKER = 77n

type Next = (limit: number) => number

/** A request that could be right, spoilt or not: of any operation, known worker or not, with any of these payloads. */
function hostileFrames(next: Next): Uint8Array[] {
  const op = SERVED_OPS[next(SERVED_OPS.length)]!
  const key = keyOf(promptOf(next(3), 1 + next(3)), {
    salt: ['', 'x', '@'][next(3)]!,
    worldSize: 1 + next(3),
    workerId: next(4) === 0 ? null : next(2),
    start: next(3) * 16,
    requestId: `h${next(20)}`,
    readers: next(3),
  })
  const payloads = [
    encodePayload.key({ ...key, end: next(2) === 0 ? key.end : next(200) }),
    encodePayload.int(next(2) === 0 ? WORKER : BigInt(next(1000))),
    encodePayload.context(contextOf(BigInt(100 + next(5)), { layers: 1 + next(2), model: ['m', 'n'][next(2)]! })),
    encodePayload.text(`h${next(20)}`),
    encodePayload.float(next(3) / 100),
    encodePayload.nil(),
    encodePayload.bytes(new Uint8Array(next(50))),
  ]
  const likely: Partial<Record<(typeof SERVED_OPS)[number], number[]>> = {
    ping: [1],
    register_kv_cache_engine_driven_context: [2],
    unregister_kv_cache_engine_driven_context: [1],
    query_prefetch_status: [3],
    wait_prefetch_status: [3, 4],
    end_session: [3],
    commit_store: [0, 1, 6],
  }
  const chosen = next(5) === 0 ? Array.from({ length: next(4) }, () => next(payloads.length)) : (likely[op] ?? [0, 1])
  const number = next(2) === 0 ? idOf(CURRENT_GENERATION, op) : undefined
  const id = number === undefined ? encodePayload.text(op) : encodePayload.int(number)
  const frames = [encodePayload.int(1_000_000 + next(100)), id, ...chosen.map((index) => payloads[index]!)]
  return next(3) === 0 ? frames.map((frame) => (next(3) === 0 ? spoilt(frame, next) : frame)) : frames
}

function spoilt(frame: Uint8Array, next: Next): Uint8Array {
  const bytes = Uint8Array.from(frame)
  const way = next(3)
  if (way === 0) return bytes.subarray(0, next(bytes.length + 1))
  if (way === 1) return Uint8Array.of([0xdb, 0xc6, 0xc9, 0xdd, 0xdf][next(5)]!, 0x40, 0, 0, 0, ...bytes)
  for (let flips = 1 + next(3); flips > 0 && bytes.length > 0; flips -= 1) bytes[next(bytes.length)] = next(256)
  return bytes
}

it.each([1, 2, 3, 4])('an engine goes on serving others whatever one client sends (seed %i)', async (seed) => {
  const next = random(seed)
  const mp = await startMp({ seed })
  try {
    const [good, hostile] = [mp.connect(), mp.connect()]
    await good.chunkTokens()
    await good.register(contextOf(WORKER))
    for (let sent = 0; sent < MESSAGES; sent += 1) {
      hostile.send(hostileFrames(next))
      if (sent % 500 === 0) await hostile.ping(null)
      if (next(100) === 0) mp.clock.advance(next(500))
    }
    expect(await hostile.ping(null)).toBe(true)
    checkLaws(mp.engine)
    const { requests, malformed, badPayloads } = mp.server.status()
    expect(requests).toBeGreaterThan(MESSAGES)
    expect(malformed).toBeGreaterThan(0)
    expect(badPayloads).toBeGreaterThan(0)
    mp.clock.advance(400_000)
    await good.register(contextOf(WORKER))
    const key = keyOf(promptOf(9, 3), { requestId: 'good' })
    expect(await storePrompt(mp, good, key, WORKER, 9)).toHaveLength(3)
    expect(await found(good, { ...key, requestId: 'good again' })).toBe(3)
    checkLaws(mp.engine)
    expect(mp.bugs).toEqual([])
    expect(mp.errors).toEqual([])
  } finally {
    mp.close()
  }
})

it('does not grow with the clients, sessions and lookups of somebody who only opens them', async () => {
  const mp = await startMp({ mp: { clientsMax: 8 } })
  try {
    for (let client = 0; client < 20; client += 1) await mp.connect().ping(null)
    const greedy = mp.connect()
    await greedy.register(contextOf(WORKER))
    for (let request = 0; request < 300; request += 1) {
      await greedy.lookup(keyOf(promptOf(request, 1), { requestId: `${request}`, workerId: null }))
    }
    const { clients, sessions } = mp.server.status()
    expect(clients).toBe(8)
    expect(sessions).toBe(mp.engine.options.sessions)
    checkLaws(mp.engine)
  } finally {
    mp.close()
  }
})

it('keeps neither tokens nor hashes of requests whose sessions it has forgotten', async () => {
  const mp = await startMp({ mp: { clientsMax: 8 } })
  try {
    const greedy = mp.connect()
    await greedy.register(contextOf(WORKER))
    const ask = async (from: number, count: number) => {
      const asked = Array.from({ length: count }, (_, at) => {
        const key = keyOf(promptOf((from + at) % 50, 60), { requestId: `${from + at}`, workerId: null })
        return greedy.lookup(key)
      })
      await Promise.all(asked)
      for (let at = 0; at < count; at += 2) await greedy.answer(`${from + at}`)
    }
    await ask(0, 1000)
    const before = usedMemoryBytes()
    for (let round = 1; round <= 8; round += 1) await ask(round * 1000, 1000)
    // A prompt is 3.8 KB of tokens and 1.9 KB of hashes: 8,000 of them would be 46 MB.
    expect(usedMemoryBytes() - before).toBeLessThan(12_000_000)
  } finally {
    mp.close()
  }
})
