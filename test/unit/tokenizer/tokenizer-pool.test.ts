import { expect, it } from 'vitest'
import { ManualClock } from '../../../src/core/clock.ts'
import { TokenizerPool, type TokenizerProcess } from '../../../src/tokenizer/tokenizer-pool.ts'

/** Processes that answer when a test says so. */
function makePool({ processes = 1, queueMax = 4 } = {}) {
  const clock = new ManualClock()
  const started: { calls: { args: unknown[]; answer(value: unknown): void }[]; isEnded: boolean; die(): void }[] = []
  const start = (onEnd: () => void): TokenizerProcess => {
    const thread = { calls: [] as (typeof started)[number]['calls'], isEnded: false, die: onEnd }
    started.push(thread)
    const call = (_method: string, args: unknown[]) =>
      new Promise<unknown>((resolve) => void thread.calls.push({ args, answer: resolve }))
    return {
      call,
      end: () => {
        thread.isEnded = true
      },
    }
  }
  const pool = new TokenizerPool({ options: { processes, queueMax, deadlineMs: 1000 }, clock, start })
  return { pool, clock, started }
}

const codeOf = (error: { code: string }) => error.code

it('starts no process before there is work', () => {
  const { started } = makePool()
  expect(started.length).toBe(0)
})

it('gives a process four requests at a time, and the next one as soon as one is answered', async () => {
  const { pool, started } = makePool()
  const answers = [...'abcde'].map((text) => pool.run('encode', [text]))
  expect(started[0]!.calls.map(({ args }) => args[0])).toEqual([...'abcd'])
  started[0]!.calls[1]!.answer('B')
  expect(await answers[1]).toBe('B')
  expect(started[0]!.calls.map(({ args }) => args[0])).toEqual([...'abcde'])
})

it('refuses what would wait behind a full queue', async () => {
  const { pool } = makePool({ queueMax: 1 })
  for (const text of 'abcde') pool.run('encode', [text]).catch(() => {})
  expect(pool.waiting).toBe(1)
  expect(await pool.run('encode', ['f']).catch(codeOf)).toBe('TOKENIZER_BUSY')
})

it('ends the process of a request that takes too long, and gives its neighbour to a new one', async () => {
  const { pool, clock, started } = makePool()
  const slow = pool.run('encode', ['slow']).catch(codeOf)
  clock.advance(10)
  const other = pool.run('encode', ['other'])
  clock.advance(990)
  expect(await slow).toBe('TOKENIZER_TIMEOUT')
  expect(started[0]!.isEnded).toBe(true)
  started[1]!.calls[0]!.answer('fine')
  expect(await other).toBe('fine')
})

it('fails the oldest request of a process that dies, and tries the others once more', async () => {
  const { pool, started } = makePool()
  const first = pool.run('encode', ['first']).catch(codeOf)
  const second = pool.run('encode', ['second']).catch(codeOf)
  started[0]!.die()
  expect(await first).toBe('TOKENIZER_BROKEN')
  expect(started[1]!.calls.map(({ args }) => args[0])).toEqual(['second'])
  started[1]!.die()
  expect(await second).toBe('TOKENIZER_BROKEN')
})

it('gives the others to the next process before all who wait, in the order in which they came', () => {
  const { pool, started } = makePool({ queueMax: 8 })
  for (const text of 'abcdef') pool.run('encode', [text]).catch(() => {})
  started[0]!.die()
  expect(started[1]!.calls.map(({ args }) => args[0])).toEqual([...'bcde'])
})

it('tries no request on a third process', async () => {
  const { pool, started } = makePool()
  const codes = [...'abc'].map((text) => pool.run('encode', [text]).catch(codeOf))
  started[0]!.die()
  started[1]!.die()
  expect(await Promise.all(codes)).toEqual(Array(3).fill('TOKENIZER_BROKEN'))
  expect([started.length, pool.waiting]).toEqual([2, 0])
})

it('takes the end of a process that it ended for nothing new', async () => {
  const { pool, clock, started } = makePool()
  const slow = pool.run('encode', ['slow']).catch(codeOf)
  clock.advance(1000)
  expect(await slow).toBe('TOKENIZER_TIMEOUT')
  const next = pool.run('encode', ['next'])
  started[0]!.die()
  started[1]!.calls[0]!.answer('fine')
  expect([await next, started.length]).toEqual(['fine', 2])
})

it('refuses a text that has waited as long as one may take', async () => {
  const { pool, clock, started } = makePool({ queueMax: 8 })
  const first = [...'abcd'].map((text) => pool.run('encode', [text]))
  const second = [...'efgh'].map((text) => pool.run('encode', [text]))
  const late = pool.run('encode', ['late']).catch(codeOf)
  clock.advance(600)
  for (const call of [...started[0]!.calls]) call.answer('first')
  await Promise.all(first)
  clock.advance(399)
  expect(pool.waiting).toBe(1)
  clock.advance(1)
  expect(await late).toBe('TOKENIZER_BUSY')
  expect(pool.waiting).toBe(0)
  for (const call of started[0]!.calls.slice(4)) call.answer('second')
  expect(await Promise.all(second)).toEqual(Array(4).fill('second'))
})

it('ends everything when it is closed', async () => {
  const { pool, started } = makePool({ queueMax: 8 })
  const all = [...'abcde'].map((text) => pool.run('encode', [text]).catch(codeOf))
  pool.close()
  expect(await Promise.all(all)).toEqual(Array(5).fill('SHUTTING_DOWN'))
  expect(started[0]!.isEnded).toBe(true)
  expect(await pool.run('encode', ['d']).catch(codeOf)).toBe('SHUTTING_DOWN')
})
