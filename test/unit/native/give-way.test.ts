import { Worker } from 'node:worker_threads'
import { expect, it } from 'vitest'
import { giveWay } from '../../../src/native/give-way.ts'
import { loadPosix } from '../../../src/native/posix.ts'

it('comes back, on any thread, as often as it is called', async () => {
  const module = new URL('../../../src/native/give-way.ts', import.meta.url).href
  const text = `import(${JSON.stringify(module)}).then(({ giveWay }) => { for (let i = 0; i < 1000; i += 1) giveWay() })`
  const workers = [1, 2].map(() => new Worker(text, { eval: true }))
  for (let time = 0; time < 1_000; time += 1) giveWay()
  const codes = await Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('exit', resolve))))
  expect(codes).toEqual([0, 0])
})

it('is a call of the system', () => {
  const posix = loadPosix()
  expect(typeof posix === 'string' ? 0 : posix.schedYield()).toBe(0)
})
