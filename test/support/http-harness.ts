import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { ActivityStore } from '../../src/activities/activity-store.ts'
import { ManualClock } from '../../src/core/clock.ts'
import { MetricCells } from '../../src/metrics/cells.ts'
import { StackDistance } from '../../src/metrics/reuse-distance.ts'
import { WouldHit } from '../../src/metrics/would-hit.ts'
import { HttpService } from '../../src/server/http/http-service.ts'
import { createLogger } from '../../src/server/http/logger.ts'
import { OverviewSource } from '../../src/server/http/overview-source.ts'
import { createToken, type Scope } from '../../src/server/http/token-file.ts'
import { TokenStore, type TokenStoreParts } from '../../src/server/http/token-store.ts'
import type { HttpOptions } from '../../src/server/options.ts'
import { EngineDouble } from './engine-double.ts'
import { makeStorage } from './storage.ts'
import { TokenizerDouble } from './tokenizer-double.ts'

export const HTTP_OPTIONS: HttpOptions = {
  host: '127.0.0.1',
  port: 0,
  allowedHosts: [],
  requestTimeoutMs: 5000,
  answerTimeoutMs: 4000,
  connectionsMax: 100,
  withoutTokens: false,
  rateLimit: 0,
  rateBurst: 0,
}

interface GivenTokens {
  readonly write: (path: string) => void
  readonly onReload: NonNullable<TokenStoreParts['onReload']>
}

/** The HTTP API over an engine double, with a data directory of its own. */
export class HttpHarness {
  readonly dataDir: string
  readonly clock = new ManualClock()
  readonly engine: EngineDouble
  readonly storage: ReturnType<typeof makeStorage>
  readonly activities: ActivityStore
  readonly cells = MetricCells.create({ maxTenants: 16, busCapacityEvents: 64 })
  readonly wouldHit = new WouldHit(new StackDistance(1024))
  readonly tokenizer = new TokenizerDouble()
  /** Read at each request. */
  readonly textOptions = { allowMessagesAlone: false, allowRequestTemplates: false }
  readonly logLines: string[] = []
  readonly #options: HttpOptions
  #service: HttpService | undefined

  private constructor(options: HttpOptions, arenaBytes: number | undefined) {
    this.engine = new EngineDouble(arenaBytes)
    this.#options = options
    this.dataDir = mkdtempSync(join(tmpdir(), 'kvtier-http-'))
    this.storage = makeStorage(this.dataDir)
    this.activities = new ActivityStore({ path: ':memory:', clock: this.clock, newId: () => crypto.randomUUID() })
  }

  /** @param given a file of tokens, which `write` fills before the start. */
  static async start(
    over: Partial<HttpOptions> = {},
    scopes: readonly Scope[] = [],
    { arenaBytes, ...given }: { arenaBytes?: number } & Partial<GivenTokens> = {},
  ): Promise<HttpHarness> {
    const harness = new HttpHarness({ ...HTTP_OPTIONS, ...over }, arenaBytes)
    for (const scope of scopes) harness.token(scope)
    given.write?.(join(harness.dataDir, 'given-tokens'))
    await harness.#start(given)
    return harness
  }

  get service(): HttpService {
    return this.#service!
  }

  /** A new token of these scopes. */
  token(...scopes: Scope[]): string {
    return createToken(this.dataDir, { scopes, name: `${scopes.join('+')} token` }, this.clock).token
  }

  /** The header of a new token of these scopes. */
  bearer(...scopes: Scope[]): { authorization: string } {
    return { authorization: `Bearer ${this.token(...scopes)}` }
  }

  /** The header of a token whose time is over. */
  expiredBearer(...scopes: Scope[]): { authorization: string } {
    const { token } = createToken(this.dataDir, { scopes, ttlMs: 1 }, this.clock)
    this.clock.advance(1)
    return { authorization: `Bearer ${token}` }
  }

  async close(): Promise<void> {
    await this.#service?.close()
    this.activities.close()
    rmSync(this.dataDir, { recursive: true, force: true })
  }

  #overview(): OverviewSource {
    const { cells, wouldHit, clock } = this
    const facts = { version: '0.0.0-test', startedAt: '2026-01-01T00:00:00.000Z', device: null }
    return new OverviewSource({ cells, wouldHit, clock, ...facts })
  }

  async #start({ write, onReload }: Partial<GivenTokens>): Promise<void> {
    const lines = this.logLines
    const sink = new Writable({
      write(line, _encoding, done) {
        lines.push(String(line))
        done()
      },
    })
    let id = 0
    this.#service = await HttpService.create({
      engine: this.engine,
      storage: this.storage.service,
      arena: this.engine.arena,
      activities: this.activities,
      overview: this.#overview(),
      tokenizer: this.tokenizer,
      textOptions: this.textOptions,
      clock: this.clock,
      options: this.#options,
      tokens: new TokenStore({
        dataDir: this.dataDir,
        clock: this.clock,
        ...(write === undefined ? {} : { given: { tokens: [], tokenFile: join(this.dataDir, 'given-tokens') } }),
        ...(onReload === undefined ? {} : { onReload }),
        onError: (error) => {
          throw error
        },
      }),
      logger: createLogger('debug', sink),
      version: '0.0.0-test',
      newId: () => `req-${id++}`,
    })
  }
}
