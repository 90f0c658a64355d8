import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { updatedDocs } from '../../src/cli/print-docs.ts'
import { REPOSITORY } from '../support/source-tree.ts'

const readme = readFileSync(join(REPOSITORY, 'README.md'), 'utf8')

it('the tables of the README are those of the catalogues (npm run docs writes them)', async () => {
  const { text, tables } = await updatedDocs(readme, 'README.md')
  expect(tables).toEqual(['commands', 'options', 'adapters', 'metrics', 'errors', 'activities'])
  expect(text).toBe(readme)
})

it('the README names the commands that package.json has', () => {
  const { scripts } = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8'))
  const named = [...readme.matchAll(/\bnpm (?:(start|test)\b|run (?:--silent )?([a-z-]+))/g)].map(
    (match) => match[1] ?? match[2]!,
  )
  expect(named).toEqual(expect.arrayContaining(['start', 'test', 'replay', 'kvtier', 'lint', 'types']))
  expect(named.filter((name) => !(name in scripts))).toEqual([])
})
