import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request as plainRequest } from 'node:http'
import { request as tlsRequest } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { ManualClock, SystemClock } from '../../../../src/core/clock.ts'
import { Exposition } from '../../../../src/metrics/exposition.ts'
import { ProcessMetrics } from '../../../../src/metrics/process-metrics.ts'
import { MetricsServer } from '../../../../src/server/metrics/metrics-server.ts'
import { openScrapeFiles } from '../../../../src/server/metrics/scrape-files.ts'
import { recordEverything } from '../../../support/full-cells.ts'

let folder: string
let clock: ManualClock
let errors: unknown[]
let reloads: string[]
let server: MetricsServer | undefined

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kvtier-scrape-'))
  clock = new ManualClock()
  errors = []
  reloads = []
})
afterEach(async () => {
  await server?.close()
  server = undefined
  rmSync(folder, { recursive: true })
})

const at = (name: string) => join(folder, name)

/** A certificate of a subject, and its key. */
function makePair(name: string): { certFile: string; keyFile: string } {
  const [certFile, keyFile] = [at(`${name}.pem`), at(`${name}.key`)]
  const kind = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
  execFileSync('openssl', [...kind, '-subj', `/CN=${name}`, '-keyout', keyFile, '-out', certFile], { stdio: 'ignore' })
  return { certFile, keyFile }
}

async function serve(options: { tokenFile?: string; certFile?: string; keyFile?: string }): Promise<number> {
  const files = openScrapeFiles(
    { tokenFile: '', certFile: '', keyFile: '', ...options },
    clock,
    (error) => errors.push(error),
    (flag) => reloads.push(flag),
  )
  const exposition = new Exposition(recordEverything().reader, new ProcessMetrics())
  const render: Exposition['render'] = (format) => exposition.render(format)
  server = new MetricsServer({
    host: '127.0.0.1',
    port: 0,
    clock: new SystemClock(),
    render,
    files,
    onError: (error) => errors.push(error),
  })
  return (await server.listen()).port
}

function scrape(port: number, isTls: boolean, token?: string) {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const options = {
    port,
    host: '127.0.0.1',
    path: '/metrics',
    headers,
    agent: false as const,
    rejectUnauthorized: false,
  }
  return new Promise<{ status: number; challenge: unknown; subject: string }>((resolve, reject) => {
    const outgoing = (isTls ? tlsRequest : plainRequest)(options, (response) => {
      const subject = isTls ? String((response.socket as TLSSocket).getPeerCertificate().subject.CN) : ''
      response.resume().on('end', () => {
        resolve({ status: response.statusCode!, challenge: response.headers['www-authenticate'], subject })
      })
    })
    outgoing.once('error', reject).end()
  })
}

it('asks for the token of its file, and takes a new one within a second', async () => {
  writeFileSync(at('token'), 'scrape-token-1\n')
  const port = await serve({ tokenFile: at('token') })
  expect(await scrape(port, false)).toMatchObject({ status: 401, challenge: 'Bearer realm="kvtier metrics"' })
  expect((await scrape(port, false, 'scrape-token-2')).status).toBe(401)
  expect((await scrape(port, false, 'scrape-token-1')).status).toBe(200)
  writeFileSync(at('token'), 'scrape-token-two\n')
  clock.advance(1000)
  expect((await scrape(port, false, 'scrape-token-1')).status).toBe(401)
  expect((await scrape(port, false, 'scrape-token-two')).status).toBe(200)
  writeFileSync(at('token'), '')
  clock.advance(1000)
  expect((await scrape(port, false, 'scrape-token-two')).status).toBe(200)
  expect(String(errors)).toContain('--prometheus-token-file')
  expect(reloads).toEqual(['--prometheus-token-file'])
})

it('serves https, and shows a new certificate to connections after it was seen', async () => {
  const old = makePair('old')
  const port = await serve(old)
  expect(await scrape(port, true)).toMatchObject({ status: 200, subject: 'old' })
  const renewed = makePair('renewed')
  copyFileSync(renewed.certFile, old.certFile)
  copyFileSync(renewed.keyFile, old.keyFile)
  clock.advance(1000)
  await scrape(port, true)
  expect(await scrape(port, true)).toMatchObject({ status: 200, subject: 'renewed' })
  expect(reloads.toSorted()).toEqual(['--prometheus-cert-file', '--prometheus-key-file'])
  await expect(scrape(port, false)).rejects.toThrow()
})

it('refuses at the start what it cannot use, in one line that names the option', () => {
  const open = (options: object) => () =>
    openScrapeFiles({ tokenFile: '', certFile: '', keyFile: '', ...options }, clock, () => {})
  expect(open({ tokenFile: at('absent') })).toThrow(/^--prometheus-token-file is ".*ENOENT.*permissions$/)
  writeFileSync(at('short'), 'x\n')
  expect(open({ tokenFile: at('short') })).toThrow('holds no token')
  const [one, other] = [makePair('one'), makePair('other')]
  expect(open({ certFile: one.certFile, keyFile: other.keyFile })).toThrow('do not fit')
})
