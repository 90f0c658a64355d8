import { expect, it } from 'vitest'
import { checkHostAndOrigin, isLoopback } from '../../../../src/server/http/host-check.ts'

it.each(['localhost', 'LOCALHOST', '127.0.0.1', '127.255.0.9', '::1', '[::1]'])('%s is of this machine', (host) => {
  expect(isLoopback(host)).toBe(true)
})

it.each([
  '12.0.0.1',
  '128.0.0.1',
  '0.0.0.0',
  '::',
  '10.127.0.1',
  '127.0.0.1.example',
  '127.example',
  'localhost.example',
  '',
])('%j is not', (host) => {
  expect(isLoopback(host)).toBe(false)
})

it('a server on loopback answers to no name that stands for an address beside it', () => {
  const rule = { bindHost: '127.0.0.1', isOpen: false, allowedHosts: [] }
  expect(() => checkHostAndOrigin(rule, '127.0.0.1:8080', undefined)).not.toThrow()
  for (const host of ['128.0.0.1:8080', '12.0.0.1', '127.0.0.1.example']) {
    expect(() => checkHostAndOrigin(rule, host, undefined)).toThrow(expect.objectContaining({ code: 'FORBIDDEN' }))
  }
})
