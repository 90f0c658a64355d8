import { expect, it } from 'vitest'
import { PageFiles } from '../../../src/web/page-files.ts'
import { listFiles } from '../../support/source-tree.ts'

const files = PageFiles.load()
const textOf = (name: string): string => files.get(name)!.body.toString()

it('has every file of the folder, and uPlot from its package', () => {
  const folder = listFiles('src/web/page').map((path) => path.split('/').at(-1)!)
  expect([...files.names].sort()).toEqual([...folder, 'uplot.css', 'uplot.js'].sort())
  expect(textOf('uplot.js')).toContain('uPlot')
})

it('gives each its type, and a tag of its own', () => {
  expect(files.get('index.html')!.contentType).toBe('text/html; charset=utf-8')
  expect(files.get('page.css')!.contentType).toBe('text/css; charset=utf-8')
  expect(files.get('main.js')!.contentType).toBe('text/javascript; charset=utf-8')
  expect(files.get('icon.svg')!.contentType).toBe('image/svg+xml')
  const tags = files.names.map((name) => files.get(name)!.etag)
  expect(new Set(tags).size).toBe(tags.length)
  for (const tag of tags) expect(tag).toMatch(/^"[\w-]{27}"$/)
})

it('knows files by exact name only', () => {
  for (const name of ['', '.', '..', '../overview.ts', 'page-files.ts', 'INDEX.HTML', '__proto__']) {
    expect(files.get(name), name).toBeUndefined()
  }
})

it('has neither inline code nor inline style, and names only its own files', () => {
  const html = textOf('index.html')
  expect(html).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|javascript:/i)
  const linked = [...html.matchAll(/\s(?:src|href)="([^"]+)"/g)].map((match) => match[1]!)
  expect(linked).toContain('dashboard/main.js')
  for (const link of linked.filter((one) => one.startsWith('dashboard/'))) {
    expect(files.get(link.replace('dashboard/', '')), link).toBeDefined()
  }
  expect(linked.filter((one) => !one.startsWith('dashboard/') && one !== 'v1/overview')).toEqual([])
})

it('imports modules that are there, and writes no HTML', () => {
  for (const name of files.names.filter((one) => one.endsWith('.js') && one !== 'uplot.js')) {
    const imports = [...textOf(name).matchAll(/\bfrom '\.\/([^']+)'/g)].map((match) => match[1]!)
    for (const target of imports) expect(files.get(target), `${name} imports ${target}`).toBeDefined()
    expect(textOf(name), name).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b/)
  }
})
