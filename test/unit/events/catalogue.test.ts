import { expect, it } from 'vitest'
import { EVENT_TYPES_MAX } from '../../../src/events/bus.ts'
import * as catalogue from '../../../src/events/catalogue.ts'
import { EVENT_TYPES } from '../../../src/events/define.ts'
import { readTree } from '../../support/source-tree.ts'

it('fits every event on the bus: few enough kinds, at most three numbers, names of their own', () => {
  expect(EVENT_TYPES.length).toBeLessThanOrEqual(EVENT_TYPES_MAX)
  expect(new Set(EVENT_TYPES.map(({ name }) => name)).size).toBe(EVENT_TYPES.length)
  for (const { payload } of EVENT_TYPES) expect(payload.length).toBeLessThanOrEqual(3)
  expect(EVENT_TYPES.map(({ id }) => id)).toEqual(EVENT_TYPES.map((_type, index) => index))
})

it('says of every event where it is published', () => {
  const texts = new Map(readTree('src').map(({ path, text }) => [path, text]))
  for (const [constant, type] of Object.entries(catalogue)) {
    expect(texts.get(`src/${type.emittedBy}`), `${type.emittedBy} publishes ${constant}`).toContain(constant)
  }
})
