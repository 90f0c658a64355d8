import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ManualClock } from '../../../src/core/clock.ts'
import type { Encoder } from '../../../src/tokenizer/encoder.ts'
import type { ModelFiles } from '../../../src/tokenizer/model-files.ts'
import type { TokenizerOptions } from '../../../src/tokenizer/options.ts'
import { TokenizerHost } from '../../../src/tokenizer/tokenizer-host.ts'
import type { TokenizeQuery } from '../../../src/tokenizer/tokenizer-port.ts'
import { TokenizerService } from '../../../src/tokenizer/tokenizer-service.ts'

/** Longer than the directories are taken for what they were. */
const LATER_MS = 6000

let folder: string
let clock: ManualClock
let told: string[]
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kvtier-models-'))
  clock = new ManualClock()
  told = []
})
afterEach(() => rmSync(folder, { recursive: true }))

function write(path: string, contents: string | object): void {
  const file = join(folder, path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, typeof contents === 'string' ? contents : JSON.stringify(contents))
}

function writeModel(name: string, length: number): void {
  write(`acme/${name}/tokenizer.json`, {})
  write(`acme/${name}/tokenizer_config.json`, { model_max_length: length })
}

function optionsFor(loadedMax = 4): TokenizerOptions {
  return {
    directories: [folder],
    library: 'auto',
    processes: 1,
    queueMax: 256,
    loadedMax,
    textBytesMax: 1024,
    deadlineMs: 1000,
    allowMessagesAlone: false,
    allowRequestTemplates: false,
  }
}

/** A service whose processes answer with the files that they were asked with. */
function openService(): Promise<TokenizerService> {
  const call = async (_method: string, [files]: unknown[]) => files
  const onBroken = (_model: string, error: unknown) => void told.push((error as Error).message)
  return TokenizerService.open({ options: optionsFor(), clock, onBroken, start: () => ({ call, end: () => {} }) })
}

function query(model: string, text = 'a'): TokenizeQuery {
  return { model, input: { kind: 'text', text }, addSpecialTokens: true, withStrings: false }
}

/** The longest context that the service knows of a model, or the code of its error. */
async function lengthOf(service: TokenizerService, model: string): Promise<unknown> {
  try {
    return ((await service.encode(query(model))) as unknown as ModelFiles).maxModelLen
  } catch (error) {
    return (error as { code: string }).code
  }
}

describe('a model directory is looked at again', () => {
  it('when a model is asked for that was not there, after a few seconds', async () => {
    const service = await openService()
    writeModel('late', 512)
    expect(await lengthOf(service, 'acme/late')).toBe('TOKENIZER_UNKNOWN')
    clock.advance(LATER_MS)
    expect(await lengthOf(service, 'acme/late')).toBe(512)
  })

  it('when a file of a model in use changes', async () => {
    writeModel('chat', 512)
    const service = await openService()
    expect(await lengthOf(service, 'acme/chat')).toBe(512)
    writeModel('chat', 20_000)
    expect(await lengthOf(service, 'acme/chat')).toBe(512)
    clock.advance(LATER_MS)
    expect(await lengthOf(service, 'acme/chat')).toBe(20_000)
  })

  it('when the models are listed', async () => {
    const service = await openService()
    writeModel('late', 512)
    clock.advance(LATER_MS)
    const names = (await service.models()).map(({ model }) => model)
    expect(names).toContain('acme/late')
    expect(names).toContain('Qwen/Qwen3-8B')
  })

  it('and a model that was taken away is gone', async () => {
    writeModel('chat', 512)
    const service = await openService()
    rmSync(join(folder, 'acme/chat'), { recursive: true })
    clock.advance(LATER_MS)
    expect(await lengthOf(service, 'acme/chat')).toBe('TOKENIZER_UNKNOWN')
  })

  it('and what was known stays when it cannot be read any more', async () => {
    writeModel('chat', 512)
    const service = await openService()
    rmSync(folder, { recursive: true })
    clock.advance(LATER_MS)
    expect(await lengthOf(service, 'acme/chat')).toBe(512)
    mkdirSync(folder)
  })
})

describe('a broken model', () => {
  it('is told of once, answers with its reason, and works once it is mended', async () => {
    writeModel('bad', 512)
    writeModel('good', 256)
    write('acme/bad/tokenizer_config.json', '{"cut')
    const service = await openService()
    const file = join(folder, 'acme/bad/tokenizer_config.json')
    for (let round = 0; round < 3; round += 1) {
      await expect(service.encode(query('acme/bad'))).rejects.toMatchObject({
        code: 'TOKENIZER_BROKEN',
        message: expect.stringContaining(file),
      })
      expect(await lengthOf(service, 'acme/good')).toBe(256)
      clock.advance(LATER_MS)
    }
    expect(told).toEqual([expect.stringContaining(file)])
    writeModel('bad', 1024)
    expect(await lengthOf(service, 'acme/bad')).toBe(1024)
  })

  it('that breaks while it is in use says so', async () => {
    writeModel('chat', 512)
    const service = await openService()
    write('acme/chat/config.json', 'null')
    clock.advance(LATER_MS)
    expect(await lengthOf(service, 'acme/chat')).toBe('TOKENIZER_BROKEN')
  })
})

it.each(['../../../etc', 'acme/../acme/chat', '/etc/passwd', 'acme/chat/', '__proto__', 'acme\\chat', 'acme/chat\0'])(
  'the name %j leads nowhere',
  async (name) => {
    writeModel('chat', 512)
    const service = await openService()
    clock.advance(LATER_MS)
    expect(await lengthOf(service, name)).toBe('TOKENIZER_UNKNOWN')
  },
)

it('a tokenizer that makes room for others ends the requests that it has', async () => {
  for (const name of ['a', 'b', 'c']) writeModel(name, 512)
  const loads: string[] = []
  const gates = new Map<string, () => void>()
  const open = async ({ model }: ModelFiles): Promise<Encoder> => {
    loads.push(model)
    const ids = [model.charCodeAt(model.length - 1)]
    const encode = async (text: string) => {
      if (text === 'slow') await new Promise<void>((resolve) => void gates.set(model, resolve))
      return { ids, strings: () => [] }
    }
    return { encode, decode: async () => '', tokenOf: () => undefined }
  }
  const host = new TokenizerHost({ options: optionsFor(1), clock, open })
  const files = (name: string): ModelFiles => {
    const path = join(folder, 'acme', name)
    const [tokenizerFile, configFile] = [join(path, 'tokenizer.json'), join(path, 'tokenizer_config.json')]
    return { model: `acme/${name}`, tokenizerFile, configFile, stamp: name, maxModelLen: 512, templates: {} }
  }
  const slow = host.encode(files('a'), query('acme/a', 'slow'))
  // Its tokenizer leaves the table twice over while it works.
  for (const name of ['b', 'c', 'b'])
    expect([...(await host.encode(files(name), query(name)))]).toEqual([name.charCodeAt(0)])
  expect(loads).toEqual(['acme/a', 'acme/b', 'acme/c', 'acme/b'])
  gates.get('acme/a')!()
  expect([...(await slow)]).toEqual(['a'.charCodeAt(0)])
})
