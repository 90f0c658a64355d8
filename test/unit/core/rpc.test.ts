import { MessageChannel } from 'node:worker_threads'
import { afterEach, expect, it } from 'vitest'
import { CacheError } from '../../../src/core/errors.ts'
import { CallPort, remoteOf, serveCalls } from '../../../src/core/rpc.ts'

interface Answers {
  double(value: number): Promise<number>
  refuse(): Promise<void>
  break(): Promise<void>
  never(): Promise<void>
}

const bugs: unknown[] = []
const ports: CallPort[] = []

function connect(): { remote: Answers; port: CallPort } {
  const { port1, port2 } = new MessageChannel()
  const answers: Answers = {
    double: async (value) => value * 2,
    refuse: async () => {
      throw new CacheError('NO_ROOM', 'no room for it', { field: 'size', bytes: 7 })
    },
    break: async () => {
      throw new TypeError('a secret of the implementation')
    },
    never: () => new Promise(() => undefined),
  }
  serveCalls(port1, answers, (error) => bugs.push(error))
  const port = new CallPort(port2)
  ports.push(port)
  return { remote: remoteOf<Answers>(port, ['double', 'refuse', 'break', 'never']), port }
}

afterEach(() => {
  for (const port of ports.splice(0)) port.close()
})

it('answers each call with its own value', async () => {
  const { remote } = connect()
  expect(await Promise.all([remote.double(1), remote.double(2), remote.double(3)])).toEqual([2, 4, 6])
})

it('carries an operating error over whole', async () => {
  const error = await connect()
    .remote.refuse()
    .catch((caught: unknown) => caught)
  expect(error).toBeInstanceOf(CacheError)
  expect(error).toMatchObject({ code: 'NO_ROOM', message: 'no room for it', detail: { field: 'size', bytes: 7 } })
})

it('reports a bug where it happened, and tells the caller nothing of it', async () => {
  const error = (await connect()
    .remote.break()
    .catch((caught: unknown) => caught)) as CacheError
  expect(error.code).toBe('INTERNAL')
  expect(error.message).not.toContain('secret')
  expect(bugs).toHaveLength(1)
})

it('rejects what waits, and what comes later, when the port closes', async () => {
  const { remote, port } = connect()
  const waiting = remote.never()
  expect(port.waiting).toBe(1)
  port.close()
  await expect(waiting).rejects.toMatchObject({ code: 'SHUTTING_DOWN' })
  await expect(remote.double(1)).rejects.toMatchObject({ code: 'SHUTTING_DOWN' })
  expect(port.waiting).toBe(0)
})
