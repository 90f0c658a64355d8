import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  loadMooncakeTrace,
  parseMooncakeLine,
  readMooncakeTrace,
  type TraceOptions,
} from '../../../src/replay/mooncake-trace.ts'
import { TraceBatch } from '../../../src/replay/trace-batch.ts'

let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'kvtier-trace-'))
})
afterAll(() => rmSync(directory, { recursive: true }))

function line(input: number, ids: readonly number[], timestamp = 0): string {
  return JSON.stringify({ timestamp, input_length: input, output_length: 5, hash_ids: ids })
}

function file(name: string, contents: string | Uint8Array): string {
  const path = join(directory, name)
  writeFileSync(path, contents)
  return path
}

async function load(path: string, options: Partial<TraceOptions> = {}): Promise<TraceBatch> {
  return await loadMooncakeTrace(path, { partialBlocks: 'drop', ...options })
}

function idsOf(batch: TraceBatch): number[][] {
  return Array.from({ length: batch.count }, (_, index) => [
    ...batch.ids.subarray(batch.firstId[index]!, batch.firstId[index + 1]!),
  ])
}

describe('reading a trace', () => {
  it('gives times, lengths and ids', async () => {
    const batch = await load(file('plain.jsonl', `${line(1024, [1, 2])}\n${line(512, [3], 40)}\n`))
    expect(idsOf(batch)).toEqual([[1, 2], [3]])
    expect([...batch.timestampMs.subarray(0, 2)]).toEqual([0, 40])
    expect([...batch.inputTokens.subarray(0, 2)]).toEqual([1024, 512])
  })

  it('leaves a partial last block out, or counts it when told to', async () => {
    const path = file('partial.jsonl', `${line(600, [1, 2])}\n${line(100, [3])}\n`)
    expect(idsOf(await load(path))).toEqual([[1], []])
    expect(idsOf(await load(path, { partialBlocks: 'count' }))).toEqual([[1, 2], [3]])
  })

  it('takes a last line without newline, CRLF, and empty lines', async () => {
    const path = file('ends.jsonl', `${line(512, [1])}\r\n\n${line(512, [2])}`)
    expect(idsOf(await load(path))).toEqual([[1], [2]])
  })

  it('unzips a name that ends in .gz', async () => {
    expect(idsOf(await load(file('zipped.jsonl.gz', gzipSync(line(512, [9])))))).toEqual([[9]])
    const broken = load(file('cut.jsonl.gz', gzipSync(line(512, [9])).subarray(0, 20)))
    await expect(broken).rejects.toMatchObject({ code: 'TRACE_INVALID' })
  })

  it('stops at the limit, before later lines are even looked at', async () => {
    const path = file('limit.jsonl', `${line(512, [1])}\n${line(512, [2])}\nnonsense\n`)
    expect((await load(path, { limit: 2 })).count).toBe(2)
  })

  it('gives batches of about the size asked for, with every request once', async () => {
    const lines = Array.from({ length: 100 }, (_, index) => line(1024, [index * 2, index * 2 + 1]))
    const sizes: number[] = []
    const seen: number[][] = []
    for await (const batch of readMooncakeTrace(file('many.jsonl', lines.join('\n')), {
      partialBlocks: 'drop',
      batchIds: 30,
    })) {
      sizes.push(batch.count)
      seen.push(...idsOf(batch))
    }
    expect(sizes).toEqual([15, 15, 15, 15, 15, 15, 10])
    expect(seen).toEqual(lines.map((_, index) => [index * 2, index * 2 + 1]))
  })

  it('joins lines that span pieces of the file', async () => {
    const ids = Array.from({ length: 40_000 }, (_, index) => 4_000_000_000 + index)
    const path = file('long.jsonl', `${line(40_000 * 512, ids)}\n${line(40_000 * 512, ids)}\n`)
    expect(idsOf(await load(path))).toEqual([ids, ids])
  })

  it('bounds the length of a line, with and without a newline at its end', async () => {
    for (const end of ['', '\n']) {
      const path = file('huge.jsonl', `${line(512, [1])}\n${'x'.repeat(5000)}${end}`)
      const reading = load(path, { lineBytesMax: 1000 })
      await expect(reading).rejects.toMatchObject({ message: `${path}:2: longer than 1000 bytes` })
    }
  })

  it('names file, line and reason of a bad line', async () => {
    const path = file('bad.jsonl', `${line(512, [1])}\n\n{"timestamp": 1\n`)
    await expect(load(path)).rejects.toMatchObject({
      code: 'TRACE_INVALID',
      message: `${path}:3: not valid JSON`,
      detail: { line: 3 },
    })
  })

  it('says that a file is not there', async () => {
    await expect(load(join(directory, 'none.jsonl'))).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('no such file'),
    })
    await expect(load(directory)).rejects.toMatchObject({ message: expect.stringContaining('is a directory') })
  })
})

describe('a bad line', () => {
  const good = { timestamp: 0, input_length: 1000, output_length: 1, hash_ids: [1, 2] }
  it.each([
    [[], 'not a JSON object'],
    [null, 'not a JSON object'],
    [{ ...good, timestamp: -1 }, 'timestamp is -1, not milliseconds of 0 or more'],
    [{ ...good, timestamp: undefined }, 'timestamp is missing, not milliseconds of 0 or more'],
    [{ ...good, input_length: 1.5 }, 'input_length is 1.5, not a whole number of tokens'],
    [{ ...good, output_length: '3' }, 'output_length is "3", not a whole number of tokens'],
    [{ ...good, hash_ids: { length: 2 } }, 'hash_ids is {"length":2}, not an array'],
    [{ ...good, hash_ids: [1] }, 'hash_ids has 1 ids, but 1000 tokens make 2 blocks of 512'],
    [{ ...good, hash_ids: [1, 2, 3] }, 'hash_ids has 3 ids, but 1000 tokens make 2 blocks of 512'],
    [{ ...good, hash_ids: [1, 4294967296] }, 'hash_ids[1] is 4294967296, not a whole number of 0 to 4294967295'],
    [{ ...good, hash_ids: [-1, 2] }, 'hash_ids[0] is -1, not a whole number of 0 to 4294967295'],
    [{ ...good, hash_ids: [1, null] }, 'hash_ids[1] is null, not a whole number of 0 to 4294967295'],
  ])('is refused with a reason: %j', (record, reason) => {
    const batch = new TraceBatch()
    expect(parseMooncakeLine(JSON.stringify(record), 'drop', batch)).toBe(reason)
    expect(batch.count).toBe(0)
  })

  it('cannot blow up the message', () => {
    const reason = parseMooncakeLine(
      JSON.stringify({ ...good, hash_ids: 'x'.repeat(100_000) }),
      'drop',
      new TraceBatch(),
    )
    expect(reason!.length).toBeLessThan(100)
  })

  it('may nest as deep as its length allows', () => {
    const depth = 500_000
    const reason = parseMooncakeLine(`${'['.repeat(depth)}${']'.repeat(depth)}`, 'drop', new TraceBatch())
    expect(reason).toBe('not a JSON object')
  })
})
