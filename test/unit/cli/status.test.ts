import { expect, it } from 'vitest'
import { statusText } from '../../../src/cli/status.ts'

it('shows a table of each part of the engine, with sizes and shares for people', () => {
  const adapter = { name: 'disk', usageBytes: 3 * 2 ** 20, lastError: '', drain: null }
  const status = {
    simulated: ['L0'],
    l1: { capacityBytes: 2 ** 30, usageRatio: 0.25, openLeases: 2 },
    version: '0.1.0',
    l2: { adapters: [adapter], queuedStores: 0 },
    tenants: [],
    mp: { heldBytesMax: 512 },
  }
  const lines = statusText(status)
    .split('\n')
    .map((line) => line.trimEnd())
  const words = lines.map((line) => line.split(/\s{2,}/))
  expect(words.filter(([name]) => !/^-*$/.test(name!))).toEqual([
    ['engine', 'value'],
    ['simulated', 'L0'],
    ['version', '0.1.0'],
    ['tenants', '-'],
    ['l1', 'value'],
    ['capacityBytes', '1.00 GiB'],
    ['usageRatio', '25.0 %'],
    ['openLeases', '2'],
    ['l2', 'value'],
    ['adapters.0.name', 'disk'],
    ['adapters.0.usageBytes', '3.00 MiB'],
    ['adapters.0.lastError', '-'],
    ['adapters.0.drain', '-'],
    ['queuedStores', '0'],
    ['mp', 'value'],
    ['heldBytesMax', '512 B'],
  ])
})
