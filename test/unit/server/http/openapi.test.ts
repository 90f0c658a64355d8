import { afterAll, beforeAll, expect, it } from 'vitest'
import { HttpHarness } from '../../../support/http-harness.ts'

interface Operation {
  readonly summary?: string
  readonly security?: readonly object[]
  readonly responses: Readonly<Record<string, unknown>>
}
interface Document {
  readonly openapi: string
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

let harness: HttpHarness
let document: Document

beforeAll(async () => {
  harness = await HttpHarness.start()
  const answer = await harness.service.api.inject({ method: 'GET', url: '/openapi.json' })
  expect(answer.headers['content-type']).toContain('application/json')
  document = answer.json()
})

afterAll(() => harness.close())

it('lists every route, and no other', () => {
  const listed = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  )
  // HEAD comes with every GET; only the probe of a chunk is a route of its own.
  const routes = harness.service.routes
    .filter(({ method, url }) => method !== 'HEAD' || url.startsWith('/v1/chunks'))
    .map(({ method, url }) => `${method} ${url.replace(/:(\w+)/g, '{$1}')}`)
  expect(listed.toSorted()).toEqual([...new Set(routes)].toSorted())
})

it('says of each route what it is, what it needs and that it can fail', () => {
  for (const { method, url, scope } of harness.service.routes) {
    const operation = document.paths[url.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()]
    if (operation === undefined) continue
    expect(operation.summary, url).toMatch(/^[A-Z]/)
    expect(operation.security, url).toEqual(scope === 'public' ? [] : [{ bearer: [scope] }])
    const statuses = Object.keys(operation.responses)
    expect(statuses, url).toEqual(expect.arrayContaining(['400', '403', '500', '503']))
    expect(
      statuses.some((status) => /^[23]/.test(status)),
      `${url}: what it answers when all is well`,
    ).toBe(true)
    expect(
      statuses.filter((status) => !/^[2345]\d\d$/.test(status)),
      url,
    ).toEqual([])
    expect(statuses.includes('401') && statuses.includes('429'), url).toBe(scope !== 'public')
  }
})

it('is a document of version 3.1 without values that JSON lacks', () => {
  expect(document.openapi).toBe('3.1.0')
  expect(JSON.stringify(document)).not.toMatch(/undefined|\[object/)
})
