import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { listFiles, REPOSITORY, readTree } from '../support/source-tree.ts'
import { forbiddenText, strayTests, TOP_LEVEL, tidyViolations, unmappedFolders } from './tidy-rules.ts'

function read(path: string): string {
  return readFileSync(join(REPOSITORY, path), 'utf8')
}

describe('the tree', () => {
  it('has tidy names, sizes, texts and docstrings', () => {
    expect(tidyViolations(readTree('src', 'test', 'bench'))).toEqual([])
  })

  it('has nothing unexpected at the top', () => {
    const ignored = read('.gitignore').split('\n')
    const isIgnored = (name: string): boolean =>
      ignored.includes(name) || ignored.includes(`${name}/`) || ignored.includes(`*.${name.split('.').at(-1)}`)
    expect(readdirSync(REPOSITORY).filter((name) => !TOP_LEVEL.includes(name) && !isIgnored(name))).toEqual([])
  })

  it('has no left-over notes or paths of one machine in its other files', () => {
    const others = ['.ci', 'config', 'src', 'bench', 'test']
      .flatMap(listFiles)
      .filter((path) => /\.(?:md|ya?ml|json|sh|html|css|toml)$|\/run$/.test(path))
    const files = ['README.md', 'package.json', ...others].map((path) => ({ path, text: read(path) }))
    expect(files.flatMap(forbiddenText)).toEqual([])
  })

  it('maps every folder of src/ in src/README.md', () => {
    const folders = new Set(readTree('src').map(({ path }) => path.split('/')[1]!))
    expect(unmappedFolders([...folders], read('src/README.md'))).toEqual([])
  })

  it('names every test after what it tests', () => {
    expect(strayTests(readTree('test'), readTree('src'))).toEqual([])
  })
})

describe('the rules see a breach', () => {
  const doc = '/** What it is. */\n'
  // Put together here, so that this file keeps the rules it tests.
  const breaches: Record<string, [path: string, text: string, expected: RegExp]> = {
    'capitals in a name': ['src/l1/SlotLru.ts', doc, /not kebab-case/],
    'an empty word in a name': ['src/l1/slot-utils.ts', doc, /utils says nothing/],
    'an empty word as a folder': ['test/helpers/a.ts', '', /helpers says nothing/],
    'a file too long': ['bench/a.ts', 'a\n'.repeat(401), /401 lines/],
    'a left-over note': ['src/l1/a.ts', `${doc}// ${'TO'}${'DO'} later`, /a\.ts:2 has a left-over note/],
    'a path of one machine': ['test/unit/a.ts', `const path = '/${'tmp'}/x'`, /path of one machine/],
    'a focused test': ['test/unit/a.test.ts', `describe.${'only'}('a', () => {})`, /skipped or focused/],
    'a skipped table': ['test/unit/a.test.ts', `it.concurrent.${'skip'}.each([1])`, /skipped or focused/],
    'console output': ['src/l1/a.ts', `${doc}console.log(1)`, /console output/],
    'no docstring at all': ['src/l1/a.ts', 'export const B = 1', /no docstring/],
    'no docstring for the main export': [
      'src/l1/slot-lru.ts',
      `const x = 1\n${doc}export const B = 1\n\nexport class SlotLru {}`,
      /no docstring for SlotLru/,
    ],
  }
  it.each(Object.entries(breaches))('%s', (_name, [path, text, expected]) => {
    expect(tidyViolations([{ path, text }]).join('\n')).toMatch(expected)
  })

  it('and leaves alone what is right', () => {
    const files = [
      { path: 'src/l1/slot-lru.ts', text: `import 'a'\n\n${doc}export class SlotLru {}\nconst quiet = 'console.log'` },
      { path: 'src/l1/words.ts', text: `import 'a'\n\n${doc}export const B = 1\nexport const C = 2` },
      { path: 'src/cli/main.ts', text: `#!/usr/bin/env node\n${doc}console.log(1)` },
      { path: 'test/unit/l1/slot-lru.test.ts', text: "it.skipIf(true)('a', () => {})" },
    ]
    expect(tidyViolations(files)).toEqual([])
  })

  it('a test of nothing', () => {
    const sources = [
      { path: 'src/l1/slot-lru.ts', text: 'export type PlaceNumber = number' },
      { path: 'src/l2/adapter.ts', text: '' },
    ]
    const test = (name: string): string => `test/${name}.test.ts`
    const named = [
      'unit/l1/slot-lru',
      'unit/l1/slot-lru-growth',
      'unit/l1/place-numbers',
      'unit/l1/slot',
      'model/l1-laws',
    ]
    const stray = ['unit/l1/adapter', 'unit/l1/lru', 'contract/gone'].map(test)
    const tests = [
      ...[...named.map(test), ...stray, test('e2e/kill')].map((path) => ({ path, text: '' })),
      { path: 'test/unit/l1/order.test.ts', text: "import { rig } from '../../support/rig.ts'" },
      { path: 'test/support/rig.ts', text: "import { SlotLru } from '../../src/l1/slot-lru.ts'" },
    ]
    expect(strayTests(tests, sources)).toEqual(stray)
  })

  it('a folder off the map', () => {
    expect(unmappedFolders(['l1', 'l2'], '| `l1/` | host memory |')).toEqual(['l2'])
  })
})
