import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { accessibilityFaults, type Misdeeds, NEEDS_BROWSER, startBrowser, watchPage } from '../support/browser.ts'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { freePort } from '../support/free-port.ts'
import { HttpClient, promptOf } from '../support/http-client.ts'
import { until } from '../support/until.ts'

const CHUNK_TOKENS = 16
const SHARD_BYTES = 64 * 1024
/** Names that a page would run, if it took them for HTML. */
const HOSTILE_MODEL = '<img src=x onerror="window.isPwned=true">'
const HOSTILE_SALT = '<svg onload=isPwned=true>'

describe('the dashboard page in Chromium', NEEDS_BROWSER, () => {
  let browser: Browser
  let home: EngineHome
  let engine: EngineProcess
  let client: HttpClient
  let context: BrowserContext | undefined

  beforeAll(async () => {
    home = new EngineHome()
    engine = await home.start({ l1Size: '64MiB', flags: ['--chunk-tokens', `${CHUNK_TOKENS}`] })
    client = new HttpClient(engine)
    await client.register('model-a', SHARD_BYTES)
    browser = await startBrowser()
  })
  afterEach(() => context?.close())
  afterAll(async () => {
    await browser?.close()
    await home.remove()
  })

  async function openPage(
    options: { readonly theme?: 'light' | 'dark'; readonly width?: number; readonly url?: string } = {},
  ): Promise<{ page: Page; misdeeds: Misdeeds }> {
    const { theme = 'light', width = 1600, url = engine.httpUrl } = options
    context = await browser.newContext({ colorScheme: theme, viewport: { width, height: 900 } })
    const page = await context.newPage()
    const misdeeds = watchPage(page, url)
    await page.goto(`${url}/`)
    return { page, misdeeds }
  }

  /** Waits for the text of an element. */
  function shows(page: Page, selector: string, wanted: RegExp): Promise<string> {
    return until(`${selector} shows ${wanted}`, async () => {
      const text = (await page.locator(selector).textContent()) ?? ''
      return wanted.test(text) ? text : undefined
    })
  }

  /** Stores a prompt and looks it up again. */
  async function traffic(seed: number, model = 'model-a', salt = ''): Promise<void> {
    const tokens = promptOf(seed, 8 * CHUNK_TOKENS)
    await client.store({ model, cache_salt: salt }, tokens, SHARD_BYTES)
    const { lease_id: lease } = await client.lookup(model, tokens, { cache_salt: salt })
    await client.release(lease)
  }

  it('shows live numbers while a client makes traffic, and asks nobody but its engine', async () => {
    const { page, misdeeds } = await openPage()
    await shows(page, '#state-text', /^Live$/)
    await shows(page, '#hit-note', /No lookup yet|Since start/)
    for (let seed = 1; seed <= 4; seed += 1) await traffic(seed)
    await shows(page, '#hit-now', /^100\.0 %$/)
    await shows(page, '#hit-note', /^Since start: 100\.0 % of \d+ tokens asked for in \d+ lookups\.$/)
    await shows(page, '#l1-size', /^in use: [\d.]+ MiB of 64 MiB$/)
    await shows(page, '#l1-note', /\d+ chunks written/)
    await shows(page, '#reuse-note', /an L1 of 64 MiB would have held [\d.]+ %, one of 128 MiB [\d.]+ %/)
    await shows(page, '#tenants tbody', /model-a/)
    await shows(page, '#paths-table', /L1 to L2/)
    await shows(page, '#adapters', /disk \(filesystem\).*active.*circuit closed/)
    await shows(page, '#activities', /The engine listens on/)
    expect(await page.getByRole('img', { name: /^Hit rate over the last 15 minutes: all 100\.0 %/ }).count()).toBe(1)
    expect(await page.locator('canvas').count()).toBe(4)
    expect(misdeeds).toEqual({ errors: [], foreignRequests: [] })
  })

  it('takes hostile names of models and salts for text', async () => {
    await client.register(HOSTILE_MODEL, SHARD_BYTES)
    await traffic(100, HOSTILE_MODEL, HOSTILE_SALT)
    const { page, misdeeds } = await openPage()
    const row = await shows(page, '#tenants tbody', /onerror/)
    expect(row).toContain(HOSTILE_MODEL)
    expect(row).toContain(HOSTILE_SALT)
    expect(await shows(page, '#activities', /onerror/)).toContain(HOSTILE_MODEL)
    expect(await page.locator('main img, main svg, main script').count()).toBe(0)
    expect(await page.evaluate('window.isPwned')).toBeUndefined()
    expect(misdeeds).toEqual({ errors: [], foreignRequests: [] })
  })

  it('has a policy that stops inline code, HTML from text, and requests to elsewhere', async () => {
    const { page, misdeeds } = await openPage()
    const refusals = await page.evaluate(`(async () => {
      const failure = async (act) => { try { await act(); return 'done' } catch (error) { return error.name } }
      const styled = document.createElement('p')
      styled.setAttribute('style', 'position: fixed')
      document.body.append(styled)
      return [
        await failure(() => { document.body.innerHTML = '<b>' }),
        await failure(() => styled.setAttribute('onclick', 'window.isPwned = true')),
        await failure(() => fetch('http://127.0.0.1:9/')),
        getComputedStyle(styled).position,
      ]
    })()`)
    expect(refusals).toEqual(['TypeError', 'TypeError', 'TypeError', 'static'])
    expect(misdeeds.foreignRequests).toEqual([])
    expect(misdeeds.errors.join('\n')).toMatch(/Content Security Policy/)
  })

  it('drains an adapter and takes it back by keyboard, with a token that stays in the tab', async () => {
    const token = await home.token('admin')
    const { page, misdeeds } = await openPage()
    await shows(page, '#adapters h3', /disk/)
    await tabTo(page, 'Drain disk')
    await page.keyboard.press('Enter')
    await shows(page, '#token-reason', /token of scope admin/)
    expect(await focused(page)).toBe('token-value')
    await page.keyboard.type('kvt_wrong')
    await page.keyboard.press('Enter')
    await shows(page, '#token-reason', /unknown/)
    await page.keyboard.type(token)
    await page.keyboard.press('Enter')
    await shows(page, '#adapters-note', /^disk drains\.$/)
    await shows(page, '#adapters', /draining/)
    await shows(page, '#activities', /The adapter disk drains\./)
    expect((await client.must('GET', '/v1/l2/adapters/disk')).state).toBe('draining')

    expect(await focused(page)).toBe('Undrain disk')
    await page.keyboard.press('Enter')
    await shows(page, '#adapters-note', /^disk is active again\.$/)
    await shows(page, '#adapters', /active/)
    expect((await client.must('GET', '/v1/l2/adapters/disk')).state).toBe('active')

    const kept = await page.evaluate('JSON.stringify([Object.values(localStorage), document.cookie, location.href])')
    expect(kept).not.toContain('kvt_')
    expect(await page.evaluate("sessionStorage.getItem('kvtier-token')")).toBe(token)
    // The two refusals are all that the console tells of.
    const refusal = expect.stringMatching(/status of 401/)
    expect(misdeeds).toEqual({ errors: [refusal, refusal], foreignRequests: [] })
  })

  it.each(['light', 'dark'] as const)('is clean for screen readers and keyboards, %s', async (theme) => {
    await traffic(7)
    const { page } = await openPage({ theme })
    await shows(page, '#adapters h3', /disk/)
    await shows(page, '#activities', /The engine listens on/)
    await page.getByText('As a table').click()
    expect(await accessibilityFaults(page)).toEqual([])
    await page.getByRole('button', { name: 'Token' }).click()
    expect(await accessibilityFaults(page)).toEqual([])
    await page.keyboard.press('Escape')
    expect(await focused(page)).toBe('token')
  })

  it('follows the theme of the system until told otherwise', async () => {
    const { page } = await openPage({ theme: 'dark' })
    const ground = () => page.evaluate("getComputedStyle(document.body).backgroundColor.replace(/[^\\d,]/g, '')")
    const dark = await ground()
    const button = page.getByRole('button', { name: /^Theme/ })
    await button.click()
    const light = await ground()
    expect(light).not.toBe(dark)
    await page.reload()
    expect([await button.textContent(), await ground()]).toEqual(['Theme: light', light])
    await button.click()
    expect([await button.textContent(), await ground()]).toEqual(['Theme: dark', dark])
    await button.click()
    await page.emulateMedia({ colorScheme: 'light' })
    expect([await button.textContent(), await ground()]).toEqual(['Theme: auto', light])
  })

  it.each([360, 1600])('fits a window %i pixels wide', async (width) => {
    const { page } = await openPage({ width })
    await shows(page, '#tenants tbody', /model-a/)
    await shows(page, '#state-text', /^Live$/)
    const tooWide = await page.evaluate(
      "[...document.querySelectorAll('html, .card, .card > *, .chart')].filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline').map((one) => one.outerHTML.slice(0, 80))",
    )
    expect(tooWide).toEqual([])
  })

  it('asks nothing while it is hidden', async () => {
    context = await browser.newContext()
    const page = await context.newPage()
    await page.clock.install()
    let asked = 0
    page.on('request', (request) => {
      if (request.url().endsWith('/v1/overview')) asked += 1
    })
    await page.goto(`${engine.httpUrl}/`)
    await page.clock.runFor(1000)
    await shows(page, '#state-text', /^Live$/)
    await setHidden(page, true)
    const before = asked
    await page.clock.runFor(60_000)
    expect(asked).toBe(before)
    await setHidden(page, false)
    await page.clock.runFor(100)
    await until('the page asks again', () => (asked > before ? true : undefined))
  })

  it('says that the engine is away, and goes on when it is back', async () => {
    const other = new EngineHome()
    try {
      const httpPort = await freePort()
      const first = await other.start({ httpPort })
      const { page } = await openPage({ url: first.httpUrl })
      await shows(page, '#state-text', /^Live$/)
      await first.stop()
      await shows(page, '#state-text', /^The engine does not answer since [\d:]+; asking again/)
      expect(await accessibilityFaults(page)).toEqual([])
      await other.start({ httpPort })
      await shows(page, '#state-text', /^Live$/)
      await shows(page, '#hit-note', /^No lookup yet\.$/)
      await shows(page, '#activities', /The engine listens on.*The engine stopped in order/s)
    } finally {
      await other.remove()
    }
  })

  it('asks for a token at once where reading needs one', async () => {
    const other = new EngineHome()
    try {
      const token = await other.token('read')
      const guarded = await other.start()
      const { page } = await openPage({ url: guarded.httpUrl })
      await shows(page, '#token-reason', /send a token of scope read/)
      await shows(page, '#state-text', /^Waiting for a token$/)
      await page.keyboard.type(token)
      await page.keyboard.press('Enter')
      await shows(page, '#state-text', /^Live$/)
      await shows(page, '#activities', /The engine listens on/)
    } finally {
      await other.remove()
    }
  })
})

/** Name, or id, of what has the focus. */
function focused(page: Page): Promise<string> {
  return page.evaluate("document.activeElement.getAttribute('aria-label') ?? document.activeElement.id")
}

/** Presses Tab until something of this name has the focus. */
async function tabTo(page: Page, name: string): Promise<void> {
  for (let pressed = 0; pressed < 30; pressed += 1) {
    await page.keyboard.press('Tab')
    if ((await focused(page)) === name) return
  }
  throw new Error(`Tab does not reach ${name}`)
}

async function setHidden(page: Page, isHidden: boolean): Promise<void> {
  await page.evaluate(`
    Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true })
    document.dispatchEvent(new Event('visibilitychange'))
  `)
}
