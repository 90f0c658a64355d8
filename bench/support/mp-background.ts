import { encodePayload } from '../../src/protocol/mp/client-codec.ts'
import { MpPeer, opFrame } from './mp-peer.ts'
import { CHUNK_TOKENS, contextOf, KeyFrame, PROMPT_CHUNKS, promptOf, requestFrame } from './mp-prompts.ts'

/**
 * Other clients of the engine whose address is the first word, in a process of their own until SIGTERM. One stores new
 * prompts, 2 MiB each, which go to L2; one asks for long new prompts, which have to be hashed. Prints what they did.
 */
const PERIOD_MS = 100
const LONG_CHUNKS = 2048
const INSTANCE = 2n ** 60n + 2n
const FIRST_SERIAL = 5_000_000
const MODEL = 'background'
const HIDDEN = 16

const address = process.argv[2]!
let isStopping = false
process.once('SIGTERM', () => {
  isStopping = true
})
process.stdin.resume().once('close', () => process.exit(0))

async function every(turn: (serial: number) => Promise<void>): Promise<number> {
  let turns = 0
  for (; !isStopping; turns += 1) {
    const pause = new Promise((resolve) => setTimeout(resolve, PERIOD_MS))
    await turn(FIRST_SERIAL + turns)
    await pause
  }
  return turns
}

async function storeAll(): Promise<number> {
  const peer = new MpPeer(address)
  const key = new KeyFrame(promptOf(2, PROMPT_CHUNKS), 'token_bytes', 0, MODEL)
  const instance = encodePayload.int(INSTANCE)
  await peer.ask(opFrame('register_kv_cache_engine_driven_context'), [
    encodePayload.context(contextOf(INSTANCE, MODEL, HIDDEN)),
  ])
  const turns = await every(async (serial) => {
    key.name(serial).renew(serial)
    await peer.ask(opFrame('prepare_store'), [key.bytes, instance])
    await peer.ask(opFrame('commit_store'), [key.bytes, instance, encodePayload.bytes(new Uint8Array(0))])
    await peer.ask(opFrame('end_session'), [requestFrame(serial)])
  })
  peer.close()
  return turns
}

async function askAll(): Promise<number> {
  const peer = new MpPeer(address)
  const key = new KeyFrame(promptOf(3, LONG_CHUNKS), 'token_bytes', null, MODEL)
  const turns = await every(async (serial) => {
    key.name(serial).renew(serial)
    await peer.ask(opFrame('lookup'), [key.bytes, encodePayload.int(1)])
    while ((await peer.ask(opFrame('query_prefetch_status'), [requestFrame(serial)])) === null) {
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    await peer.ask(opFrame('end_session'), [requestFrame(serial)])
  })
  peer.close()
  return turns
}

const start = performance.now()
const [stores, lookups] = await Promise.all([storeAll(), askAll()])
const seconds = (performance.now() - start) / 1000
const storedMiBPerSecond = (stores * PROMPT_CHUNKS * HIDDEN) / 1024 / seconds
const hashedTokensPerSecond = (lookups * LONG_CHUNKS * CHUNK_TOKENS) / seconds
console.log(JSON.stringify({ storedMiBPerSecond, hashedTokensPerSecond }))
process.exit(0)
