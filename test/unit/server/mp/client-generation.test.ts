import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { encodePayload } from '../../../../src/protocol/mp/client-codec.ts'
import { decodeIncoming } from '../../../../src/protocol/mp/codec.ts'
import { GENERATIONS, type Generation, idOf, SERVED_OPS } from '../../../../src/protocol/mp/generations.ts'
import { generationFor } from '../../../../src/server/mp/client-generation.ts'
import { Client } from '../../../../src/server/mp/clients.ts'
import { RecoveredGenerations } from '../../../../src/server/mp/recovered-generations.ts'
import { REPOSITORY } from '../../../support/source-tree.ts'

const FOLDER = join(REPOSITORY, 'test/golden/mp')
const WORKER = 0x7fff_ffff_ffff_fff1n
/** What an engine knows that took over workers of these numberings at 0 ms. */
function after(...generations: Generation[]): RecoveredGenerations {
  const recovered = new RecoveredGenerations()
  recovered.add(0n, '99.0', 0)
  for (const [row, { clients }] of generations.entries()) recovered.add(WORKER - BigInt(row), clients, 0)
  return recovered
}
const NOBODY = after()
const SOON_MS = 10_000
const LATER_MS = 100_000
const SERVED = new Set<string>(SERVED_OPS)
const SERVABLE = GENERATIONS.filter((one) => idOf(one, 'prepare_store') !== undefined)

interface Recording {
  readonly client: string
  readonly exchanges: readonly {
    readonly op: string
    readonly wire_op: number | string
    readonly frames: readonly string[]
  }[]
}

const recordings = readdirSync(FOLDER).map((file) => JSON.parse(readFileSync(join(FOLDER, file), 'utf8')) as Recording)
const generationOf = ({ exchanges }: Recording) =>
  GENERATIONS.find(
    (one) => idOf(one, 'get_chunk_size') === exchanges.find(({ op }) => op === 'get_chunk_size')?.wire_op,
  )!

const newClient = () => new Client('a', 0)

describe.each(recordings.filter((one) => SERVABLE.includes(generationOf(one))))('$client', (recording) => {
  const generation = generationOf(recording)
  const later = recording.exchanges.filter(
    ({ op, wire_op }) => SERVED.has(op) && op !== 'get_chunk_size' && typeof wire_op === 'number',
  )

  it('is understood from any of its messages on when the engine knew its workers before', () => {
    expect(later.length).toBeGreaterThan(5)
    for (const { op, frames } of later) {
      if (frames.length === 2 && op !== 'ping') continue // clear, noop: no client sends them by itself
      const bytes = frames.map((frame) => Buffer.from(frame, 'hex'))
      const found = generationFor(newClient(), bytes, after(generation), SOON_MS)
      expect(decodeIncoming(bytes, found), op).toMatchObject({ kind: 'request', request: { op } })
    }
  })

  it('is known by its heartbeat alone', () => {
    const ping = later.find(({ op }) => op === 'ping')!.frames.map((frame) => Buffer.from(frame, 'hex'))
    const client = newClient()
    const isLikeAGreeting = ping.length === 2 // of the next generation
    expect(generationFor(client, ping, isLikeAGreeting ? after(generation) : NOBODY, SOON_MS)).toBe(generation)
    expect(client.generation).toBe(generation)
  })
})

it('takes the newest of those that fit, until there is only one', () => {
  const [current, middle] = GENERATIONS
  const key = encodePayload.key({
    model: 'm',
    salt: '',
    worldSize: 1,
    workerId: 0,
    tokens: new Uint32Array(16),
    start: 0,
    end: 16,
    requestId: 'r',
    readers: 1,
  })
  const id = encodePayload.int(5)
  const commit = idOf(middle!, 'commit_retrieve')!
  expect(commit).toBe(idOf(current!, 'prepare_store'))
  const frames = [encodePayload.int(1), encodePayload.int(commit), key, id]
  const client = newClient()
  expect(generationFor(client, frames, NOBODY, SOON_MS)).toBe(current)
  expect(client.generation).toBeNull()
  expect(generationFor(newClient(), frames, after(middle!), SOON_MS)).toBe(middle)
  const ping = [encodePayload.int(2), encodePayload.int(idOf(middle!, 'ping')!), id]
  expect(generationFor(client, ping, NOBODY, SOON_MS)).toBe(middle)
})

it('takes a greeting for one, whatever the workers before spoke, unless it is a heartbeat of theirs', () => {
  const greet = (generation: Generation) => [
    encodePayload.int(1),
    encodePayload.int(idOf(generation, 'get_chunk_size')!),
  ]
  for (const generation of SERVABLE) {
    for (const before of SERVABLE) {
      const isHeartbeat = idOf(generation, 'get_chunk_size') === idOf(before, 'ping')
      const expected = isHeartbeat ? before : generation
      expect(generationFor(newClient(), greet(generation), after(before), SOON_MS)).toBe(expected)
    }
    expect(generationFor(newClient(), greet(generation), after(...SERVABLE), LATER_MS)).toBe(generation)
  }
})

it('knows a worker by its id, whatever numbers it sends and whatever else was in use', () => {
  const recovered = after(...SERVABLE)
  for (const [row, generation] of SERVABLE.entries()) {
    const ping = [encodePayload.int(1), encodePayload.int(20 + row), encodePayload.int(WORKER - BigInt(row))]
    expect(generationFor(newClient(), ping, recovered, LATER_MS)).toBe(generation)
  }
})
