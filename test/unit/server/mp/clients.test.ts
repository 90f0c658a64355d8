import { expect, it } from 'vitest'
import { ManualClock } from '../../../../src/core/clock.ts'
import { Client, ClientTable } from '../../../../src/server/mp/clients.ts'

const MIB = 1024 * 1024
const newClient = () => new Client('0', 0)

it('forgets the oldest request of a client that has too many, and tells whoever waits for it', async () => {
  const clock = new ManualClock()
  const client = newClient()
  const first = client.startJob('first')
  const waiting = client.wait(first, 1000, clock)
  for (let request = 1; request < 16_384; request += 1) client.startJob(`${request}`)
  expect(client.job('first')).toBe(first)
  client.startJob('one more')
  expect(client.job('first')).toBeUndefined()
  expect(client.job('1')).toBeDefined()
  await waiting
  expect(first.isDone).toBe(true)
})

it('lets only so many waits of one job, and of one client, last', async () => {
  const clock = new ManualClock()
  const client = newClient()
  let over = 0
  const wait = (name: string) => {
    const job = client.job(name) ?? client.startJob(name)
    void client.wait(job, 1000, clock).then(() => {
      over += 1
    })
  }
  for (let count = 0; count < 9; count += 1) wait('a')
  await Promise.resolve()
  await new Promise(setImmediate)
  expect(over).toBe(1)
  for (let count = 0; count < 1024; count += 1) wait(`${count}`)
  await new Promise(setImmediate)
  expect(over).toBe(1 + 8)
  clock.advance(1000)
  await new Promise(setImmediate)
  expect(over).toBe(9 + 1024)
})

it('queues few operations of one client, and few bytes of tokens', () => {
  const client = newClient()
  expect(client.enqueue(100 * MIB)).toBe(true) // a single one always
  expect(client.enqueue(1)).toBe(false)
  client.dequeue(100 * MIB)
  for (let count = 0; count < 4; count += 1) expect(client.enqueue(16 * MIB)).toBe(true)
  expect(client.enqueue(16 * MIB)).toBe(false)
  for (let count = 0; count < 1020; count += 1) expect(client.enqueue(0)).toBe(true)
  expect(client.enqueue(0)).toBe(false)
})

it('keeps the clients heard of last, and tells of those that it drops', () => {
  const gone: number[] = []
  const table = new ClientTable(3, ({ peer }) => void gone.push(Number(peer)))
  for (let number = 0; number < 3; number += 1) table.heard(String(number), number)
  table.heard('0', 3)
  for (let number = 3; number < 5; number += 1) table.heard(String(number), number)
  expect(gone).toEqual([1, 2])
  expect(table.count).toBe(3)
})
