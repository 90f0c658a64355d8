import { MpClient } from '../client/mp-client.ts'
import { SystemClock } from '../core/clock.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { mpAddressOf } from './engine-addresses.ts'
import { usageError } from './report-error.ts'

const COUNT_MAX = 1_000_000
const TIMEOUT_MS = 3_000

/** `kvtier ping`: round trips on the MP wire, one after the other. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const count = countOf(call)
  const address = mpAddressOf(call)
  const clock = new SystemClock()
  const client = new MpClient(address, { clock, timeoutMs: TIMEOUT_MS })
  try {
    const chunkTokens = await client.chunkTokens()
    const timesUs = new Float64Array(count)
    for (let index = 0; index < count; index += 1) {
      const startMs = clock.nowMs()
      await client.ping()
      timesUs[index] = (clock.nowMs() - startMs) * 1000
    }
    timesUs.sort()
    const at = (share: number) => Math.round(timesUs[Math.min(count - 1, Math.floor(share * count))]!)
    const result = {
      address,
      pings: count,
      p50_us: at(0.5),
      p99_us: at(0.99),
      max_us: at(1),
      chunk_tokens: chunkTokens,
    }
    answer(call, result, () => {
      const { p50_us, p99_us, max_us } = result
      return `${count} pings to ${address}: p50 ${p50_us} us, p99 ${p99_us} us, max ${max_us} us; chunks of ${chunkTokens} tokens`
    })
    return 0
  } finally {
    client.close()
  }
}

function countOf(call: CommandCall): number {
  const given = call.options.count ?? '100'
  const count = Number(given)
  if (given !== true && /^\d+$/.test(given) && count >= 1 && count <= COUNT_MAX) return count
  throw usageError(`--count is "${given}"; write a whole number from 1 to ${COUNT_MAX}`, '--count')
}
