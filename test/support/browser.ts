import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, chromium, type Page } from 'playwright-core'
import { skipUnless } from './skip-unless.ts'

const PROGRAM = '/usr/bin/chromium'
const FLAGS = [
  '--no-sandbox', // tests run as root
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** Options of tests in Debian's Chromium: a counted skip where it is missing, but in CI a failure. */
export const NEEDS_BROWSER = skipUnless(
  existsSync(PROGRAM) || process.env.CI === 'true',
  'chromium is missing: apt-get install chromium',
)

export function startBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: PROGRAM, headless: true, args: FLAGS })
}

/** What a page did that it should not: errors, breaches of its policy, requests to elsewhere. */
export interface Misdeeds {
  readonly errors: string[]
  readonly foreignRequests: string[]
}

/** Follows a page from now on. Call it before the page loads anything. @param origin the only one it may ask. */
export function watchPage(page: Page, origin: string): Misdeeds {
  const misdeeds: Misdeeds = { errors: [], foreignRequests: [] }
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') misdeeds.errors.push(message.text())
  })
  page.on('pageerror', (error) => misdeeds.errors.push(String(error)))
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== origin) misdeeds.foreignRequests.push(request.url())
  })
  return misdeeds
}

interface AxeResults {
  readonly violations: readonly {
    readonly id: string
    readonly impact: string
    readonly nodes: readonly { readonly html: string }[]
  }[]
}

/** What axe-core finds wrong with the page as it is now, one line each. */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
  await page.evaluate(source) // by the debugger, which the page's policy does not bind
  const results = (await page.evaluate('axe.run()')) as AxeResults
  return results.violations.flatMap(({ id, impact, nodes }) => nodes.map(({ html }) => `${impact} ${id}: ${html}`))
}
