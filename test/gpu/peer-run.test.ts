import { describe, expect, it } from 'vitest'
import { missingPython, runPeer } from '../support/python-peer.ts'
import { skipUnless } from '../support/skip-unless.ts'
import { standInDriver } from '../support/stand-in-driver.ts'

const driver = await standInDriver()
const reason = typeof driver === 'string' ? driver : missingPython()

describe('the part of the script that has engines and peers', skipUnless(reason === null, reason ?? ''), () => {
  it('starts an engine for each model and runs both modes', { timeout: 600_000 }, async () => {
    const library = typeof driver === 'string' ? '' : driver.library
    const sizes = ['--l0-size', '40MiB', '--l1-size', '64MiB']
    const argv = ['--library', library, '--models', 'deepseek-mla', '--demo', 'none', ...sizes]
    const lines = await runPeer('run.py', argv)
    expect(lines.map(({ check, fine }) => [check, fine])).toEqual([
      [undefined, undefined],
      ['attached', true],
      ['layers', true],
      ['managed', true],
    ])
  })
})
