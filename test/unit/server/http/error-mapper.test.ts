import { expect, it } from 'vitest'
import { CacheError, ERRORS, type ErrorCode } from '../../../../src/core/errors.ts'
import { HTTP_ERRORS, mapError, STATUS_OF_KIND } from '../../../../src/server/http/error-mapper.ts'

it.each(Object.keys(ERRORS) as ErrorCode[])('%s keeps its code and gets the status of its kind', (code) => {
  const { status, body, isRetryable } = mapError(new CacheError(code, 'a reason', { field: 'f' }), 'r')
  expect(status).toBe(STATUS_OF_KIND[ERRORS[code].kind])
  expect(body.error).toMatchObject({ code, field: 'f', requestId: 'r' })
  expect(isRetryable).toBe(ERRORS[code].retryable)
})

it('no code means two things', () => {
  expect(Object.keys(HTTP_ERRORS).filter((code) => code in ERRORS)).toEqual([])
})

it.each([
  new Error('secret'),
  new CacheError('INTERNAL', 'secret'),
  'secret',
  null,
  undefined,
  Object.assign(new Error('secret'), { statusCode: 502 }),
])('what failed inside stays inside (%#)', (error) => {
  const { status, body } = mapError(error, 'r')
  expect(status).toBe(500)
  expect(body.error.code).toBe('INTERNAL')
  expect(JSON.stringify(body)).not.toContain('secret')
})

it('an unknown refusal of the framework is a bad request', () => {
  const error = Object.assign(new Error('secret'), { statusCode: 418, code: 'FST_ERR_NEW' })
  const { status, body } = mapError(error, 'r')
  expect([status, body.error.code]).toEqual([400, 'BAD_REQUEST'])
})
