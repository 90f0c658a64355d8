import { expect, it } from 'vitest'
import { clusterSlot } from '../../../../../src/l2/adapters/redis/cluster-slot.ts'

// 123456789 is the check value of the Cluster specification: 0x31c3. The others are what `CLUSTER KEYSLOT` answers.
it.each([
  ['123456789', 0x31c3],
  ['foo', 12_182],
  ['{user1000}.following', 3_443],
  ['{user1000}.followers', 3_443],
  ['foo{}{bar}', 8_363],
  ['foo{{bar}}zap', 4_015],
  ['foo{bar}{zap}', 5_061],
  ['', 0],
])('puts %j into slot %i', (key, slot) => {
  expect(clusterSlot(key)).toBe(slot)
})
