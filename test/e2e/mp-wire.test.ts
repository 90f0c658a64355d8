import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { MpClient } from '../../src/client/mp-client.ts'
import { selfTest } from '../../src/client/self-test.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { SegmentFile } from '../../src/native/segment-file.ts'
import { EngineHome, type EngineProcess, runCommand } from '../support/engine-process.ts'
import { parseExposition } from '../support/exposition-parser.ts'
import { random } from '../support/random.ts'
import { until } from '../support/until.ts'

const home = new EngineHome()
let engine: EngineProcess
beforeAll(async () => {
  engine = await home.start()
})
afterAll(() => home.remove())

describe('a running engine', () => {
  it('tells the address of its MP wire', async () => {
    expect(engine.addresses.mp).toMatch(/^127\.0\.0\.1:\d+$/)
    // The file of addresses may be there before what is printed has come.
    const line = `MP wire   tcp://${engine.addresses.mp}`
    await until('it is printed', () => engine.stdout.includes(line) || undefined)
  })

  it('passes its own self-test, from the command line', async () => {
    const { code, stdout, stderr } = await runCommand(['selftest', '--data-dir', home.dataDir])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain('every byte is right')
    const again = await runCommand(['selftest', '--address', engine.addresses.mp!, '--json'])
    expect(JSON.parse(again.stdout)).toMatchObject({ ok: true, address: engine.addresses.mp })
  })

  it('answers pings, and says how fast', async () => {
    const { code, stdout } = await runCommand(['ping', '--data-dir', home.dataDir, '--count', '20', '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ pings: 20, chunk_tokens: 256, p50_us: expect.any(Number) })
  })

  it('counts what went over the wire as lookups, stores and loads', async () => {
    const text = await (await fetch(engine.metricsUrl)).text()
    const { samples } = parseExposition(text)
    const sum = (name: string) => samples.reduce((total, one) => total + (one.name === name ? one.value : 0), 0)
    expect(sum('cache_mp_lookup_requested_tokens_total')).toBe(2 * 2 * 4 * 256)
    expect(sum('cache_mp_lookup_hit_tokens_total')).toBe(2 * 4 * 256)
    expect(sum('cache_mp_num_chunks_loaded_total')).toBe(2 * 4)
    expect(sum('cache_mp_l0_l1_store_bytes_total')).toBe(2 * 4 * 16_384)
    expect(sum('cache_mp_l0_l1_load_bytes_total')).toBe(2 * 4 * 16_384)
  })
})

describe('the self-test finds', () => {
  const clock = new SystemClock()

  async function testWith(spoil: (bytes: Uint8Array) => void): Promise<void> {
    const client = new MpClient(engine.addresses.mp!, { clock })
    const openSegment = (name: string) => {
      const segment = SegmentFile.open(name)
      const read = (offset: number, length: number) => {
        const bytes = segment.read(offset, length)
        spoil(bytes)
        return bytes
      }
      return { read, write: segment.write.bind(segment), close: segment.close.bind(segment) }
    }
    try {
      await selfTest({ client, clock, openSegment, random: random(Math.trunc(clock.nowMs())) }, () => {})
    } finally {
      client.close()
    }
  }

  it('one wrong byte', async () => {
    const spoil = (bytes: Uint8Array) => {
      bytes[9_999]! ^= 1
    }
    await expect(testWith(spoil)).rejects.toThrow('chunk 0 holds other bytes than were stored')
    await expect(testWith(() => {})).resolves.toBeUndefined()
  })
})

it.each(['ping', 'selftest'])(
  '%s says in one line that nobody answers, or that the address is none',
  async (command) => {
    const nobody = await runCommand([command, '--data-dir', `${home.folder}/none`])
    expect(nobody).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(/^kvtier: no engine [^\n]+\n$/) })
    const wrong = await runCommand([command, '--address', 'nowhere'])
    expect(wrong).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(/^kvtier: --address is [^\n]+\n$/),
    })
  },
)
