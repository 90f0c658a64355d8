import { expect, it } from 'vitest'
import { workerUrl } from '../../../src/core/worker-url.ts'

it.each([
  ['file:///srv/kvtier/src/l2/remote-adapter.ts', './adapter-host', 'file:///srv/kvtier/src/l2/adapter-host.ts'],
  ['file:///srv/kvtier/dist/l2/remote-adapter.js', './adapter-host', 'file:///srv/kvtier/dist/l2/adapter-host.js'],
  ['file:///srv/a.ts/dist/app/compose.js', '../server/entry', 'file:///srv/a.ts/dist/server/entry.js'],
])('a worker beside %s has the extension of its importer', (base, name, expected) => {
  expect(workerUrl(base, name).href).toBe(expected)
})
