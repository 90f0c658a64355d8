import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { EngineProcess, removeSharedMemory } from '../support/engine-process.ts'
import { REPOSITORY } from '../support/source-tree.ts'

/** Blocks of a section of the README: what is typed, and what comes back; `...` stands for anything. */
function readSession(title: string): { typed: string; answer: string }[] {
  const readme = readFileSync(join(REPOSITORY, 'README.md'), 'utf8')
  const section = readme.split(/^## /m).find((text) => text.startsWith(`${title}\n`))!
  const blocks = [...section.matchAll(/^```sh\n([\s\S]*?)^```\n\n```\n([\s\S]*?)^```/gm)]
  return blocks.map((block) => ({ typed: block[1]!, answer: block[2]! }))
}

function asPattern(answer: string): RegExp {
  const parts = answer.trimEnd().split('...')
  return new RegExp(`^${parts.map((part) => RegExp.escape(part)).join('[^,\\n]*')}$`)
}

const TITLES = ['A first session', 'Tokenize, and look up by text']

it.for(TITLES)('the section "%s" of the README goes as it says', async (title, { skip }) => {
  skip(spawnSync('curl', ['--version']).error !== undefined, 'curl is not installed')
  const folder = mkdtempSync(join(tmpdir(), 'kvtier-session-'))
  mkdirSync(join(folder, 'here'))
  const engine = await EngineProcess.start({ dataDir: join(folder, 'data') })
  try {
    const session = readSession(title)
    expect(session.length).toBeGreaterThan(3)
    // One shell for all blocks, because later ones use variables of earlier ones.
    const mark = '-- end of block --'
    const script = session
      .map(({ typed }) => `${typed}\necho; echo '${mark}'`)
      .join('\n')
      .replaceAll('127.0.0.1:8080', engine.addresses.http!)
      .replaceAll('127.0.0.1:9090', engine.addresses.metrics!.replace('0.0.0.0', '127.0.0.1'))
    const { stdout, stderr } = spawnSync('bash', ['-c', script], { cwd: join(folder, 'here'), encoding: 'utf8' })
    const answers = stdout.split(`${mark}\n`).map((answer) => answer.trim())
    for (const [index, { answer }] of session.entries()) expect(answers[index], stderr).toMatch(asPattern(answer))
  } finally {
    expect(await engine.stop()).toBe(0)
    removeSharedMemory(join(folder, 'data'))
    rmSync(folder, { recursive: true })
  }
})
