import { closeSync, existsSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { EngineHome } from '../support/engine-process.ts'
import { HttpClient } from '../support/http-client.ts'

let home: EngineHome

beforeEach(() => {
  home = new EngineHome()
})
afterEach(() => home.remove())

const isLeftOpen = () => existsSync(join(home.dataDir, 'addresses.json'))

describe('an engine whose log nobody takes', () => {
  it('starts, serves and stops in order while the disk of its log is full', async () => {
    const full = openSync('/dev/full', 'w')
    try {
      const engine = await home.start({ stdio: ['ignore', full, full], flags: ['--log-level', 'debug'] })
      const client = new HttpClient(engine)
      await client.must('POST', '/v1/models', { model: 'm', chunk_bytes: 4096 })
      expect((await fetch(engine.metricsUrl)).status).toBe(200)
      expect(await engine.stop()).toBe(0)
      expect(isLeftOpen()).toBe(false)
    } finally {
      closeSync(full)
    }
  })

  // As with `npm start 2>&1 | tee log`: an interrupt ends tee too, and first.
  it('goes on, and stops in order, when its reader has gone away', async () => {
    const engine = await home.start({ flags: ['--log-level', 'debug'] })
    engine.stopReading()
    const client = new HttpClient(engine)
    for (let time = 0; time < 3; time += 1) await client.must('GET', '/readyz') // a line of log each
    expect(await engine.stop('SIGINT')).toBe(0)
    expect(isLeftOpen()).toBe(false)
  })
})
