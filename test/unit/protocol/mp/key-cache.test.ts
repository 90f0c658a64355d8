import { expect, it } from 'vitest'
import { KeyCache } from '../../../../src/protocol/mp/key-cache.ts'
import type { WireKey } from '../../../../src/protocol/mp/messages.ts'
import { random } from '../../../support/random.ts'

function keyNamed(requestId: string): WireKey {
  const tokens = new Uint32Array(0)
  return { model: 'm', salt: '', worldSize: 1, workerId: 0, tokens, start: 0, end: 0, requestId, readers: 1 }
}

it('tells keys of one prompt apart, whichever byte differs', () => {
  const keys = new KeyCache(4)
  const frame = new Uint8Array(1000).fill(7)
  keys.add(frame, keyNamed('a'))
  for (const at of [0, 500, 743, 744, 999]) {
    const other = frame.slice()
    other[at] = 8
    expect(keys.find(other), `byte ${at}`).toBeUndefined()
  }
  expect(keys.find(frame)?.requestId).toBe('a')
})

// Oracle: the frames as texts, kept as they come.
it.each([1, 2, 3])('finds the last keys and no others, as frames of many lengths take turns (seed %i)', (seed) => {
  const next = random(seed)
  const keys = new KeyCache(4)
  const kept: { text: string; requestId: string }[] = []
  for (let step = 0; step < 500; step += 1) {
    const frame = new Uint8Array(512 + next(3) * 700).fill(next(3))
    frame[frame.length - 1] = next(3)
    const text = Buffer.from(frame).toString('latin1')
    const known = kept.find((one) => one.text === text)
    expect(keys.find(frame)?.requestId).toBe(known?.requestId)
    if (known !== undefined) continue
    keys.add(frame, keyNamed(String(step)))
    kept.push({ text, requestId: String(step) })
    if (kept.length > 4) kept.shift()
    frame.fill(9) // the caller's own again
  }
})
