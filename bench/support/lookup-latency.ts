import { goBeforeOtherThreads } from '../../src/app/thread-priority.ts'
import { MpClient } from '../../src/client/mp-client.ts'
import { SystemClock } from '../../src/core/clock.ts'

// A process that looks one prompt of 1024 tokens up over the MP wire, again and again, every 5 ms, for as many
// milliseconds as it is told, and prints its latencies: ADDRESS MILLISECONDS -> {p50, p99, count}, in milliseconds. It
// stands for another machine, so what loads the engine shall not delay it: it has the turns of the engine's data thread.

const [address, milliseconds] = process.argv.slice(2)
goBeforeOtherThreads()
const clock = new SystemClock()
const client = new MpClient(address!, { clock })
const tokens = Uint32Array.from({ length: 1024 }, (_, at) => at)
const common = { model: 'bench', salt: '', worldSize: 1, workerId: null, tokens, start: 0, end: 1024, readers: 1 }
const latencies: number[] = []

await client.chunkTokens()
const endMs = clock.nowMs() + Number(milliseconds)
for (let round = 0; clock.nowMs() < endMs; round += 1) {
  const requestId = `bench-${round}`
  const startMs = clock.nowMs()
  await client.lookup({ ...common, requestId })
  while ((await client.answer(requestId)) === null) {}
  latencies.push(clock.nowMs() - startMs)
  await client.endSession(requestId)
  await new Promise<void>((resolve) => void setTimeout(resolve, 5))
}
client.close()
latencies.sort((left, right) => left - right)
const at = (share: number) => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))]!
console.log(JSON.stringify({ p50: at(0.5), p99: at(0.99), count: latencies.length }))
