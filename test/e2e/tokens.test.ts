import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import type { Activity } from '../../src/activities/activity.ts'
import { EngineHome, runCommand } from '../support/engine-process.ts'
import { HttpClient } from '../support/http-client.ts'
import { until } from '../support/until.ts'

const COMMAND_MS = 120_000

const home = new EngineHome()
afterAll(() => home.remove())

async function kvtier(...argv: string[]) {
  const { code, stdout, stderr } = await runCommand([...argv, '--data-dir', home.dataDir, '--json'], COMMAND_MS)
  expect(code, stderr).toBe(0)
  return JSON.parse(stdout)
}

it('tokens are rotated while an engine runs, and nothing keeps them', { timeout: 6 * COMMAND_MS }, async () => {
  const engine = await home.start()
  const old = await kvtier('token', 'create', '--scope', 'admin', '--name', 'old')
  const next = await kvtier('token', 'create', '--scope', 'admin', '--name', 'next')
  const short = await kvtier('token', 'create', '--scope', 'read', '--scope', 'inference', '--ttl', '1s')
  const ask = (token: string | undefined, path = '/v1/quotas') => new HttpClient(engine, token).ask('GET', path)
  expect([(await ask(old.token)).status, (await ask(next.token)).status]).toEqual([200, 200])

  await kvtier('token', 'revoke', old.id)
  const refused = await until('the old token is refused', async () => {
    const answer = await ask(old.token)
    return answer.status === 401 ? answer : undefined
  })
  expect(refused.headers.get('www-authenticate')).toContain('error="invalid_token"')
  expect(refused.body.error).toMatchObject({ code: 'UNAUTHENTICATED', requestId: refused.headers.get('x-request-id') })
  expect((await ask(next.token)).status).toBe(200)
  await until('the short one has expired', async () =>
    (await ask(short.token, '/status')).status === 401 ? 1 : undefined,
  )
  expect((await ask(undefined, '/status')).status).toBe(401) // a token of the scope exists, so none is not enough

  const { tokens } = await kvtier('token', 'list')
  expect(tokens.map(({ name, state }: { name: string; state: string }) => [name, state])).toEqual([
    ['old', 'revoked'],
    ['next', 'valid'],
    ['', 'expired'],
  ])
  const { body } = await ask(next.token, '/v1/activities?resourceType=token')
  const acts = (body.activities as Activity[]).map(({ action, actorType, resourceId }) => [
    action,
    actorType,
    resourceId,
  ])
  expect(acts).toEqual([
    ['ACTIVITY_ACTION_TOKEN_REVOKE', 'ACTOR_TYPE_OPERATOR', old.id],
    ...[short, next, old].map(({ id }) => ['ACTIVITY_ACTION_TOKEN_CREATE', 'ACTOR_TYPE_OPERATOR', id]),
  ])
  const kept = readFileSync(join(home.dataDir, 'tokens.json'), 'utf8') + JSON.stringify(body) + engine.printed
  for (const { token } of [old, next, short]) expect(kept).not.toContain(token)
})
