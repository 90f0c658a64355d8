import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { Refusal } from '../../../src/config/fields.ts'
import { loadConfig, serveTables } from '../../../src/config/load-config.ts'
import { fieldsOf } from '../../../src/config/load-options.ts'
import { configSchema, optionRows } from '../../../src/config/option-rows.ts'
import { DEVICE_PROFILES } from '../../../src/l0/device-profiles.ts'
import { TEST_MACHINE } from '../../support/machine.ts'

const rows = optionRows(serveTables)

it('lists the flags that scripts rely on', () => {
  const promised =
    '--http-host --http-port --mp-host --mp-port --prometheus-enabled --prometheus-host --prometheus-port --data-dir ' +
    '--l1-size --l0-size --otlp-endpoint --observability-enabled --config --log-level'
  const flags = rows.map((row) => row.flag)
  for (const flag of promised.split(' ')) expect(flags).toContain(flag)
})

it('gives every option its own flag, variable and key', () => {
  for (const names of [rows.map((row) => row.flag), rows.map((row) => row.env), rows.map((row) => row.key)]) {
    expect(new Set(names).size).toBe(names.length)
  }
})

it('says what each option is, in one sentence or more', () => {
  for (const row of rows) expect(row.help, row.flag).toMatch(/^[A-Z].*\.$/)
})

it('shows a plain default as the text that sets it', () => {
  for (const field of fieldsOf(serveTables)) {
    if (typeof field.default === 'object') continue
    const known = { machine: TEST_MACHINE, value: () => undefined as never, env: () => undefined }
    expect(field.parse(field.show(field.default), known), field.flag).toEqual(field.default)
  }
})

it('refuses rubbish with a refusal, never with another error', () => {
  const known = { machine: TEST_MACHINE, value: () => '/data' as never, env: () => undefined }
  const rubbish = [
    null,
    undefined,
    '',
    ' ',
    Number.NaN,
    -1,
    1e300,
    [],
    [null],
    {},
    '\0',
    '\ud800',
    true,
    'x'.repeat(10_000),
  ]
  for (const field of fieldsOf(serveTables)) {
    for (const raw of rubbish) {
      try {
        field.parse(raw, known)
      } catch (error) {
        expect(error, `${field.flag} ${JSON.stringify(raw)}`).toBeInstanceOf(Refusal)
      }
    }
  }
})

it('knows the device profiles that exist', () => {
  expect(rows.find((row) => row.flag === '--simulated-device-profile')?.type.split(' | ')).toEqual(
    Object.keys(DEVICE_PROFILES),
  )
})

it('puts every option that a file can set into the schema', () => {
  const schema = configSchema(serveTables) as { properties: Record<string, { properties?: object }> }
  const keys = Object.entries(schema.properties).flatMap(([name, value]) =>
    value.properties === undefined ? [name] : Object.keys(value.properties).map((inner) => `${name}.${inner}`),
  )
  const working = rows.filter((row) => row.key !== '').map((row) => row.key)
  expect(keys.toSorted()).toEqual(working.toSorted())
})

it('loads the example files', () => {
  for (const name of ['kvtier.yaml', 'small.yaml']) {
    const path = new URL(`../../../config/examples/${name}`, import.meta.url)
    const readFile = () => readFileSync(path, 'utf8')
    const inputs = { argv: ['--config', name], env: {}, machine: TEST_MACHINE, readFile }
    expect(() => loadConfig(inputs), name).not.toThrow()
  }
})
