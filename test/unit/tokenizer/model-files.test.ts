import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { CacheError } from '../../../src/core/errors.ts'
import { allModels } from '../../../src/tokenizer/all-models.ts'
import { findModels, readModel, stampOf } from '../../../src/tokenizer/model-files.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kvtier-models-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

function write(path: string, contents: string | object): string {
  const file = join(folder, path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, typeof contents === 'string' ? contents : JSON.stringify(contents))
  return file
}

/** A model whose small files are right; nobody looks into tokenizer.json before it is asked for. */
function writeModel(path: string, config: object = {}): void {
  write(`${path}/tokenizer.json`, {})
  write(`${path}/tokenizer_config.json`, { model_max_length: 1e30, chat_template: 'x' })
  write(`${path}/config.json`, { max_position_embeddings: 4096, ...config })
}

/** What was found: its longest context, or what is wrong with it. */
async function found(): Promise<Record<string, number | string | null>> {
  const all = await findModels(folder)
  return Object.fromEntries(
    all.map(({ model, files }) => [model, files instanceof CacheError ? files.message : files.maxModelLen]),
  )
}

it('finds models by vendor and name', async () => {
  writeModel('acme/small')
  writeModel('acme/large', { max_position_embeddings: 1_000_000 })
  write('acme/readme.txt', 'no model')
  write('.git/objects/tokenizer.json', 'no vendor')
  expect(await found()).toEqual({ 'acme/large': 1_000_000, 'acme/small': 4096 })
})

describe('a cache of the model hub', () => {
  const model = 'models--acme--chat'

  it('has the snapshot that refs/main names, with files that are links to blobs', async () => {
    for (const name of ['tokenizer.json', 'tokenizer_config.json']) {
      write(`${model}/blobs/${name}`, { model_max_length: 512 })
      mkdirSync(join(folder, model, 'snapshots/new'), { recursive: true })
      symlinkSync(`../../blobs/${name}`, join(folder, model, 'snapshots/new', name))
    }
    writeModel(`${model}/snapshots/old`)
    write(`${model}/refs/main`, 'new\n')
    expect(await found()).toEqual({ 'acme/chat': 512 })
  })

  it('may have one snapshot and no refs', async () => {
    writeModel(`${model}/snapshots/only`)
    expect(await found()).toEqual({ 'acme/chat': 4096 })
  })

  it('has no model where only weights were loaded', async () => {
    write(`${model}/snapshots/only/model.safetensors`, '')
    expect(await found()).toEqual({})
  })

  it('says what is wrong when it cannot be told which snapshot counts', async () => {
    writeModel(`${model}/snapshots/one`)
    writeModel(`${model}/snapshots/two`)
    const ref = join(folder, model, 'refs/main')
    expect(await found()).toEqual({ 'acme/chat': expect.stringContaining(`${ref} is missing`) })
    write(`${model}/refs/main`, 'three')
    expect(await found()).toEqual({ 'acme/chat': expect.stringContaining(`${ref} names no snapshot`) })
  })

  it.each(['../../outside', '/etc', '.', '..', 'snapshots/../../outside', ''])(
    'cannot be led out of by refs/main of %j',
    async (ref) => {
      writeModel('outside')
      writeModel(`${model}/snapshots/inside`)
      write(`${model}/refs/main`, ref)
      expect(await found()).toEqual({ 'acme/chat': expect.stringContaining('names no snapshot') })
    },
  )

  it('takes names for what they are, with dots and dashes', async () => {
    writeModel('models--..--..--etc/snapshots/one')
    writeModel('models--a--b--c/snapshots/one')
    expect(Object.keys(await found())).toEqual(['../..--etc', 'a/b--c'])
  })
})

