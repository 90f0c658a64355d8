import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ManualClock } from '../../../../src/core/clock.ts'
import { OUTCOME_CORRUPT, OUTCOME_FAILED, OUTCOME_NOT_FOUND, OUTCOME_OK } from '../../../../src/l2/adapter.ts'
import { PEER_DEFAULT, type PeerAdapterOptions } from '../../../../src/l2/adapters/peer/options.ts'
import { PeerAdapter } from '../../../../src/l2/adapters/peer/peer-adapter.ts'
import { blanks, chainBatch, loadChain, lookupChain, NEVER, payloads, SPACE } from '../../../support/l2-objects.ts'
import { PeerDouble, type PeerManner } from '../../../support/peer-double.ts'
import { until } from '../../../support/until.ts'

const ANSWER_MS = 200

let peers: PeerDouble[]
let adapters: PeerAdapter[]
let clock: ManualClock

beforeEach(async () => {
  clock = new ManualClock()
  adapters = []
  peers = await Promise.all([PeerDouble.start(), PeerDouble.start()])
})

afterEach(async () => {
  for (const adapter of adapters) await adapter.close()
  for (const peer of peers) await peer.close()
})

async function open(
  options: Partial<PeerAdapterOptions> = {},
  parts: Partial<ConstructorParameters<typeof PeerAdapter>[1]> = {},
): Promise<PeerAdapter> {
  const adapter = new PeerAdapter(
    { ...PEER_DEFAULT, urls: peers.map(({ url }) => url), answerMs: ANSWER_MS, ...options },
    { clock, resolve: async () => [], ownAddresses: new Set(), readFile: async () => '', ...parts },
  )
  adapters.push(adapter)
  await adapter.open()
  return adapter
}

/** Peer `at` holds chunks [from, to) of chain 1. */
function hold(at: number, from: number, to: number): void {
  peers[at]!.hold(chainBatch(SPACE, 1, from, to), payloads(1, from, to))
}

/** Moves the clock past silences until `work` is over, whenever every peer has said what it will say. */
async function whileSilent<T>(work: Promise<T>): Promise<T> {
  let isOver = false
  const ended = work.finally(() => {
    isOver = true
  })
  ended.catch(() => undefined)
  let quietPolls = 0
  let seenBefore = -1
  await until('the request ends', () => {
    const seen = peers.reduce((sum, peer) => sum + peer.seen.length, 0)
    const isQuiet = seen === seenBefore && peers.every(({ busy }) => busy === 0)
    seenBefore = seen
    quietPolls = isQuiet ? quietPolls + 1 : 0
    if (quietPolls > 10) clock.advance(ANSWER_MS)
    return isOver || undefined
  })
  return ended
}

