import { expect, it } from 'vitest'
import { Lanes } from '../../../../src/l2/adapters/lanes.ts'

const NEVER = new AbortController().signal

/** Lanes without memory, and keys that end when they are told to. */
function setUp(lanes: number) {
  const begun: number[] = []
  const ends = new Map<number, PromiseWithResolvers<void>>()
  const work = (key: number) => {
    begun.push(key)
    const end = Promise.withResolvers<void>()
    ends.set(key, end)
    return end.promise
  }
  const settle = () => new Promise<void>((resolve) => setImmediate(resolve))
  return { lanes: new Lanes(lanes, () => undefined), begun, ends, work, settle }
}

it('settles a batch with an error only when the keys beside it have let go of their memory', async () => {
  const { lanes, begun, ends, work, settle } = setUp(3)
  const ended: unknown[] = []
  const run = lanes.run(9, NEVER, work).catch((error: unknown) => ended.push(error))
  ends.get(1)!.reject(new Error('first'))
  await settle()
  ends.get(2)!.reject(new Error('second'))
  await settle()
  expect([begun, ended]).toEqual([[0, 1, 2], []])
  ends.get(0)!.resolve()
  await run
  expect(ended).toEqual([new Error('first')])
})

it('begins no more keys of a batch that is given up, and settles it after those under way', async () => {
  const { lanes, begun, ends, work, settle } = setUp(2)
  const abort = new AbortController()
  let isOver = false
  const run = lanes.run(5, abort.signal, work).then(() => {
    isOver = true
  })
  abort.abort()
  ends.get(1)!.resolve()
  await settle()
  expect([begun, isOver]).toEqual([[0, 1], false])
  ends.get(0)!.resolve()
  await run
  expect(begun).toEqual([0, 1])
})
