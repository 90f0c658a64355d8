import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { HttpHarness } from '../../../support/http-harness.ts'

let harness: HttpHarness

beforeEach(async () => {
  harness = await HttpHarness.start()
})

afterEach(() => harness.close())

function post(url: string, payload: object, headers: Record<string, string> = {}) {
  return harness.service.api.inject({ method: 'POST', url, payload, headers })
}

function get(url: string) {
  return harness.service.api.inject({ method: 'GET', url })
}

describe('activities', () => {
  beforeEach(async () => {
    const admin = harness.bearer('admin')
    for (const model of ['a', 'b', 'c']) {
      await post('/v1/clear', { model }, admin)
      harness.clock.advance(1000)
    }
  })

  const at = (ms: number) => encodeURIComponent(new Date(harness.clock.wallMs() + ms).toISOString())

  it('have all twelve fields, newest first', async () => {
    const answer = (await get('/v1/activities')).json()
    expect(answer).toMatchObject({ total: 3, page: 1, size: 20 })
    expect(answer.activities.map((one: { resourceId: string }) => one.resourceId)).toEqual(['c', 'b', 'a'])
    expect(Object.keys(answer.activities[0]).toSorted()).toEqual(
      (
        'activityId actorType userId action resourceType resourceId description metadata occurredAt recordedAt ' +
        'actorId actorDisplay'
      )
        .split(' ')
        .toSorted(),
    )
  })

  it('are filtered and paged', async () => {
    expect((await get('/v1/activities?resourceId=b')).json().total).toBe(1)
    expect((await get('/v1/activities?action=NOTHING')).json()).toMatchObject({ activities: [], total: 0 })
    expect((await get('/v1/activities?page=2&size=2')).json()).toMatchObject({ total: 3, page: 2, size: 2 })
    expect((await get(`/v1/activities?startTime=${at(-2000)}&endTime=${at(-1000)}`)).json().total).toBe(1)
    expect((await get(`/v1/activities?startTime=${at(-2000)}&endTime=${at(-2000)}`)).json().total).toBe(0)
  })

  it('answer the largest page number exactly', async () => {
    const answer = await get('/v1/activities?page=9223372036854775807')
    expect(answer.body).toBe('{"activities":[],"total":3,"page":9223372036854775807,"size":20}')
  })

  it.each([
    ['page=0', 'page'],
    ['page=-1', 'page'],
    ['page=9223372036854775808', 'page'],
    ['page=1.5', 'page'],
    ['page=1e1', 'page'],
    ['page=01', 'page'],
    ['page=', 'page'],
    ['page=1&page=2', 'page'],
    ['size=0', 'size'],
    ['size=101', 'size'],
    ['size=x', 'size'],
    ['startTime=yesterday', 'startTime'],
    ['startTime=2026-01-01T00:00:00', 'startTime'],
    ['endTime=2026-02-30T00:00:00Z', 'endTime'],
    ['startTime=2026-01-02T00:00:00Z&endTime=2026-01-01T00:00:00Z', 'startTime'],
    ['user=me', 'user'],
    ['userId=', 'userId'],
  ])('refuse %s', async (query, field) => {
    const answer = await get(`/v1/activities?${query}`)
    expect([answer.statusCode, answer.json().error.field]).toEqual([400, field])
  })

  it('name the limit of a page', async () => {
    expect((await get('/v1/activities?size=101')).json().error.message).toContain('100')
  })
})
