import { expect, it } from 'vitest'
import { DrainPace } from '../../../src/app/drain-pace.ts'

/** Delays of the drains of a bus on which events come about at a steady rate. */
function delaysAt(eventsPerMs: number, drains: number, pace = new DrainPace()): number[] {
  return Array.from({ length: drains }, () => {
    pace.note(Math.round(pace.delayMs * eventsPerMs))
    return pace.delayMs
  })
}

it('drains soon at first', () => {
  expect(new DrainPace().delayMs).toBe(10)
})

it.each([0, 0.01, 10, 100])('drains as seldom as it may at %d events a millisecond', (rate) => {
  expect(delaysAt(rate, 4)).toEqual([40, 40, 40, 40])
})

it.each([205, 300, 400])('drains whenever some 4,096 events are there, at %d a millisecond', (rate) => {
  for (const delayMs of delaysAt(rate, 4)) expect(Math.abs(delayMs * rate - 4_096)).toBeLessThanOrEqual(rate / 2)
})

it.each([410, 6_000])('drains as often as it may at %d events a millisecond', (rate) => {
  expect(delaysAt(rate, 4)).toEqual([10, 10, 10, 10])
})

it('is back at its shortest delay after one drain that finds much', () => {
  const pace = new DrainPace()
  delaysAt(0, 3, pace)
  expect(delaysAt(2_000, 1, pace)).toEqual([10])
})
