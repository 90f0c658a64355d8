import { expect, it } from 'vitest'
import { InflightBudget } from '../../../src/transfer/inflight-budget.ts'

const never = new AbortController().signal

it('admits up to its limit and the rest in order as room comes', async () => {
  const budget = new InflightBudget(100)
  const order: string[] = []
  expect(await budget.acquire(60, never)).toBe(true)
  const second = budget.acquire(60, never).then(() => order.push('second'))
  const third = budget.acquire(10, never).then(() => order.push('third'))
  expect(budget.waiting).toBe(2) // the third would fit, but does not overtake
  expect(budget.tryAcquire(10)).toBe(false)
  budget.release(60)
  await Promise.all([second, third])
  expect(order).toEqual(['second', 'third'])
  expect(budget.inflightBytes).toBe(70)
})

it('admits a request over the whole budget, alone', async () => {
  const budget = new InflightBudget(100)
  expect(await budget.acquire(500, never)).toBe(true)
  expect(budget.tryAcquire(1)).toBe(false)
  budget.release(500)
  expect(budget.tryAcquire(1)).toBe(true)
})

it('takes nothing for a caller that left, and lets the next one in', async () => {
  const budget = new InflightBudget(100)
  await budget.acquire(50, never)
  const caller = new AbortController()
  const left = budget.acquire(80, caller.signal)
  const next = budget.acquire(50, never)
  caller.abort()
  expect(await left).toBe(false)
  expect(await next).toBe(true)
  expect(budget.inflightBytes).toBe(100)
  expect(await budget.acquire(1, caller.signal)).toBe(false)
})
