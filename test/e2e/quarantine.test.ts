import { closeSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { MpClient } from '../../src/client/mp-client.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { EngineHome, runCommand } from '../support/engine-process.ts'
import { HttpClient } from '../support/http-client.ts'
import { contextOf, keyOf, promptOf } from '../support/mp.ts'
import { until } from '../support/until.ts'

const WORKER = 2n ** 62n + 3n
const FLAGS = ['--chunk-tokens', '16', '--lease-ttl', '200ms', '--sweep-interval', '20ms', '--log-level', 'warn']

let home: EngineHome
beforeEach(() => {
  home = new EngineHome()
})
afterEach(() => home.remove())

it('an operator sees why the engine is not ready, frees what a dead worker held, and is on record', async () => {
  const engine = await home.start({ l1Size: '1MiB', flags: FLAGS })
  const http = new HttpClient(engine)
  const worker = new MpClient(engine.addresses.mp!, { clock: new SystemClock() })
  try {
    await worker.register(contextOf(WORKER, { hidden: 128 }))
    const { slots } = await worker.prepareStore(keyOf(promptOf(1, 16)), WORKER)
    expect(slots).toHaveLength(16) // 128 KiB of 1 MiB
  } finally {
    worker.close()
  }
  const ready = () => fetch(`${engine.httpUrl}/readyz`)
  await until('the lease to expire', async () => ((await ready()).status === 503 ? true : undefined))
  expect(JSON.stringify(await (await ready()).json())).toContain('kvtier quarantine list')
  const metrics = await (await fetch(engine.metricsUrl)).text()
  expect(metrics).toContain(`cache_mp_l1_quarantined_bytes{holder="writer"} ${16 * 8192}`)

  const where = ['--data-dir', home.dataDir]
  const listed = await runCommand(['quarantine', 'list', ...where])
  expect(listed).toMatchObject({ code: 0, stdout: expect.stringContaining(String(WORKER)) })
  expect((await runCommand(['quarantine', 'release', ...where])).code).toBe(2)
  const tokenFile = join(home.folder, 'token')
  writeFileSync(tokenFile, await home.token('admin'))
  const refused = await runCommand(['quarantine', 'release', '--all', ...where])
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('--token-file') })
  const argv = ['quarantine', 'release', String(WORKER), ...where, '--token-file', tokenFile, '--json']
  const freed = await runCommand(argv)
  expect(JSON.parse(freed.stdout)).toMatchObject({ workers: [{ worker: String(WORKER), write_bytes: 16 * 8192 }] })
  expect((await ready()).status).toBe(200)
  const { activities } = await http.must('GET', '/v1/activities?resourceType=worker')
  expect(activities[0]).toMatchObject({ action: 'ACTIVITY_ACTION_QUARANTINE_RELEASE', resourceId: String(WORKER) })
})

it('what a worker held is free when its process is gone, without an operator', { timeout: 240_000 }, async () => {
  const engine = await home.start({ l1Size: '1MiB', flags: FLAGS })
  const worker = new MpClient(engine.addresses.mp!, { clock: new SystemClock() })
  const mapped = openSync(home.segmentPath, 'r+') // as a process that maps it
  try {
    await worker.register(contextOf(WORKER, { hidden: 128 }))
    expect((await worker.prepareStore(keyOf(promptOf(1, 16)), WORKER)).slots).toHaveLength(16)
    const ready = () => fetch(`${engine.httpUrl}/readyz`)
    await until('the lease to expire', async () => ((await ready()).status === 503 ? true : undefined), 60_000)
    closeSync(mapped)
    await until('the slots to be free', async () => ((await ready()).status === 200 ? true : undefined), 120_000)
  } finally {
    worker.close()
  }
  const record = await until('the record', async () => {
    const { activities } = await new HttpClient(engine).must('GET', '/v1/activities?resourceType=worker')
    return activities[0]?.action === 'ACTIVITY_ACTION_QUARANTINE_RELEASE' ? activities[0] : undefined
  })
  expect(record).toMatchObject({ actorType: 'ACTOR_TYPE_SYSTEM', resourceId: String(WORKER) })
})