describe('with honest peers', () => {
  it('finds what any of them has, and fetches it from there', async () => {
    hold(0, 0, 2)
    hold(1, 1, 4)
    const adapter = await open()
    expect(await lookupChain(adapter, 1, 0, 5)).toEqual([1, 1, 1, 1, 0])
    expect(await loadChain(adapter, 1, 0, 5)).toEqual([...Array(4).fill(OUTCOME_OK), OUTCOME_NOT_FOUND])
    expect(peers.map((peer) => peer.count('fetch')).reduce((sum, count) => sum + count)).toBe(4)
    expect(peers.map((peer) => peer.count('fetch'))).not.toContain(4)
  })

  it('asks again for what no lookup has told of', async () => {
    hold(1, 0, 3)
    const adapter = await open()
    expect(await loadChain(adapter, 1, 0, 3)).toEqual(Array(3).fill(OUTCOME_OK))
  })

  it.each([
    ['dies', (peer: PeerDouble) => peer.close()],
    ['sends other bytes', (peer: PeerDouble) => Object.assign(peer, { fetching: 'altered' })],
  ])('asks the others when the only holder that a lookup waited for %s', async (_, breakPeer) => {
    hold(0, 0, 3)
    hold(1, 0, 2)
    peers[1]!.asking = 'silent'
    const adapter = await open()
    expect(await lookupChain(adapter, 1, 0, 3)).toEqual([1, 1, 1])
    peers[1]!.asking = 'honest'
    await breakPeer(peers[0]!)
    const outcomes = await loadChain(adapter, 1, 0, 3)
    expect(outcomes.slice(0, 2)).toEqual([OUTCOME_OK, OUTCOME_OK])
    expect([OUTCOME_FAILED, OUTCOME_CORRUPT]).toContain(outcomes[2])
    expect(peers[1]!.count('fetch')).toBe(2)
    peers[0] = await PeerDouble.start()
  })

  it('tells them which trace the questions and fetches are a part of, and nothing when there is none', async () => {
    hold(0, 0, 1)
    const adapter = await open({ urls: [peers[0]!.url] })
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    const batch = { ...chainBatch(SPACE, 1, 0, 1), traceparent }
    await adapter.lookup(batch, new Uint8Array(1), NEVER)
    await adapter.load(batch, blanks(1), new Uint8Array(1), NEVER)
    expect(peers[0]!.seen.map((one) => one.traceparent)).toEqual([traceparent, traceparent])
    await lookupChain(adapter, 1, 0, 1)
    expect(peers[0]!.seen[2]).toMatchObject({ kind: 'lookup', traceparent: undefined })
  })

  it('reports a shard as not found that went away after the lookup', async () => {
    hold(0, 0, 1)
    const adapter = await open()
    await lookupChain(adapter, 1, 0, 1)
    await peers[0]!.close()
    peers[0] = await PeerDouble.start()
    expect(await loadChain(adapter, 1, 0, 1)).toEqual([OUTCOME_FAILED])
    expect(await loadChain(adapter, 1, 0, 1)).toEqual([OUTCOME_NOT_FOUND])
  })

  it('sends the token of its file, and the one that is in it later', async () => {
    let token = 'kvt_first\n'
    const adapter = await open({ tokenFile: '/token', resolveMs: 1000 }, { readFile: async () => token })
    await lookupChain(adapter, 1, 0, 1)
    token = 'kvt_second'
    clock.advance(1000)
    await until('the file is read again', async () => {
      await lookupChain(adapter, 1, 0, 1)
      return peers[0]!.seen.some(({ authorization }) => authorization === 'Bearer kvt_second') || undefined
    })
    expect(peers[0]!.seen[0]).toMatchObject({ authorization: 'Bearer kvt_first' })
  })

  it('takes no stores and removes nothing', async () => {
    hold(0, 0, 1)
    const adapter = await open()
    const outcomes = new Uint8Array(1)
    expect(await adapter.store(chainBatch(SPACE, 1, 0, 1), payloads(1, 0, 1), outcomes, NEVER)).toBe(0)
    expect([...outcomes]).toEqual([OUTCOME_FAILED])
    expect([await adapter.clear(), await adapter.remove()]).toEqual([0, 0])
    expect(await lookupChain(adapter, 1, 0, 1)).toEqual([1])
  })
})

describe('a name with many addresses', () => {
  it('is resolved again, without this machine, and keeps what it had while it cannot be', async () => {
    hold(0, 0, 1)
    const { port } = new URL(peers[0]!.url)
    let addresses: string[] | Error = ['127.0.0.7']
    const resolve = async () => {
      if (addresses instanceof Error) throw addresses
      return addresses
    }
    const own = new Set(['127.0.0.7'])
    const options = { urls: [], service: `http://peers.example:${port}`, resolveMs: 1000 }
    const adapter = await open(options, { resolve, ownAddresses: own })
    expect(await lookupChain(adapter, 1, 0, 1)).toEqual([0])
    expect(peers[0]!.seen).toEqual([])
    for (const next of [['127.0.0.7', '127.0.0.1'], new Error('no such name')]) {
      addresses = next
      clock.advance(1000)
      await until('the new addresses are asked', async () => (await lookupChain(adapter, 1, 0, 1))[0] || undefined)
    }
  })
})

const BAD_FETCHES: [PeerManner, number][] = [
  ['longer', OUTCOME_CORRUPT],
  ['huge', OUTCOME_CORRUPT],
  ['shorter', OUTCOME_CORRUPT],
  ['cut', OUTCOME_FAILED],
  ['altered', OUTCOME_CORRUPT],
  ['unsummed', OUTCOME_CORRUPT],
  ['unframed', OUTCOME_CORRUPT],
  ['babbles', OUTCOME_CORRUPT],
  ['silent', OUTCOME_FAILED],
  ['stalls', OUTCOME_FAILED],
  ['refuses', OUTCOME_FAILED],
  ['fails', OUTCOME_FAILED],
  ['mismatch', OUTCOME_NOT_FOUND],
]

