import { gunzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { Exposition } from '../../../src/metrics/exposition.ts'
import type { TextFormat } from '../../../src/metrics/prometheus.ts'
import { recordEverything } from '../../support/full-cells.ts'

/** Foreign metrics that wait to be let go, and how many renderings were under way at once. */
function gate() {
  const waiting: (() => void)[] = []
  const seen = { calls: 0, active: 0, most: 0 }
  const text = async (_format: TextFormat) => {
    seen.calls += 1
    seen.active += 1
    seen.most = Math.max(seen.most, seen.active)
    await new Promise<void>((resolve) => waiting.push(resolve))
    seen.active -= 1
    return 'foreign 1\n'
  }
  const letGo = async () => {
    while (waiting.length === 0) await new Promise((resolve) => setImmediate(resolve))
    waiting.shift()!()
  }
  return { text, letGo, seen }
}

it('lets scrapes of one format share a rendering, and renders one at a time', async () => {
  const foreign = gate()
  const exposition = new Exposition(recordEverything().reader, foreign)
  const all = [exposition.render('text'), exposition.render('text'), exposition.render('openmetrics')]
  await foreign.letGo()
  await foreign.letGo()
  const [first, second, third] = await Promise.all(all)
  expect(second).toBe(first)
  expect(third).not.toBe(first)
  expect(foreign.seen).toEqual({ calls: 2, active: 0, most: 1 })
  expect(third!.body.toString().endsWith('foreign 1\n# EOF\n')).toBe(true)
})

it('renders anew for the next scrape, also after one that failed', async () => {
  let calls = 0
  const exposition = new Exposition(recordEverything().reader, {
    text: async () => {
      calls += 1
      if (calls === 1) throw new Error('first fails')
      return ''
    },
  })
  await expect(exposition.render('text')).rejects.toThrow('first fails')
  const second = await exposition.render('text')
  expect(await exposition.render('text')).not.toBe(second)
  expect(calls).toBe(3)
})

it('lets the thread run between pieces', async () => {
  const { reader } = recordEverything()
  let pauses = 0
  const exposition = new Exposition(reader, null, async () => {
    pauses += 1
  })
  const { body } = await exposition.render('text')
  const lines = body.toString().split('\n').length
  expect(pauses).toBeGreaterThanOrEqual(Math.floor(lines / 2_200))
})

it('compresses a rendering once', async () => {
  const exposition = new Exposition(recordEverything().reader, null)
  const rendering = await exposition.render('text')
  expect(rendering.gzipped()).toBe(rendering.gzipped())
  expect(gunzipSync(Buffer.concat(await rendering.gzipped()))).toEqual(rendering.body)
})