describe('a broken model is named with its file and the fix, and the others work:', () => {
  const broken: Readonly<Record<string, readonly [() => void, string]>> = {
    'no tokenizer_config.json': [() => rmSync(join(folder, 'acme/bad/tokenizer_config.json')), 'is missing: copy it'],
    'invalid JSON': [() => write('acme/bad/tokenizer_config.json', '{"a": '), 'is not valid JSON'],
    'a cut config.json': [() => truncateSync(join(folder, 'acme/bad/config.json'), 5), 'is not valid JSON'],
    'an empty file': [() => write('acme/bad/config.json', ''), 'is not valid JSON'],
    null: [() => write('acme/bad/tokenizer_config.json', 'null'), 'is not a JSON object'],
    'a list': [() => write('acme/bad/config.json', '[]'), 'is not a JSON object'],
    'a huge tokenizer.json': [
      () => truncateSync(join(folder, 'acme/bad/tokenizer.json'), 2 ** 33),
      'more than 268435456',
    ],
    'a huge config': [() => truncateSync(join(folder, 'acme/bad/config.json'), 2 ** 30), 'more than 16777216'],
    'a huge template': [() => truncateSync(write('acme/bad/chat_template.jinja', ''), 2 ** 30), 'more than 16777216'],
    'a link in a circle': [() => link('acme/bad/tokenizer.json', 'tokenizer.json'), 'round in a circle'],
    'a link to nothing': [() => link('acme/bad/config.json', 'nowhere.json'), 'is missing'],
    'a folder for a file': [() => folderFor('acme/bad/tokenizer_config.json'), 'is no file'],
    'a device for a file': [() => link('acme/bad/config.json', '/dev/zero'), 'is no file'],
    'a pipe for a file': [() => pipeFor('acme/bad/config.json'), 'is no file'],
  }

  function link(path: string, target: string): void {
    rmSync(join(folder, path))
    symlinkSync(target, join(folder, path))
  }
  function folderFor(path: string): void {
    rmSync(join(folder, path))
    mkdirSync(join(folder, path))
  }
  function pipeFor(path: string): void {
    rmSync(join(folder, path))
    execFileSync('mkfifo', [join(folder, path)])
  }

  it.each(Object.keys(broken))('%s', async (what) => {
    writeModel('acme/bad')
    writeModel('acme/good')
    const [spoil, words] = broken[what]!
    spoil()
    const models = await found()
    expect(models).toEqual({ 'acme/good': 4096, 'acme/bad': expect.stringContaining(words) })
    expect(models['acme/bad']).toContain(join(folder, 'acme/bad/')) // the file
    expect(models['acme/bad']).toContain('the tokenizer of acme/bad')
  })

  it('a folder that is a link in a circle', async () => {
    writeModel('acme/good')
    symlinkSync('round', join(folder, 'round'))
    symlinkSync('../acme', join(folder, 'acme/again'))
    symlinkSync('.', join(folder, 'acme/self'))
    expect(await found()).toEqual({ 'acme/good': 4096 })
  })
})

describe('all models', () => {
  it('has the bundled ones, and a working one of a later directory for one that is broken', async () => {
    writeModel('first/acme/chat')
    write('first/acme/chat/config.json', '{')
    writeModel('second/acme/chat')
    write('second/Qwen/Qwen3-8B/tokenizer.json', {})
    const { models, broken } = await allModels([join(folder, 'first'), join(folder, 'second')])
    expect(models.get('acme/chat')?.tokenizerFile).toContain('second')
    expect(models.get('Qwen/Qwen3-8B')?.tokenizerFile).not.toContain(folder) // the bundled one stands in
    expect([...broken.keys()]).toEqual([])
  })

  it('names a directory that is not there', async () => {
    await expect(allModels([join(folder, 'none')])).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
  })
})

it('a stamp changes when any file of a model does, or comes, or goes', async () => {
  writeModel('acme/chat')
  const path = join(folder, 'acme/chat')
  const stamps = [(await readModel('acme/chat', path)).stamp]
  write('acme/chat/config.json', { max_position_embeddings: 8 })
  stamps.push(await stampOf(join(path, 'tokenizer.json')))
  write('acme/chat/chat_template.jinja', 'y')
  stamps.push(await stampOf(join(path, 'tokenizer.json')))
  rmSync(join(path, 'config.json'))
  stamps.push(await stampOf(join(path, 'tokenizer.json')))
  expect(new Set(stamps).size).toBe(4)
  expect((await readModel('acme/chat', path)).templates).toEqual({ default: 'y' })
})

it.each([1e30, 1e27, 1e19, 2 ** 53, 2 ** 31 - 1, 0, -1, 1.5, '4096', null, [4096]])(
  'a length of %j is no length',
  async (length) => {
    writeModel('acme/chat', { max_position_embeddings: length })
    expect(await found()).toEqual({ 'acme/chat': null })
  },
)