describe.each(BAD_FETCHES)('a peer whose shards are %s', (manner, outcome) => {
  it('is believed nothing, and touches no byte outside of its target', async () => {
    hold(0, 0, 1)
    peers[0]!.fetching = manner
    const adapter = await open()
    await lookupChain(adapter, 1, 0, 1)
    const memory = new Uint8Array(3 * SPACE.shardBytes).fill(0xaa)
    const target = memory.subarray(SPACE.shardBytes, 2 * SPACE.shardBytes)
    const outcomes = new Uint8Array(1)
    const load = adapter.load(chainBatch(SPACE, 1, 0, 1), [target], outcomes, NEVER)
    expect(await whileSilent(load)).toBe(0)
    expect([...outcomes]).toEqual([outcome])
    expect(memory.subarray(0, SPACE.shardBytes)).toEqual(new Uint8Array(SPACE.shardBytes).fill(0xaa))
    expect(memory.subarray(2 * SPACE.shardBytes)).toEqual(new Uint8Array(SPACE.shardBytes).fill(0xaa))
    expect(adapter.usage().checksumFailures).toBe(outcome === OUTCOME_CORRUPT ? 1 : 0)
  })

  it('is passed over for another that has the shard', async () => {
    hold(0, 0, 4)
    hold(1, 0, 4)
    peers[0]!.fetching = manner
    const adapter = await open()
    await lookupChain(adapter, 1, 0, 5) // nobody has the last one: both are heard
    // An odd number: each fetch goes on to the next peer of its own, whatever turns others take meanwhile.
    expect(await whileSilent(loadChain(adapter, 1, 0, 3))).toEqual(Array(3).fill(OUTCOME_OK))
  })
})

describe.each(['silent', 'garbage', 'longer', 'babbles', 'refuses', 'fails'] as const)(
  'a peer whose answer to a lookup is %s',
  (manner) => {
    it('does not hide what the others have, and is left alone after a while', async () => {
      hold(0, 0, 1)
      hold(1, 1, 2)
      peers[0]!.asking = manner
      const adapter = await open()
      for (let turn = 0; turn < 5; turn += 1) {
        expect(await whileSilent(lookupChain(adapter, 1, 0, 2))).toEqual([0, 1])
      }
      expect(peers[0]!.count('lookup')).toBe(3)
      peers[0]!.asking = 'honest'
      clock.advance(5_000)
      expect(await lookupChain(adapter, 1, 0, 2)).toEqual([1, 1])
    })

    it('is an error when there is no other', async () => {
      peers[0]!.asking = manner
      const adapter = await open({ urls: [peers[0]!.url] })
      await expect(whileSilent(lookupChain(adapter, 1, 0, 1))).rejects.toMatchObject({
        code: 'L2_UNAVAILABLE',
        message: expect.stringContaining(peers[0]!.url),
      })
    })
  },
)

it('a peer with another layout has nothing, and is no failure', async () => {
  hold(0, 0, 1)
  peers[0]!.asking = 'mismatch'
  const adapter = await open({ urls: [peers[0]!.url] })
  for (let turn = 0; turn < 5; turn += 1) expect(await lookupChain(adapter, 1, 0, 1)).toEqual([0])
  expect(peers[0]!.count('lookup')).toBe(5)
})

it('a load that is given up ends at once and writes no more', async () => {
  hold(0, 0, 2)
  peers[0]!.fetching = 'stalls'
  const adapter = await open({ urls: [peers[0]!.url] })
  await lookupChain(adapter, 1, 0, 2)
  const abort = new AbortController()
  const outcomes = new Uint8Array(2)
  const load = adapter.load(chainBatch(SPACE, 1, 0, 2), blanks(2), outcomes, abort.signal)
  await until('both shards are asked for', () => peers[0]!.count('fetch') === 2 || undefined)
  abort.abort()
  expect(await load).toBe(0)
  expect([...outcomes]).toEqual([OUTCOME_FAILED, OUTCOME_FAILED])
})

it('asks nobody when there are no peers yet', async () => {
  const adapter = await open({ urls: [], service: 'http://nowhere.example:1' })
  expect(await lookupChain(adapter, 1, 0, 2)).toEqual([0, 0])
  expect(await loadChain(adapter, 1, 0, 2)).toEqual([OUTCOME_NOT_FOUND, OUTCOME_NOT_FOUND])
})
