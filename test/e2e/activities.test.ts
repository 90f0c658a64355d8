import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import type { Activity } from '../../src/activities/activity.ts'
import { EngineHome } from '../support/engine-process.ts'
import { HttpClient } from '../support/http-client.ts'
import { REPOSITORY } from '../support/source-tree.ts'
import { until } from '../support/until.ts'

const home = new EngineHome()
afterAll(() => home.remove())

async function listed(client: HttpClient): Promise<Activity[]> {
  return (await client.must('GET', '/v1/activities?size=100')).activities
}

const actionsOf = (activities: readonly Activity[]) =>
  activities.map(({ action }) => action.replace('ACTIVITY_ACTION_', '')).toReversed()

it('an engine records its life and what is done to it, also over a kill', async () => {
  const first = await home.start()
  const admin = new HttpClient(first, await home.token('admin'))
  await admin.must('PUT', '/v1/quotas/team', { l1_bytes: 1_000_000 })
  await admin.must('POST', '/v1/clear', {})
  await first.stop('SIGKILL')

  const second = await home.start()
  const before = await listed(new HttpClient(second))
  expect(actionsOf(before)).toEqual([
    'ENGINE_START',
    'TOKEN_CREATE',
    'QUOTA_SET',
    'CACHE_CLEAR',
    'ENGINE_RECOVER',
    'ENGINE_START',
  ])
  const clear = before.find(({ action }) => action === 'ACTIVITY_ACTION_CACHE_CLEAR')!
  expect(clear).toMatchObject({ actorType: 'ACTOR_TYPE_TOKEN', resourceType: 'cache', resourceId: '' })
  expect(clear.actorId).toMatch(/^tok_/)
  expect(clear.metadata).toHaveProperty('requestId')
  await second.stop()

  const third = await home.start()
  expect(actionsOf(await listed(new HttpClient(third))).slice(-2)).toEqual(['ENGINE_STOP', 'ENGINE_START'])
  await third.stop()
})

it('an engine records that it has read a file of secrets again, and nothing of what the file holds', async () => {
  const at = (name: string) => join(home.folder, name)
  const secret = 'a-secret-of-this-cluster-'
  writeFileSync(at('keys'), `admin:${secret}1 name=one\n`)
  writeFileSync(at('scrape'), `${secret}3\n`)
  const flags = ['--auth-token-file', at('keys'), '--prometheus-token-file', at('scrape')]
  const engine = await home.start({ flags })
  writeFileSync(at('keys'), `admin:${secret}2 name=another\n`)
  writeFileSync(at('scrape'), `${secret}four\n`)
  const client = new HttpClient(engine, `${secret}2`)
  const found = await until('both are read again', async () => {
    await fetch(engine.metricsUrl)
    const { status, body } = await client.ask('GET', '/v1/activities?action=ACTIVITY_ACTION_CONFIG_RELOAD')
    return status === 200 && body.total === 2 ? (body.activities as Activity[]) : undefined
  })
  const options = found.map(({ metadata }) => metadata.option)
  expect(options.toSorted()).toEqual(['--auth-token-file', '--prometheus-token-file'])
  expect(JSON.stringify(found)).not.toContain(secret)
  const ofKeys = found.find(({ metadata }) => metadata.option === '--auth-token-file')!
  const key = /^key_[0-9a-f]{16}$/
  expect(ofKeys.metadata).toMatchObject({ added: [expect.stringMatching(key)], removed: [expect.stringMatching(key)] })
  await engine.stop()
})

it('kvtier activities --follow prints what happens, once', async () => {
  const engine = await home.start()
  const client = new HttpClient(engine, await home.token('admin'))
  const argv = ['src/cli/main.ts', 'activities', '--follow', '--json', '--url', engine.httpUrl]
  const child = spawn(process.execPath, [...argv, '--action', 'cache-clear', '--size', '1'], { cwd: REPOSITORY })
  let printed = ''
  const lines = () => printed.split('\n').filter((line) => line !== '')
  const enough = new Promise<void>((resolve) => {
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      printed += piece
      if (lines().length === 1) void client.must('POST', '/v1/clear', { model: 'new' })
      if (lines().length >= 2) resolve()
    })
  })
  await enough
  child.kill('SIGINT')
  expect((await once(child, 'close'))[0]).toBe(0)
  const activities = lines().map((line) => JSON.parse(line) as Activity)
  expect(activities.map(({ resourceId }) => resourceId)).toEqual(['', 'new'])
  await engine.stop()
})

it('kvtier activities --follow goes on when the engine has restarted', { timeout: 240_000 }, async () => {
  const first = await home.start()
  const argv = ['src/cli/main.ts', 'activities', '--follow', '--json', '--data-dir', home.dataDir]
  const child = spawn(process.execPath, [...argv, '--action', 'engine-start', '--size', '1'], { cwd: REPOSITORY })
  let [printed, said] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    printed += piece
  })
  child.stderr.setEncoding('utf8').on('data', (piece: string) => {
    said += piece
  })
  const lines = () => printed.split('\n').filter((line) => line !== '')
  const starts = (count: number) =>
    until(`${count} starts are shown`, () => (lines().length >= count ? true : undefined), 120_000)
  await starts(1)
  await first.stop()
  await until('it says that it waits', () => (said.includes('waiting for it') ? true : undefined), 60_000)
  const second = await home.start()
  await starts(2)
  child.kill('SIGINT')
  expect((await once(child, 'close'))[0]).toBe(0)
  const [before, after] = lines().map((line) => JSON.parse(line) as Activity)
  expect(after!.metadata.pid).not.toBe(before!.metadata.pid)
  expect(said.split('waiting for it')).toHaveLength(2) // said once
  await second.stop()
})
