import { readdirSync, readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { encodePayload } from '../../src/protocol/mp/client-codec.ts'
import { GENERATIONS, idOf, SERVED_OPS, type ServedOp } from '../../src/protocol/mp/generations.ts'
import { contextOf, keyOf, promptOf } from './mp.ts'
import { random } from './random.ts'
import { GREETING, RawPeer, READY } from './raw-peer.ts'
import { REPOSITORY } from './source-tree.ts'

type Next = (limit: number) => number

const PEERS = 6
const RAW_SOCKETS_MAX = 16
const MESSAGES_OF_A_ROUND = 100
const MIB = 1024 * 1024
const WORKERS = 12

/** What real clients sent. */
const RECORDED: readonly Uint8Array[][] = readdirSync(join(REPOSITORY, 'test/golden/mp')).flatMap((file) => {
  const text = readFileSync(join(REPOSITORY, 'test/golden/mp', file), 'utf8')
  const { exchanges } = JSON.parse(text) as { exchanges: { frames: string[] }[] }
  return exchanges.map(({ frames }) => frames.map((frame) => Buffer.from(frame, 'hex')))
})

/** MessagePack headers that promise up to 4 GiB, of every kind that has a length. */
const CLAIMS = [0xc6, 0xc9, 0xdb, 0xdd, 0xdf]

/**
 * Sends an engine what no client should: noise, spoilt recordings, absurd counts, requests in impossible order, frames
 * of many megabytes, endless handshakes, and answers that nobody takes. Everything comes of one seed: round `n` sends
 * the same whatever came before.
 */
export class MpFuzzer {
  readonly #address: string
  readonly #seed: number
  readonly #peers: (RawPeer | undefined)[] = []
  readonly #raw: Socket[] = []
  readonly counts = { rounds: 0, messages: 0, bytes: 0, connections: 0, largeMessages: 0 }

  constructor(address: string, seed: number) {
    this.#address = address
    this.#seed = seed
  }

  /** One round of one kind of abuse. */
  async round(): Promise<void> {
    const number = this.counts.rounds++
    const next = random(this.#seed * 1_000_003 + number)
    const peer = this.#peer(next)
    const kinds = [noise, plausible, plausible, mutated, mutated, claiming, life, life, life, manyFrames]
    const kind = next(20)
    if (kind === 10) await this.#large(peer, next)
    else if (kind === 11) this.#wire(next)
    else {
      const make = kinds[kind % kinds.length]!
      for (let sent = 0; sent < MESSAGES_OF_A_ROUND; ) {
        const messages = make(next)
        sent += Math.max(1, messages.length)
        for (const message of messages) if (!(await this.#send(peer, message))) return
      }
    }
  }

  close(): void {
    for (const peer of this.#peers) peer?.close()
    for (const socket of this.#raw) socket.destroy()
  }

  /** One of a few peers. Now and then one goes, in the middle of whatever it was doing, and another comes. */
  #peer(next: Next): RawPeer {
    const slot = next(PEERS)
    const known = this.#peers[slot]
    if (known?.isOpen === true && next(4) > 0) return known
    known?.close()
    const peer = new RawPeer(this.#address, next(3) === 0)
    this.#peers[slot] = peer
    this.counts.connections += 1
    return peer
  }

  /** @returns false when the peer was cut off, or nothing is taken from it any more: there will be another. */
  #send(peer: RawPeer, frames: Uint8Array[]): Promise<boolean> {
    this.counts.messages += 1
    for (const { length } of frames) this.counts.bytes += length
    return peer.send(frames)
  }

  /** Prompts of many megabytes, and frames over the limit of the socket. */
  async #large(peer: RawPeer, next: Next): Promise<void> {
    for (let sent = 0; sent < 4; sent += 1) {
      this.counts.largeMessages += 1
      const tokens = new Uint32Array(next(3) * MIB + next(MIB)).fill(next(2 ** 31))
      const key = encodePayload.key({ ...keyOf(tokens), requestId: `large ${next(8)}`, workerId: 0 }, 'token_bytes')
      const op = (['lookup', 'prepare_store', 'prepare_retrieve', 'commit_store'] as const)[next(4)]!
      const isOver = next(6) === 0
      const frame = isOver ? new Uint8Array(24 * MIB) : key
      await this.#send(peer, [encodePayload.int(sent), encodePayload.text(op), frame, encodePayload.int(worker(next))])
    }
  }

  /** Below messages: half a handshake, noise, and frames said to be 1 GiB long. */
  #wire(next: Next): void {
    if (this.#raw.length >= RAW_SOCKETS_MAX) this.#raw.shift()!.destroy()
    const [host, port] = this.#address.split(':')
    const socket = connect(Number(port), host!)
    socket.on('error', () => {})
    socket.resume()
    this.#raw.push(socket)
    this.counts.connections += 1
    const gibibyte = Buffer.from([next(2) === 0 ? 0x02 : 0x03, 0, 0, 0, 0, 0x40, 0, 0, 0])
    const parts = [GREETING, READY, gibibyte, bytesOf(next, next(2000))]
    const way = next(4)
    if (way === 0) socket.write(parts[3]!)
    else if (way === 1) socket.write(GREETING.subarray(0, next(64)))
    else socket.write(Buffer.concat(parts))
    if (next(2) === 0) socket.end()
  }
}

const worker = (next: Next) => BigInt(900 + next(WORKERS))

function bytesOf(next: Next, length: number): Uint8Array {
  return new Uint8Array(length).map(() => next(256))
}

/** Frames of noise. */
function noise(next: Next): Uint8Array[][] {
  return [Array.from({ length: 1 + next(20) }, () => bytesOf(next, next(8) === 0 ? next(4096) : next(40)))]
}

/** Frames without number. */
function manyFrames(next: Next): Uint8Array[][] {
  if (next(50) > 0) return plausible(next)
  return [Array.from({ length: next(3000) }, () => bytesOf(next, next(3)))]
}

/** Something that a client sent, spoilt. */
function mutated(next: Next): Uint8Array[][] {
  const frames = [...RECORDED[next(RECORDED.length)]!]
  for (let changes = 1 + next(3); changes > 0; changes -= 1) {
    const at = next(frames.length)
    const way = next(6)
    if (way === 0) frames.splice(at, 1)
    else if (way === 1) frames.splice(at, 0, frames[next(frames.length)]!)
    else if (way === 2) frames[at] = RECORDED[next(RECORDED.length)]![0]!
    else frames[at] = spoilt(frames[at] ?? new Uint8Array(0), next)
    if (frames.length === 0) return []
  }
  return [frames]
}

function spoilt(frame: Uint8Array, next: Next): Uint8Array {
  const bytes = Uint8Array.from(frame)
  const way = next(4)
  if (way === 0) return bytes.subarray(0, next(bytes.length + 1))
  if (way === 1) return Buffer.concat([bytes, bytesOf(next, next(20))])
  if (way === 2) return Uint8Array.of(CLAIMS[next(CLAIMS.length)]!, next(256), 0, 0, 0, ...bytes)
  for (let flips = 1 + next(4); flips > 0 && bytes.length > 0; flips -= 1) bytes[next(bytes.length)] = next(256)
  return bytes
}

/** Requests whose lists, maps and texts claim to be immense, or lie in each other without end. */
function claiming(next: Next): Uint8Array[][] {
  const op = SERVED_OPS[next(SERVED_OPS.length)]!
  const claim = Uint8Array.of(CLAIMS[next(CLAIMS.length)]!, next(2) === 0 ? 0x40 : 0xff, 0, 0, next(256))
  const nested = new Uint8Array(next(20_000)).fill([0x91, 0x81, 0xdd][next(3)]!)
  const key = encodePayload.key(keyOf(promptOf(1, 2)))
  const at = next(key.length)
  const within = Buffer.concat([key.subarray(0, at), claim, key.subarray(at)])
  const payload = [claim, nested, within][next(3)]!
  return [[encodePayload.int(next(100)), encodePayload.text(op), payload, encodePayload.int(worker(next))]]
}

/** A request that could be right: of any operation and generation, of workers that may be registered. */
function plausible(next: Next): Uint8Array[][] {
  const op = SERVED_OPS[next(SERVED_OPS.length)]!
  const generation = GENERATIONS[next(GENERATIONS.length)]!
  const number = next(3) === 0 ? undefined : idOf(generation, op)
  const frames = [number === undefined ? encodePayload.text(op) : encodePayload.int(number), ...payloadOf(op, next)]
  return [[encodePayload.int(next(1000)), ...(next(4) === 0 ? frames.map((one) => maybeSpoilt(one, next)) : frames)]]
}

function maybeSpoilt(frame: Uint8Array, next: Next): Uint8Array {
  return next(3) === 0 ? spoilt(frame, next) : frame
}

/** The life of a prompt from its store to its retrieval, with steps left out, doubled or in the place of others. */
function life(next: Next): Uint8Array[][] {
  const steps: readonly ServedOp[] = [
    'prepare_store',
    'commit_store',
    'lookup',
    'query_prefetch_status',
    'prepare_retrieve',
    'commit_retrieve',
    'free_lookup_locks',
    'end_session',
  ]
  const id = worker(next)
  const requestId = `f${next(30)}`
  const tokens = promptOf(next(40), 1 + next(4))
  const key = encodePayload.key({ ...keyOf(tokens, { model: 'fuzz', requestId }), salt: ['', 'x'][next(2)]! })
  const context = encodePayload.context(contextOf(id, { model: 'fuzz' }))
  const payloads = new Map<ServedOp, Uint8Array[]>([
    ['query_prefetch_status', [encodePayload.text(requestId)]],
    ['end_session', [encodePayload.text(requestId)]],
    ['lookup', [key, encodePayload.int(1)]],
    ['free_lookup_locks', [key, encodePayload.int(1)]],
    ['commit_store', [key, encodePayload.int(id), encodePayload.bytes(new Uint8Array(0))]],
  ])
  const message = (op: ServedOp, payload: Uint8Array[]) => [
    encodePayload.int(next(1000)),
    encodePayload.text(op),
    ...payload,
  ]
  const messages = [message('register_kv_cache_engine_driven_context', [context])]
  for (let step = 0; step < steps.length; step += next(5) === 0 ? next(3) : 1) {
    const op = next(8) === 0 ? steps[next(steps.length)]! : steps[step]!
    messages.push(message(op, payloads.get(op) ?? [key, encodePayload.int(id)]))
  }
  return messages
}

function payloadOf(op: ServedOp, next: Next): Uint8Array[] {
  const id = encodePayload.int(worker(next))
  const request = encodePayload.text(`f${next(30)}`)
  const tokens = promptOf(next(6), 1 + next(4))
  const salt = ['', 'x', '', next(9) === 0 ? '@' : 'é'.repeat(64)][next(4)]!
  const worldSize = next(4) === 0 ? 2 : 1
  const workerId = next(6) === 0 ? null : next(worldSize + (next(9) === 0 ? 1 : 0))
  const named = { salt, worldSize, workerId, requestId: `f${next(30)}` }
  const range = next(4) === 0 ? { start: next(200), end: next(400) } : { start: next(2) * 16 }
  const form = next(2) === 0 ? 'token_ids' : 'token_bytes'
  const key = encodePayload.key({ ...keyOf(tokens, { model: 'fuzz', ...named, readers: next(3) }), ...range }, form)
  const context = () =>
    encodePayload.context(
      contextOf(worker(next), { model: 'fuzz', worldSize: next(4) === 0 ? 2 : 1, layers: next(10) === 0 ? 2 : 1 }),
    )
  const payloads: Partial<Record<ServedOp, () => Uint8Array[]>> = {
    ping: () => [next(3) === 0 ? encodePayload.nil() : id],
    register_kv_cache_engine_driven_context: () => [context()],
    unregister_kv_cache_engine_driven_context: () => [id],
    lookup: () => [key, encodePayload.int(next(3))],
    free_lookup_locks: () => [key, encodePayload.int(next(3))],
    query_prefetch_status: () => [request],
    wait_prefetch_status: () => [request, encodePayload.float((next(5) - 1) * 100)],
    end_session: () => [request],
    prepare_store: () => [key, id],
    prepare_retrieve: () => [key, id],
    commit_retrieve: () => [key, id],
    commit_store: () => [key, id, encodePayload.bytes(new Uint8Array(next(50)))],
    negotiate_chunk_size: () => [encodePayload.int(next(1000) - 10)],
    report_block_allocation: () => {
      const blockIds = Uint32Array.from({ length: next(20) }, () => next(2 ** 31))
      return [id, encodePayload.text('fuzz'), encodePayload.blockRecords([{ requestId: 'f1', blockIds, tokens }])]
    },
  }
  return payloads[op]?.() ?? []
}
